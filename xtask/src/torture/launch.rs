//! Runs that were never launched. A host that dies between making a run and handing it to its keeper
//! leaves one that nobody may launch blindly, so it ends as lost, and says so. That is honest where
//! nobody was told of it, and where its host died at once after telling; a host that lived on owed
//! the agent. Decided here over what is known, and nothing is asked.

use contract::Timestamp;
use serde_json::Value;

/// How long a run that was acknowledged may be without its agent. Launching is begun before the answer
/// is sent; the rest is for a machine that gives nobody a turn.
pub const LAUNCH_MAX_MS: i64 = 2_000;

/// Those of a torture that were never launched, and that nobody harmed otherwise.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Unlaunched {
    /// Someone had been told that they are there.
    pub acknowledged: usize,
    pub unacknowledged: usize,
    /// The longest that the host of one that was acknowledged lived on.
    pub longest_ms: i64,
}

impl Unlaunched {
    pub fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.unacknowledged += other.unacknowledged;
        self.longest_ms = self.longest_ms.max(other.longest_ms);
    }
}

/// Whether a run ended as lost before it had an agent.
pub fn is_unlaunched(events: &[Value]) -> bool {
    let result = events.last().cloned().unwrap_or_default();
    let begun = |event: &Value| event["origin"] == "agent" || event["phase"] == "running";
    result["outcome"] == "lost" && result["code"] == "process_lost" && !events.iter().any(begun)
}

/// How someone was told of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It was asked for at one moment and answered at another. A host that takes over runs answers once
    /// it has taken over this one, so the run may have ended in between.
    Started { asked: i64, answered: i64 },
    /// It is the queue's, and was listed when someone looked at this moment.
    Listed(i64),
}

/// Counts a run that was never launched, and says what does not hold of it.
pub fn judge(
    events: &[Value],
    told: Option<Told>,
    kills: &[i64],
    count: &mut Unlaunched,
) -> Option<String> {
    let moment = |event: Option<&Value>| {
        serde_json::from_value(event?["ts"].clone()).ok().map(Timestamp::ms)
    };
    let (begun, ended) = (moment(events.first())?, moment(events.last())?);
    // The host that answered lived when it was asked, and the one that began the run by then: the
    // first kill afterwards is the one that struck. One of the queue may be listed by a later host.
    let since = match told {
        Some(Told::Started { asked, answered }) if answered < ended => asked.max(begun),
        Some(Told::Listed(looked)) if looked < ended => begun,
        // When someone was told of it, it said already how it had ended.
        Some(_) | None => {
            count.unacknowledged += 1;
            return None;
        }
    };
    count.acknowledged += 1;
    let struck = kills.iter().filter(|kill| **kill >= since).min();
    let Some(after) = struck.map(|kill| kill - since) else {
        return Some("a run that was acknowledged is launched: no host died after that".to_owned());
    };
    count.longest_ms = count.longest_ms.max(after);
    (after > LAUNCH_MAX_MS)
        .then(|| format!("a run that was acknowledged is launched: its host had {after} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const BEGUN: i64 = 10_000;
    const ENDED: i64 = 20_000;
    const ASKED: Option<Told> = Some(Told::Started { asked: BEGUN - 5, answered: BEGUN + 5 });

    fn said(told: Option<Told>, kills: &[i64]) -> (Option<String>, Unlaunched) {
        let mut count = Unlaunched::default();
        let events = [json!({ "ts": Timestamp(BEGUN) }), json!({ "ts": Timestamp(ENDED) })];
        (judge(&events, told, kills, &mut count), count)
    }

    #[test]
    fn a_run_whose_host_died_at_once_is_excused_and_counted() {
        let (acknowledged, longest_ms) = (1, 7);
        let count = Unlaunched { acknowledged, longest_ms, ..Unlaunched::default() };
        let kills = [90, BEGUN + 7, BEGUN + 9_000];
        assert_eq!(said(ASKED, &kills), (None, count));
        // It had been struck when a later host listed it.
        assert_eq!(said(Some(Told::Listed(BEGUN + 5_000)), &kills), (None, count));
        let count = Unlaunched { unacknowledged: 1, ..Unlaunched::default() };
        let late = Told::Started { asked: BEGUN + 5, answered: ENDED };
        let ends = [Told::Listed(ENDED), late].map(Some);
        for told in ends.into_iter().chain([None]) {
            assert_eq!(said(told, &[]), (None, count), "{told:?}");
        }
    }

    #[test]
    fn a_run_whose_host_lived_on_is_not_excused() {
        let late = BEGUN + LAUNCH_MAX_MS;
        assert_eq!(said(ASKED, &[late]).0, None);
        // It was asked for again, and the host that answered lived on.
        let again = Some(Told::Started { asked: BEGUN + 3_000, answered: BEGUN + 3_001 });
        for (told, kills, words) in [
            (ASKED, &[late + 1][..], "its host had 2001 ms"),
            (ASKED, &[BEGUN - 1], "no host died after that"),
            (ASKED, &[], "no host died after that"),
            (Some(Told::Listed(BEGUN + 1)), &[], "no host died after that"),
            (again, &[BEGUN + 7, BEGUN + 9_000], "its host had 6000 ms"),
        ] {
            let (said, count) = said(told, kills);
            assert!(said.is_some_and(|said| said.ends_with(words)), "{kills:?}");
            assert_eq!(count.acknowledged, 1);
        }
    }

    #[test]
    fn only_a_run_that_was_lost_without_an_agent_was_never_launched() {
        let begun = json!({ "kind": "lifecycle", "phase": "running" });
        let spoke = json!({ "kind": "log", "origin": "agent" });
        let lost = json!({ "kind": "result", "outcome": "lost", "code": "process_lost" });
        let failed = json!({ "kind": "result", "outcome": "failed", "code": "process_crashed" });
        let asked = json!({ "kind": "user_text", "origin": "operator" });
        assert!(is_unlaunched(&[asked.clone(), lost.clone()]));
        for events in [
            &[begun, lost.clone()][..],
            &[spoke, lost][..],
            &[asked.clone(), failed][..],
            &[asked][..],
            &[][..],
        ] {
            assert!(!is_unlaunched(events), "{events:?}");
        }
    }
}
