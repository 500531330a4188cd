//! The stop ladder, the sweep and the lease: nobody gets away.

use std::time::{Duration, Instant};

use keeper::plan::{LeaseClock, StdinMode};
use keeper::record::{Kind, Note};
use keeper::wire::{Order, Refusal, Report};
use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{FENCE, Scene};

/// Leaves its parents twice over, ignores SIGTERM, and closes what could give it away.
const ESCAPE: &str =
    "setsid sh -c 'trap \"\" TERM; (sleep 61 & sleep 62) >/dev/null 2>&1 </dev/null &' &";

#[test]
fn a_farewell_that_is_heeded_needs_no_signal() {
    let script = "read line; echo heard $line; exit 4";
    let mut scene = Scene::with(script, |plan| plan.farewell = Some(b"bye\n".to_vec()));
    scene.stop(10_000, 10_000);
    let testimony = scene.end();
    assert_eq!(scene.out(), "heard bye\n");
    assert_eq!((testimony.exit_code, testimony.forced), (Some(4), false));
    assert_eq!(testimony.asked_by.as_deref(), Some("cancelled"));
    assert_eq!(testimony.rungs, ["farewell"]);
}

#[test]
fn a_changed_farewell_is_the_one_that_is_said() {
    let script = "read line; echo heard $line";
    let mut scene = Scene::with(script, |plan| plan.farewell = Some(b"old\n".to_vec()));
    scene.send(Order::Farewell { bytes: b"new\n".to_vec() });
    scene.stop(10_000, 10_000);
    scene.end();
    assert_eq!(scene.out(), "heard new\n");
}

#[test]
fn an_empty_farewell_closes_stdin() {
    let mut scene = Scene::with("cat; echo done", |plan| plan.farewell = Some(Vec::new()));
    scene.stop(10_000, 10_000);
    let testimony = scene.end();
    assert_eq!(scene.out(), "done\n");
    assert_eq!(testimony.rungs, ["farewell"]);
}

#[test]
fn a_farewell_to_a_closed_stdin_is_skipped_at_once() {
    let script = "exec 0<&-; echo ready; sleep 60 & wait";
    let mut scene = Scene::with(script, |plan| plan.farewell = Some(b"bye\n".to_vec()));
    scene.read_until_out("ready");
    let start = Instant::now();
    scene.stop(10_000, 10_000);
    let testimony = scene.end();
    assert_eq!(testimony.rungs, ["farewell", "term"]);
    assert_eq!(testimony.signal, Some(15));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn sigterm_reaches_the_group_and_those_who_left_it() {
    let script = "
        setsid sh -c 'trap \"echo stray; exit\" TERM; echo up; while :; do sleep 0.02; done' &
        trap 'echo agent; wait; exit 5' TERM; echo up; while :; do sleep 0.02; done";
    let mut scene = Scene::sh(script);
    scene.read_until(|heard| {
        heard.iter().map(|h| h.payload.iter().filter(|b| **b == b'u').count()).sum::<usize>() >= 4
    });
    scene.stop(10_000, 10_000);
    let testimony = scene.end();
    assert!(scene.out().contains("stray\n") && scene.out().contains("agent\n"));
    assert_eq!(testimony.exit_code, Some(5));
    assert_eq!((testimony.rungs, testimony.forced), (vec!["term".to_owned()], false));
}

#[test]
fn who_ignores_sigterm_is_killed_when_the_grace_ends() {
    let mut scene = Scene::sh("trap '' TERM; echo ready; while :; do sleep 0.02; done");
    scene.read_until_out("ready");
    let start = Instant::now();
    scene.stop(10_000, 300);
    let testimony = scene.end();
    assert_eq!(testimony.rungs, ["term", "kill"]);
    assert_eq!((testimony.signal, testimony.forced), (Some(9), true));
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_second_stop_without_graces_kills_at_once() {
    let mut scene = Scene::sh("trap '' TERM; echo ready; while :; do sleep 0.02; done");
    scene.read_until_out("ready");
    let start = Instant::now();
    scene.stop(60_000, 60_000);
    scene.stop(0, 0);
    let testimony = scene.end();
    assert_eq!(testimony.rungs.last().unwrap(), "kill");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn processes_that_left_their_session_are_swept() {
    let script = format!("{}echo ready; sleep 60", ESCAPE.repeat(10));
    let mut scene = Scene::sh(&script);
    scene.read_until_out("ready");
    std::thread::sleep(Duration::from_millis(100));
    assert!(scene.family().len() > 10);
    scene.stop(0, 0);
    let testimony = scene.end();
    assert!(testimony.swept >= 10, "{testimony:?}");
    assert_eq!(scene.family(), Vec::<i32>::new());
}

#[test]
fn processes_left_behind_by_a_natural_end_are_swept() {
    let mut scene = Scene::sh(&format!("{}sleep 0.2", ESCAPE.repeat(3)));
    let testimony = scene.end();
    assert_eq!(testimony.exit_code, Some(0));
    assert!(testimony.swept >= 3, "{testimony:?}");
    assert_eq!(scene.family(), Vec::<i32>::new());
}

#[test]
fn a_family_that_goes_on_forking_is_swept() {
    // Two hundred generations at most, each fleeing from the one before.
    let script = "
        cat >chain <<'END'
        n=$1; [ $n -gt 0 ] || exit; trap '' TERM
        setsid sh chain $((n - 1)) </dev/null >/dev/null 2>&1 &
END
        for i in 1 2 3 4; do sh chain 200 & done; echo ready; sleep 60";
    let mut scene = Scene::sh(script);
    scene.read_until_out("ready");
    scene.stop(0, 0);
    scene.end();
    assert_eq!(scene.family(), Vec::<i32>::new());
}

#[test]
fn the_end_of_the_lease_ends_the_agent() {
    for clock in [LeaseClock::Monotonic, LeaseClock::Boottime] {
        let start = Instant::now();
        let mut scene = Scene::with("echo ready; trap '' TERM; sleep 60", |plan| {
            plan.clock = clock;
            plan.deadline_ms = clock.now_ms() + 400;
        });
        scene.hang_up();
        let testimony = scene.end();
        assert_eq!(testimony.asked_by.as_deref(), Some("lease"));
        assert_eq!((testimony.signal, testimony.forced), (Some(9), true));
        let elapsed = start.elapsed();
        assert!(elapsed >= Duration::from_millis(399) && elapsed < Duration::from_secs(5));
        assert_eq!(scene.family(), Vec::<i32>::new());
    }
}

/// An agent that says what it is told, and lives on.
const STUBBORN: &str = "trap 'echo asked' TERM; echo ready
    while :; do if read line; then echo heard $line; else sleep 0.02; fi; done";

#[test]
fn unrenewed_lease_ends_by_farewell_then_sigterm_then_sigkill() {
    let start = Instant::now();
    let mut scene = Scene::with(STUBBORN, |plan| {
        plan.farewell = Some(b"bye\n".to_vec());
        plan.deadline_ms = LeaseClock::Monotonic.now_ms() + 4_000;
        (plan.lease_farewell_ms, plan.lease_term_ms) = (5_000, 15_000);
    });
    scene.read_until_out("heard");
    let (told, began) = (start.elapsed(), scene.plan.deadline_ms);
    // It begins in the last fifth, and the scene may have needed some time to begin.
    assert!(told >= Duration::from_millis(3_199), "{told:?}");
    let testimony = scene.end();
    assert!(LeaseClock::Monotonic.now_ms() >= began, "not before the deadline");
    assert_eq!(scene.out(), "ready\nheard bye\nasked\n");
    assert_eq!((testimony.signal, testimony.forced), (Some(9), true));
    assert_eq!(testimony.asked_by.as_deref(), Some("lease"));
    assert_eq!(testimony.rungs, ["farewell", "term", "kill"]);
}

#[test]
fn agent_that_obeys_the_farewell_of_its_lease_is_not_killed() {
    let mut scene = Scene::with("read line; echo heard $line; exit 5", |plan| {
        plan.farewell = Some(b"bye\n".to_vec());
        plan.deadline_ms = LeaseClock::Monotonic.now_ms() + 10_000;
        (plan.lease_farewell_ms, plan.lease_term_ms) = (59_000, 1_000);
    });
    let testimony = scene.end();
    assert_eq!(scene.out(), "heard bye\n");
    assert_eq!((testimony.exit_code, testimony.forced), (Some(5), false));
    assert_eq!(testimony.rungs, ["farewell"]);
}

#[test]
fn agent_without_an_open_stdin_is_terminated_at_once() {
    let mut scene = Scene::with("trap 'echo asked; exit 5' TERM; sleep 60 & wait", |plan| {
        plan.stdin = StdinMode::Null;
        plan.deadline_ms = LeaseClock::Monotonic.now_ms() + 4_000;
        (plan.lease_farewell_ms, plan.lease_term_ms) = (5_000, 15_000);
    });
    let testimony = scene.end();
    assert_eq!(scene.out(), "asked\n");
    assert_eq!(testimony.rungs, ["term"]);
}

#[test]
fn renewal_during_the_stop_of_a_lease_does_not_call_it_off() {
    let clock = LeaseClock::Monotonic;
    let mut scene = Scene::with(STUBBORN, |plan| {
        plan.farewell = Some(b"bye\n".to_vec());
        plan.deadline_ms = clock.now_ms() + 4_000;
        (plan.lease_farewell_ms, plan.lease_term_ms) = (5_000, 15_000);
    });
    scene.read_until_out("heard");
    scene.send(Order::Renew { fence: FENCE, deadline_ms: clock.now_ms() + 60_000 });
    let start = Instant::now();
    let testimony = scene.end();
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert_eq!(testimony.asked_by.as_deref(), Some("lease"));
    assert!(!scene.notes().iter().any(|note| matches!(note, Note::Renewed { .. })));
}

#[test]
fn renewal_in_time_puts_the_stop_of_a_lease_off() {
    let clock = LeaseClock::Monotonic;
    let mut scene = Scene::with("read line; echo heard $line", |plan| {
        plan.farewell = Some(b"bye\n".to_vec());
        plan.deadline_ms = clock.now_ms() + 20_000;
        (plan.lease_farewell_ms, plan.lease_term_ms) = (5_000, 15_000);
    });
    // The stop of a short lease begins later, however long the graces of the plan are.
    scene.send(Order::Renew { fence: FENCE, deadline_ms: clock.now_ms() + 2_000 });
    scene.send(Order::Renew { fence: FENCE, deadline_ms: clock.now_ms() + 60_000 });
    scene.say(1, "words\n");
    let testimony = scene.end();
    assert_eq!(scene.out(), "heard words\n");
    assert_eq!(testimony.asked_by, None);
}

#[test]
fn holder_of_a_remote_may_outlive_a_short_lease_by_its_overrun() {
    let script =
        "read line; echo heard $line; trap 'sleep 1; echo asked; exit 5' TERM; sleep 60 & wait";
    let mut scene = Scene::with(script, |plan| {
        plan.farewell = Some(b"bye\n".to_vec());
        plan.deadline_ms = LeaseClock::Monotonic.now_ms() + 500;
        (plan.lease_farewell_ms, plan.lease_term_ms) = (500, 30_000);
        plan.lease_overrun_ms = 30_500;
    });
    let testimony = scene.end();
    assert_eq!(scene.out(), "heard bye\nasked\n");
    assert_eq!((testimony.exit_code, testimony.forced), (Some(5), false));
    assert_eq!(testimony.asked_by.as_deref(), Some("lease"));
    assert_eq!(testimony.rungs, ["farewell", "term"]);
}

#[test]
fn a_renewed_lease_lasts_longer_and_a_lower_fence_renews_nothing() {
    let clock = LeaseClock::Monotonic;
    let mut scene =
        Scene::with("sleep 0.8; echo done", |plan| plan.deadline_ms = clock.now_ms() + 400);
    let deadline_ms = clock.now_ms() + 30_000;
    scene.send(Order::Renew { fence: FENCE - 1, deadline_ms });
    let refused = scene.await_report(|report| !matches!(report, Report::Poke));
    assert_eq!(refused, Report::Refused { n: 0, why: Refusal::Fence });
    scene.send(Order::Renew { fence: FENCE, deadline_ms });
    let testimony = scene.end();
    assert_eq!((scene.out().as_str(), testimony.asked_by), ("done\n", None));
    assert_eq!(scene.notes(), [Note::Renewed { fence: FENCE, deadline_ms }]);
}

#[test]
fn a_lease_that_is_over_before_it_begins_still_ends_in_order() {
    let mut scene = Scene::with("echo started; sleep 60", |plan| plan.deadline_ms = 0);
    let testimony = scene.end();
    assert_eq!(testimony.asked_by.as_deref(), Some("lease"));
    assert_eq!((scene.out().as_str(), testimony.signal), ("", None), "and no agent is started");
}

#[test]
fn sigterm_to_the_keeper_stops_the_agent_in_order() {
    let script = "trap 'echo bye; exit 6' TERM; echo ready; while :; do sleep 0.02; done";
    let mut scene = Scene::with(script, |plan| plan.term_ms = 10_000);
    scene.read_until_out("ready");
    kill_process(Pid::from_child(&scene.keeper), Signal::TERM).unwrap();
    let testimony = scene.end();
    assert_eq!(scene.out(), "ready\nbye\n");
    assert_eq!(testimony.asked_by.as_deref(), Some("signal"));
    assert_eq!(testimony.exit_code, Some(6));
}

#[test]
fn a_killed_keeper_takes_its_agent_along_and_leaves_a_torn_spool() {
    let mut scene = Scene::sh("echo ready; exec sleep 60");
    scene.read_until_out("ready");
    scene.keeper.kill().unwrap();
    scene.keeper.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while !scene.family().is_empty() {
        assert!(Instant::now() < deadline, "the agent lives on");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!keeper::door::is_alive(&scene.dir()));
    assert!(scene.heard.iter().all(|record| record.kind != Kind::Exit));
}
