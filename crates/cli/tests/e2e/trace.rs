//! The sealed trace: whole, referred to by the events, and gone on with by whoever takes a run over.

use crate::ostler::{Ostler, result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

/// The lines of a trace, by stream and number: numbered from 1 without gap or double.
fn lines(trace: &[Value]) -> BTreeMap<(String, u64), String> {
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    trace
        .iter()
        .map(|line| {
            let stream = line["stream"].as_str().unwrap().to_owned();
            let n = line["line"].as_u64().unwrap();
            let expected = next.entry(stream.clone()).or_insert(1);
            assert_eq!(n, *expected, "{line}");
            *expected += 1;
            ((stream, n), line["text"].as_str().unwrap().to_owned())
        })
        .collect()
}

/// Every event that names a line of the trace names one that is there.
fn assert_named(events: &[Value], trace: &BTreeMap<(String, u64), String>) -> usize {
    let mut named = 0;
    for event in events.iter().filter(|event| !event["raw"].is_null()) {
        let raw = &event["raw"];
        let key = (raw["stream"].as_str().unwrap().to_owned(), raw["line"].as_u64().unwrap());
        assert!(trace.contains_key(&key), "{event}");
        named += 1;
    }
    named
}

#[test]
fn every_line_is_kept_and_every_event_says_which_it_came_from() {
    let ostler = Ostler::new();
    let file = ostler.instance.root().join("out.ndjson");
    let agent = ostler.fake("--garbage --burst 50 --tool get_budget {}");
    let said = ostler.says(&[
        "run",
        "--process",
        &agent,
        "x",
        "--json",
        "--trace",
        file.to_str().unwrap(),
    ]);
    let events = said.events();
    assert_eq!(result(&events)["outcome"], "succeeded", "{}", said.stderr);
    let id = events[0]["run_id"].as_str().unwrap();
    let trace = ostler.events(&["show", id, "--raw"]);
    let kept = lines(&trace);
    assert!(assert_named(&events, &kept) >= 50);
    for event in events.iter().filter(|event| event["kind"] == "assistant_text") {
        let line = event["raw"]["line"].as_u64().unwrap();
        let text = &kept[&("stdout".to_owned(), line)];
        assert!(text.contains(event["text"].as_str().unwrap()), "{text}");
    }
    let shown = ostler.says(&["show", id, "--raw"]).stdout;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), shown);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    let stored = ostler.instance.data().join(format!("traces/{id}.ndjson"));
    assert_eq!((mode(&file) & 0o777, mode(&stored) & 0o777), (0o600, 0o600));
}

#[test]
fn without_a_trace_nothing_is_kept_and_nothing_points_at_it() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "quiet": {{ "type": "process", "binary": "{}", "trace": "off" }} }} }}"#,
        testkit::fake_agent().display()
    ));
    let events = ostler.events(&["run", "quiet", "x", "--json"]);
    assert!(events.iter().all(|event| event["raw"].is_null()));
    let id = events[0]["run_id"].as_str().unwrap();
    let said = ostler.says(&["show", id, "--raw"]);
    assert!(said.code != 0 && said.complaint().contains("no trace of"), "{said:#?}");
    assert!(!ostler.instance.data().join("traces").exists());

    // Whoever asks for one by a flag gets one.
    let file = ostler.instance.root().join("out.ndjson");
    let said = ostler.says(&["run", "quiet", "x", "--json", "--trace", file.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
}

#[test]
fn a_trace_that_cannot_be_written_to_its_file_starts_no_run() {
    let ostler = Ostler::new();
    let said = ostler.says(&["run", "demo", "hello", "--trace", "/nowhere/at/all"]);
    assert_eq!(said.code, 2, "{said:#?}");
    assert!(said.complaint().contains("--trace /nowhere/at/all"), "{}", said.stderr);
    assert_eq!(ostler.events(&["runs", "--json"]), [serde_json::json!([])]);
}

#[test]
fn a_line_of_megabytes_is_cut_with_a_mark() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--line-bytes 3000000");
    let events = ostler.events(&["run", "--process", &agent, "x", "--json"]);
    assert_eq!(result(&events)["outcome"], "succeeded");
    let trace = ostler.events(&["show", events[0]["run_id"].as_str().unwrap(), "--raw"]);
    let cut: Vec<_> = trace.iter().filter(|line| !line["cut"].is_null()).collect();
    assert_eq!(cut.len(), 1);
    assert_eq!(cut[0]["cut"], 2_999_999);
    assert_eq!(cut[0]["text"].as_str().unwrap().len(), 1 << 20);
}

#[test]
fn whoever_takes_a_run_over_goes_on_with_its_trace_without_gap_or_double() {
    let ostler = Ostler::new();
    let agent = ostler.fake(
        "--burst 3000 --sleep-ms 400 --burst 3000 --sleep-ms 400 --burst 3000 --sleep-ms 400",
    );
    let mut host = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    host.line();
    let mut run = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    let first = run.event("the second burst to begin", |event| {
        event["text"].as_str().is_some_and(|text| text.starts_with("00000002 "))
    });
    kill_process(Pid::from_raw(host.child.id() as i32).unwrap(), Signal::KILL).unwrap();
    host.finish();
    // `run` finds that its host is gone and takes over.
    let said = run.finish();
    let id = first["run_id"].as_str().unwrap();
    let events = ostler.events(&["show", id, "--json"]);
    assert_eq!(result(&events)["outcome"], "succeeded", "{}", said.stderr);
    assert!(events.iter().any(|event| event["phase"] == "adopted"), "it was taken over");
    let kept = lines(&ostler.events(&["show", id, "--raw"]));
    let bursts = kept.values().filter(|text| text.contains("assistant_text")).count();
    assert_eq!(bursts, 9_000);
    assert!(assert_named(&events, &kept) >= 9_000);
}
