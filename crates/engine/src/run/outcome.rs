//! How a run ended, by evidence: what the agent said before anyone stopped it, then why it was
//! stopped, then how its process ended. Nothing is `succeeded` without closing evidence, whatever
//! the exit code says; conflicts between the two are kept as a note.
//! Pure judgement over facts: the events are appended by `mod.rs`.

use super::end::{Said, Stopped, no_greeting};
use super::uncounted::Uncountable;
use super::watch::Clock;
use super::{Testimony, WorkspaceCheck};
use contract::event::{self, Body, EndEvidence, Evidence, Outcome, WorkspaceEvidence};
use contract::limits::{PREVIEW_BYTES, STDERR_TAIL_BYTES};
use contract::speech::Draft;
use contract::{Code, Timestamp};

/// Payments after a stop that were in flight when it came.
const PAID_MAX: u8 = 1;

/// How the process left.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Gone {
    Ended(Testimony),
    /// Nobody can say how.
    Lost {
        why: String,
    },
    /// It was stopped before it was launched.
    NeverBegan,
}

/// Everything the outcome rests on.
pub(super) struct Facts<'a> {
    pub said: Option<&'a Said>,
    pub stopped: Option<&'a Stopped>,
    /// A model error or an unhappy end of the last turn.
    pub trouble: Option<Code>,
    /// When the provider takes requests again, as it was last told.
    pub resets_at: Option<Timestamp>,
    /// The trouble that was told with words of its own when it came.
    pub told: Option<Code>,
    /// Its session was taken away by whoever holds it.
    pub forced: bool,
    /// What the agent did against its permission policy.
    pub broken: Option<&'a str>,
    /// The first request of its protocol was never answered.
    pub ungreeted: bool,
    pub gone: &'a Gone,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub outcome: Outcome,
    /// `None` is success.
    pub code: Option<Code>,
    pub message: Option<String>,
    /// When trying again makes sense, where that is known.
    pub retry_at: Option<Timestamp>,
    pub evidence: Evidence,
}

/// A code and what is particular about this case.
struct Judged {
    code: Option<Code>,
    end: EndEvidence,
    particulars: Option<String>,
}

pub(super) fn judge(facts: &Facts<'_>) -> Verdict {
    let early = facts.said.filter(|said| !said.late);
    let judged = match (facts.broken, early.or_else(|| finished(facts)), facts.stopped) {
        (Some(what), _, _) => by_policy(what, facts),
        (None, Some(said), _) => by_word(said, facts.trouble),
        (None, None, Some(stopped)) => by_stop(stopped, facts),
        (None, None, None) => by_process(facts),
    };
    let testimony = facts.gone.testimony();
    let (workspace, workspace_note) = testimony.map_or((None, None), Testimony::of_workspace);
    let retry_at = facts.resets_at.filter(|_| judged.code.is_some_and(waits_for_reset));
    let salvaged = facts.said.is_some_and(|said| said.late && said.ending.code.is_none())
        && judged.code.is_some();
    Verdict {
        outcome: judged.code.map_or(Outcome::Succeeded, outcome),
        code: judged.code,
        message: judged.code.map(|code| message(code, judged.particulars.as_deref(), retry_at)),
        retry_at,
        evidence: Evidence {
            end: judged.end,
            salvaged: salvaged.then_some(true),
            stopped_by: match facts.stopped {
                Some(stopped) => Some(stopped.by()),
                None => testimony.and_then(|testimony| testimony.asked_by.clone()),
            },
            forced: (facts.forced || testimony.is_some_and(|testimony| testimony.forced))
                .then_some(true),
            note: note(facts, judged.code),
            workspace,
            workspace_note: workspace_note.map(|note| bounded(&note).to_owned()),
        },
    }
}

/// The agent named its end. A result that is no explicit end does not outweigh trouble.
fn by_word(said: &Said, trouble: Option<Code>) -> Judged {
    let code = match said.how {
        EndEvidence::Explicit => said.ending.code,
        EndEvidence::Structured | EndEvidence::Exit | EndEvidence::Signal | EndEvidence::None => {
            said.ending.code.or(trouble)
        }
    };
    Judged { code, end: said.how, particulars: said.ending.detail.clone() }
}

/// The agent acted against its policy: that outweighs what it says of its end.
fn by_policy(what: &str, facts: &Facts<'_>) -> Judged {
    let end = facts.said.map_or_else(|| facts.gone.evidence(), |said| said.how);
    Judged { code: Some(Code::PolicyBroken), end, particulars: Some(what.to_owned()) }
}

/// The agent's success that came after its budget stopped the run, where the work was finished by then:
/// it came with the report that used the budget up, or as the result of a turn, which is no success
/// when a turn was interrupted. An explicit end that follows a farewell proves nothing, because some
/// agents part with those words. Nor does a success after a call that began when a budget that cannot
/// be counted had stopped the run. The `budget` event says that the budget is used up.
fn finished<'a>(facts: &Facts<'a>) -> Option<&'a Said> {
    let stopped = facts.stopped?;
    let by_budget = stopped.reason == Code::BudgetExceeded
        || stopped.uncounted.is_some() && !(stopped.went_on || stopped.paid > PAID_MAX);
    facts.said.filter(|said| {
        let in_time = said.unaware || said.how == EndEvidence::Structured;
        by_budget && said.late && in_time && said.ending.code.is_none()
    })
}

/// Someone stopped it first; what the agent said afterwards is kept but changes nothing.
fn by_stop(stopped: &Stopped, facts: &Facts<'_>) -> Judged {
    let end = facts.said.map_or_else(|| facts.gone.evidence(), |said| said.how);
    let reached = stopped.reached.as_ref();
    let particulars = reached.map(|reached| match reached.what == Clock::Greeting.name() {
        true => format!("the program {}", no_greeting(&reached.limit)),
        false => format!("the limit is {}", reached.limit),
    });
    let particulars = particulars.or_else(|| Some(stopped.uncounted.as_ref()?.why.clone()));
    Judged { code: Some(stopped.reason), end, particulars }
}

/// Nobody said anything: the process itself is the witness.
fn by_process(facts: &Facts<'_>) -> Judged {
    let end = facts.gone.evidence();
    let judged = |code, particulars| Judged { code: Some(code), end, particulars };
    let testimony = match facts.gone {
        Gone::Ended(testimony) => testimony,
        Gone::Lost { why } => return judged(Code::ProcessLost, Some(why.clone())),
        Gone::NeverBegan => return judged(Code::Cancelled, None),
    };
    if let Some(code) = testimony.asked_by.as_deref().and_then(asked) {
        return judged(code, None);
    }
    if let Some(error) = &testimony.spawn_error {
        let code = if testimony.not_found { Code::NotInstalled } else { Code::SpawnFailed };
        return judged(code, Some(error.clone()));
    }
    // A turn that a person interrupted explains no exit.
    let trouble = facts.trouble.filter(|code| *code != Code::Cancelled);
    let code = match (testimony.classified, testimony.signal, trouble, testimony.exit_code) {
        (Some(code), _, _, _) => code,
        (None, Some(_), _, _) => Code::ProcessKilled,
        (None, None, Some(code), _) => code,
        (None, None, None, Some(0) | None) => Code::EndedWithoutResult,
        (None, None, None, Some(_)) => Code::ProcessCrashed,
    };
    let mute = facts.ungreeted && matches!(code, Code::EndedWithoutResult | Code::ProcessCrashed);
    let left = testimony.left();
    let told = testimony.last_error.as_ref().filter(|(told, _)| *told == code);
    let particulars = match (mute, told) {
        (true, _) => Some(ended_ungreeted(left.as_deref())),
        (false, Some((_, words))) => {
            let left = left.map_or_else(String::new, |left| format!(" ({left})"));
            Some(format!("{}{left}", bounded(words.trim())))
        }
        (false, None) => left,
    };
    judged(code, particulars)
}

/// A program that ends without an answer to the first request may not speak the protocol at all.
fn ended_ungreeted(left: Option<&str>) -> String {
    let left = left.map_or(String::new(), |left| format!(" ({left})"));
    format!("it ended before it answered `initialize`: does it speak ACP?{left}")
}

/// What the keeper's word for the one who asked means. It ends an agent by itself in two cases.
fn asked(word: &str) -> Option<Code> {
    match word {
        "lease" => Some(Code::LeaseExpired),
        word => Code::from_word(word),
    }
}

/// The outcome that a fault is.
fn outcome(code: Code) -> Outcome {
    match code {
        Code::Cancelled => Outcome::Cancelled,
        Code::TimeoutWall | Code::TimeoutSilence | Code::TimeoutFirstOutput => Outcome::TimedOut,
        Code::LeaseExpired | Code::FenceStale | Code::ProcessLost | Code::RemoteLost => {
            Outcome::Lost
        }
        // Every other fault of the table is a failure; a new one is too until it says otherwise.
        _ => Outcome::Failed,
    }
}

/// What does not fit together, for whoever reads the evidence.
fn note(facts: &Facts<'_>, code: Option<Code>) -> Option<String> {
    if let (Gone::Lost { why }, true) = (facts.gone, code != Some(Code::ProcessLost)) {
        return Some(bounded(&format!("the process was lost: {why}")).to_owned());
    }
    if code.is_some() {
        return None;
    }
    if let Some(uncounted) = facts.stopped.and_then(|stopped| stopped.uncounted.as_ref()) {
        return Some(format!("its budget was not checked: {}; {}", uncounted.why, uncounted.way));
    }
    let testimony = facts.gone.testimony()?;
    let unhappy = testimony.signal.is_some() || testimony.exit_code.is_some_and(|code| code != 0);
    match (unhappy && facts.stopped.is_none(), facts.trouble) {
        (true, _) => {
            Some(format!("{} after the agent reported that it was done", testimony.left()?))
        }
        (false, Some(trouble)) => {
            Some(format!("{trouble} came before the agent reported that it was done"))
        }
        (false, None) => None,
    }
}

/// The end of stderr, as an error seen on the way: the result itself stays short. Only where nothing
/// else says why the run ended: most of what agents write there is noise, and all of it is kept as
/// `log` anyway. Where a budget could not be counted, it is what to do about that.
pub(super) fn last_words(verdict: &Verdict, facts: &Facts<'_>) -> Option<Draft> {
    if let (Some(code @ Code::BudgetNotCountable), Some(stopped)) = (verdict.code, facts.stopped) {
        let Uncountable { why, way } = stopped.uncounted.as_ref()?;
        return Some(complaint(code, Some(why), Some(way), None));
    }
    let tail = facts.gone.testimony()?.stderr_tail.trim_end();
    let code = verdict.code.filter(|code| !tail.is_empty() && !facts.explain(*code))?;
    let detail = Some(tail_of(tail, STDERR_TAIL_BYTES).to_owned());
    Some(Draft::ostler(Body::Error(error(code, None, None, detail, verdict.retry_at))))
}

/// Whether this fault goes away when a window of the provider's begins anew.
fn waits_for_reset(code: Code) -> bool {
    matches!(code, Code::ProviderQuota | Code::RateLimited)
}

/// An `error` event: its particulars or, without any, the words of the fault table.
pub(super) fn complaint(
    code: Code,
    particulars: Option<&str>,
    hint: Option<&str>,
    detail: Option<String>,
) -> Draft {
    Draft::ostler(Body::Error(error(code, particulars, hint, detail, None)))
}

fn error(
    code: Code,
    particulars: Option<&str>,
    hint: Option<&str>,
    detail: Option<String>,
    retry_at: Option<Timestamp>,
) -> event::Error {
    event::Error {
        code,
        message: particulars.map_or(code.row().message, bounded).to_owned(),
        retryable: code.retryable(),
        retry_at,
        hint: Some(hint.unwrap_or(code.row().hint).to_owned()),
        detail,
    }
}

fn message(code: Code, particulars: Option<&str>, retry_at: Option<Timestamp>) -> String {
    let reset = retry_at.map(|at| format!("it resets at {at}"));
    let particulars = particulars.map(str::trim).filter(|particulars| !particulars.is_empty());
    let parts: Vec<&str> = particulars.map(bounded).into_iter().chain(reset.as_deref()).collect();
    match parts.is_empty() {
        false => format!("{}: {}", code.row().message, parts.join("; ")),
        true => code.row().message.to_owned(),
    }
}

fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(PREVIEW_BYTES)]
}

fn tail_of(text: &str, bytes_max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes_max))..]
}

impl Facts<'_> {
    /// Whether a fault has better words than the last ones on stderr: the agent's own about its end,
    /// those that came with the trouble, or the limit of ours that ended it.
    fn explain(&self, code: Code) -> bool {
        let early = self.said.filter(|said| !said.late);
        let words = early.and_then(|said| said.ending.detail.as_deref()).unwrap_or_default();
        let ours = matches!(
            code,
            Code::Cancelled | Code::BudgetExceeded | Code::BudgetNotCountable | Code::PolicyBroken
        );
        ours || !words.trim().is_empty() || self.told == Some(code)
    }
}

impl Gone {
    pub fn testimony(&self) -> Option<&Testimony> {
        match self {
            Self::Ended(testimony) => Some(testimony),
            Self::Lost { .. } | Self::NeverBegan => None,
        }
    }

    /// What the process alone proves.
    fn evidence(&self) -> EndEvidence {
        match self.testimony() {
            Some(Testimony { signal: Some(_), .. }) => EndEvidence::Signal,
            Some(Testimony { exit_code: Some(_), .. }) => EndEvidence::Exit,
            Some(_) | None => EndEvidence::None,
        }
    }

    /// Whether the keeper ended the agent because its lease ran out.
    pub fn lease_ran_out(&self) -> bool {
        self.testimony().is_some_and(|testimony| testimony.asked_by.as_deref() == Some("lease"))
    }
}

impl Testimony {
    /// What the result says of the workspace, beside a change that ended the run.
    fn of_workspace(&self) -> (Option<WorkspaceEvidence>, Option<String>) {
        let (state, note) = match &self.workspace {
            None => return (None, None),
            Some(WorkspaceCheck::Unchanged | WorkspaceCheck::Changed(_)) => {
                (WorkspaceEvidence::Compared, None)
            }
            Some(WorkspaceCheck::ChangedBesideOtherRun(what)) => {
                (WorkspaceEvidence::ChangedBesideOtherRun, Some(what.clone()))
            }
            Some(WorkspaceCheck::NotCompared(why)) => {
                (WorkspaceEvidence::NotCompared, Some(why.clone()))
            }
        };
        (Some(state), note)
    }

    /// How the process left, in words.
    fn left(&self) -> Option<String> {
        match (self.signal, self.exit_code) {
            (Some(signal), _) => Some(format!("signal {signal}")),
            (None, Some(code)) => Some(format!("exit code {code}")),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_text_ends_between_characters() {
        let text = "ä".repeat(PREVIEW_BYTES);
        let head = bounded(&text[..text.len() - 2]);
        assert_eq!(head.len(), PREVIEW_BYTES);
        assert_eq!(tail_of("aäa", 2), "a");
        assert_eq!(tail_of("aäa", 3), "äa");
        assert_eq!(tail_of("aä", 99), "aä");
        let odd = format!("a{text}");
        assert_eq!(bounded(&odd).len(), PREVIEW_BYTES - 1);
    }
}
