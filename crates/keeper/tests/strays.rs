//! Letting go of strangers that ended. A program of its own, because the looks see every child of the
//! process, and other tests have children too.

#![allow(clippy::disallowed_methods, reason = "this test starts processes")]

use keeper::strays::{self, Strays};
use rustix::process::Pid;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn is_zombie(child: &Child) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", child.id()))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
}

/// A child that has ended, and that nobody has waited for.
fn zombie() -> Child {
    let child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !is_zombie(&child) {
        assert!(began.elapsed() < Duration::from_secs(20), "it ends by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn a_zombie_that_is_still_there_at_the_second_look_is_let_go_unless_it_is_held() {
    let (mut stray, mut owned) = (zombie(), zombie());
    let hold = strays::hold(Pid::from_child(&owned));
    let mut strays = Strays::default();
    assert_eq!(strays.look(), 0, "its owner may be about to wait for it");
    assert!(is_zombie(&stray));
    assert_eq!(strays.look(), 1);
    assert_eq!(strays.look(), 0);
    assert!(stray.wait().is_err(), "it is gone");
    assert!(is_zombie(&owned), "its owner waits later");
    drop(hold);
    assert!(owned.wait().unwrap().success());
    assert_eq!(strays.look(), 0, "nobody is left");
}
