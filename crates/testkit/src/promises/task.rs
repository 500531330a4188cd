//! What must hold of a task of the queue whatever was killed meanwhile: over where it stands, the
//! runs it had, what it came after, and what someone was told of it. Pure, like its neighbour.

use contract::fault::Retry;
use contract::{Code, Timestamp};
use engine::rules::retry::next_retry;
use serde_json::Value;

/// What was asked of one task, and what was acknowledged. Moments are milliseconds of the wall clock
/// of the machine, which is the server's too.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Told {
    pub reviewed: bool,
    /// When someone first asked to approve it.
    pub approving: Option<i64>,
    pub approved: bool,
    /// Someone asked to cancel it.
    pub cancelling: bool,
    /// When that was acknowledged, and where the task stood by then.
    pub cancelled: Option<(i64, String)>,
}

/// One run of a task, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub id: String,
    pub started_at: i64,
    pub ended_at: Option<i64>,
    pub outcome: String,
    pub code: Option<Code>,
    /// Whether its agent is known to have begun.
    pub launched: bool,
    /// The first and the last fence under which something of it was written.
    pub fences: (u64, u64),
}

impl Attempt {
    /// From its row and its events.
    pub fn of(row: &Value, events: &[Value]) -> Self {
        let fence = |event: Option<&Value>| event.and_then(|event| event["fence"].as_u64());
        let begun = |event: &Value| event["origin"] == "agent" || event["phase"] == "running";
        Self {
            id: row["id"].as_str().unwrap_or_default().to_owned(),
            started_at: moment(&row["started_at"]).unwrap_or(0),
            ended_at: moment(&row["ended_at"]),
            outcome: row["outcome"].as_str().unwrap_or_default().to_owned(),
            code: serde_json::from_value(row["code"].clone()).ok(),
            launched: events.iter().any(begun),
            fences: (fence(events.first()).unwrap_or(0), fence(events.last()).unwrap_or(0)),
        }
    }
}

fn moment(value: &Value) -> Option<i64> {
    serde_json::from_value(value.clone()).ok().map(Timestamp::ms)
}

/// A task as it is found afterwards.
#[derive(Debug, Default, Clone)]
pub struct Found {
    /// As it is shown by itself.
    pub sheet: Value,
    /// All its runs, in the order of their fences.
    pub runs: Vec<Attempt>,
}

impl Found {
    fn state(&self) -> &str {
        self.sheet["state"].as_str().unwrap_or_default()
    }

    fn ended(&self, outcome: &str) -> bool {
        self.runs.last().is_some_and(|run| run.outcome == outcome)
    }
}

/// What a task came after, with what was told of it.
pub type Before<'a> = (&'a Found, &'a Told);

/// Everything that does not hold of a task when the faults have stopped, at this moment.
pub fn broken(found: &Found, told: &Told, before: &[Before<'_>], now: i64) -> Vec<String> {
    let mut broken = Vec::new();
    stands(found, told, before, now, &mut broken);
    tried(found, &mut broken);
    one_by_one(found, &mut broken);
    cancelled(found, told, &mut broken);
    in_turn(found, before, &mut broken);
    broken
}

/// It ended as its runs say, or waits for a reason that stands.
fn stands(found: &Found, told: &Told, before: &[Before<'_>], now: i64, broken: &mut Vec<String>) {
    let open = || before.iter().any(|(other, _)| other.state() != "done");
    let later = || moment(&found.sheet["until"]).is_some_and(|until| until > now);
    let holds = match found.state() {
        "done" => found.ended("succeeded") && (!told.reviewed || told.approving.is_some()),
        "review" => found.ended("succeeded") && told.reviewed && !told.approved,
        "failed" => !found.runs.is_empty() && !found.ended("succeeded"),
        "cancelled" => told.cancelling,
        "waiting" => match found.sheet["waiting_for"].as_str() {
            Some("dependency") => open(),
            Some("not_before") => later(),
            _ => false,
        },
        _ => false,
    };
    if !holds {
        let runs: Vec<_> = found.runs.iter().map(|run| run.outcome.as_str()).collect();
        let why = &found.sheet["waiting_for"];
        broken.push(format!("a task stands as its runs say: {} {why}, {runs:?}", found.state()));
    }
    let tries = found.sheet["tries"].as_u64().unwrap_or(0);
    let code: Option<Code> = serde_json::from_value(found.sheet["code"].clone()).ok();
    let again = code.is_some_and(|code| matches!(code.row().retry, Retry::Once | Retry::Requeue));
    if found.state() == "failed" && tries == 0 && again {
        broken.push(format!("what may be tried again is: it failed with {:?}", code));
    }
    // Each try has a run at most, and the first is none again.
    if found.runs.len() as u64 > tries + 1 {
        let count = found.runs.len();
        broken
            .push(format!("a try is one run: {count} are there, it was tried again {tries} times"));
    }
}

/// It is tried again only where the table of faults says so, and no more often.
fn tried(found: &Found, broken: &mut Vec<String>) {
    let may = |code: Code, tries: u64| {
        u32::try_from(tries).is_ok_and(|tries| next_retry(code, tries, 0.5).is_some())
    };
    let tries = found.sheet["tries"].as_u64().unwrap_or(0);
    if tries > 0 && !Code::ALL.iter().any(|code| may(*code, tries - 1)) {
        broken.push(format!("a task comes to rest: it was tried again {tries} times"));
    }
    // Before a run were as many tries as runs at least.
    for (run, tries) in found.runs.iter().zip(0..).take(found.runs.len().saturating_sub(1)) {
        // One that was lost before it began is no mark against its task.
        let code = match run.code {
            Some(Code::ProcessLost) if !run.launched => Some(Code::LeaseExpired),
            code => code,
        };
        if !code.is_some_and(|code| may(code, tries)) {
            let (id, code) = (&run.id, run.code.map_or("no code", Code::word));
            broken.push(format!("what may not be tried again is not: {id}, with {code}"));
        }
    }
}

/// Its runs come one after the other, each under higher fences than all before it.
fn one_by_one(found: &Found, broken: &mut Vec<String>) {
    for pair in found.runs.windows(2) {
        let [one, next] = pair else { continue };
        if next.fences.0 <= one.fences.1 {
            let fences = (one.fences, next.fences);
            broken.push(format!("fences of a task rise from run to run: {fences:?}"));
        }
        if one.ended_at.is_none_or(|ended| next.started_at < ended) {
            let (one, next) = (&one.id, &next.id);
            broken
                .push(format!("one run at a time works on a task: {one} had not ended at {next}"));
        }
    }
}

/// What was cancelled is never run afterwards.
fn cancelled(found: &Found, told: &Told, broken: &mut Vec<String>) {
    let Some((at, state)) = &told.cancelled else { return };
    if let Some(run) = found.runs.iter().find(|run| run.started_at > *at) {
        broken.push(format!("what was cancelled is not run: {} began after that", run.id));
    }
    // A run that came to a good end meanwhile is not undone.
    let ended = state != "cancelled" && matches!(found.state(), "done" | "review");
    if found.state() != "cancelled" && !ended {
        broken.push(format!("what was cancelled stays so: it is {}", found.state()));
    }
}

/// It does not run before what it comes after is done.
fn in_turn(found: &Found, before: &[Before<'_>], broken: &mut Vec<String>) {
    let Some(first) = found.runs.first() else { return };
    for (other, told) in before {
        let ended = other.runs.last().and_then(|run| run.ended_at).max(told.approving);
        if other.state() != "done" || ended.is_none_or(|ended| first.started_at < ended) {
            let (run, state) = (&first.id, other.state());
            broken
                .push(format!("nothing runs before what it comes after: {run}, which is {state}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: i64 = 1_000;

    fn run(at: i64, fence: u64, outcome: &str) -> Attempt {
        let code = match outcome {
            "lost" => Some(Code::ProcessLost),
            "failed" => Some(Code::ProcessCrashed),
            _ => None,
        };
        Attempt {
            id: format!("r{at}"),
            started_at: at,
            ended_at: Some(at + 10),
            outcome: outcome.to_owned(),
            code,
            launched: true,
            fences: (fence, fence),
        }
    }

    fn found(state: &str, tries: u64, runs: &[Attempt]) -> Found {
        Found { sheet: json!({ "state": state, "tries": tries }), runs: runs.to_vec() }
    }

    fn said(found: &Found, told: &Told, before: &[Before<'_>]) -> String {
        broken(found, told, before, NOW).join("; ")
    }

    #[test]
    fn a_task_that_was_done_by_its_second_run_breaks_nothing() {
        let done = found("done", 1, &[run(10, 1, "lost"), run(30, 2, "succeeded")]);
        assert_eq!(said(&done, &Told::default(), &[]), "");
    }

    #[test]
    fn a_task_stands_as_its_runs_say() {
        let well = [run(10, 1, "succeeded")];
        let told = Told::default();
        let reviewed = Told { reviewed: true, ..Told::default() };
        for (found, told) in [
            (found("queued", 0, &[]), &told),
            (found("running", 0, &well), &told),
            (found("done", 0, &[]), &told),
            (found("done", 0, &[run(10, 1, "failed")]), &told),
            (found("done", 0, &well), &reviewed),
            (found("review", 0, &well), &told),
            (found("failed", 0, &well), &told),
            (found("failed", 0, &[]), &told),
            (found("cancelled", 0, &[]), &told),
            (found("waiting", 0, &[]), &told),
        ] {
            let said = said(&found, told, &[]);
            assert!(said.starts_with("a task stands as its runs say"), "{found:?}: {said}");
        }
        let approved = Told { approving: Some(30), approved: true, ..reviewed };
        assert_eq!(said(&found("done", 0, &well), &approved, &[]), "");
    }

    #[test]
    fn a_task_may_wait_for_what_is_not_done_and_for_a_time_to_come() {
        let told = Told::default();
        let waits = |why: &str, until: i64| Found {
            sheet: json!({ "state": "waiting", "waiting_for": why, "until": Timestamp(until) }),
            runs: Vec::new(),
        };
        let (failed, done) = (found("failed", 1, &[]), found("done", 0, &[]));
        assert_eq!(said(&waits("dependency", 0), &told, &[(&failed, &told)]), "");
        assert_ne!(said(&waits("dependency", 0), &told, &[(&done, &told)]), "");
        assert_eq!(said(&waits("not_before", NOW + 1), &told, &[]), "");
        assert_ne!(said(&waits("not_before", NOW), &told, &[]), "");
        assert_ne!(said(&waits("workspace", NOW + 1), &told, &[]), "");
    }

    #[test]
    fn what_may_be_tried_again_is_and_no_more_often_than_it_was() {
        let mut failed = found("failed", 0, &[run(10, 1, "failed")]);
        failed.sheet["code"] = json!("process_crashed");
        assert!(said(&failed, &Told::default(), &[]).starts_with("what may be tried again is"));
        failed.sheet["tries"] = json!(1);
        assert_eq!(said(&failed, &Told::default(), &[]), "");
        failed.sheet["code"] = json!("agent_failed");
        failed.sheet["tries"] = json!(0);
        assert_eq!(said(&failed, &Told::default(), &[]), "");
        failed.runs.push(run(30, 2, "failed"));
        assert!(said(&failed, &Told::default(), &[]).starts_with("a try is one run: 2"));
    }

    #[test]
    fn a_task_is_tried_again_no_more_often_than_the_table_allows() {
        let unlaunched = |n: u64| Attempt { launched: false, ..run(n as i64 * 20, n, "lost") };
        let tried = |tries: u64| -> Vec<_> { (1..=tries).map(unlaunched).collect() };
        let done = |tries: u64, before: &[Attempt]| {
            let last = run(900, 90, "succeeded");
            let runs: Vec<_> = before.iter().cloned().chain([last]).collect();
            said(&found("done", tries, &runs), &Told::default(), &[])
        };
        assert_eq!(done(4, &tried(4)), "");
        let five = done(5, &tried(5));
        assert!(five.starts_with("a task comes to rest: it was tried again 5 times"), "{five}");
        assert!(five.contains("what may not be tried again is not: r100"), "{five}");
        assert!(done(5, &tried(1)).starts_with("a task comes to rest"));
        // A run that was launched and lost is tried again once.
        let lost = [run(10, 1, "lost"), run(30, 2, "lost")];
        assert_eq!(done(1, &lost[..1]), "");
        let twice = "what may not be tried again is not: r30, with process_lost";
        assert_eq!(done(2, &lost), twice);
        let failed = Attempt { code: Some(Code::AgentFailed), ..run(10, 1, "failed") };
        for never in [failed, run(10, 1, "cancelled")] {
            assert!(done(1, &[never]).starts_with("what may not be tried again is not: r10"));
        }
    }

    #[test]
    fn runs_of_a_task_come_one_by_one_under_rising_fences() {
        let one = run(10, 3, "lost");
        let twice = found("done", 1, &[one.clone(), run(30, 3, "succeeded")]);
        assert!(said(&twice, &Told::default(), &[]).starts_with("fences of a task rise"));
        let beside = found("done", 1, &[one, run(15, 4, "succeeded")]);
        assert!(said(&beside, &Told::default(), &[]).starts_with("one run at a time"));
    }

    #[test]
    fn what_was_cancelled_is_neither_run_nor_anything_else_afterwards() {
        let told = |state: &str| Told {
            cancelling: true,
            cancelled: Some((20, state.to_owned())),
            ..Told::default()
        };
        let late = found("cancelled", 0, &[run(21, 1, "cancelled")]);
        assert!(said(&late, &told("cancelled"), &[]).starts_with("what was cancelled is not run"));
        let done = found("done", 0, &[run(5, 1, "succeeded")]);
        assert_eq!(said(&done, &told("running"), &[]), "");
        assert_eq!(said(&done, &told("cancelled"), &[]), "what was cancelled stays so: it is done");
    }

    #[test]
    fn nothing_runs_before_what_it_comes_after_is_done() {
        let told = Told::default();
        let next = found("done", 0, &[run(50, 1, "succeeded")]);
        let early = found("done", 0, &[run(10, 1, "succeeded")]);
        let late = found("done", 0, &[run(45, 1, "succeeded")]);
        let waits = found("review", 0, &[run(10, 1, "succeeded")]);
        let approved = Told { approving: Some(51), ..Told::default() };
        assert_eq!(said(&next, &told, &[(&early, &told)]), "");
        for before in [(&late, &told), (&waits, &told), (&early, &approved)] {
            assert!(said(&next, &told, &[before]).starts_with("nothing runs before"), "{before:?}");
        }
    }
}
