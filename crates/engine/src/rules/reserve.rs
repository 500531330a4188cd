//! Whether a run may start under a shared budget. What a run may spend is reserved before it
//! starts and given back when it is settled, so runs side by side cannot spend the same dollar.
//! The store asks inside the transaction that writes the reservation.

use contract::NanoUsd;

/// An amount of each unit; `None` is no limit, or nothing said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    pub nanousd: Option<NanoUsd>,
    pub tokens: Option<u64>,
}

/// What a scope has already spent and what its live runs hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    pub nanousd: NanoUsd,
    pub tokens: u64,
}

/// Which unit does not suffice, and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("asked for {asked} nano-dollars of a budget with {left} left")]
    NanoUsd { asked: i64, left: i64 },
    #[error("asked for {asked} tokens of a budget with {left} left")]
    Tokens { asked: u64, left: u64 },
}

/// What is to be reserved. A run that names no amount of a limited unit reserves all that is left:
/// it might spend it. Where the scope has no limit, what the run asks for is reserved as it is.
pub fn reserve(limit: Amount, used: Used, ask: Amount) -> Result<Amount, Refusal> {
    let nanousd = match limit.nanousd {
        None => ask.nanousd,
        Some(limit) => {
            let left = limit.saturating_sub(used.nanousd).max(NanoUsd(0));
            let asked = ask.nanousd.unwrap_or(left);
            if left == NanoUsd(0) || asked > left {
                return Err(Refusal::NanoUsd { asked: asked.0, left: left.0 });
            }
            Some(asked)
        }
    };
    let tokens = match limit.tokens {
        None => ask.tokens,
        Some(limit) => {
            let left = limit.saturating_sub(used.tokens);
            let asked = ask.tokens.unwrap_or(left);
            if left == 0 || asked > left {
                return Err(Refusal::Tokens { asked, left });
            }
            Some(asked)
        }
    };
    Ok(Amount { nanousd, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Amount = Amount { nanousd: None, tokens: None };

    fn usd(nanousd: i64) -> Amount {
        Amount { nanousd: Some(NanoUsd(nanousd)), tokens: None }
    }

    fn tokens(tokens: u64) -> Amount {
        Amount { nanousd: None, tokens: Some(tokens) }
    }

    #[test]
    fn a_reservation_fits_what_is_left_or_is_refused() {
        let used = Used { nanousd: NanoUsd(40), tokens: 400 };
        let rows = [
            ("no limit, no wish", NONE, NONE, Ok(NONE)),
            ("no limit keeps the wish", NONE, usd(7), Ok(usd(7))),
            ("it fits", usd(100), usd(60), Ok(usd(60))),
            ("one too many", usd(100), usd(61), Err(Refusal::NanoUsd { asked: 61, left: 60 })),
            ("no wish takes the rest", usd(100), NONE, Ok(usd(60))),
            ("nothing left", usd(40), NONE, Err(Refusal::NanoUsd { asked: 0, left: 0 })),
            ("overspent", usd(30), usd(1), Err(Refusal::NanoUsd { asked: 1, left: 0 })),
            ("tokens fit", tokens(500), tokens(100), Ok(tokens(100))),
            (
                "tokens do not",
                tokens(500),
                tokens(101),
                Err(Refusal::Tokens { asked: 101, left: 100 }),
            ),
            ("no tokens left", tokens(400), NONE, Err(Refusal::Tokens { asked: 0, left: 0 })),
        ];
        for (why, limit, ask, expected) in rows {
            assert_eq!(reserve(limit, used, ask), expected, "{why}");
        }
    }
}
