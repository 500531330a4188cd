//! Which task is started next. Of every agent the first one is looked at, by its priority and then by
//! its arrival; an agent that has all its hands full is passed over, and so is one that could not be
//! started a moment ago. What else holds a task back is asked of the gates (`hold.rs`), and the claim
//! itself asks the store: this rule only says whom to try.

/// The first task of an agent, as far as this rule needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct First<'a> {
    pub agent: &'a str,
    /// What is higher goes first.
    pub priority: i32,
    /// The order of arrival.
    pub num: u64,
    pub room: Room,
}

/// How many places are taken, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub taken: u64,
    pub places: u64,
}

impl Room {
    pub fn is_full(self) -> bool {
        self.taken >= self.places
    }
}

/// The place in the list of whoever is to be tried; `passed` are agents that were, in vain.
pub fn next(firsts: &[First<'_>], passed: &[String]) -> Option<usize> {
    let may = |first: &First<'_>| {
        !first.room.is_full() && !passed.iter().any(|agent| agent == first.agent)
    };
    let open = firsts.iter().enumerate().filter(|(_, first)| may(first));
    open.min_by_key(|(_, first)| (std::cmp::Reverse(first.priority), first.num)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(agent: &str, priority: i32, num: u64, taken: u64) -> First<'_> {
        First { agent, priority, num, room: Room { taken, places: 2 } }
    }

    #[test]
    fn priority_goes_before_arrival_and_a_full_agent_is_passed_over() {
        let rows: &[(&[First<'_>], &[&str], Option<usize>)] = &[
            (&[], &[], None),
            (&[first("a", 0, 2, 0), first("b", 0, 1, 0)], &[], Some(1)),
            (&[first("a", 1, 2, 0), first("b", 0, 1, 0)], &[], Some(0)),
            (&[first("a", -1, 1, 0), first("b", 0, 2, 0)], &[], Some(1)),
            (&[first("a", 9, 1, 2), first("b", 0, 2, 1)], &[], Some(1)),
            (&[first("a", 9, 1, 3)], &[], None),
            (&[first("a", 9, 1, 0), first("b", 0, 2, 0)], &["a"], Some(1)),
            (&[first("a", 9, 1, 0), first("b", 0, 2, 0)], &["a", "b"], None),
        ];
        for (firsts, passed, expected) in rows {
            let passed: Vec<String> = passed.iter().map(|agent| (*agent).to_owned()).collect();
            assert_eq!(next(firsts, &passed), *expected, "{firsts:?} {passed:?}");
        }
    }
}
