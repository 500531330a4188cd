//! Requests whose token is not good here: how many came from each address, and what is told of them.
//! Whoever fails too often within a minute is told to wait instead of why, and is not written down any
//! more. A good token is never refused here, so nobody can shut the owner out by failing in the
//! owner's name; what the count bounds is noise, for 256 bits are not found by trying.

use contract::limits::{REFUSED_ADDRESSES_MAX, REFUSED_MAX, REFUSED_MS, REFUSED_TOLD_MAX};
use contract::{Code, Fault};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

/// Who failed how often. Bounded: addresses beyond the limit are counted as one.
#[derive(Default)]
pub struct Refused {
    counts: Mutex<HashMap<IpAddr, Count>>,
}

struct Count {
    since_ms: u64,
    refused: u32,
}

/// What becomes of one refusal.
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is written down.
    pub told: bool,
    /// How often this address failed before, in the minute that began with its first failure.
    pub before: u32,
}

/// Stands for all addresses that there was no room for.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Refused {
    /// Counts one more from this address.
    pub fn count(&self, now_ms: u64, address: IpAddr) -> Verdict {
        // Whatever panicked, each count is whole.
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |count: &Count| now_ms.saturating_sub(count.since_ms) >= REFUSED_MS;
        if !counts.contains_key(&address) && counts.len() >= REFUSED_ADDRESSES_MAX {
            counts.retain(|_, count| !is_over(count));
        }
        let known = counts.contains_key(&address) || counts.len() < REFUSED_ADDRESSES_MAX;
        let address = if known { address } else { OTHERS };
        let count = counts.entry(address).or_insert(Count { since_ms: now_ms, refused: 0 });
        if is_over(count) {
            *count = Count { since_ms: now_ms, refused: 0 };
        }
        let before = count.refused;
        count.refused = before.saturating_add(1);
        Verdict { told: before < REFUSED_TOLD_MAX, before }
    }
}

impl Verdict {
    /// The fault to answer with: the reason, or that there were too many.
    pub fn fault(&self, reason: Fault) -> Fault {
        match self.before < REFUSED_MAX {
            true => reason,
            false => {
                let message =
                    format!("more than {REFUSED_MAX} requests came without a valid token");
                Fault::new(Code::RateLimited, message).with_hint(
                    "wait a minute, then send a valid \
                 token",
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn reason() -> Fault {
        Fault::new(Code::Unauthorized, "no")
    }

    #[test]
    fn after_so_many_failures_an_address_is_told_to_wait_until_its_minute_is_over() {
        let refused = Refused::default();
        for before in 0..REFUSED_MAX {
            let verdict = refused.count(u64::from(before), ME);
            assert_eq!(verdict.fault(reason()).code, Code::Unauthorized);
            assert_eq!(verdict.told, before < REFUSED_TOLD_MAX);
        }
        let verdict = refused.count(REFUSED_MS - 1, ME);
        assert_eq!((verdict.fault(reason()).code, verdict.told), (Code::RateLimited, false));
        let other = refused.count(REFUSED_MS - 1, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));
        assert_eq!(other, Verdict { told: true, before: 0 }, "it has a count of its own");
        assert_eq!(refused.count(REFUSED_MS, ME), Verdict { told: true, before: 0 });
    }

    #[test]
    fn addresses_without_end_take_no_room_without_end() {
        let refused = Refused::default();
        for n in 1..10_000u32 {
            refused.count(0, IpAddr::V4(Ipv4Addr::from_bits((127 << 24) + n)));
        }
        let held = || refused.counts.lock().unwrap().len();
        assert_eq!(held(), REFUSED_ADDRESSES_MAX + 1, "and one for all the others");
        assert_eq!(refused.count(0, IpAddr::V4(Ipv4Addr::from_bits(1))).fault(reason()).code, {
            Code::RateLimited
        });
        refused.count(REFUSED_MS, IpAddr::V4(Ipv4Addr::from_bits(2)));
        assert_eq!(held(), 1, "those whose minute is over make room");
    }
}
