//! What a server is called: the names that may stand in `Host` and before a page that is its own. Any
//! web page can make a name of its own point here, and a browser then shows that name; so a name that
//! nobody gave this server is refused, on loopback too. The API and the remote ask the same.

use axum::http::{HeaderMap, Uri, header};
use contract::{Code, Fault};
use std::net::SocketAddr;

/// The names of one door.
#[derive(Debug)]
pub struct Names {
    hosts: Vec<String>,
    scheme: &'static str,
    /// Where every address of this machine is listened on: its port.
    everywhere: Option<u16>,
}

impl Names {
    /// The names of a server that this machine alone comes to, without encryption.
    pub fn local(address: SocketAddr) -> Self {
        Self::beyond("http", address, None)
    }

    /// The names of a server that others come to from elsewhere: its address, and the name that its
    /// owner gave it. Where every address is listened on, any address will do, and no name: a page
    /// that makes a name of its own point here still shows that name.
    pub fn beyond(scheme: &'static str, address: SocketAddr, public_url: Option<&str>) -> Self {
        let public = public_url.and_then(|url| url.parse::<Uri>().ok());
        let public = public.and_then(|url| url.into_parts().authority);
        let usual = usual_port(scheme);
        let mut hosts = vec![address.to_string()];
        if address.ip().is_loopback() {
            // What this machine calls itself.
            let port = address.port();
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}")));
        }
        hosts.extend(public.map(|public| match public.port() {
            Some(_) => public.as_str().to_owned(),
            None => format!("{public}:{usual}"),
        }));
        // Whoever calls leaves out the port that goes without saying.
        let unsaid = |host: &String| host.strip_suffix(&format!(":{usual}")).map(str::to_owned);
        hosts.extend(hosts.iter().filter_map(unsaid).collect::<Vec<_>>());
        let everywhere = address.ip().is_unspecified().then(|| address.port());
        Self { hosts, scheme, everywhere }
    }

    /// The names by which this server may be called.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Whether those are all of them.
    pub fn are_known(&self) -> bool {
        self.everywhere.is_none()
    }

    fn is_own(&self, name: &str) -> bool {
        let whole = || format!("{name}:{}", usual_port(self.scheme));
        let address = name.parse::<SocketAddr>().or_else(|_| whole().parse()).ok();
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
            || self.everywhere.is_some_and(|port| address.is_some_and(|to| to.port() == port))
    }

    /// The names to call this server by, in words for the caller.
    fn expected(&self) -> String {
        let more = "set server.publicUrl to add a name";
        match self.everywhere {
            Some(port) => format!("use an address of this machine and port {port}; {more}"),
            None => format!("use {}; {more}", self.hosts.first().map_or("", String::as_str)),
        }
    }

    /// Refuses a request that is meant for another.
    pub fn host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Fault> {
        let mut given = headers.get_all(header::HOST).iter();
        // An address that is written whole names a host too, and by the standard it counts more.
        let whole = uri.authority().is_none_or(|named| self.is_own(named.as_str()));
        match (given.next().map(|host| host.to_str()), given.next()) {
            (Some(Ok(host)), None) if whole && self.is_own(host) => Ok(()),
            _ => Err(Fault::new(Code::Forbidden, "the Host header does not name this server")
                .with_hint(self.expected())),
        }
    }

    /// Refuses a request of a page that is not ours.
    pub fn origin(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let refused = || Fault::new(Code::Forbidden, "the request comes from another origin");
        for origin in headers.get_all(header::ORIGIN) {
            let host = origin
                .to_str()
                .ok()
                .and_then(|origin| origin.strip_prefix(self.scheme)?.strip_prefix("://"))
                .ok_or_else(refused)?;
            if !self.is_own(host) {
                return Err(refused());
            }
        }
        let mut sites = headers.get_all("sec-fetch-site").iter();
        match sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none")) {
            true => Ok(()),
            false => Err(refused()),
        }
    }
}

/// The port of a scheme where none is said.
fn usual_port(scheme: &str) -> u16 {
    if scheme == "https" { 443 } else { 80 }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Called = &'static [&'static str];

    #[test]
    fn a_server_answers_to_its_address_and_to_the_name_it_was_given() {
        let rows: &[(&str, Option<&str>, Called, Called)] = &[
            (
                "127.0.0.1:7718",
                None,
                &["127.0.0.1:7718", "LocalHost:7718", "[::1]:7718"],
                &["127.0.0.2:7718", "127.0.0.1", "localhost:1", "evil.example:7718", ""],
            ),
            ("127.0.0.2:7718", None, &["127.0.0.2:7718", "localhost:7718"], &["127.0.0.3:7718"]),
            (
                "192.0.2.7:7718",
                Some("https://far.example/x"),
                &["192.0.2.7:7718", "far.example", "far.example:443"],
                &["localhost:7718", "127.0.0.1:7718", "192.0.2.8:7718", "far.example:7718"],
            ),
            (
                "192.0.2.7:443",
                Some("https://far.example:443"),
                &["192.0.2.7:443", "192.0.2.7", "far.example:443", "far.example"],
                &["192.0.2.8", "192.0.2.7:80", "localhost", "far.example:80"],
            ),
            (
                "0.0.0.0:443",
                None,
                &["192.0.2.7:443", "192.0.2.7", "[2001:db8::1]"],
                &["localhost", "evil.example", "192.0.2.7:80", "2001:db8::1", "192.0.2.7:", ""],
            ),
            (
                "0.0.0.0:7718",
                None,
                &["192.0.2.7:7718", "127.0.0.1:7718", "[2001:db8::1]:7718"],
                &["localhost:7718", "evil.example:7718", "192.0.2.7:1", "192.0.2.7"],
            ),
        ];
        for (address, public, own, foreign) in rows {
            let names = Names::beyond("https", address.parse().unwrap(), *public);
            assert_eq!(names.are_known(), !address.starts_with("0.0.0.0"));
            for (name, is_own) in
                own.iter().map(|name| (name, true)).chain(foreign.iter().map(|name| (name, false)))
            {
                assert_eq!(names.is_own(name), is_own, "{address} called {name}");
            }
        }
    }
}
