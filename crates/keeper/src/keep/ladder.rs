//! The stop ladder: farewell, SIGTERM, SIGKILL, each after the grace of the one before.
//!
//! Pure: it is told the time and says which rung is due; `watch.rs` performs it. Graces count
//! while the machine runs, so that an agent which slept with its laptop still has them.

use std::time::{Duration, Instant};

use crate::record::Rung;

/// How long each gentle rung may take. Zero leaves the rung out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    pub farewell_ms: u64,
    pub term_ms: u64,
}

impl Graces {
    /// Straight to SIGKILL.
    pub const NONE: Self = Self { farewell_ms: 0, term_ms: 0 };

    fn shorter(self, other: Self) -> Self {
        Self {
            farewell_ms: self.farewell_ms.min(other.farewell_ms),
            term_ms: self.term_ms.min(other.term_ms),
        }
    }
}

#[derive(Debug, Default)]
pub struct Ladder {
    stop: Option<Stop>,
    rungs: Vec<Rung>,
}

#[derive(Debug)]
struct Stop {
    asked_by: String,
    graces: Graces,
    /// When the next rung is due; `None` if that is too far away to be told.
    until: Option<Instant>,
}

impl Ladder {
    /// Begins a stop, or shortens the one that runs. The first to ask is the one remembered.
    pub fn ask(&mut self, now: Instant, asked_by: &str, graces: Graces) {
        let rung = self.rung();
        let Some(stop) = &mut self.stop else {
            self.stop = Some(Stop { asked_by: asked_by.to_owned(), graces, until: Some(now) });
            return;
        };
        stop.graces = stop.graces.shorter(graces);
        let until = rung.and_then(|rung| end_of(rung, now, stop.graces));
        stop.until = [stop.until, until].into_iter().flatten().min();
    }

    /// The rung whose time has come. Call again until there is none.
    pub fn due(&mut self, now: Instant, can_say_farewell: bool) -> Option<Rung> {
        let rung = self.rung();
        let stop = self.stop.as_mut()?;
        if stop.until.is_none_or(|until| now < until) {
            return None;
        }
        let next = match rung {
            None if can_say_farewell && stop.graces.farewell_ms > 0 => Rung::Farewell,
            None | Some(Rung::Farewell) if stop.graces.term_ms > 0 => Rung::Term,
            None | Some(Rung::Farewell | Rung::Term) => Rung::Kill,
            Some(Rung::Kill) => return None,
        };
        stop.until = end_of(next, now, stop.graces);
        self.rungs.push(next);
        Some(next)
    }

    /// The farewell cannot be heard, so its grace is void.
    pub fn farewell_failed(&mut self, now: Instant) {
        if self.rung() == Some(Rung::Farewell)
            && let Some(stop) = &mut self.stop
        {
            stop.until = Some(now);
        }
    }

    /// When [`due`](Self::due) should be asked next.
    pub fn until(&self) -> Option<Instant> {
        self.stop.as_ref().and_then(|stop| stop.until)
    }

    pub fn asked_by(&self) -> Option<&str> {
        self.stop.as_ref().map(|stop| stop.asked_by.as_str())
    }

    /// The rung reached.
    pub fn rung(&self) -> Option<Rung> {
        self.rungs.last().copied()
    }

    /// All rungs used, in order.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }
}

fn end_of(rung: Rung, now: Instant, graces: Graces) -> Option<Instant> {
    match rung {
        Rung::Farewell => now.checked_add(Duration::from_millis(graces.farewell_ms)),
        Rung::Term => now.checked_add(Duration::from_millis(graces.term_ms)),
        Rung::Kill => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACES: Graces = Graces { farewell_ms: 5_000, term_ms: 15_000 };

    /// Asks at second zero and lists the rungs due at each of `seconds`.
    fn climb(graces: Graces, can_say_farewell: bool, seconds: &[u64]) -> Vec<(u64, Rung)> {
        let start = Instant::now();
        let mut ladder = Ladder::default();
        ladder.ask(start, "test", graces);
        let mut climbed = Vec::new();
        for &second in seconds {
            let now = start + Duration::from_secs(second);
            while let Some(rung) = ladder.due(now, can_say_farewell) {
                climbed.push((second, rung));
            }
        }
        climbed
    }

    #[test]
    fn each_rung_has_its_grace() {
        let climbed = climb(GRACES, true, &[0, 4, 5, 19, 20, 99]);
        assert_eq!(climbed, [(0, Rung::Farewell), (5, Rung::Term), (20, Rung::Kill)]);
    }

    #[test]
    fn a_farewell_that_nobody_can_hear_is_left_out() {
        assert_eq!(climb(GRACES, false, &[0, 14, 15]), [(0, Rung::Term), (15, Rung::Kill)]);
    }

    #[test]
    fn no_grace_means_kill_at_once() {
        assert_eq!(climb(Graces::NONE, true, &[0]), [(0, Rung::Kill)]);
    }

    #[test]
    fn a_second_stop_shortens_and_never_lengthens() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut ladder = Ladder::default();
        ladder.ask(start, "first", GRACES);
        assert_eq!(ladder.due(start, true), Some(Rung::Farewell));
        ladder.ask(after(1), "second", Graces { farewell_ms: 60_000, term_ms: 60_000 });
        assert_eq!(ladder.until(), Some(after(5)));
        ladder.ask(after(2), "third", Graces::NONE);
        assert_eq!(ladder.due(after(2), true), Some(Rung::Kill));
        assert_eq!(ladder.asked_by(), Some("first"));
        assert_eq!(ladder.rungs(), [Rung::Farewell, Rung::Kill]);
    }

    #[test]
    fn a_broken_stdin_ends_the_grace_of_the_farewell() {
        let start = Instant::now();
        let mut ladder = Ladder::default();
        ladder.ask(start, "test", GRACES);
        ladder.due(start, true);
        ladder.farewell_failed(start);
        assert_eq!(ladder.due(start, false), Some(Rung::Term));
    }

    #[test]
    fn an_endless_grace_does_not_overflow() {
        let forever = Graces { farewell_ms: u64::MAX, term_ms: u64::MAX };
        assert_eq!(climb(forever, true, &[0, 1_000_000]), [(0, Rung::Farewell)]);
    }
}
