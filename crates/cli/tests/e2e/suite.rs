//! The one suite that every registered runtime passes: with a made-up CLI in the place of the real
//! one, which says what the real one once said, it is configured rightly and wrongly, looked at by
//! doctor, run, and its result read. No runtime is named here.

use crate::ostler::{Ostler, assert_gap_free, result};
use contract::Card;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Every runtime with a recording of a plain answer.
fn subjects() -> Vec<(Card, PathBuf)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runtimes/src");
    let cards = runtimes::registry::all().iter().map(|runtime| runtime.card());
    let with = cards.filter_map(|card| {
        let hello = root.join(&card.id).join("recordings/hello");
        hello.with_extension("ndjson").exists().then_some((card, hello))
    });
    with.filter(|(card, _)| !card.requires.is_empty()).collect()
}

/// A program that answers to its version and otherwise plays the recording.
fn mock(ostler: &Ostler, card: &Card, recording: &std::path::Path) -> PathBuf {
    let version = card.versions_recorded.first().cloned().unwrap_or_default();
    let path = ostler.instance.root().join(format!("{}-mock", card.id));
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in {}) echo {version}; exit 0;; esac\nexec {} --again {}\n",
        card.requires[0].version_args.first().map_or("--version", String::as_str),
        testkit::fake_agent().display(),
        recording.display(),
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn every_runtime_keeps_the_contract_with_a_program_that_says_what_the_real_one_said() {
    let ostler = Ostler::new();
    let subjects = subjects();
    assert!(subjects.len() >= 4, "{} runtimes have a recording", subjects.len());
    let mut adapters = serde_json::Map::new();
    for (card, recording) in &subjects {
        let binary = mock(&ostler, card, recording);
        let id = card.id.as_str();
        adapters.insert(
            format!("{id}-good"),
            json!({ "type": "cli", "runtime": id, "binary": binary }),
        );
        adapters.insert(
            format!("{id}-gone"),
            json!({ "type": "cli", "runtime": id, "binary": "/nowhere/at/all" }),
        );
        adapters.insert(
            format!("{id}-wrong"),
            json!({ "type": "cli", "runtime": id, "binary": binary, "extraArgs": ["{{nobody}}"] }),
        );
    }
    ostler.instance.write_config(&json!({ "adapters": adapters }).to_string());
    for (card, _) in &subjects {
        let id = &card.id;
        let run = |name: &str| {
            let name = format!("{id}-{name}");
            ostler.says(&["run", &name, "hello", "--permission", "allow-all", "--json"])
        };
        let (gone, wrong) = (run("gone"), run("wrong"));
        assert_eq!((gone.code, wrong.code), (4, 3), "{id}: {gone:?} {wrong:?}");

        let health = ostler.says(&["doctor", &format!("{id}-good"), "--json"]);
        let health: Value = serde_json::from_str(&health.stdout).unwrap();
        let health = &health["diagnoses"][0];
        assert_eq!(health["adapter_type"], id.as_str());
        assert_ne!(health["status"], "fail", "{health:#}");
        for check in health["checks"].as_array().unwrap() {
            assert!(check["code"].is_string() && check["level"].is_string(), "{check}");
            assert!(check["message"].as_str().is_some_and(|text| !text.is_empty()), "{check}");
        }
        assert!(health["tested_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{health:#}");

        let good = run("good");
        let events = good.events();
        assert_gap_free(&events);
        let result = result(&events);
        assert_eq!(result["outcome"], "succeeded", "{id}: {result:#}\n{}", good.stderr);
        assert_eq!(good.code, 0, "{id}");
        assert!(result["duration_ms"].is_u64(), "{id}: {result:#}");
        assert!(result["text"].as_str().is_some_and(|text| !text.is_empty()), "{id}: {result:#}");
        reported(card, &events, result);
    }
}

/// Usage is absent or complete, as the card says; so is quota.
fn reported(card: &Card, events: &[Value], result: &Value) {
    let id = &card.id;
    let usages: Vec<_> = events.iter().filter(|event| event["kind"] == "usage").collect();
    assert_eq!(card.reports.tokens, !usages.is_empty(), "{id}: the card says otherwise");
    for usage in &usages {
        for bucket in ["input_uncached", "output"] {
            assert!(usage["tokens"][bucket].is_u64(), "{id}: {usage}");
        }
        assert!(usage["basis"].is_string(), "{id}: {usage}");
    }
    if card.reports.tokens {
        let tokens = &result["totals"]["tokens"];
        assert!(tokens["output"].as_u64() > Some(0), "{id}: {result:#}");
    }
    for quota in events.iter().filter(|event| event["kind"] == "quota") {
        assert!(card.reports.quota, "{id} tells a quota and its card does not: {quota}");
        assert!(quota["provider"].is_string() && quota["windows"].is_array(), "{id}: {quota}");
    }
}
