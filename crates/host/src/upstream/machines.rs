//! Which machines a server at an address may be. Its name is looked up when a connection is made, every
//! machine behind it is looked at, and the connection goes to those and no others: a name that leads to
//! one that `contract::reach` refuses leads nowhere. An address by number is looked at before anything
//! is sent (`http.rs`). Where a proxy is configured it is the proxy that is looked up, and what the
//! proxy reaches is its own affair.

use contract::reach::{plain, refusal};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, SocketAddr};

/// Asks the names of this system.
pub(super) struct System;

impl Resolve for System {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The port is put in by whoever connects.
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// What another finds, when every machine of it may be reached.
pub(super) struct LookedAt<R>(pub R);

impl<R: Resolve> Resolve for LookedAt<R> {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.0.resolve(name);
        Box::pin(async move {
            let found: Vec<SocketAddr> = found.await?.collect();
            for machine in &found {
                may_be_reached(machine.ip())?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Refuses a machine that is no server's.
pub(super) fn may_be_reached(ip: IpAddr) -> Result<(), String> {
    match refusal(ip) {
        None => Ok(()),
        Some(why) => Err(format!("its url leads to {}, {why}", plain(ip))),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests await the tasks that they start")]
mod tests {
    use super::*;
    use reqwest::Client;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// A name that stands for these.
    struct Fixed(Vec<SocketAddr>);

    impl Resolve for Fixed {
        fn resolve(&self, _: Name) -> Resolving {
            let found = self.0.clone();
            Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
        }
    }

    async fn asked(port: u16, machines: &[&str]) -> Result<u16, String> {
        let machines = machines.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), port));
        let resolver = LookedAt(Fixed(machines.collect()));
        let client = Client::builder().no_proxy().dns_resolver(Arc::new(resolver)).build().unwrap();
        let answer = client.get(format!("http://mcp.invalid:{port}/x")).send().await;
        answer.map(|answer| answer.status().as_u16()).map_err(|error| super::super::causes(&error))
    }

    #[tokio::test]
    async fn a_name_leads_to_the_machines_that_were_looked_at_and_to_none_that_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        });
        for refused in [
            &["169.254.169.254"][..],
            &["127.0.0.1", "169.254.169.254"],
            &["127.0.0.1", "fe80::1"],
            &["::ffff:169.254.169.254"],
            &["64:ff9b::169.254.169.254"],
            &["fd00:ec2::254"],
            &["100.100.100.200"],
        ] {
            let why = asked(port, refused).await.unwrap_err();
            assert!(why.contains("offer their credentials"), "{refused:?}: {why}");
        }
        assert_eq!(asked(port, &["127.0.0.1"]).await, Ok(204));
        server.await.unwrap();
    }
}
