//! As much HTTP as a bench of servers needs: a request with a JSON body and its answer, and a stream
//! of server-sent events. Streams are asked for by HTTP/1.0, whose bodies end with the connection, so
//! that no framing stands between the lines.

use super::super::said;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(super::RUN_SEC);

pub fn connect(address: &str) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).map_err(said(format!("connecting to {address}")))?;
    stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
        .map_err(said("preparing a connection"))?;
    Ok(stream)
}

/// One request on a connection of its own; the answer is JSON, or nothing.
pub fn ask(
    address: &str,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<Value, String> {
    let doing = || format!("{method} {path}");
    let mut stream = connect(address)?;
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).map_err(said(doing()))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(said(doing()))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if !head.lines().next().is_some_and(|status| status.contains(" 20")) {
        let status = head.lines().next().unwrap_or("nothing");
        return Err(format!("{} was answered '{status}' {body}", doing()));
    }
    match body.trim() {
        "" => Ok(Value::Null),
        body => serde_json::from_str(body).map_err(said(doing())),
    }
}

/// A request whose answer nobody waits for.
pub fn tell(address: &str, method: &str, path: &str) -> Result<(), String> {
    let head = format!("{method} {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    connect(address)?.write_all(head.as_bytes()).map_err(said(format!("{method} {path}")))
}

/// A stream of events, behind its head.
pub fn events(address: &str, path: &str, headers: &str) -> Result<BufReader<TcpStream>, String> {
    let doing = || format!("following {path}");
    let mut stream = connect(address)?;
    let head = format!(
        "GET {path} HTTP/1.0\r\nhost: {address}\r\naccept: text/event-stream\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).map_err(said(doing()))?;
    let mut stream = BufReader::with_capacity(1 << 18, stream);
    let mut status = String::new();
    stream.read_line(&mut status).map_err(said(doing()))?;
    if !status.contains(" 200") {
        return Err(format!("{} was answered '{}'", doing(), status.trim()));
    }
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).map_err(said(doing()))?;
        if line.trim().is_empty() {
            return Ok(stream);
        }
    }
}
