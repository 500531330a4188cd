//! Every shape of escape on every level of containment that this machine offers. A level that it does
//! not offer starts nothing, and says why.

use super::stage::{Seen, Stage};
use super::{Row, SUCCESS, nothing_else};
use crate::ostler::Ostler;

/// The quickest agent there is: its words and its end are in the spool at once.
const COMPLETE_AT_ONCE: &str =
    r#"printf '{"type":"progress","summary":"x"}\n{"type":"complete","output":{"text":"x"}}\n'"#;

const ROWS: &[Row] = &[
    Row::fake("setsid", &["--setsid-child"], SUCCESS, nothing_else),
    Row::fake("orphan", &["--orphan"], SUCCESS, nothing_else),
    Row::fake("orphan with setsid", &["--double-fork"], SUCCESS, nothing_else),
    Row::fake("group", &["--new-group"], SUCCESS, nothing_else),
    Row::fake("three levels", &["--deep", "--ignore-term"], SUCCESS, nothing_else),
    Row::fake("holds stdout", &["--hold-stdout"], SUCCESS, nothing_else),
    Row::fake("forks on", &["--fork-on", "200"], SUCCESS, nothing_else),
    Row::fake("bomb", &["--fork-bomb", "100"], SUCCESS, nothing_else),
];

/// The level that a run says it was held on.
fn level(seen: &Seen) -> Option<&str> {
    seen.events.iter().find_map(|event| event["isolation"].as_str())
}

#[test]
fn no_shape_of_escape_leads_out_of_any_level() {
    for wanted in ["basic", "cgroup", "strict"] {
        let stage = Stage::held(ROWS, wanted);
        let (mut held, mut refused) = (0, 0);
        for seen in stage.play(ROWS) {
            match level(&seen) {
                Some(level) => {
                    assert_eq!((level, &*seen.ends.1), (wanted, "succeeded"), "{}", seen.result());
                    held += 1;
                }
                None => {
                    let message = seen.result()["message"].as_str().unwrap_or_default();
                    assert!(message.contains(&format!("isolation {wanted}: ")), "{message}");
                    refused += 1;
                }
            }
        }
        eprintln!("{wanted}: {held} shapes held, {refused} not offered here");
        assert!(wanted != "basic" || refused == 0, "basic is always there");
        assert!(held == 0 || refused == 0, "a level is offered or it is not");
        stage.close();
    }
}

#[test]
fn a_run_that_is_over_at_once_still_says_how_it_was_held() {
    let ostler = Ostler::new();
    for _ in 0..20 {
        let said = ostler.says(&["run", "--process", COMPLETE_AT_ONCE, "x", "--json"]);
        assert_eq!(said.code, 0, "{said:?}");
        let events = said.events();
        let running = events.iter().position(|event| event["isolation"].is_string());
        let progress = events.iter().position(|event| event["kind"] == "progress");
        assert!(running.is_some() && running < progress, "{events:#?}");
    }
}
