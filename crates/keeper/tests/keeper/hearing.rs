//! What an agent says reaches the spool, all of it and in order.

use keeper::record::{Isolation, Kind, Note};
use keeper::spool::drop_before;

use crate::scene::{FENCE, Scene};

#[test]
fn both_streams_come_back_as_they_were_written() {
    let mut scene = Scene::sh("for i in 1 2 3; do echo out $i; echo err $i >&2; done; exit 3");
    let testimony = scene.end();
    assert_eq!(scene.out(), "out 1\nout 2\nout 3\n");
    assert_eq!(scene.err(), "err 1\nerr 2\nerr 3\n");
    assert_eq!((testimony.exit_code, testimony.signal), (Some(3), None));
    assert_eq!((testimony.asked_by, testimony.rungs.len(), testimony.swept), (None, 0, 0));
}

#[test]
fn the_first_record_tells_who_is_who() {
    let mut scene = Scene::sh("echo $$");
    scene.end();
    let begin = scene.begin();
    assert_eq!(begin.agent_pid, scene.hello.agent_pid);
    assert_eq!(scene.out().trim(), begin.agent_pid.unwrap().to_string());
    assert_eq!(begin.keeper_pid, scene.keeper.id() as i32);
    assert_eq!((begin.fence, begin.isolation), (FENCE, Isolation::Basic));
    assert!(begin.agent_start_ticks >= begin.keeper_start_ticks);
}

#[test]
fn many_segments_are_one_spool() {
    let mut scene = Scene::with("seq 1 200000", |plan| plan.segment_bytes = 100_000);
    scene.end();
    let expected: String = (1..=200_000).map(|i| format!("{i}\n")).collect();
    assert!(scene.out() == expected);
    assert!(drop_before(&scene.dir(), u64::MAX).unwrap() > 1_000_000);
}

#[test]
fn a_grandchild_that_holds_stdout_is_heard_for_the_drain_and_then_swept() {
    let script = "(trap '' TERM; while :; do echo late; sleep 0.05; done) & echo mine";
    let mut scene = Scene::sh(script);
    let testimony = scene.end();
    assert_eq!(testimony.exit_code, Some(0));
    assert!(testimony.swept >= 1, "{testimony:?}");
    let late = scene.out().matches("late").count();
    assert!((1..20).contains(&late), "{late} late lines in a drain of 200 ms");
    assert_eq!(scene.family(), Vec::<i32>::new());
}

#[test]
fn output_beyond_the_limit_stops_the_agent() {
    let mut scene = Scene::with("yes", |plan| plan.output_bytes_max = 100_000);
    let testimony = scene.end();
    assert_eq!(testimony.asked_by.as_deref(), Some("output_limit"));
    let heard = scene.out().len();
    assert!((100_001..100_001 + (2 << 20)).contains(&heard), "{heard}");
    assert!(scene.notes().iter().any(|note| matches!(note, Note::OutputLimit { .. })));
}

#[test]
fn an_agent_told_to_be_quiet_may_not_fill_the_disk_with_its_last_words() {
    let script = "trap '' TERM; yes";
    let mut scene = Scene::with(script, |plan| {
        plan.output_bytes_max = 100_000;
        plan.term_ms = 300;
    });
    let testimony = scene.end();
    assert_eq!(testimony.rungs, ["term", "kill"]);
    assert!(scene.out().len() <= 100_000 + (1 << 20));
    assert!(matches!(scene.notes().last(), Some(Note::Discarded { .. })));
}

#[test]
fn silence_costs_no_records() {
    let mut scene = Scene::sh("sleep 0.1");
    scene.end();
    let kinds: Vec<_> = scene.heard.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [Kind::Begin, Kind::Exit]);
}
