//! A full disk holds the agent and nothing else.
//!
//! A limit on the size of the keeper's files stands in for the disk: it can be set and lifted from
//! outside, without privileges, while the keeper runs.

use std::time::{Duration, Instant};

use keeper::plan::LeaseClock;
use keeper::record::Note;
use keeper::wire::Order;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::scene::{FENCE, PATIENCE, Scene};

const ROOM_BYTES: u64 = 50_000;
const LINES: u32 = 50_000;

/// An agent that wants to say more than there is room for.
fn blocked(change: impl FnOnce(&mut keeper::plan::Plan)) -> Scene {
    let scene = Scene::with(&format!("read go; seq 1 {LINES}"), change);
    set_room(&scene, Some(ROOM_BYTES));
    scene.say(1, "go\n");
    let segment = scene.dir().join("0000000000000000.seg");
    let deadline = Instant::now() + PATIENCE;
    while segment.metadata().unwrap().len() < ROOM_BYTES {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(300));
    scene
}

fn set_room(scene: &Scene, bytes: Option<u64>) {
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(Pid::from_child(&scene.keeper)), Resource::Fsize, limit).unwrap();
}

#[test]
fn a_full_disk_holds_the_agent_and_loses_nothing() {
    let mut scene = blocked(|_| {});
    let reply = scene.dial(FENCE);
    assert!(reply.spool_len <= ROOM_BYTES, "an owner is answered though nothing can be written");
    scene.send(Order::Renew { fence: FENCE, deadline_ms: reply.deadline_ms + 1 });
    set_room(&scene, None);
    let testimony = scene.end();
    let expected: String = (1..=LINES).map(|i| format!("{i}\n")).collect();
    assert!(scene.out() == expected);
    assert_eq!(testimony.exit_code, Some(0));
    let notes = scene.notes();
    assert_eq!(notes[0], Note::Owner { fence: FENCE });
    // The room may be seen before the order is.
    let has =
        |wanted: fn(&Note) -> bool| notes[1..].iter().filter(|note| wanted(note)).count() == 1;
    assert!(has(|note| matches!(note, Note::Renewed { .. })), "{notes:?}");
    let returned =
        |note: &Note| matches!(note, Note::RoomReturned { held_ms: 200.., notes_lost: 0 });
    assert!(has(returned), "{notes:?}");
}

#[test]
fn a_stop_works_on_a_full_disk_and_testifies_when_there_is_room() {
    let mut scene = blocked(|_| {});
    scene.stop(0, 0);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(scene.family(), Vec::<i32>::new());
    assert!(scene.keeper.try_wait().unwrap().is_none(), "it waits to testify");
    set_room(&scene, None);
    let testimony = scene.end();
    assert_eq!((testimony.forced, testimony.asked_by.as_deref()), (true, Some("cancelled")));
}

#[test]
fn the_lease_ends_on_a_full_disk_too_and_then_nobody_waits() {
    let clock = LeaseClock::Monotonic;
    let mut scene = blocked(|plan| plan.deadline_ms = clock.now_ms() + 1_500);
    assert!(!scene.keeper.wait().unwrap().success());
    assert_eq!(scene.family(), Vec::<i32>::new());
}
