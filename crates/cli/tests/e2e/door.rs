//! A server of an instance, and a way to send it exactly these bytes: nothing here corrects what a
//! test writes, as a library for HTTP would.

use crate::ostler::{BOUND_MS, Ostler, Running};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Fewer than a server counts apart.
const ADDRESSES: u8 = 128;

/// A served instance.
pub struct Door {
    pub ostler: Ostler,
    pub serve: Running,
    pub address: String,
    /// The owner's token.
    pub token: String,
}

/// What came back. The status is 0 when the connection was closed without a word.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return Self::default() };
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
        let body = match chunked {
            true => body.split("\r\n").skip(1).step_by(2).collect(),
            false => body.to_owned(),
        };
        Self { status: status.unwrap_or(0), headers, body }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Door {
    pub fn open() -> Self {
        Self::of(Ostler::new())
    }

    /// The same for an instance that has its configuration already.
    pub fn of(ostler: Ostler) -> Self {
        Self::with_env(ostler, &[])
    }

    /// The same, with more in its environment.
    pub fn with_env(ostler: Ostler, env: &[(&str, String)]) -> Self {
        let mut command = ostler.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut serve = Running::of(command.envs(env.iter().map(|(name, value)| (name, value))));
        let line = serve.line();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        let token = std::fs::read_to_string(ostler.instance.data().join("token"))
            .unwrap()
            .trim()
            .to_owned();
        Self { ostler, serve, address, token }
    }

    pub fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        bounded(TcpStream::connect(&self.address).unwrap())
    }

    /// The same from an address of its own, so that what is counted by address is counted apart.
    pub fn connect_from(&self, from: Ipv4Addr) -> TcpStream {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        bind(&socket, &SocketAddrV4::new(from, 0)).unwrap();
        let port = self.port().parse().unwrap();
        connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
        bounded(TcpStream::from(socket))
    }

    /// Sends raw bytes and gives what came back. Many addresses take turns, so that none of them fails
    /// too often.
    pub fn knock(&self, request: &[u8]) -> Answer {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let turn = NEXT.fetch_add(1, Ordering::Relaxed) % ADDRESSES;
        self.knock_from(Ipv4Addr::new(127, 9, 0, turn), request)
    }

    pub fn knock_from(&self, from: Ipv4Addr, request: &[u8]) -> Answer {
        let mut stream = self.connect_from(from);
        // A server that has heard enough closes before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::read(&answer)
    }

    /// A request with these headers and no others but its length.
    pub fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.knock(&written(method, target, headers, body.as_bytes()))
    }

    /// A request as the owner makes it.
    pub fn owner(&self, method: &str, target: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("host", self.address.as_str()),
            ("authorization", &bearer),
            ("content-type", "application/json"),
        ];
        self.request(method, target, &headers, body)
    }
}

fn bounded(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(Duration::from_millis(BOUND_MS))).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(BOUND_MS))).unwrap();
    stream
}

/// The bytes of a request.
pub fn written(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut request = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| matches!(*name, "content-length" | "transfer-encoding")) {
        request.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    [request.as_bytes(), body].concat()
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = self.serve.child.kill();
        let _ = self.serve.child.wait();
    }
}
