//! A call of a tool over MCP whose answer comes as a stream, read as it comes.

use crate::mcp::Guest;
use crate::ostler::BOUND_MS;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use testkit::until;

/// An open call. Dropped, its connection is closed.
pub struct Stream {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Stream {
    /// Calls a tool of this run, with a token for progress or without.
    pub fn call(guest: &Guest, id: u64, tool: &str, args: &Value, progress: Option<&str>) -> Self {
        let meta = match progress {
            Some(token) => json!({ "progressToken": token }),
            None => json!({}),
        };
        let call = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": tool, "arguments": args, "_meta": meta },
        });
        let address = guest.url().strip_prefix("http://").unwrap();
        let (address, path) = address.split_once('/').unwrap();
        let body = call.to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let head = format!(
            "POST /{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             content-length: {}\r\n\r\n{body}",
            guest.token(),
            body.len(),
        );
        stream.write_all(head.as_bytes()).unwrap();
        Self { stream, heard: Vec::new() }
    }

    /// Waits until the server has sent this.
    pub fn hears(&mut self, wanted: &str) {
        until(&format!("{wanted} to be sent"), BOUND_MS, || {
            let mut piece = [0; 4096];
            if let Ok(read) = self.stream.read(&mut piece) {
                self.heard.extend_from_slice(&piece[..read]);
            }
            self.text().contains(wanted).then_some(())
        });
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.heard).into_owned()
    }

    /// The messages that came as events.
    pub fn messages(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A connection that is closed already is what is wanted.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
