//! A scripted model on loopback, for agents that are real: it answers by a scenario and keeps what it
//! was asked, with which bodies, and how many tokens it said each answer took.
//!
//! The server itself is `model/scripted_model.py`. It is bounded in time and in answers, ends when
//! this handle is dropped or its process dies, and knows no host but its own.

use crate::python;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The longest a scripted model lives, whatever became of its test.
const LIFE_SEC: u64 = 300;
/// The most it answers: no scenario needs a tenth of it.
const ANSWERS_MAX: u64 = 400;

/// Where the server and its companions are.
pub fn scripts() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/model"))
}

/// A model that runs; dropping it ends it.
#[derive(Debug)]
pub struct Model {
    child: Child,
    base: String,
    dir: PathBuf,
}

impl Model {
    /// Starts one that plays `scenario` unless a prompt names another, with its files in `dir`.
    pub fn start(dir: &Path, scenario: &str) -> Self {
        fs::create_dir_all(dir).expect("the directory of the model can be made");
        let python = python().expect("there is a python3");
        let mut child = Command::new(python)
            .arg(scripts().join("scripted_model.py"))
            .args(["--scenario", scenario, "--with-stdin"])
            .args(["--seconds", &LIFE_SEC.to_string(), "--requests", &ANSWERS_MAX.to_string()])
            .arg("--log")
            .arg(dir.join("requests.ndjson"))
            .arg("--record-dir")
            .arg(dir.join("bodies"))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the scripted model starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("the model says where it is");
        let told: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the model said where it is with {line:?}: {error}"));
        let base = told["base_url"].as_str().expect("an address").to_owned();
        Self { child, base, dir: dir.to_owned() }
    }

    /// Its address, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// What it was asked so far, in the order in which the answers ended.
    pub fn requests(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.join("requests.ndjson")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// The body of a request, as it came.
    pub fn body(&self, request: &Value) -> String {
        let name = format!("{:04}.json", request["n"].as_u64().expect("requests are numbered"));
        let bytes = fs::read(self.dir.join("bodies").join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // It ends with its input, and writes down first what it was still answering.
        drop(self.child.stdin.take());
        for _ in 0..200 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // One that is gone by itself is what was wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    /// Asks once, as simply as HTTP allows, and gives the whole answer.
    fn ask(model: &Model, body: &str) -> String {
        let host = model.base().trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).expect("the model listens");
        let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    #[test]
    fn what_was_asked_is_kept_with_the_tokens_of_the_answer() {
        let dir = tempfile::tempdir().expect("a directory");
        let model = Model::start(dir.path(), "hello");
        let body = r#"{"model":"m","messages":[{"role":"user","content":"a heron"}]}"#;
        let answer = ask(&model, body);
        assert!(answer.contains("Hello from the fake model."), "{answer}");
        let requests = crate::until("the request to be written", 5_000, || {
            Some(model.requests()).filter(|requests| !requests.is_empty())
        });
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0]["proto"], "chat");
        assert!(requests[0]["usage"]["input"].as_u64() > Some(0), "{:?}", requests[0]);
        assert_eq!(model.body(&requests[0]), body);
    }

    #[test]
    fn it_ends_with_its_handle_and_writes_down_what_it_was_answering() {
        let dir = tempfile::tempdir().expect("a directory");
        let model = Model::start(dir.path(), "hang");
        let host = model.base().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&host).expect("the model listens");
        let body = r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;
        let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("it reads");
        crate::until("the body to be kept", 5_000, || {
            dir.path().join("bodies/0001.json").exists().then_some(())
        });
        drop(model);
        assert!(TcpStream::connect(&host).is_err(), "nobody listens any more");
        let kept = fs::read_to_string(dir.path().join("requests.ndjson")).expect("it was kept");
        assert!(kept.contains(r#""in_flight": true"#), "{kept}");
    }

    #[test]
    fn every_protocol_and_every_bound_of_it_holds() {
        let python = python().expect("there is a python3");
        let output = Command::new(python)
            .arg(scripts().join("selftest.py"))
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .expect("its own checks run");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
    }
}
