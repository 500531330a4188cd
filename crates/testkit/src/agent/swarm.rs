//! Families that grow by themselves: while they are being killed, or as a bomb.
//!
//! Every process of a swarm takes a number from one shared counter before it starts another, and
//! no number above the cap starts anything: however the swarm is killed, cut short or misjudged,
//! it is never more than `SWARM_MAX`. The counter is a file in the working directory, one byte for
//! each number; an append and the place it ended at are one step for the kernel, so no number is
//! given twice.

use crate::agent::{LIFE_MS_MAX, escape, witness};
use rustix::process::setsid;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

/// What the generations of a swarm are called in the words of `escape.rs`.
pub const WORD: &str = "swarm";
/// The most processes of one swarm, those that are gone already included.
pub const SWARM_MAX: u32 = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// One that starts a child every millisecond, and one that starts its successor and is gone, so
    /// that whoever makes a list of them has an old one.
    WhileKilled,
    /// Each starts two.
    Bomb,
}

/// Lets a swarm loose and returns when its first processes live.
pub fn start(growth: Growth, cap: u32) {
    let counter = std::path::absolute(format!(".swarm-{}", witness::run()));
    let counter = counter.expect("there is a working directory").display().to_string();
    let cap = cap.min(SWARM_MAX).to_string();
    let firsts: &[&str] = match growth {
        Growth::WhileKilled => &["breed", "chain"],
        Growth::Bomb => &["bomb"],
    };
    for first in firsts {
        if take(&counter, &cap)
            && let Ok(mut child) = escape::spawn(&[WORD, first, &counter, &cap], Stdio::null())
        {
            escape::wait_ready(&mut child);
        }
    }
}

/// The life of one of them.
pub fn live(words: &[&str]) -> ExitCode {
    let [how, counter, cap] = *words else { return ExitCode::FAILURE };
    // A session of its own, so that no signal to a group reaches it.
    let _ = setsid();
    witness::note(WORD);
    escape::tell_ready();
    let start = |how| escape::spawn(&[WORD, how, counter, cap], Stdio::null()).is_ok();
    // Where there is no process to be had it asks until there is one: whoever is killed makes room.
    let insist = |how| {
        take(counter, cap)
            && (0..LIFE_MS_MAX).any(|_| {
                let started = start(how);
                std::thread::sleep(Duration::from_millis(1));
                started
            })
    };
    match how {
        "breed" => while insist("rest") {},
        "chain" if insist("chain") => return ExitCode::SUCCESS,
        "bomb" => {
            let _ = (0..2).all(|_| take(counter, cap) && start("bomb"));
        }
        _ => {}
    }
    escape::sleep_for_life();
    ExitCode::SUCCESS
}

/// Whether there is a number left.
fn take(counter: &str, cap: &str) -> bool {
    let cap: u64 = cap.parse().unwrap_or(0);
    let number = || -> io::Result<u64> {
        let mut file = File::options().append(true).create(true).open(counter)?;
        file.write_all(b".")?;
        file.stream_position()
    };
    number().is_ok_and(|number| number <= cap.min(u64::from(SWARM_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_above_the_cap_is_given_however_many_ask() {
        let dir = tempfile::tempdir().unwrap();
        let counter = dir.path().join("counter").display().to_string();
        let given = std::thread::scope(|scope| {
            let askers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..100).filter(|_| take(&counter, "100")).count()))
                .collect();
            askers.into_iter().map(|asker| asker.join().unwrap()).sum::<usize>()
        });
        assert_eq!(given, 100);
        let much = dir.path().join("much").display().to_string();
        let given = (0..2 * SWARM_MAX).filter(|_| take(&much, "99999")).count();
        assert_eq!(given, SWARM_MAX as usize, "no wish lifts the cap of the house");
    }
}
