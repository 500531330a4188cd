//! What an agent may hand on to others. How many tasks there may be below one, and how deep, the
//! store checks where it puts them; what they may spend is decided here: what a sub-task is given is
//! taken from what its parent's run has left, and what was given to earlier ones is gone.

use contract::NanoUsd;

/// Sums of money, tokens and time; what has no limit is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purse {
    pub nanousd: Option<NanoUsd>,
    pub tokens: Option<u64>,
    pub ms: Option<u64>,
}

/// Why nothing can be handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Empty {
    /// `dollars`, `tokens` or `time`.
    pub of: &'static str,
}

/// What a sub-task may spend: what was asked for, as far as it is there, else all that is.
pub fn purse(left: Purse, given: &[Purse], asked: Purse) -> Result<Purse, Empty> {
    let gone = |of: fn(&Purse) -> Option<u64>| given.iter().filter_map(of).sum::<u64>();
    let share = |left: Option<u64>, gone: u64, asked: Option<u64>, of: &'static str| {
        let Some(left) = left.map(|left| left.saturating_sub(gone)) else { return Ok(asked) };
        match left {
            0 => Err(Empty { of }),
            left => Ok(Some(asked.map_or(left, |asked| asked.min(left)))),
        }
    };
    let nano = |purse: &Purse| purse.nanousd.map(|nano| u64::try_from(nano.0).unwrap_or(0));
    let nanousd = share(nano(&left), gone(nano), nano(&asked), "dollars")?;
    Ok(Purse {
        nanousd: nanousd.map(|nano| NanoUsd(i64::try_from(nano).unwrap_or(i64::MAX))),
        tokens: share(left.tokens, gone(|purse| purse.tokens), asked.tokens, "tokens")?,
        // Time passes for all at once: what one takes is not taken from another.
        ms: share(left.ms, 0, asked.ms, "time")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(nano: i64) -> Purse {
        Purse { nanousd: Some(NanoUsd(nano)), ..Purse::default() }
    }

    #[test]
    fn what_is_handed_on_is_taken_from_what_is_left() {
        let none = Purse::default();
        let rows = [
            (none, vec![], none, Ok(none)),
            (none, vec![dollars(5)], dollars(3), Ok(dollars(3))),
            (dollars(10), vec![], none, Ok(dollars(10))),
            (dollars(10), vec![], dollars(3), Ok(dollars(3))),
            (dollars(10), vec![], dollars(30), Ok(dollars(10))),
            (dollars(10), vec![dollars(4), dollars(3)], none, Ok(dollars(3))),
            (dollars(10), vec![dollars(4), dollars(6)], dollars(1), Err(Empty { of: "dollars" })),
            (dollars(10), vec![dollars(40)], none, Err(Empty { of: "dollars" })),
        ];
        for (left, given, asked, expected) in rows {
            assert_eq!(purse(left, &given, asked), expected, "{left:?} {given:?} {asked:?}");
        }
        let time = Purse { ms: Some(60), ..Purse::default() };
        assert_eq!(purse(time, &[time, time], none), Ok(time));
        let tokens = Purse { tokens: Some(0), ..Purse::default() };
        assert_eq!(purse(tokens, &[], none), Err(Empty { of: "tokens" }));
    }
}
