//! As much HTTP as a client under torture needs. Each request has a connection of its own, to
//! whoever hosts the data directory now; what matters about an answer that does not come is whether
//! it was still owed: a request that was sent and then cut off, or a stream that ended before its
//! run did.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long one read waits before its caller looks around.
const LOOK: Duration = Duration::from_millis(200);
/// Looks without an answer after which a request counts as never to be answered.
const LOOKS_MAX: usize = 150;

/// How long those who were cut off may take to hear of it, on a machine that gives them no turn.
const HEARD_MAX: Duration = Duration::from_millis(200);

/// The way to whoever hosts a data directory.
#[derive(Debug, Clone)]
pub struct Door {
    data: PathBuf,
    /// Requests that change something and have been sent, and have no answer yet.
    open: Arc<AtomicUsize>,
    /// Those that never got one.
    unanswered: Arc<AtomicUsize>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Silence {
    /// Nobody was there to ask.
    Nobody,
    /// It was asked, and died or hung before it answered.
    Cut,
}

impl Door {
    pub fn of(data: &Path) -> Self {
        Self { data: data.to_owned(), open: Arc::default(), unanswered: Arc::default() }
    }

    fn send(&self, method: &str, path: &str, more: &str, body: &str) -> Option<TcpStream> {
        let read = |name: &str| std::fs::read_to_string(self.data.join(name)).ok();
        let (address, token) = (read("address")?, read("token")?);
        let (host, token) = (address.trim().strip_prefix("http://")?, token.trim());
        let mut stream = TcpStream::connect(host).ok()?;
        stream.set_read_timeout(Some(LOOK)).ok()?;
        // The old version: its answers are not cut into chunks, and end with the connection.
        let request = format!(
            "{method} {path} HTTP/1.0\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\n{more}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        Some(stream)
    }

    /// How many requests that change something never got their answer. Those that are open when
    /// their host has died are waited for: they hear of it at once, or find an answer that came.
    pub fn unanswered(&self) -> usize {
        let until = Instant::now() + HEARD_MAX;
        while self.open.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.unanswered.load(Ordering::SeqCst)
    }

    /// Asks once, and gives the status and the body as it came.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Result<(u16, String), Silence> {
        if method == "GET" {
            return self.asked(method, path, body);
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        let answer = self.asked(method, path, body);
        if matches!(answer, Err(Silence::Cut)) {
            self.unanswered.fetch_add(1, Ordering::SeqCst);
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    fn asked(&self, method: &str, path: &str, body: &str) -> Result<(u16, String), Silence> {
        let mut stream = self.send(method, path, "", body).ok_or(Silence::Nobody)?;
        let mut answer = Vec::new();
        let mut looks = 0;
        let mut chunk = [0; 16 * 1024];
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&chunk[..count]),
                Err(error) if waits(&error) && looks < LOOKS_MAX => looks += 1,
                Err(_) => return Err(Silence::Cut),
            }
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(Silence::Cut)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        match status {
            Some(status) if length.is_none_or(|length| length == body.len()) => {
                Ok((status, body.to_owned()))
            }
            _ => Err(Silence::Cut),
        }
    }

    /// The same for an answer in JSON that must be a success.
    pub fn json(&self, path: &str) -> Option<Value> {
        let (status, body) = self.ask("GET", path, "").ok()?;
        (status == 200).then(|| serde_json::from_str(&body).ok())?
    }

    /// The same for an answer in lines.
    pub fn lines(&self, path: &str) -> Option<Vec<String>> {
        let (status, body) = self.ask("GET", path, "").ok()?;
        (status == 200).then(|| body.lines().map(str::to_owned).collect())
    }

    /// Follows a run from a number on, and hands over each event that came whole. Returns when the
    /// stream has ended, or when `enough` says so.
    pub fn follow(
        &self,
        run: &str,
        after: u64,
        mut enough: impl FnMut() -> bool,
        mut heard: impl FnMut(Vec<(u64, String)>),
    ) -> Result<(), Silence> {
        let more = format!("accept: text/event-stream\r\nlast-event-id: {after}\r\n");
        let path = format!("/api/v1/runs/{run}/events");
        let stream = self.send("GET", &path, &more, "").ok_or(Silence::Nobody)?;
        let mut lines = BufReader::new(stream);
        let (mut line, mut id, mut events) = (Vec::new(), 0, Vec::new());
        loop {
            if lines.buffer().is_empty() && !events.is_empty() {
                heard(std::mem::take(&mut events));
            }
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => return Ok(()),
                Ok(_) if line.last() == Some(&b'\n') => {
                    let text = String::from_utf8_lossy(&line);
                    let text = text.trim_end_matches(['\r', '\n']);
                    if let Some(number) = text.strip_prefix("id: ") {
                        id = number.parse().unwrap_or(0);
                    } else if let Some(data) = text.strip_prefix("data: ") {
                        events.push((id, data.to_owned()));
                    }
                    line.clear();
                }
                // A line that was cut off was not shown.
                Ok(_) => return Ok(()),
                Err(error) if waits(&error) && !enough() => {}
                Err(error) if waits(&error) => return Ok(()),
                Err(_) => return Err(Silence::Cut),
            }
        }
    }
}

fn waits(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_request_that_changes_something_and_is_cut_off_is_unanswered() {
        let dir = tempfile::tempdir().unwrap();
        let door = Door::of(dir.path());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::fs::write(dir.path().join("address"), format!("http://{address}")).unwrap();
        std::fs::write(dir.path().join("token"), "t").unwrap();
        let answers = ["HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 2", ""];
        let server = std::thread::spawn(move || {
            for answer in answers {
                let (mut caller, _) = listener.accept().unwrap();
                let mut request = BufReader::new(caller.try_clone().unwrap());
                let mut line = String::new();
                while request.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                caller.write_all(answer.as_bytes()).unwrap();
            }
        });
        assert!(door.ask("POST", "/", "").is_ok());
        assert_eq!(door.unanswered(), 0);
        assert!(matches!(door.ask("DELETE", "/", ""), Err(Silence::Cut)));
        assert_eq!(door.unanswered(), 1);
        // Who only looks is owed nothing.
        assert!(matches!(door.ask("GET", "/", ""), Err(Silence::Cut)));
        server.join().unwrap();
        assert!(matches!(door.ask("POST", "/", ""), Err(Silence::Nobody)));
        assert_eq!(door.unanswered(), 1);
    }
}
