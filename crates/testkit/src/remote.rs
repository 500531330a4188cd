//! A remote of any manners: a small server of ca-http-v1 on loopback that does what a script says,
//! down to the single byte, and remembers what it was asked. It knows one session. Good manners are a
//! script like any other (`Script::good`). Threads and plain sockets, so that nothing between the
//! script and the wire has manners of its own; it ends with whoever made it.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections that are answered at once; the next ones wait.
const CONNECTIONS_MAX: usize = 64;
/// How often a waiting step looks again.
const LOOK: Duration = Duration::from_millis(5);
/// The longest body that is read.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The id of its one session.
pub const SESSION: &str = "sess-1";

/// How a request is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    Json(u16, Value),
    /// Every byte of the answer.
    Raw(Vec<u8>),
    /// Nothing, for as long as the other side waits.
    Hang,
    /// The connection is closed.
    Drop,
}

/// What a stream of events does next. At the end of its steps it is closed.
#[derive(Debug, Clone)]
pub enum Step {
    /// Instead of a stream: must come first.
    Answer(Answer),
    /// One event, whatever was asked for.
    Event(u64, Value),
    /// Those events that come after the number that was asked for.
    After(Vec<(u64, Value)>),
    Raw(Vec<u8>),
    /// Waits for an input of this type.
    Await(&'static str),
    /// Waits until `Remote::release` was called.
    Gate,
    /// Bytes, one at a time.
    Dribble {
        bytes: Vec<u8>,
        pause_ms: u64,
    },
    /// The same bytes until the other side leaves.
    Flood(Vec<u8>),
    /// Says nothing until the other side leaves.
    Hold,
}

/// What it does, each list one after the other, its last entry again and again.
#[derive(Debug, Clone)]
pub struct Script {
    pub create: Vec<Answer>,
    pub streams: Vec<Vec<Step>>,
    pub input: Vec<Answer>,
    pub delete: Vec<Answer>,
    /// How its session stands, for those who ask.
    pub status: Vec<Answer>,
}

impl Script {
    /// The streams with everything else as it should be.
    pub fn streams(streams: Vec<Vec<Step>>) -> Self {
        let session = json!({ "id": SESSION, "protocol": "ca-http-v1", "model": "far-1" });
        Self {
            create: vec![Answer::Json(201, session)],
            streams,
            input: vec![Answer::Json(202, json!({}))],
            delete: vec![Answer::Json(204, Value::Null)],
            status: vec![Answer::Json(200, json!({ "id": SESSION }))],
        }
    }

    /// These events, numbered from 1, from wherever they are asked for.
    pub fn good(events: &[Value]) -> Self {
        Self::streams(vec![vec![Step::After(numbered(events)), Step::Hold]])
    }

    pub fn create(self, create: Vec<Answer>) -> Self {
        Self { create, ..self }
    }

    pub fn input(self, input: Vec<Answer>) -> Self {
        Self { input, ..self }
    }
}

/// Events with their numbers.
pub fn numbered(events: &[Value]) -> Vec<(u64, Value)> {
    (1..).zip(events.iter().cloned()).collect()
}

/// One event as it stands in a stream.
pub fn wire(id: u64, event: &Value) -> Vec<u8> {
    format!("id: {id}\ndata: {event}\n\n").into_bytes()
}

/// A request that came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    /// When it was read to its end.
    pub at: Instant,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

struct Shared {
    script: Script,
    seen: Mutex<Vec<Seen>>,
    released: AtomicBool,
    /// It was restarted, and knows nothing any more.
    forgot: AtomicBool,
    over: AtomicBool,
    live: AtomicUsize,
}

/// A server that plays a script.
pub struct Remote {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Remote {
    pub fn play(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            script,
            seen: Mutex::default(),
            released: AtomicBool::new(false),
            forgot: AtomicBool::new(false),
            over: AtomicBool::new(false),
            live: AtomicUsize::new(0),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || serving.serve(&listener));
        Self { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets streams go on that wait at a gate.
    pub fn release(&self) {
        self.shared.released.store(true, Ordering::SeqCst);
    }

    /// From now on it knows no session, as after a restart; streams that wait are closed.
    pub fn forget(&self) {
        self.shared.forgot.store(true, Ordering::SeqCst);
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen().clone()
    }

    /// The requests of one kind: `POST input`, `GET events`, `DELETE`, `POST sessions`.
    pub fn asked(&self, what: &str) -> Vec<Seen> {
        let (method, last) = what.split_once(' ').unwrap_or((what, ""));
        let fits = |seen: &Seen| seen.method == method && seen.path.ends_with(last);
        self.seen().into_iter().filter(fits).collect()
    }

    /// The words that were said to it, in the order of their numbers, each once.
    pub fn heard(&self) -> Vec<Value> {
        let inputs = self.asked("POST input").into_iter();
        let n = |seen: &Seen| seen.header("ostler-input").and_then(|n| n.parse::<u64>().ok());
        let mut inputs: Vec<_> = inputs.map(|seen| (n(&seen), seen.body)).collect();
        inputs.sort_by_key(|(n, _)| *n);
        inputs.dedup_by_key(|(n, _)| *n);
        inputs.into_iter().map(|(_, body)| body).collect()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the accept.
        let _ = TcpStream::connect(self.address);
    }
}

/// What stops a step: the other side left, or we do.
struct Done;

impl From<std::io::Error> for Done {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn serve(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().map_while(Result::ok) {
            while self.live.load(Ordering::SeqCst) >= CONNECTIONS_MAX && !self.is_over() {
                std::thread::sleep(LOOK);
            }
            if self.is_over() {
                return;
            }
            self.live.fetch_add(1, Ordering::SeqCst);
            let shared = Arc::clone(&self);
            std::thread::spawn(move || {
                let _ = shared.answer(stream);
                shared.live.fetch_sub(1, Ordering::SeqCst);
            });
        }
    }

    fn answer(&self, mut stream: TcpStream) -> Result<(), Done> {
        stream.set_nodelay(true)?;
        let request = request(&stream)?;
        let kind = (request.method.clone(), request.path.clone());
        let fits = |seen: &&Seen| (&seen.method, &seen.path) == (&kind.0, &kind.1);
        let before = {
            let mut seen = self.seen();
            let before = seen.iter().filter(fits).count();
            seen.push(request.clone());
            before
        };
        let script = &self.script;
        let (method, path) = (request.method.as_str(), request.path.as_str());
        let gone = self.forgot.load(Ordering::SeqCst);
        match (method, path) {
            ("GET", "/healthz") => self.say(&mut stream, &Answer::Json(200, json!({ "ok": true }))),
            _ if gone => self.say(&mut stream, &Answer::Json(404, Value::Null)),
            ("POST", "/v1/sessions" | "/v1/runs") => {
                self.say(&mut stream, nth(&script.create, before))
            }
            ("POST", path) if path.ends_with("/input") || path.ends_with("/stop") => {
                self.say(&mut stream, nth(&script.input, before))
            }
            ("DELETE", _) => self.say(&mut stream, nth(&script.delete, before)),
            ("GET", path) if path.ends_with("/events") => {
                let last = request.header("last-event-id").and_then(|id| id.parse().ok());
                let steps: &Vec<Step> = nth(&script.streams, before);
                self.play(&mut stream, steps, last)
            }
            ("GET", _) => self.say(&mut stream, nth(&script.status, before)),
            _ => self.say(&mut stream, &Answer::Json(404, Value::Null)),
        }
    }

    fn say(&self, stream: &mut TcpStream, answer: &Answer) -> Result<(), Done> {
        match answer {
            Answer::Json(status, Value::Null) => Ok(stream.write_all(
                format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    .as_bytes(),
            )?),
            Answer::Json(status, body) => {
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                Ok(stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?)
            }
            Answer::Raw(bytes) => Ok(stream.write_all(bytes)?),
            Answer::Hang => self.hold(stream),
            Answer::Drop => Err(Done),
        }
    }

    fn play(&self, stream: &mut TcpStream, steps: &[Step], last: Option<u64>) -> Result<(), Done> {
        if let Some(Step::Answer(answer)) = steps.first() {
            return self.say(stream, answer);
        }
        stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        )?;
        for step in steps {
            match step {
                Step::Answer(_) => return Err(Done),
                Step::Event(id, event) => stream.write_all(&wire(*id, event))?,
                Step::After(events) => {
                    for (id, event) in events.iter().filter(|(id, _)| last.is_none_or(|n| *id > n))
                    {
                        stream.write_all(&wire(*id, event))?;
                    }
                }
                Step::Raw(bytes) => stream.write_all(bytes)?,
                Step::Await(kind) => {
                    let came = || {
                        let seen = self.seen();
                        seen.iter()
                            .any(|seen| seen.path.ends_with("/input") && seen.body["type"] == *kind)
                    };
                    self.wait(stream, came)?;
                }
                Step::Gate => self.wait(stream, || self.released.load(Ordering::SeqCst))?,
                Step::Dribble { bytes, pause_ms } => {
                    for byte in bytes {
                        stream.write_all(&[*byte])?;
                        std::thread::sleep(Duration::from_millis(*pause_ms));
                        if self.is_over() {
                            return Err(Done);
                        }
                    }
                }
                Step::Flood(bytes) => {
                    while !self.is_over() {
                        stream.write_all(bytes)?;
                    }
                }
                Step::Hold => self.hold(stream)?,
            }
        }
        Ok(())
    }

    fn hold(&self, stream: &mut TcpStream) -> Result<(), Done> {
        self.wait(stream, || false)
    }

    /// Waits until something is so, the other side has left, or everything is over.
    fn wait(&self, stream: &mut TcpStream, so: impl Fn() -> bool) -> Result<(), Done> {
        stream.set_read_timeout(Some(LOOK))?;
        while !so() {
            if self.is_over() || self.forgot.load(Ordering::SeqCst) {
                return Err(Done);
            }
            match stream.read(&mut [0; 64]) {
                Ok(0) => return Err(Done),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn nth<T>(list: &[T], n: usize) -> &T {
    &list[n.min(list.len() - 1)]
}

fn request(stream: &TcpStream) -> Result<Seen, Done> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut words = first.split_whitespace();
    let method = words.next().ok_or(Done)?.to_owned();
    let path = words.next().ok_or(Done)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length.min(BODY_BYTES_MAX)];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Seen { method, path, headers, body, at: Instant::now() })
}
