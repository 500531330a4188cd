//! The closing lines of a run: one reason, told once, without the effects of Ostler's own stop.

use super::*;

#[test]
fn used_up_budget_is_told_in_one_line() {
    insta::assert_snapshot!(screen(&[
        json!({"kind": "session", "model": "model-1"}),
        json!({"kind": "budget", "scope": "run", "level": "soft", "remaining": {"turns": 0}}),
        json!({"kind": "error", "code": "max_turns", "message": "the agent reached its limit of turns", "retryable": true}),
        json!({"kind": "turn", "phase": "ended", "n": 1, "stop_reason": "max_turns"}),
        json!({"kind": "budget", "scope": "run", "level": "hard", "remaining": {"turns": 0}}),
        json!({"kind": "lease", "action": "released"}),
        ended("failed", json!({
            "code": "budget_exceeded",
            "message": "the budget is used up: Reached maximum number of turns (3)",
            "exit_code": 1,
            "evidence": {"end": "structured"},
        })),
    ]), @r"
    ◆ run 2233abcd · model-1

    ✗ failed · 4.2 s · 1,540 tokens · $0.0042
      budget_exceeded: the budget is used up: Reached maximum number of turns (3)
      → raise the budget and run again
      ostler show 2233abcd
    ");
}

#[test]
fn end_of_a_stopped_process_is_no_news() {
    insta::assert_snapshot!(screen(&[
        json!({"kind": "session", "model": "model-1"}),
        json!({"kind": "log", "stream": "stderr", "text": "[STARTUP] Phase 'cleanup_ops' was started but never ended"}),
        json!({"kind": "lifecycle", "phase": "stopping", "why": "budget $0.08"}),
        json!({"kind": "budget", "scope": "run", "level": "soft", "remaining": {"nanousd": 1}}),
        json!({"kind": "error", "code": "upstream_error", "message": "the provider answered with an error", "retryable": true}),
        json!({"kind": "lease", "action": "released"}),
        ended("failed", json!({
            "code": "budget_exceeded",
            "message": "the budget is used up: the limit is $0.08",
            "signal": 15,
            "evidence": {"end": "signal", "stopped_by": "budget $0.08"},
        })),
    ]), @r"
    ◆ run 2233abcd · model-1

    ✗ failed · 4.2 s · 1,540 tokens · $0.0042
      budget_exceeded: the budget is used up: the limit is $0.08
      → raise the budget and run again
      ostler show 2233abcd
    ");
}

#[test]
fn refused_credentials_are_told_once() {
    let refused = |detail: &str| {
        json!({"kind": "error", "code": "auth_failed", "message": "the credentials were refused",
            "retryable": false, "detail": detail})
    };
    let mut renderer = Renderer::new(80, Colour::Off, Detail::Usual);
    let bodies = [
        refused("401, attempt 1 of 10"),
        refused("401, attempt 2 of 10"),
        refused("401"),
        json!({"kind": "lifecycle", "phase": "stopping", "why": "auth_failed"}),
        refused("401"),
        ended(
            "failed",
            json!({"code": "auth_failed", "message": "the credentials were refused", "evidence": {"end": "exit", "stopped_by": "auth_failed"}, "exit_code": 1}),
        ),
    ];
    let mut shown = String::new();
    for body in bodies {
        shown += &printed(&renderer.event(&event(body)));
        shown += &printed(&renderer.idle());
    }
    shown += &renderer.summary(None);
    assert_eq!(shown.matches("the credentials were refused").count(), 1, "{shown}");
    assert!(!shown.contains("attempt") && !shown.contains("exited"), "{shown}");
}

#[test]
fn success_says_that_its_budget_is_used_up() {
    let used_up =
        json!({"kind": "budget", "scope": "run", "level": "hard", "remaining": {"tokens": 0}});
    let shown = screen(&[used_up, ended("succeeded", json!({}))]);
    assert!(shown.contains("its budget is used up"), "{shown}");
}

#[test]
fn timeout_while_limited_names_the_limit() {
    let shown = screen(&[
        json!({"kind": "error", "code": "rate_limited", "message": "the provider limits requests", "retryable": true}),
        ended(
            "timed_out",
            json!({"code": "timeout_wall", "message": "the run took longer than allowed"}),
        ),
    ]);
    assert!(
        shown.contains("→ the model's provider was holding the agent back (rate_limited)"),
        "{shown}"
    );
}

#[test]
fn timeout_while_the_provider_fails_names_it() {
    let shown = screen(&[
        json!({"kind": "error", "code": "upstream_error", "message": "the provider answered with an error", "retryable": true}),
        ended("timed_out", json!({"code": "timeout_wall"})),
    ]);
    assert!(shown.contains("→ the model's provider was failing (upstream_error)"), "{shown}");
}

#[test]
fn refused_token_of_a_remote_names_the_flag() {
    let message = "the credentials were refused: auth: it answered 401 Unauthorized";
    let shown = screen(&[ended("failed", json!({"code": "auth_failed", "message": message}))]);
    assert!(shown.contains("→ give the token of the remote with --token-env NAME"), "{shown}");
    let message = format!("{message}; the token in TK was refused");
    let shown = screen(&[ended("failed", json!({"code": "auth_failed", "message": message}))]);
    assert!(shown.contains("→ put a valid token") && !shown.contains("--token-env"), "{shown}");
}
