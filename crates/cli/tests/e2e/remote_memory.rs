//! What a remote that sends too much costs in memory: a bomb of compressed bytes, an event without an
//! end, an event of a million lines. Both processes that its bytes pass through are measured, whoever
//! holds the session and whoever hosts the run, by the most that the kernel ever saw them have.

use crate::manners::stage::memory_kb;
use crate::ostler::{BOUND_MS, Ostler, Running, kinds, program, result, signal};
use crate::remote::{HUSH, PATIENT_MS, complete, knowing};
use contract::limits::REMOTE_EVENT_BYTES_MAX;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::remote::{Answer, Remote, Script, Step, wire};
use testkit::{find_marked, until};

/// What a process may have besides the one event that it holds.
const MARGIN_KB: u64 = 48 * 1024;
/// What whoever holds a session may have at most.
const COURIER_KB_MAX: u64 = REMOTE_EVENT_BYTES_MAX as u64 / 1024 + MARGIN_KB;
/// What one that was sent nothing large may have, and a host that was given nothing large.
const SMALL_KB_MAX: u64 = 96 * 1024;
/// What the bomb would be, were it unpacked: far more than any of these bounds.
const BOMB_BYTES: usize = 512 << 20;
const DATA_LINES: usize = 1_000_000;

struct Row {
    name: &'static str,
    stream: Vec<Step>,
    code: Option<&'static str>,
    courier_kb_max: u64,
}

fn rows() -> Vec<Row> {
    let head = |encoding: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{encoding}connection: close\r\n\r\n"
        )
        .into_bytes()
    };
    let bomb = [head("content-encoding: gzip\r\n"), bomb()].concat();
    let mut lines = b"id: 1\n".to_vec();
    lines.extend(b"data: x\n".repeat(DATA_LINES));
    lines.extend(b"\n");
    lines.extend(wire(2, &complete()));
    vec![
        Row {
            name: "a gzip bomb",
            stream: vec![Step::Answer(Answer::Raw(bomb))],
            code: Some("protocol_error"),
            courier_kb_max: SMALL_KB_MAX,
        },
        Row {
            name: "a line without an end",
            stream: vec![Step::Flood(vec![b'x'; 1 << 20])],
            code: Some("output_limit"),
            courier_kb_max: COURIER_KB_MAX,
        },
        Row {
            name: "an event of lines without an end",
            stream: vec![Step::Flood(b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n".repeat(1 << 14))],
            code: Some("output_limit"),
            courier_kb_max: COURIER_KB_MAX,
        },
        Row {
            name: "an event of a million lines",
            stream: vec![Step::Raw(lines), Step::Hold],
            code: None,
            courier_kb_max: SMALL_KB_MAX,
        },
    ]
}

/// Very much of nothing, packed.
fn bomb() -> Vec<u8> {
    let script = format!(
        "import gzip, sys; sys.stdout.buffer.write(gzip.compress(b'data: ' + b'x' * {BOMB_BYTES}, 1))"
    );
    let packed = Command::new("python3").args(["-c", &script]).output().expect("python3 runs");
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    assert!((1..BOMB_BYTES / 50).contains(&packed.stdout.len()), "{}", packed.stdout.len());
    packed.stdout
}

/// Whoever holds the session, of the processes of this instance.
fn courier(ostler: &Ostler) -> Option<u32> {
    let marked = find_marked(&ostler.instance.mark());
    marked.into_iter().map(|process| process.pid).find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"courier")
    })
}

#[test]
fn a_remote_that_sends_too_much_costs_one_event_and_a_margin() {
    for Row { name, stream, code, courier_kb_max } in rows() {
        // The session is taken away last, and that takes time: there is who can be measured.
        let script = Script { delete: vec![Answer::Hang], ..Script::streams(vec![stream]) };
        let remote = Remote::play(script);
        let ostler = knowing(&remote, PATIENT_MS);
        let mut server = Running::of(&mut ostler.command(&["serve", "--listen", "127.0.0.1:0"]));
        server.line();
        let run =
            Running::of(ostler.command(&["run", "far", "x", "--json"]).env("FAR_TOKEN", HUSH));
        until("the session to be taken away", BOUND_MS, || {
            (!remote.asked("DELETE").is_empty()).then_some(())
        });
        let courier = courier(&ostler).expect("it waits for the session to be gone");
        let courier_kb = memory_kb(courier, "VmHWM");
        let events: Vec<Value> = run.finish().events();
        let host_kb = memory_kb(server.child.id(), "VmHWM");
        signal(server.child.id() as i32, Signal::TERM);
        server.finish();
        eprintln!("{name}: courier {courier_kb} KiB, host {host_kb} KiB");
        assert_eq!(result(&events)["code"].as_str(), code, "{name}: {:?}", events.last());
        assert_eq!(kinds(&events).iter().filter(|kind| **kind == "result").count(), 1, "{name}");
        assert!((1..=courier_kb_max).contains(&courier_kb), "{name}: {courier_kb} KiB");
        assert!((1..=SMALL_KB_MAX).contains(&host_kb), "{name}: {host_kb} KiB");
    }
}

/// One event of about this many bytes, as it stands in a stream.
fn event(id: u64, before: &str, filling: &[u8], bytes: usize, after: &str) -> Vec<u8> {
    let mut event = format!("id: {id}\ndata: {before}").into_bytes();
    event.extend(filling.repeat(bytes / filling.len()));
    event.extend(format!("{after}\n\n").bytes());
    event
}

/// A courier whose lines nobody reads until it has taken in all that it will; then they are counted.
/// Gives the most that it ever had, in kilobytes, and its lines.
fn unread(remote: &Remote) -> (u64, usize) {
    let ostler = Ostler::new();
    let mut courier = ostler.instance.command(program());
    courier.args(["courier", "--protocol", "ca-http-v1", "--", &remote.url()]);
    let piped = courier.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut courier = piped.spawn().expect("ostler starts");
    let mut to = courier.stdin.take().expect("piped");
    writeln!(to, "{}", json!({ "open": { "runId": "run_1" } })).expect("it reads");
    let (mut seen, mut since) = (0, Instant::now());
    until("it to take in no more", BOUND_MS, || {
        let now = memory_kb(courier.id(), "VmHWM");
        if std::mem::replace(&mut seen, now) != now || remote.asked("GET events").is_empty() {
            since = Instant::now();
        }
        (since.elapsed() > Duration::from_secs(1)).then_some(())
    });
    let mut lines = BufReader::new(courier.stdout.take().expect("piped"));
    let (mut line, mut count, mut most_kb) = (Vec::new(), 0, seen);
    let is_end = |line: &[u8]| line.len() < 200 && line.windows(8).any(|part| part == b"complete");
    while !is_end(&line) {
        line.clear();
        assert!(lines.read_until(b'\n', &mut line).expect("it says lines") > 0, "{count} lines");
        most_kb = most_kb.max(memory_kb(courier.id(), "VmHWM"));
        count += 1;
    }
    drop(to);
    assert!(courier.wait().expect("it ends").success());
    (most_kb, count)
}

#[test]
fn a_courier_holds_one_event_however_many_come_and_whatever_they_are_made_of() {
    const LONG: usize = 60 << 20;
    let long = |id| event(id, "{\"type\":\"progress\",\"summary\":\"", b"x", LONG, "\"}");
    let numbers = event(1, "{\"type\":\"tool_call\",\"id\":[0", b",1", LONG, "]}");
    // Each of its characters takes six in JSON.
    let controls = event(1, "no JSON ", b"\x01", LONG, "");
    let rows = [
        ("five events as long as may be", (1..=5).map(long).collect::<Vec<_>>(), 7),
        ("a call whose id is a long list", vec![numbers], 3),
        ("a text of control characters", vec![controls], 4),
    ];
    for (name, events, lines) in rows {
        let last = wire(events.len() as u64 + 1, &complete());
        let steps = events.into_iter().chain([last]).map(Step::Raw).chain([Step::Hold]);
        let remote = Remote::play(Script::streams(vec![steps.collect()]));
        let (most_kb, count) = unread(&remote);
        eprintln!("{name}: courier {most_kb} KiB");
        assert!((1..=COURIER_KB_MAX).contains(&most_kb), "{name}: {most_kb} KiB");
        assert_eq!(count, lines, "{name}");
    }
}
