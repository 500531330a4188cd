//! Slots of a remote: an `http` adapter may have only so many sessions there at once. How many were
//! open is told by the remote alone, which saw every session asked for and taken away; what waits for a
//! slot otherwise is in `pool.rs`.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler};
use crate::pool::{PLACES, RATIO_MAX, RUNS, get, stood_in_line, until_all_begin};
use crate::remote::{complete, progress};
use serde_json::json;
use testkit::remote::{Remote, Script, Seen, Step, numbered};
use testkit::until;

/// How long a session works, told in comments: long beside what starting it costs.
const COMMENTS: usize = 40;
const PAUSE_MS: u64 = 10;

/// Whether a session was asked for, or taken away.
fn change(seen: &Seen) -> Option<i64> {
    match (seen.method.as_str(), seen.path.as_str()) {
        ("POST", "/v1/sessions") => Some(1),
        ("DELETE", _) => Some(-1),
        _ => None,
    }
}

#[test]
fn forty_runs_share_the_four_sessions_that_a_remote_may_have_at_once() {
    let bytes = b":\n\n".repeat(COMMENTS);
    let work = Step::Dribble { bytes, pause_ms: PAUSE_MS };
    let told = Step::After(numbered(&[progress(1), complete()]));
    let remote = Remote::play(Script::streams(vec![vec![work, told, Step::Hold]]));
    let ostler = Ostler::new();
    let far = json!({
        "type": "http", "baseUrl": remote.url(), "maxConcurrentSessions": PLACES,
        "env": { "OSTLER_REMOTE_START_MS": "30000" },
    });
    ostler.instance.write_config(&json!({ "adapters": { "far": far } }).to_string());
    let door = Door::of(ostler);
    let cwd = door.ostler.instance.work();
    let request = |n: usize| json!({ "agent": "far", "prompt": n.to_string(), "cwd": cwd });
    let asked: Vec<_> = (0..RUNS).map(|n| stood_in_line(&door, request(n))).collect();
    until_all_begin(&door, &asked);
    until("the last session to be taken away", BOUND_MS, || {
        (remote.asked("DELETE").len() == RUNS).then_some(())
    });
    until("the last run to end", BOUND_MS, || {
        (get(&door, "/api/v1/runs?live=true")["items"] == json!([])).then_some(())
    });
    for (_, run) in &asked {
        assert_eq!(get(&door, &format!("/api/v1/runs/{run}"))["outcome"], "succeeded", "{run}");
    }

    // Never more than four, and all four of them, as the remote counted them.
    let seen = remote.seen();
    let changes: Vec<(i64, &Seen)> =
        seen.iter().filter_map(|seen| Some((change(seen)?, seen))).collect();
    let (mut open, mut most) = (0, 0);
    for (change, _) in &changes {
        open += change;
        most = most.max(open);
    }
    assert_eq!((open, most), (0, PLACES as i64));

    // In the order of the questions, but for those who came to life at the same time.
    let begun: Vec<&str> = remote_begun(&changes);
    assert_eq!(begun.len(), RUNS, "each is asked for once");
    for (at, begun) in begun.iter().enumerate() {
        let n = asked.iter().position(|(_, run)| run == begun).expect("a run of ours");
        assert!(at.abs_diff(n) < PLACES, "{n} was the {at}th");
    }

    // What all sessions lasted together, beside the time in which they did.
    let first = changes.iter().map(|(_, seen)| seen.at).min().unwrap();
    let since = |seen: &Seen| seen.at.duration_since(first).as_secs_f64();
    let lasted: f64 = changes.iter().map(|(change, seen)| -*change as f64 * since(seen)).sum();
    let wall = changes.iter().map(|(_, seen)| since(seen)).fold(0.0, f64::max);
    let ratio = wall / (lasted / PLACES as f64);
    eprintln!("{RUNS} sessions in {PLACES} slots: {ratio:.2} times the ideal wall time");
    assert!(ratio < RATIO_MAX, "{ratio}");
}

/// The runs that sessions were asked for, in their order.
fn remote_begun<'a>(changes: &[(i64, &'a Seen)]) -> Vec<&'a str> {
    let begun = changes.iter().filter(|(change, _)| *change > 0);
    begun.filter_map(|(_, seen)| seen.header("idempotency-key")).collect()
}
