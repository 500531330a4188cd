//! `ostler conformance http`: what it says of our own remote, of the one in the docs, and of servers
//! that do one thing wrong each, so that every point is seen to turn red.

use crate::ostler::{Ostler, Running, Said};
use crate::remote_caller::Remote;
use serde_json::Value;
use std::process::Command;

const TOKEN: &str = "remote-hush-2026";
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols/remote.py");
/// What someone reads before writing one of their own.
const EXAMPLE_LINES_MAX: usize = 85;
const BAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/bad_remote.py");

/// A server of the tests in the background.
struct Server {
    running: Running,
    url: String,
}

impl Server {
    fn of(command: &mut Command) -> Self {
        let mut running = Running::of(command.env("REMOTE_TOKEN", TOKEN).env("REMOTE_PORT", "0"));
        let line = running.line();
        let url = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(url.starts_with("http"), "it does not listen: {line}");
        Self { running, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.running.child.kill();
        let _ = self.running.child.wait();
    }
}

fn judged(ostler: &Ostler, url: &str, flags: &[&str]) -> (Said, Vec<Value>) {
    let args = [&["conformance", "http", "--json"], flags, &["--", url]].concat();
    let mut command = ostler.command(&args);
    let said = Said::from(command.env("REMOTE_TOKEN", TOKEN).output().unwrap());
    let report: Value = serde_json::from_str(&said.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", said.stdout, said.stderr));
    let points = report["points"].as_array().unwrap().clone();
    (said, points)
}

/// The ids of the points of this verdict.
fn of(points: &[Value], verdict: &str) -> Vec<String> {
    let fits = points.iter().filter(|point| point["verdict"] == verdict);
    fits.map(|point| point["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn our_own_remote_passes_every_point() {
    let ostler = Ostler::new();
    let remote = Remote::of(&ostler, &["--token-env", "REMOTE_TOKEN"]);
    let (said, points) = judged(&ostler, &remote.url, &["--token-env", "REMOTE_TOKEN"]);
    assert_eq!(of(&points, "fail"), [""; 0], "{}", said.stdout);
    assert_eq!(of(&points, "not_seen"), [""; 0]);
    assert_eq!(said.code, 0);
}

#[test]
fn the_remote_of_the_docs_passes_every_point() {
    let ostler = Ostler::new();
    let server = Server::of(ostler.instance.command("python3").arg(EXAMPLE));
    let (said, points) = judged(&ostler, &server.url, &["--token-env", "REMOTE_TOKEN"]);
    assert_eq!(of(&points, "fail"), [""; 0], "{}", said.stdout);
    assert_eq!(of(&points, "not_seen"), [""; 0]);
    assert_eq!(said.code, 0);
}

#[test]
fn every_point_turns_red_for_a_server_that_breaks_it() {
    let ostler = Ostler::new();
    // What is broken, and which points fail of it: the one that is meant, and what follows from it.
    let rows: &[(&str, &[&str])] = &[
        ("nothing", &[]),
        ("health", &["health"]),
        ("auth", &["auth"]),
        ("create", &["create"]),
        ("create.protocol", &["create.protocol"]),
        ("create.form", &["create.form"]),
        ("create.again", &["create.again"]),
        ("unknown", &["unknown", "delete.gone"]),
        // Only what was there can be gone.
        ("unknown as closed", &["unknown"]),
        ("events.stream", &["events.stream"]),
        ("events.frames", &["events.frames", "events.types", "end", "shutdown"]),
        ("events.types", &["events.types"]),
        ("events.ids", &["events.ids", "events.next", "end"]),
        ("events.next", &["events.next"]),
        ("events.reconnect", &["events.ids", "events.next", "events.reconnect"]),
        ("input", &["input"]),
        ("input.form", &["input.form"]),
        ("input.fence", &["input.fence"]),
        ("end", &["end", "shutdown"]),
        ("end.last", &["end.last"]),
        ("end.closes", &["end.closes"]),
        ("shutdown", &["shutdown"]),
        ("delete", &["delete"]),
        ("delete.gone", &["delete.gone"]),
        ("resume", &["resume"]),
    ];
    let row = |(fault, expected): &(&str, &[&str])| {
        let server = Server::of(ostler.instance.command("python3").args([BAD, EXAMPLE, fault]));
        let flags = ["--token-env", "REMOTE_TOKEN", "--patience", "5s"];
        let (said, points) = judged(&ostler, &server.url, &flags);
        let failed = of(&points, "fail");
        let required = |id: &String| {
            points.iter().any(|point| point["id"] == *id && point["required"] == true)
        };
        let code = if failed.iter().any(required) { 15 } else { 0 };
        let right = failed == *expected && said.code == code;
        (!right).then(|| format!("{fault}: {failed:?}, expected {expected:?}; exit {}", said.code))
    };
    // Most of them wait for a server that says nothing.
    let mut wrong = Vec::new();
    for rows in rows.chunks(8) {
        std::thread::scope(|scope| {
            let judging: Vec<_> = rows.iter().map(|next| scope.spawn(|| row(next))).collect();
            wrong.extend(judging.into_iter().filter_map(|judged| judged.join().unwrap()));
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_missing_token_ends_judging_with_the_flag() {
    let ostler = Ostler::new();
    let remote = Remote::of(&ostler, &["--token-env", "REMOTE_TOKEN"]);
    let said = ostler.says(&["conformance", "http", &remote.url]);
    let why = "the server wants a token: give it with --token-env NAME";
    assert!(said.code == 15 && said.stdout.contains(why), "{}", said.stdout);
    let args = ["conformance", "http", &remote.url, "--token-env", "WRONG"];
    let said = Said::from(ostler.command(&args).env("WRONG", "not-it").output().unwrap());
    assert!(said.stdout.contains("refuses the token of --token-env"), "{}", said.stdout);
}

#[test]
fn a_server_that_is_not_there_is_told_in_words() {
    let ostler = Ostler::new();
    let said = ostler.says(&["conformance", "http", "--", "http://127.0.0.1:9"]);
    assert_eq!(said.code, 15);
    assert!(said.stdout.contains("✗ create "), "{}", said.stdout);
    assert!(said.stdout.contains("Connection refused"), "{}", said.stdout);
    let plain = ostler.says(&["conformance", "http", "http://127.0.0.1:9"]);
    assert_eq!((plain.code, &plain.stdout), (15, &said.stdout), "no `--` is needed");
    assert!(
        said.stdout.contains("points were not tested: no server answers there"),
        "{}",
        said.stdout
    );
    let said = ostler.says(&["conformance", "http", "--", "127.0.0.1:9"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
}

#[test]
fn the_page_shows_the_remote_that_is_run_and_the_points_that_are_judged() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols/ca-http-v1.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = std::fs::read_to_string(EXAMPLE).unwrap();
    assert!(page.contains(&format!("```python\n{example}```\n")), "the page has another remote.py");
    let written = example.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(written <= EXAMPLE_LINES_MAX, "an author reads {written} lines");
    let ostler = Ostler::new();
    let (_, points) = judged(&ostler, "http://127.0.0.1:9", &[]);
    let row = |point: &Value| {
        let weight = match (point["to_run"] == true, point["required"] == true) {
            (true, _) => "to run",
            (false, true) => "required",
            (false, false) => "advice",
        };
        let [id, what] = ["id", "what"].map(|name| point[name].as_str().unwrap());
        format!("| `{id}` | {what} | {weight} |")
    };
    let rows: Vec<_> = points.iter().map(row).collect();
    assert!(page.contains(&rows.join("\n")), "the table of the page is not:\n{}", rows.join("\n"));
}
