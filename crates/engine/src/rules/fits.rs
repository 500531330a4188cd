//! Who takes a task that names nobody. An agent fits when its adapter is in order, it can be held to
//! its policy, and nothing holds it back: it is not paused, its directory is free, its account is not
//! limited. Of those that fit and have a hand free, whoever has the fewest runs takes it, and of two
//! that have as many the first by name. Whoever has taken a task keeps it.

use super::claimable::Room;
use super::hold::Hold;
use contract::Code;
use contract::state::WaitingFor;
use std::fmt::Write as _;

/// How long after a run that ended with its adapter's trouble nothing is handed to that adapter
/// unasked.
pub const TROUBLE_MS: u64 = 30 * 60_000;
/// How many are named when nobody fits.
const NAMED_MAX: usize = 3;

/// An agent that could take a task, as far as this rule needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer<'a> {
    pub agent: &'a str,
    /// Its runs, and how many it may have.
    pub room: Room,
    /// The runs of its adapter, where that has only so many slots.
    pub slots: Option<Room>,
    /// What is wrong with its adapter.
    pub trouble: Option<String>,
    /// Why it cannot be held to its policy.
    pub policy: Option<String>,
    /// What holds it back: it is paused, someone works there, its account or a budget is used up.
    pub hold: Option<Hold>,
}

/// Who takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The one at this place of the list.
    Takes(usize),
    /// Some fit, and all of them have their hands full.
    Busy,
    Nobody(Hold),
}

impl Offer<'_> {
    pub fn fits(&self) -> bool {
        self.is_sound() && self.hold.is_none()
    }

    /// Whether only its hold can keep it, which passes by itself.
    fn is_sound(&self) -> bool {
        self.trouble.is_none() && self.policy.is_none()
    }

    fn is_full(&self) -> bool {
        self.room.is_full() || self.slots.is_some_and(Room::is_full)
    }

    /// Why it does not fit, in words.
    fn why_not(&self) -> Option<&str> {
        let held = self.hold.as_ref().map(|hold| hold.note.as_str());
        self.trouble.as_deref().or(self.policy.as_deref()).or(held)
    }
}

/// Whether a run that ended so says of its adapter that it is not in order: its program, its login or
/// its remote is missing. The table of faults has one exit status for each of these.
pub fn tells_of_trouble(code: Code) -> bool {
    matches!(code.row().exit, 4 | 5 | 11)
}

pub fn choose(offers: &[Offer<'_>]) -> Choice {
    let mut fitting = offers.iter().enumerate().filter(|(_, offer)| offer.fits()).peekable();
    if fitting.peek().is_none() {
        return Choice::Nobody(nobody(offers));
    }
    let free = fitting.filter(|(_, offer)| !offer.is_full());
    let first = free.min_by_key(|(_, offer)| (offer.room.taken, offer.agent));
    first.map_or(Choice::Busy, |(at, _)| Choice::Takes(at))
}

/// For what a task waits that nobody fits. What all of them wait for, if it is one thing, and until
/// the first of their times; without a time as soon as one of them has none.
fn nobody(offers: &[Offer<'_>]) -> Hold {
    let held = || offers.iter().map(|offer| offer.hold.as_ref().filter(|_| offer.is_sound()));
    let first = held().flatten().map(|hold| hold.why).next();
    let same = first.filter(|why| held().flatten().all(|hold| hold.why == *why));
    let timed = held().flatten().all(|hold| hold.until.is_some());
    let until = held().flatten().filter_map(|hold| hold.until).min().filter(|_| timed);
    let mut note = "no agent fits".to_owned();
    let mut said = offers.iter().filter_map(|offer| Some((offer.agent, offer.why_not()?)));
    for (agent, why) in said.by_ref().take(NAMED_MAX) {
        let _ = write!(note, "; {agent}: {why}");
    }
    match said.count() {
        0 if offers.is_empty() => note.push_str(": no agents are hired"),
        0 => {}
        more => {
            let _ = write!(note, "; and {more} more");
        }
    }
    // What is the task's own to one of them is so to whoever would have taken it.
    let of = held().flatten().find_map(|hold| hold.of);
    Hold { why: same.unwrap_or(WaitingFor::Agent), until, note, of }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Timestamp;

    fn offer(agent: &str, taken: u64) -> Offer<'_> {
        let room = Room { taken, places: 3 };
        Offer { agent, room, slots: None, trouble: None, policy: None, hold: None }
    }

    fn troubled(agent: &str) -> Offer<'_> {
        Offer { trouble: Some("its program is gone".to_owned()), ..offer(agent, 0) }
    }

    fn unheld(agent: &str) -> Offer<'_> {
        Offer { policy: Some("it cannot be held to ask".to_owned()), ..offer(agent, 0) }
    }

    fn held(agent: &str, why: WaitingFor, until: Option<i64>) -> Offer<'_> {
        let hold = Hold { why, until: until.map(Timestamp), note: format!("{why:?}"), of: None };
        Offer { hold: Some(hold), ..offer(agent, 0) }
    }

    fn crowded(agent: &str) -> Offer<'_> {
        Offer { slots: Some(Room { taken: 2, places: 2 }), ..offer(agent, 0) }
    }

    #[test]
    fn of_those_that_fit_the_least_busy_takes_it_and_then_the_first_by_name() {
        let quota = WaitingFor::Quota;
        let rows: Vec<(Vec<Offer<'_>>, Choice)> = vec![
            (vec![offer("b", 0), offer("a", 0)], Choice::Takes(1)),
            (vec![offer("b", 0), offer("a", 1)], Choice::Takes(0)),
            (vec![troubled("a"), offer("b", 2)], Choice::Takes(1)),
            (vec![unheld("a"), offer("b", 2)], Choice::Takes(1)),
            (vec![held("a", quota, Some(9)), offer("b", 2)], Choice::Takes(1)),
            (vec![held("a", WaitingFor::Workspace, None), offer("b", 2)], Choice::Takes(1)),
            (vec![crowded("a"), offer("b", 2)], Choice::Takes(1)),
            (vec![offer("a", 3), troubled("b")], Choice::Busy),
            (vec![crowded("a"), held("b", quota, Some(9))], Choice::Busy),
        ];
        for (offers, expected) in rows {
            assert_eq!(choose(&offers), expected, "{offers:?}");
        }
    }

    #[test]
    fn where_nobody_fits_it_is_said_for_what_and_until_when() {
        use WaitingFor::{Agent, Quota, Workspace};
        let rows: Vec<(Vec<Offer<'_>>, WaitingFor, Option<i64>, &str)> = vec![
            (vec![], Agent, None, "no agent fits: no agents are hired"),
            (vec![troubled("a")], Agent, None, "no agent fits; a: its program is gone"),
            (
                vec![held("a", Quota, Some(9)), held("b", Quota, Some(5)), troubled("c")],
                Quota,
                Some(5),
                "no agent fits; a: Quota; b: Quota; c: its program is gone",
            ),
            (
                vec![held("a", Quota, Some(9)), held("b", Workspace, None)],
                Agent,
                None,
                "no agent fits; a: Quota; b: Workspace",
            ),
            (
                vec![unheld("a"), unheld("b"), unheld("c"), unheld("d"), unheld("e")],
                Agent,
                None,
                "no agent fits; a: it cannot be held to ask; b: it cannot be held to ask; \
                 c: it cannot be held to ask; and 2 more",
            ),
        ];
        for (offers, why, until, note) in rows {
            let hold = Hold { why, until: until.map(Timestamp), note: note.to_owned(), of: None };
            assert_eq!(choose(&offers), Choice::Nobody(hold), "{offers:?}");
        }
    }

    #[test]
    fn a_missing_program_login_or_remote_tells_of_trouble_and_a_bad_answer_does_not() {
        for code in [Code::NotInstalled, Code::AuthFailed, Code::Billing, Code::RemoteUnavailable] {
            assert!(tells_of_trouble(code), "{code}");
        }
        for code in
            [Code::AgentFailed, Code::ProviderQuota, Code::ProcessCrashed, Code::TimeoutWall]
        {
            assert!(!tells_of_trouble(code), "{code}");
        }
    }
}
