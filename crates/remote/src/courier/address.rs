//! Where a remote really is, asked once: the address is read as HTTP reads it, its name is resolved,
//! every machine behind it is looked at, and connections go to those machines and no others, whatever
//! the name means later. Nothing here sends anything.
//!
//! What `contract::reach` refuses is refused always. This machine itself is reached only by a name
//! that says so; private networks because the configuration points there.

use contract::reach::{plain, refusal};
use contract::{Code, Fault};
use reqwest::Url;
use std::net::{IpAddr, SocketAddr};

/// A remote's address, with the machines that it stood for when it was looked at.
#[derive(Debug, Clone)]
pub struct Address {
    pub base: Url,
    /// Empty where the address names its machine by number.
    pub machines: Vec<SocketAddr>,
}

impl Address {
    /// Reads the address and looks its name up.
    pub async fn find(base_url: &str, secret: bool, allow_insecure: bool) -> Result<Self, Fault> {
        let base = read(base_url, secret, allow_insecure)?;
        let port = base.port_or_known_default().unwrap_or(443);
        let named = match base.host() {
            Some(reqwest_host) => reqwest_host.to_string(),
            None => return Err(invalid("it names no host")),
        };
        if let Some(ip) = literal(&named) {
            may_be_reached(ip, true)?;
            return Ok(Self { base, machines: Vec::new() });
        }
        let found = tokio::net::lookup_host((named.as_str(), port)).await.map_err(|error| {
            Fault::new(Code::RemoteUnavailable, format!("looking up {named}: {error}"))
        })?;
        Self::behind(base, &named, found.collect())
    }

    /// The address by the machines that its name stands for, when every one of them may be reached.
    fn behind(base: Url, named: &str, machines: Vec<SocketAddr>) -> Result<Self, Fault> {
        if machines.is_empty() {
            let message = format!("looking up {named}: it stands for no machine");
            return Err(Fault::new(Code::RemoteUnavailable, message));
        }
        for machine in &machines {
            may_be_reached(machine.ip(), is_local_name(named))?;
        }
        Ok(Self { base, machines })
    }

    /// The name whose machines are known.
    pub fn name(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    pub fn is_tls(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// An address below the base: each part is one, whatever stands in it.
    pub fn below<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }
}

/// The address, when it may be sent what is to be sent there.
fn read(base_url: &str, secret: bool, allow_insecure: bool) -> Result<Url, Fault> {
    let base = Url::parse(base_url).map_err(|error| invalid(&format!("{error}")))?;
    if !base.username().is_empty() || base.password().is_some() {
        return Err(invalid("it names a user, and an address can be read by everyone"));
    }
    if base.query().is_some() || base.fragment().is_some() {
        return Err(invalid("it has more than a host, a port and a path"));
    }
    match base.scheme() {
        "https" => Ok(base),
        "http" if secret && !allow_insecure && !is_this_machine(&base) => {
            Err(invalid("a bearer token would cross the network in the clear"))
        }
        "http" => Ok(base),
        other => Err(invalid(&format!("it begins with '{other}' and not with https or http"))),
    }
}

fn invalid(why: &str) -> Fault {
    Fault::new(Code::InvalidConfig, format!("baseUrl: {why}"))
}

fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// Not what only leads here by way of a gateway, for that is on the network.
fn is_this_machine(base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default();
    is_local_name(host) || literal(host).is_some_and(|ip| ip.to_canonical().is_loopback())
}

/// Refuses a machine that is no remote's. `local`: whoever wrote the address meant this one.
fn may_be_reached(ip: IpAddr, local: bool) -> Result<(), Fault> {
    let ip = plain(ip);
    let this = (ip.is_loopback() && !local)
        .then_some("which is this machine: if you mean it, write localhost or its IP address");
    let Some(why) = refusal(ip).or(this) else { return Ok(()) };
    Err(Fault::new(Code::InvalidConfig, format!("baseUrl: it leads to {ip}, {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_crosses_the_network_under_tls_alone() {
        let rows = [
            ("https://far.example/x", true, false, true),
            ("http://far.example/x", false, false, true),
            ("http://far.example/x", true, false, false),
            ("http://far.example/x", true, true, true),
            ("http://127.0.0.1:9/x", true, false, true),
            ("http://[::1]:9/x", true, false, true),
            ("http://localhost:9", true, false, true),
            ("http://[::ffff:127.0.0.1]:9/x", true, false, true),
            ("http://[64:ff9b::127.0.0.1]:9/x", true, false, false),
            ("http://[::127.0.0.1]:9/x", true, false, false),
            ("http://127.0.0.1.far.example", true, false, false),
            ("http://localhost.far.example", true, false, false),
            ("http://me:hush@far.example", false, false, false),
            ("http://127.0.0.1\\@far.example", true, false, true),
            ("http://127.0.0.1@far.example", true, true, false),
            ("https://far.example/?a=b", false, false, false),
            ("ftp://far.example", false, false, false),
            ("far.example", false, false, false),
        ];
        for (url, secret, insecure, may) in rows {
            let read = read(url, secret, insecure);
            assert_eq!(read.is_ok(), may, "{url}: {read:?}");
        }
    }

    #[test]
    fn an_address_by_number_is_the_machine_that_it_says_however_it_is_written() {
        let rows = [
            ("http://169.254.169.254", "169.254.169.254"),
            ("http://2852039166", "169.254.169.254"),
            ("http://0xa9fea9fe", "169.254.169.254"),
            ("http://0251.0376.0251.0376", "169.254.169.254"),
            ("http://[::ffff:169.254.169.254]", "169.254.169.254"),
            ("http://[::169.254.169.254]", "169.254.169.254"),
            ("http://[64:ff9b::169.254.169.254]", "169.254.169.254"),
            ("http://[fe80::1]", "fe80::1"),
            ("http://0.0.0.0", "0.0.0.0"),
            ("http://224.0.0.1", "224.0.0.1"),
            ("http://[fd00:ec2::254]", "fd00:ec2::254"),
            ("http://100.100.100.200", "100.100.100.200"),
        ];
        for (url, ip) in rows {
            let base = read(url, false, false).expect(url);
            let found = literal(base.host_str().unwrap_or_default()).expect(url);
            assert_eq!(plain(found).to_string(), ip, "{url}");
            assert!(may_be_reached(found, true).is_err(), "{url}");
        }
    }

    #[test]
    fn this_machine_is_reached_by_a_name_that_says_so_and_private_ones_as_configured() {
        let rows = [
            ("127.0.0.1", true, true),
            ("127.0.0.1", false, false),
            ("::1", false, false),
            ("::ffff:127.0.0.1", false, false),
            ("10.0.0.7", false, true),
            ("192.168.1.1", false, true),
            ("fd12::1", false, true),
            ("93.184.216.34", false, true),
        ];
        for (ip, local, may) in rows {
            assert_eq!(may_be_reached(ip.parse().unwrap(), local).is_ok(), may, "{ip} {local}");
        }
        assert!(is_local_name("LocalHost.") && is_local_name("a.localhost"));
        assert!(!is_local_name("localhost.example"));
    }

    #[test]
    fn a_name_is_refused_for_any_machine_behind_it_and_pinned_to_those_that_were_looked_at() {
        let rows: &[(&str, &[&str], bool)] = &[
            ("far.example", &["93.184.216.34"], true),
            ("far.example", &["93.184.216.34", "2001:db8::1", "10.0.0.7"], true),
            ("far.example", &["169.254.169.254"], false),
            ("far.example", &["93.184.216.34", "169.254.169.254"], false),
            ("far.example", &["93.184.216.34", "fe80::1"], false),
            ("far.example", &["::ffff:169.254.169.254"], false),
            ("far.example", &["64:ff9b::169.254.169.254"], false),
            ("far.example", &["fd00:ec2::254"], false),
            ("far.example", &["0.0.0.0"], false),
            ("far.example", &["127.0.0.1"], false),
            ("far.example", &["93.184.216.34", "::1"], false),
            ("localhost", &["127.0.0.1", "::1"], true),
            ("a.localhost", &["127.0.0.1"], true),
            ("localhost", &["169.254.169.254"], false),
            ("far.example", &[], false),
        ];
        for (named, machines, may) in rows {
            let base = Url::parse(&format!("https://{named}:9/x")).unwrap();
            let machines: Vec<SocketAddr> =
                machines.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 9)).collect();
            let found = Address::behind(base, named, machines.clone());
            assert_eq!(found.is_ok(), *may, "{named} {machines:?}");
            if let Ok(found) = found {
                assert_eq!(found.machines, machines);
            }
        }
    }
}
