//! Canaries: secrets that the agent shows in every presentation, by every way in, are found nowhere
//! afterwards. The scan is made of the test kit's own encoders and knows nothing of the seal.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler, Running, Said, result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use testkit::agent::encode::{Alphabet, Case, base64, hex, html, percent};

const CANARY: &str = "c4n4ry-Sw33t+song/\"of\"='26 é~wing";
const MULTI: &str = "m0lti-first-l1ne+\nm0lti-sec0nd/l1ne";
/// Stands in the configuration itself, under a telling name.
const LITERAL: &str = "l1teral-Canary-in-configuration";

/// Finds any eight bytes in a row of a canary, in any of its encodings.
struct Scan {
    windows: HashSet<[u8; 8]>,
    first: Box<[bool; 65536]>,
}

impl Scan {
    fn new(values: &[&str]) -> Self {
        let mut scan = Self { windows: HashSet::new(), first: Box::new([false; 65536]) };
        for value in values {
            for line in value.lines() {
                scan.add(line);
                scan.add(&html(line));
            }
            for case in [Case::Upper, Case::Lower] {
                scan.add(&percent(value.as_bytes(), case));
                scan.add(&hex(value.as_bytes(), case));
            }
            for alphabet in [Alphabet::Standard, Alphabet::UrlSafe] {
                for before in ["", "x", "xy"] {
                    let encoded = base64(format!("{before}{value}").as_bytes(), alphabet);
                    // Both ends also depend on what stands around the value.
                    scan.add(&encoded[4..encoded.len() - 4]);
                }
            }
        }
        scan
    }

    fn add(&mut self, text: &str) {
        for window in text.as_bytes().windows(8) {
            self.windows.insert(window.try_into().unwrap());
            self.first[usize::from(window[0]) << 8 | usize::from(window[1])] = true;
        }
    }

    /// The first part of a value that is there.
    fn finds(&self, bytes: &[u8]) -> Option<String> {
        [bytes, &without_colours(bytes)].into_iter().find_map(|bytes| {
            let found = bytes.windows(8).find(|window| {
                self.first[usize::from(window[0]) << 8 | usize::from(window[1])]
                    && self.windows.contains(*window)
            });
            found.map(|window| String::from_utf8_lossy(window).into_owned())
        })
    }

    fn clean(&self, place: &str, bytes: &[u8]) {
        let found = self.finds(bytes);
        assert!(found.is_none(), "{found:?} is in {place}");
    }

    fn clean_on_disk(&self, ostler: &Ostler, except: &[&Path]) {
        let files = ostler.files();
        for kind in ["ostler.db", "blobs/", "traces/"] {
            let there = |path: &Path| path.display().to_string().contains(kind);
            assert!(files.iter().any(|path| there(path)), "no {kind} among {files:?}");
        }
        for path in files.iter().filter(|path| !except.contains(&path.as_path())) {
            self.clean(&path.display().to_string(), &std::fs::read(path).unwrap_or_default());
        }
    }
}

/// Takes control sequences out, also as JSON writes them under any number of backslashes.
fn without_colours(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let slashes = bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
        let begun = match &bytes[at + slashes..] {
            [b'u', b'0', b'0', b'1', b'b', b'[', ..] if slashes > 0 => at + slashes + 6,
            [0x1b, b'[', ..] => at + slashes + 2,
            _ => {
                plain.push(bytes[at]);
                at += 1;
                continue;
            }
        };
        let length = bytes[begun..].iter().take_while(|byte| !byte.is_ascii_alphabetic()).count();
        at = begun + length + 1;
    }
    plain
}

fn configure(ostler: &Ostler) {
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{
            "leaky": {{ "type": "process", "binary": "{agent}",
              "args": ["--leak", "CANARY", "--leak", "MULTI", "--leak", "LITERAL_TOKEN",
                       "--tool", "read_file", "{{\"path\": \"secret.txt\"}}", "--leak-end", "CANARY"],
              "env": {{ "CANARY": "${{CANARY}}", "MULTI": "${{MULTI}}", "LITERAL_TOKEN": "{LITERAL}" }} }},
            "failing": {{ "type": "process", "binary": "{agent}",
              "args": ["--leak-end", "CANARY", "--failed", "no luck", "--exit", "3"],
              "env": {{ "CANARY": "${{CANARY}}" }} }},
            "talking": {{ "type": "process", "binary": "{agent}", "args": ["--converse"],
              "env": {{ "CANARY": "${{CANARY}}" }} }}
        }} }}"#,
        agent = testkit::fake_agent().display()
    ));
}

fn says(ostler: &Ostler, args: &[&str]) -> Said {
    Said::from(ostler.command(args).env("CANARY", CANARY).env("MULTI", MULTI).output().unwrap())
}

/// The joined text of each block, where a split value would come together again.
fn blocks(events: &[Value]) -> Vec<String> {
    let mut blocks: Vec<(Value, String)> = Vec::new();
    for event in events.iter().filter(|event| event["delta"] == true) {
        let text = event["text"].as_str().unwrap_or_default();
        match blocks.last_mut().filter(|(block, _)| *block == event["block"]) {
            Some((_, joined)) => joined.push_str(text),
            None => blocks.push((event["block"].clone(), text.to_owned())),
        }
    }
    blocks.into_iter().map(|(_, joined)| joined).collect()
}

/// Everything the host sends to a watcher, as it is on the wire.
fn wire(ostler: &Ostler, address: &str, run: &str) -> Vec<u8> {
    let token = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET /api/v1/runs/{run}/events HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         accept: text/event-stream\r\nauthorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn serve(ostler: &Ostler) -> (Running, String) {
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    let line = serve.line();
    let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
    (serve, address)
}

#[test]
fn canaries_shown_in_every_presentation_by_every_way_in_are_nowhere_afterwards() {
    let ostler = Ostler::new();
    configure(&ostler);
    let file = ostler.instance.work().join("secret.txt");
    std::fs::write(&file, format!("{CANARY}\n{MULTI}\nbot: {LITERAL}\n")).unwrap();
    let scan = Scan::new(&[CANARY, MULTI, LITERAL]);
    let (mut serve, address) = serve(&ostler);

    let prompt = format!("sing {CANARY} and {MULTI}");
    let traced = ostler.instance.root().join("trace.ndjson");
    let system = format!("never say {CANARY}");
    let run = ["run", "leaky", &prompt, "--json", "--trace", traced.to_str().unwrap()];
    let said = says(&ostler, &[&run[..], &["--system", &system]].concat());
    let events = said.events();
    assert_eq!(result(&events)["outcome"], "succeeded", "{}", said.stderr);
    for mark in ["[redacted:CANARY]", "[redacted:MULTI]", "[redacted:LITERAL_TOKEN]"] {
        assert!(said.stdout.contains(mark), "{mark}");
    }
    scan.clean("run --json", said.stdout.as_bytes());
    scan.clean("run's stderr", said.stderr.as_bytes());
    let blocks = blocks(&events);
    assert!(blocks.len() > CANARY.chars().count(), "{} blocks", blocks.len());
    for block in blocks {
        scan.clean("deltas, joined", block.as_bytes());
        assert!(block.contains("[redacted:"), "{block}");
    }

    let id = events[0]["run_id"].as_str().unwrap();
    let sent = wire(&ostler, &address, id);
    assert!(sent.len() > said.stdout.len(), "the wire was heard to its end");
    scan.clean("server-sent events", &sent);
    let trace = std::fs::read(&traced).unwrap();
    assert!(trace.len() > 10_000, "the trace is there");
    for args in [
        &["show", id][..],
        &["show", id, "--json"],
        &["show", id, "--full", "--json"],
        &["show", id, "--debug"],
        &["show", id, "--raw"],
        &["show", id, "--plan"],
        &["show", id, "--plan", "--json"],
        &["export", id],
        &["replay", id, "--speed", "0"],
        &["runs"],
        &["runs", "--json"],
        &["config", "show"],
    ] {
        let said = ostler.says(args);
        assert_eq!(said.code, 0, "{args:?}: {}", said.stderr);
        scan.clean(&format!("{args:?}"), format!("{}{}", said.stdout, said.stderr).as_bytes());
        if args.contains(&"--raw") {
            assert_eq!(said.stdout.as_bytes(), trace, "one trace, given out twice");
        }
    }

    let failed = says(&ostler, &["run", "failing", "x"]);
    assert_eq!(failed.code, 9, "{failed:#?}");
    scan.clean("a failing run", format!("{}{}", failed.stdout, failed.stderr).as_bytes());

    let config = ostler.instance.config();
    scan.clean_on_disk(&ostler, &[&config, &file]);
    let _ = serve.child.kill();
    let logged = serve.finish();
    scan.clean("the host's log", format!("{}{}", logged.stdout, logged.stderr).as_bytes());
    scan.clean_on_disk(&ostler, &[&config, &file]);
}

#[test]
fn a_secret_that_a_person_says_to_a_live_run_is_kept_out_too() {
    let ostler = Ostler::new();
    configure(&ostler);
    let mut command = ostler.command(&["run", "talking", "x", "--json"]);
    let mut child = command
        .env("CANARY", CANARY)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut run = Running { child, stdout };
    let first = run.event("the agent to run", |event| event["phase"] == "running");
    let id = first["run_id"].as_str().unwrap().to_owned();
    // What is said before its hello is not heard, so it is said until it is.
    let heard = loop {
        assert_eq!(ostler.says(&["say", &id, &format!("take {CANARY}")]).code, 0);
        let next = run.event("an answer", |event| {
            matches!(event["kind"].as_str(), Some("assistant_text" | "log"))
        });
        if next["kind"] == "assistant_text" {
            break next;
        }
    };
    assert_eq!(heard["text"], "heard: take [redacted:CANARY]");
    assert_eq!(ostler.says(&["say", &id, "end"]).code, 0);
    let said = run.finish();
    let scan = Scan::new(&[CANARY]);
    scan.clean("run --json", said.stdout.as_bytes());
    for path in ostler.files() {
        scan.clean(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
    }
}

#[test]
fn a_secret_in_why_another_does_it_is_kept_out_too() {
    let ostler = Ostler::new();
    configure(&ostler);
    let door = Door::with_env(ostler, &[("CANARY", CANARY.to_owned())]);
    let (ostler, why) = (&door.ostler, format!("instead of {CANARY}, which is gone"));
    let request = json!({
        "agent": "failing", "prompt": "x", "cwd": ostler.instance.work(), "fallback": why,
    });
    let begun = door.owner("POST", "/api/v1/runs", &request.to_string());
    assert_eq!(begun.status, 201, "{}", begun.body);
    let runs = testkit::until("the end of the run", BOUND_MS, || {
        let runs = ostler.says(&["runs", "--json"]).stdout;
        let rows: Value = serde_json::from_str(&runs).unwrap();
        (rows[0]["state"] == "settled").then_some(rows)
    });
    assert_eq!(runs[0]["fallback"], "instead of [redacted:CANARY], which is gone");
    let scan = Scan::new(&[CANARY]);
    let kept = ostler.files().into_iter().filter(|path| path.starts_with(ostler.instance.data()));
    for path in kept {
        scan.clean(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
    }
}

#[test]
fn an_answer_that_is_kept_for_whoever_asks_again_has_no_keys() {
    let door = Door::open();
    let (key, bearer) = (
        format!("ghp_{}", "16C7e42F292c6912E7710c838347Ae178B4a"),
        format!("Bearer {}", door.token),
    );
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("content-type", "application/json"),
        ("idempotency-key", "hired-once"),
    ];
    let request =
        json!({ "name": "rev", "spec": { "adapter": "demo", "tools": [key] } }).to_string();
    let hire = || door.request("POST", "/api/v1/agents", &headers, &request);
    // Whoever sent it is told what was wrong with it.
    let hired = hire();
    assert!((200..300).contains(&hired.status) && hired.body.contains(&key), "{hired:?}");
    let again = hire();
    assert_eq!(again.status, hired.status, "{again:?}");
    assert!(again.body.contains("no tool is called") && !again.body.contains(&key), "{again:?}");
    for path in door.ostler.files() {
        let bytes = std::fs::read(&path).unwrap_or_default();
        let found = bytes.windows(key.len()).any(|bytes| bytes == key.as_bytes());
        assert!(!found, "{}", path.display());
    }
}

#[test]
fn a_secret_that_the_next_host_hears_is_kept_out_too() {
    let ostler = Ostler::new();
    configure(&ostler);
    let mut run =
        Running::of(ostler.command(&["run", "talking", "x", "--json"]).env("CANARY", CANARY));
    let first = run.event("the agent to run", |event| event["phase"] == "running");
    let id = first["run_id"].as_str().unwrap().to_owned();
    let _ = run.child.kill();
    let _ = run.child.wait();
    // It has never seen the value: what it knows of it comes from the keeper.
    let (mut serve, _) = serve(&ostler);
    let heard = testkit::until("an answer", BOUND_MS, || {
        let _ = ostler.says(&["say", &id, &format!("take {CANARY}")]);
        let events = ostler.says(&["show", &id, "--json"]).events();
        events.into_iter().find(|event| event["kind"] == "assistant_text")
    });
    assert_eq!(heard["text"], "heard: take [redacted:CANARY]");
    assert_eq!(ostler.says(&["say", &id, "end"]).code, 0);
    testkit::until("the end of the run", BOUND_MS, || {
        let events = ostler.says(&["show", &id, "--json"]).events();
        events.last().is_some_and(|event| event["kind"] == "result").then_some(())
    });
    let _ = serve.child.kill();
    let _ = serve.finish();
    let scan = Scan::new(&[CANARY]);
    for path in ostler.files() {
        scan.clean(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
    }
}

/// Gives its secret for every name it has to give, says the first half of it, and waits with the rest.
const NAMER: &str = r#"
say() { printf '{"type":"event","event":%s}\n' "$1"; }
say '{"kind":"turn","phase":"started","n":1}'
say "{\"kind\":\"session\",\"native_session\":\"$NAME\",\"model\":\"$NAME\",\"resumed\":false}"
say "{\"kind\":\"usage\",\"model\":\"$NAME\",\"provider\":\"$NAME\",\"basis\":\"increment\",\"tokens\":{\"input_uncached\":5,\"cache_read\":0,\"cache_write\":0,\"output\":5}}"
say '{"kind":"turn","phase":"ended","n":1,"stop_reason":"end_turn"}'
say "{\"kind\":\"assistant_text\",\"text\":\"it begins with ${NAME%??????}\",\"block\":\"$NAME\",\"delta\":true}"
while [ ! -e done ]; do sleep 0.05; done
say "{\"kind\":\"assistant_text\",\"text\":\"${NAME#"${NAME%??????}"} and ends\",\"block\":\"$NAME\",\"delta\":true}"
say '{"kind":"assistant_text","text":"it ends as pl41","block":"c","delta":true}'
echo '{"type":"complete","output":{"text":"done"}}'
"#;

#[test]
fn names_that_are_secrets_and_halves_of_one_are_not_kept_even_while_the_run_lives() {
    const NAME: &str = "pl41n+Canary-0f/many-names";
    let ostler = Ostler::new();
    let script = ostler.instance.root().join("namer.sh");
    std::fs::write(&script, NAMER).unwrap();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "namer": {{ "type": "process", "binary": "sh", "args": ["{}"],
              "env": {{ "NAME": "${{NAME}}" }} }} }} }}"#,
        script.display()
    ));
    let mut run = Running::of(ostler.command(&["run", "namer", "x", "--json"]).env("NAME", NAME));
    run.event("the half", |event| {
        event["text"].as_str().is_some_and(|text| text.contains("begins"))
    });
    let scan = Scan::new(&[NAME]);
    let kept =
        || ostler.files().into_iter().filter(|path| path.starts_with(ostler.instance.data()));
    for path in kept() {
        scan.clean(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
    }
    std::fs::write(ostler.instance.work().join("done"), "").unwrap();
    let said = run.finish();
    scan.clean("run --json", said.stdout.as_bytes());
    // What only begins like a secret is given back when nothing follows.
    let blocks = blocks(&said.events());
    assert!(blocks.contains(&"it ends as pl41".to_owned()), "{blocks:?}");
    let costs = ostler.says(&["costs", "--by", "model", "--json"]);
    assert!(costs.stdout.contains("[redacted:NAME]"), "{costs:#?}");
    for path in kept() {
        scan.clean(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
    }
}

const PLANTED: usize = 20_000;
const PLANTED_VALUES: usize = 40;

/// Values that occur nowhere else, with characters that encodings change.
fn planted_value(n: usize) -> String {
    let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{mixed:016x}+/{:012x}", mixed.rotate_left(23) >> 16)
}

/// A value as it may be written.
fn written(way: usize, value: &str) -> String {
    let bytes = value.as_bytes();
    match way % 8 {
        0 => value.to_owned(),
        1 => base64(bytes, Alphabet::Standard),
        2 => base64(format!("x{value}").as_bytes(), Alphabet::UrlSafe),
        3 => hex(bytes, Case::Lower),
        4 => hex(bytes, Case::Upper),
        5 => percent(bytes, Case::Upper),
        6 => format!("https://bot:{}@host.example/path", percent(bytes, Case::Lower)),
        _ => serde_json::json!({ "note": { "was": value } }).to_string(),
    }
}

/// Lines of an agent that show it: whole and in two pieces, by every kind of line.
fn telling(n: usize, kind: usize, shown: &str) -> String {
    let event = |event: Value| serde_json::json!({ "type": "event", "event": event }).to_string();
    let text = format!("line {n}: {shown} and on");
    match kind % 6 {
        0 => event(serde_json::json!({ "kind": "assistant_text", "text": text, "delta": false })),
        1 => {
            let middle = text.len() / 2;
            let piece = |part: &str| {
                let block = format!("b{n}");
                event(
                    serde_json::json!({ "kind": "assistant_text", "text": part, "block": block, "delta": true }),
                )
            };
            format!("{}\n{}", piece(&text[..middle]), piece(&text[middle..]))
        }
        2 => event(serde_json::json!({ "kind": "thinking", "text": text, "delta": false })),
        3 => event(
            serde_json::json!({ "kind": "tool_use", "tool_call_id": format!("c{n}"), "name": "shell",
            "input": { "command": ["echo", text] } }),
        ),
        4 => serde_json::json!({ "type": "comment", "text": text }).to_string(),
        _ => text,
    }
}

/// What was told of a line in which nothing is marked, its pieces together.
fn bare(events: &[Value]) -> Vec<String> {
    let mut told: BTreeMap<String, String> = BTreeMap::new();
    for event in events.iter().filter(|event| event["origin"] == "agent") {
        let whole = event["seq"].to_string();
        let block = event["block"].as_str().unwrap_or(&whole).to_owned();
        told.entry(block).or_default().push_str(&event.to_string());
    }
    told.into_values()
        .filter(|told| told.contains("line ") && !told.contains("[redacted"))
        .collect()
}

#[test]
fn twenty_thousand_planted_secrets_are_nowhere_afterwards() {
    let ostler = Ostler::new();
    let values: Vec<String> = (0..PLANTED_VALUES).map(planted_value).collect();
    let (mut out, mut err) = (String::new(), String::new());
    for n in 0..PLANTED {
        let (value, turn) = (&values[n % PLANTED_VALUES], n / PLANTED_VALUES);
        let shown = written(turn, value);
        match turn / 8 % 7 {
            6 => err.push_str(&format!("line {n}: {shown}\n")),
            kind => out.push_str(&format!("{}\n", telling(n, kind, &shown))),
        }
    }
    out.push_str("{\"type\":\"complete\",\"text\":\"done\"}\n");
    let hidden = ostler.instance.root().join("hidden");
    std::fs::create_dir(&hidden).unwrap();
    for (name, text) in [("out", &out), ("err", &err)] {
        std::fs::write(hidden.join(name), text).unwrap();
    }
    let says = format!("cat {0}/err >&2; cat {0}/out", hidden.display());
    let env: serde_json::Map<String, Value> = values
        .iter()
        .enumerate()
        .map(|(n, value)| (format!("V{n}_TOKEN"), value.as_str().into()))
        .collect();
    let config = serde_json::json!({ "adapters": { "telling": {
        "type": "process", "binary": "/bin/sh", "args": ["-c", says], "env": env,
    } } });
    ostler.instance.write_config(&config.to_string());

    let (mut serve, address) = serve(&ostler);
    let said = ostler.says(&["run", "telling", "x", "--json"]);
    let events = said.events();
    assert_eq!(result(&events)["outcome"], "succeeded", "{}", said.stderr);
    let marks = said.stdout.matches("[redacted:V").count();
    assert!(marks >= PLANTED, "{marks} of {PLANTED} were seen, and not in {:#?}", bare(&events));
    let run = events[0]["run_id"].as_str().unwrap();
    let sent = wire(&ostler, &address, run);
    let scan = Scan::new(&values.iter().map(String::as_str).collect::<Vec<_>>());
    // Of each spelling by each kind of line.
    let planted = (0..56).map(|turn| written(turn, &values[0]));
    assert!(planted.into_iter().all(|shown| scan.finds(shown.as_bytes()).is_some()));
    scan.clean("run --json", said.stdout.as_bytes());
    scan.clean("server-sent events", &sent);
    // A copy lies among the files afterwards.
    let copy = ostler.instance.root().join("copy").display().to_string();
    for words in [
        &["export", run][..],
        &["show", run, "--full", "--json"],
        &["show", run, "--raw"],
        &["backup", &copy],
    ] {
        let shown = ostler.says(words);
        assert_eq!(shown.code, 0, "{words:?}: {}", shown.stderr);
        scan.clean(&words.join(" "), format!("{}{}", shown.stdout, shown.stderr).as_bytes());
    }
    let _ = serve.child.kill();
    let logged = serve.finish();
    scan.clean("the host's log", format!("{}{}", logged.stdout, logged.stderr).as_bytes());
    let except = [ostler.instance.config(), hidden.join("out"), hidden.join("err")];
    let except: Vec<&Path> = except.iter().map(|path| path.as_path()).collect();
    let mut bytes = said.stdout.len() + sent.len();
    for path in ostler.files().iter().filter(|path| !except.contains(&path.as_path())) {
        let text = std::fs::read(path).unwrap_or_default();
        bytes += text.len();
        scan.clean(&path.display().to_string(), &text);
    }
    eprintln!("{PLANTED} planted, {marks} marks in their place, 0 left in {bytes} bytes");
}

#[test]
fn the_tokens_of_the_run_and_of_the_house_are_kept_out_too() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--echo-env CA_LEASE_TOKEN --echo-env OSTLER_API_KEY");
    let said = ostler.says(&["run", "--process", &agent, "x", "--json"]);
    assert_eq!(result(&said.events())["outcome"], "succeeded");
    assert!(said.stdout.contains("[redacted"), "{}", said.stdout);
    let token = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
    assert!(!said.stdout.contains(token.trim()));
}

#[test]
fn a_value_too_short_to_be_kept_out_is_named_in_a_warning() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "brief": {{ "type": "process", "binary": "{}",
              "env": {{ "PIN": "${{PIN}}", "LONG": "${{LONG}}" }} }} }} }}"#,
        testkit::fake_agent().display()
    ));
    let mut command = ostler.command(&["run", "brief", "x", "--json"]);
    let said = Said::from(command.env("PIN", "4711").env("LONG", "long-enough").output().unwrap());
    let events = said.events();
    let warnings: Vec<_> = events.iter().filter(|event| event["level"] == "warning").collect();
    assert_eq!(warnings.len(), 1, "{said:#?}");
    let text = warnings[0]["text"].as_str().unwrap();
    assert!(text.starts_with("the value of PIN has fewer than 6 bytes"), "{text}");
    assert!(!said.stdout.contains("4711"), "{}", said.stdout);
}

#[test]
fn more_secrets_than_can_be_kept_out_refuse_the_start() {
    let ostler = Ostler::new();
    let env: Vec<String> = (0..1100).map(|n| format!(r#""S{n}_TOKEN": "value-of-{n}""#)).collect();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "many": {{ "type": "process", "binary": "{}", "env": {{ {} }} }} }} }}"#,
        testkit::fake_agent().display(),
        env.join(", ")
    ));
    let said = ostler.says(&["run", "many", "x", "--json"]);
    assert_eq!(said.code, 3, "{said:#?}");
    assert!(said.stderr.contains("at most 1024 can be removed"), "{}", said.stderr);
    assert_eq!(ostler.events(&["runs", "--json"]), [serde_json::json!([])], "nothing was started");
}
