//! What is said to an agent is said once, or is known not to have been said.

use keeper::plan::StdinMode;
use keeper::record::Kind;
use keeper::wire::{Order, Refusal, Report};

use crate::scene::{FENCE, Scene};

#[test]
fn a_frame_sent_three_times_over_fresh_connections_is_said_once() {
    let mut scene = Scene::sh("cat");
    for n in 1..=20 {
        for _ in 0..3 {
            scene.hang_up();
            scene.dial(FENCE);
            scene.say(n, &format!("frame {n}\n"));
            scene.await_report(|report| *report == Report::SaidAck { n });
        }
    }
    scene.send(Order::CloseStdin { n: 21 });
    let testimony = scene.end();
    let expected: String = (1..=20).map(|n| format!("frame {n}\n")).collect();
    assert_eq!(scene.out(), expected);
    assert_eq!(scene.settled(), (1..=21).map(|n| (Kind::Said, n)).collect::<Vec<_>>());
    assert_eq!(testimony.exit_code, Some(0));
}

#[test]
fn the_first_frame_is_number_zero() {
    let script = "read line; echo got $line";
    let mut scene = Scene::with(script, |plan| plan.first_frame = Some(b"prompt\n".to_vec()));
    scene.await_report(|report| *report == Report::SaidAck { n: 0 });
    scene.end();
    assert_eq!(scene.out(), "got prompt\n");
    assert_eq!(scene.settled(), [(Kind::Said, 0)]);
}

#[test]
fn a_pipe_for_one_prompt_is_closed_behind_it() {
    let bytes = vec![b'x'; 3 << 20];
    for (given, counted) in [(Some(bytes), "3145728\n"), (None, "0\n")] {
        // Without the end of its input `wc` would count for ever.
        let mut scene = Scene::with("wc -c", |plan| {
            plan.stdin = StdinMode::Once;
            plan.first_frame = given.clone();
        });
        scene.end();
        assert_eq!(scene.out(), counted);
    }
}

#[test]
fn a_first_frame_larger_than_any_pipe_arrives_whole() {
    let prompt = "p".repeat(3 << 20);
    let bytes = prompt.clone().into_bytes();
    let mut scene = Scene::with("head -c 3145728 | wc -c", |plan| plan.first_frame = Some(bytes));
    scene.end();
    assert_eq!(scene.out().trim(), "3145728");
}

#[test]
fn closing_stdin_ends_a_cat() {
    let mut scene = Scene::sh("cat; echo done");
    scene.say(1, "hi\n");
    scene.send(Order::CloseStdin { n: 2 });
    let testimony = scene.end();
    assert_eq!(scene.out(), "hi\ndone\n");
    assert!(!testimony.stdin_broken);
}

#[test]
fn a_closed_stdin_is_recorded_and_the_keeper_lives_on() {
    let mut scene = Scene::sh("exec 0<&-; echo closed; sleep 0.3; echo alive");
    scene.read_until_out("closed");
    scene.say(1, "hello?\n");
    scene.await_report(|report| *report == Report::Dropped { n: 1 });
    scene.say(2, "hello?\n");
    scene.await_report(|report| *report == Report::Dropped { n: 2 });
    let testimony = scene.end();
    assert_eq!(scene.out(), "closed\nalive\n");
    let expected = [(Kind::StdinBroken, 0), (Kind::Dropped, 1), (Kind::Dropped, 2)];
    assert_eq!(scene.settled(), expected);
    assert!(testimony.stdin_broken);
    assert_eq!(testimony.exit_code, Some(0));
}

#[test]
fn a_deaf_agent_holds_one_frame_and_stops_nothing() {
    let mut scene = Scene::sh("sleep 60");
    let long = "x".repeat(200 << 10);
    scene.say(1, &long);
    scene.say(2, &long);
    let refused = scene.await_report(|report| !matches!(report, Report::Poke));
    assert_eq!(refused, Report::Refused { n: 2, why: Refusal::Busy });
    scene.hang_up();
    let reply = scene.dial(FENCE);
    assert_eq!((reply.last_said, reply.held), (0, Some(1)));
    scene.stop(0, 0);
    scene.end();
    assert_eq!(scene.settled(), [(Kind::Dropped, 1)]);
}

#[test]
fn a_frame_beyond_the_limit_is_refused() {
    let mut scene = Scene::sh("cat");
    scene.say(1, &"x".repeat((256 << 10) + 1));
    let refused = scene.await_report(|report| !matches!(report, Report::Poke));
    assert_eq!(refused, Report::Refused { n: 1, why: Refusal::TooLong });
    scene.say(1, "short\n");
    scene.await_report(|report| *report == Report::SaidAck { n: 1 });
    scene.stop(0, 0);
    scene.end();
}

#[test]
fn nothing_is_said_to_an_agent_without_stdin() {
    let mut scene = Scene::with("cat; sleep 0.2", |plan| plan.stdin = StdinMode::Null);
    scene.say(1, "hi\n");
    scene.await_report(|report| *report == Report::Dropped { n: 1 });
    assert_eq!(scene.end().exit_code, Some(0));
    assert_eq!(scene.out(), "");
}
