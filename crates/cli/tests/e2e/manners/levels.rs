//! That a run says on which level of containment it was held, however short it was. That nothing
//! leads out of a level is in `escapes.rs`.

use crate::ostler::Ostler;

/// The quickest agent there is: its words and its end are in the spool at once.
const COMPLETE_AT_ONCE: &str =
    r#"printf '{"type":"progress","summary":"x"}\n{"type":"complete","output":{"text":"x"}}\n'"#;

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
