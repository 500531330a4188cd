//! What is shown of a run because its command knew it from the start: the header, the name of its
//! quota, the limit of a silent program.

use super::*;

/// A renderer that knows the run from the start.
fn introduced(columns: usize, place: &str) -> Renderer {
    let mut renderer = Renderer::new(columns, Colour::Off, Detail::Usual);
    renderer.introduces(RunIntro {
        agent: "gemini".to_owned(),
        place: Some(place.to_owned()),
        quota_scope: Some("gemini/work".to_owned()),
        silent_limit: Some(SilentLimit { ms: 300_000, setting: "firstOutputSec" }),
    });
    renderer
}

#[test]
fn header_names_the_agent_and_keeps_the_model() {
    let session = json!({"kind": "session", "model": "auto", "tools": 41, "cwd": "/data/trees/01"});
    let shown = played(introduced(80, "worktree of ~/p1"), std::slice::from_ref(&session));
    assert_eq!(shown, "◆ run 2233abcd · gemini · auto · worktree of ~/p1\n");
    let long = "worktree of ~/a/very/long/way/down/to/the/place/where/the/work/is/done";
    let shown = played(introduced(60, long), std::slice::from_ref(&session));
    assert!(shown.starts_with("◆ run 2233abcd · gemini · auto · worktree of"), "{shown}");
    assert!(shown.trim_end().ends_with("is/done") && width(shown.trim_end()) <= 60, "{shown}");
    // An agent that tells its model late: the header does not wait for it, nor repeat itself.
    let prompt = json!({"kind": "user_text", "text": "hi"});
    let mut renderer = introduced(80, "~/p1");
    assert_eq!(printed(&renderer.event(&event(prompt))), "");
    let mut shown: String = (0..EARLY_TICKS_MAX).map(|_| printed(&renderer.idle())).collect();
    shown += &printed(&renderer.event(&event(session.clone())));
    shown += &printed(&renderer.event(&event(session)));
    assert_eq!(shown, "◆ run 2233abcd · gemini · ~/p1\n\n› hi\n\n◆ model auto\n");
}

#[test]
fn quota_is_named_as_it_is_cleared() {
    let quota = json!({"kind": "quota", "provider": "google", "windows": [], "rate_limited": true});
    let shown = played(introduced(80, "~/p1"), &[quota]);
    assert!(shown.contains("! quota of gemini/work: limited"), "{shown}");
}

#[test]
fn silent_program_is_told_with_its_limit() {
    let mut renderer = introduced(80, "~/p1");
    renderer.event(&event(json!({"kind": "lifecycle", "phase": "starting", "origin": "ostler"})));
    assert_eq!(renderer.status(2_000), "⠋ 2 s · starting gemini");
    assert_eq!(
        renderer.status(12_000),
        "⠋ 12 s · no output yet; stopped after 5 min 00 s (firstOutputSec)"
    );
    renderer.event(&event(json!({"kind": "thinking", "text": "x", "delta": false})));
    assert_eq!(renderer.status(12_000), "⠋ 12 s · thinking");
    let mut silent = introduced(80, "~/p1");
    let timeout = ended("timed_out", json!({"code": "timeout_wall", "origin": "ostler"}));
    silent.event(&event(timeout));
    assert!(
        silent.summary(None).contains("→ the program printed nothing: run its command by hand")
    );
}
