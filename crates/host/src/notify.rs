//! Telling people by a command of theirs: a question waits, a run ended badly or wants a look, a limit
//! closed. One command at a time; what happens while it runs waits and is told together by the next.
//! It is kept apart from every agent: a process group of its own, a small environment without
//! secrets, its output nobody's, and ten seconds. That it fails changes nothing for anyone.

use crate::blocking::{self, Bulkhead};
use crate::ops::ask::OpenAsk;
use crate::supervise;
use crate::{Attached, Inner};
use contract::event::Outcome;
use contract::limits::{NOTICES_MAX, NOTIFY_MS};
use contract::{AskId, Code, RunId, TaskId, TaskState};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What people are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Notice {
    /// A question waits for an answer.
    Ask { run_id: RunId, ask_id: AskId, title: String },
    /// A run failed, or its task waits for someone to look at it.
    Run {
        run_id: RunId,
        agent: String,
        outcome: Outcome,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
        task: TaskState,
    },
    /// An agent mentions someone who is no agent.
    Mention { run_id: RunId, task_id: TaskId, agent: String, mentions: Vec<String>, text: String },
    /// A budget or a quota is used up; nothing of its scope starts for now.
    Limit {
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
        scope: String,
        note: String,
    },
}

impl Notice {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Ask { .. } => "ask",
            Self::Run { .. } => "run",
            Self::Mention { .. } => "mention",
            Self::Limit { .. } => "limit",
        }
    }

    fn run(&self) -> Option<RunId> {
        match self {
            Self::Ask { run_id, .. } | Self::Run { run_id, .. } | Self::Mention { run_id, .. } => {
                Some(*run_id)
            }
            Self::Limit { run_id, .. } => *run_id,
        }
    }

    fn ask(&self) -> Option<AskId> {
        match self {
            Self::Ask { ask_id, .. } => Some(*ask_id),
            Self::Run { .. } | Self::Mention { .. } | Self::Limit { .. } => None,
        }
    }
}

/// Of the host's environment the command sees these: where programs are, and where a desktop is.
const KEPT: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// How often a command that runs is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What waits to be told, and to whom.
pub(crate) struct Notifier {
    command: Vec<String>,
    /// How long a command may take.
    time_ms: u64,
    environment: BTreeMap<String, String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Notice>,
    /// Someone is telling.
    busy: bool,
    /// How many found no room.
    left_out: usize,
    /// Questions that were told, so that each is told once.
    told: BTreeSet<AskId>,
}

impl Notifier {
    /// None when nobody wants to be told.
    pub fn new(command: Vec<String>, host: &BTreeMap<String, String>) -> Option<Arc<Self>> {
        if command.is_empty() {
            return None;
        }
        let kept = host.iter().filter(|(name, _)| KEPT.contains(&name.as_str()));
        let environment = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        Some(Arc::new(Self { command, time_ms: NOTIFY_MS, environment, state: Mutex::default() }))
    }

    /// Those of these questions that nobody was told of yet.
    fn fresh(&self, asks: &[OpenAsk]) -> Vec<OpenAsk> {
        let mut state = self.state();
        while state.told.len() > NOTICES_MAX {
            // Ids grow with time: the oldest is not asked any more.
            state.told.pop_first();
        }
        asks.iter().filter(|ask| state.told.insert(ask.ask_id)).cloned().collect()
    }

    /// Tells, now or with the next command. The guard keeps the host until it is done.
    fn tell(self: &Arc<Self>, notice: Notice, stay: Attached) {
        {
            let mut state = self.state();
            match state.waiting.len() < NOTICES_MAX {
                true => state.waiting.push_back(notice),
                false => state.left_out += 1,
            }
            if std::mem::replace(&mut state.busy, true) {
                return;
            }
        }
        let notifier = Arc::clone(self);
        blocking::spawn(Bulkhead::Wait, "notify", move || {
            while let Some((notices, left_out)) = notifier.next() {
                if let Err(error) = notifier.run(&notices, left_out) {
                    tracing::warn!(
                        program = notifier.command[0],
                        %error,
                        "the notification command failed"
                    );
                }
            }
            drop(stay);
        });
    }

    /// Everything that waits; none when the last of it was told.
    fn next(&self) -> Option<(Vec<Notice>, usize)> {
        let mut state = self.state();
        if state.waiting.is_empty() {
            state.busy = false;
            return None;
        }
        Some((state.waiting.drain(..).collect(), std::mem::take(&mut state.left_out)))
    }

    fn run(&self, notices: &[Notice], left_out: usize) -> io::Result<()> {
        let mut lines = Vec::new();
        for notice in notices {
            serde_json::to_writer(&mut lines, notice)?;
            lines.push(b'\n');
        }
        let mut child = self.start(notices, left_out)?;
        let _mine =
            rustix::process::Pid::from_raw(child.id().cast_signed()).map(keeper::strays::hold);
        write_and_wait(&mut child, &lines, self.time_ms)
    }

    #[expect(clippy::disallowed_methods, reason = "people are told by a command of their own")]
    fn start(&self, notices: &[Notice], left_out: usize) -> io::Result<Child> {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env_clear().envs(&self.environment);
        let one = match notices {
            [one] => Some(one),
            _ => None,
        };
        command.env("OSTLER_NOTIFY_KIND", one.map_or("several", Notice::kind));
        command.env("OSTLER_NOTIFY_COUNT", (notices.len() + left_out).to_string());
        let ids = [
            ("OSTLER_RUN_ID", one.and_then(Notice::run).map(|run| run.to_string())),
            ("OSTLER_ASK_ID", one.and_then(Notice::ask).map(|ask| ask.to_string())),
        ];
        command.envs(ids.into_iter().filter_map(|(name, id)| Some((name, id?))));
        let quiet = command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
        quiet.stderr(Stdio::null()).process_group(0).spawn()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the lines to a command, as far as it reads them, and waits until it ends. When its time is up
/// it is killed with all it started: a command that does not read its input must not keep its host.
fn write_and_wait(child: &mut Child, lines: &[u8], time_ms: u64) -> io::Result<()> {
    let begun_ms = crate::clock::now().mono_ms;
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &stdin {
        rustix::io::ioctl_fionbio(stdin, true)?;
    }
    let mut rest = lines;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        while let Some(pipe) = stdin.as_mut().filter(|_| !rest.is_empty()) {
            match pipe.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // A command that closed its input has its environment.
                Err(_closed) => stdin = None,
            }
        }
        if rest.is_empty() {
            stdin = None;
        }
        if crate::clock::now().mono_ms.saturating_sub(begun_ms) > time_ms {
            if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                // A group that has ended meanwhile needs no signal.
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            child.wait()?;
            let message = format!("it was ended after {time_ms} ms");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(LOOK);
    };
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("it ended with {status}"))),
    }
}

impl Inner {
    /// Tells people that a budget or a quota is used up. Runs of it that are live are told by whoever
    /// found out, and go on to their own end.
    pub(crate) fn limit_closed(&self, run_id: Option<RunId>, scope: &str, note: &str) {
        let notice = Notice::Limit { run_id, scope: scope.to_owned(), note: note.to_owned() };
        self.notice(notice);
    }

    pub(crate) fn notice(&self, notice: Notice) {
        if let Some(notifier) = &self.notifier {
            notifier.tell(notice, self.attach());
        }
    }

    /// Questions of a run that are open now, as they are shown; each is told once.
    pub(crate) fn notice_asks(&self, asks: &[OpenAsk]) {
        let Some(notifier) = self.notifier.as_ref().filter(|_| !asks.is_empty()) else { return };
        for ask in notifier.fresh(asks) {
            let OpenAsk { run_id, ask_id, title, .. } = ask;
            self.notice(Notice::Ask { run_id, ask_id, title });
        }
    }

    /// A run that is settled, if that is worth a word: one that went well and is done is not.
    pub(crate) fn notice_end(self: &Arc<Self>, run: RunId) {
        if self.notifier.is_none() {
            return;
        }
        let (inner, stay) = (Arc::clone(self), self.attach());
        supervise::spawn("notify of ended run", async move {
            match end_notice(&inner, run).await {
                Ok(Some(notice)) => inner.notice(notice),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%run, %error, "nobody is notified of the end of the run");
                }
            }
            drop(stay);
        });
    }
}

/// The notice about a run that ended, from what is stored of it.
async fn end_notice(inner: &Inner, run: RunId) -> Result<Option<Notice>, store::Error> {
    let Some(row) = inner.store.run(run).await? else { return Ok(None) };
    let Some(task) = inner.store.task(row.task).await? else { return Ok(None) };
    let Some(outcome) = row.outcome else { return Ok(None) };
    Ok(ended(run, row.agent, outcome, row.code, task.state))
}

/// What is said of a run that ended.
fn ended(
    run_id: RunId,
    agent: String,
    outcome: Outcome,
    code: Option<Code>,
    task: TaskState,
) -> Option<Notice> {
    let bad = match outcome {
        Outcome::Failed | Outcome::TimedOut | Outcome::Lost => true,
        Outcome::Succeeded | Outcome::Cancelled | Outcome::Unknown => false,
    };
    match code {
        Some(code @ Code::BudgetExceeded) => Some(Notice::Limit {
            run_id: Some(run_id),
            scope: agent,
            note: code.row().message.to_owned(),
        }),
        // It was told when its breaker opened, with the account and its reset.
        Some(Code::ProviderQuota) => None,
        code if bad || matches!(task, TaskState::Review | TaskState::Waiting) => {
            Some(Notice::Run { run_id, agent, outcome, code, task })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_when_someone_has_to_do_something_about_it() {
        use Outcome::*;
        let run = crate::chance::run_id();
        let rows = [
            (Succeeded, None, TaskState::Done, None),
            (Succeeded, None, TaskState::Review, Some("run")),
            (Succeeded, None, TaskState::Waiting, Some("run")),
            (Cancelled, Some(Code::Cancelled), TaskState::Cancelled, None),
            (Failed, Some(Code::AgentFailed), TaskState::Failed, Some("run")),
            (Lost, Some(Code::ProcessLost), TaskState::Failed, Some("run")),
            (Failed, Some(Code::BudgetExceeded), TaskState::Failed, Some("limit")),
            (Failed, Some(Code::ProviderQuota), TaskState::Waiting, None),
        ];
        for (outcome, code, task, expected) in rows {
            let told = ended(run, "a".to_owned(), outcome, code, task);
            assert_eq!(told.map(|notice| notice.kind()), expected, "{outcome:?} {code:?}");
        }
    }

    #[test]
    fn a_command_sees_what_happened_and_nothing_that_is_secret() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let script = format!("env > {0}; cat >> {0}", out.display());
        let command = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
        let host = [("PATH", "/usr/bin:/bin"), ("MY_TOKEN", "hunter-2026")];
        let host = host.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let notifier = Notifier::new(command, &host).unwrap();
        let (run_id, ask_id) = (crate::chance::run_id(), crate::chance::ask_id());
        let one = Notice::Ask { run_id, ask_id, title: "may it?".to_owned() };
        notifier.run(std::slice::from_ref(&one), 0).unwrap();
        let said = std::fs::read_to_string(&out).unwrap();
        for expected in [
            "OSTLER_NOTIFY_KIND=ask".to_owned(),
            format!("OSTLER_RUN_ID={run_id}"),
            format!("OSTLER_ASK_ID={ask_id}"),
            r#""title":"may it?""#.to_owned(),
        ] {
            assert!(said.contains(&expected), "{expected}: {said}");
        }
        assert!(!said.contains("hunter-2026"), "{said}");
        notifier.run(&[one.clone(), one], 3).unwrap();
        let said = std::fs::read_to_string(&out).unwrap();
        assert!(said.contains("OSTLER_NOTIFY_KIND=several"), "{said}");
        assert!(
            said.contains("OSTLER_NOTIFY_COUNT=5") && !said.contains("OSTLER_ASK_ID"),
            "{said}"
        );
    }

    #[test]
    fn a_command_that_does_not_read_is_ended() {
        let command = ["/bin/sh", "-c", "sleep 60 & wait"].map(str::to_owned).to_vec();
        let notifier = Notifier::new(command, &BTreeMap::new()).unwrap();
        let notifier = Notifier { time_ms: 300, ..Arc::into_inner(notifier).unwrap() };
        // More than a pipe holds.
        let title = "x".repeat(1 << 20);
        let (run_id, ask_id) = (crate::chance::run_id(), crate::chance::ask_id());
        let begun_ms = crate::clock::now().mono_ms;
        let ended = notifier.run(&[Notice::Ask { run_id, ask_id, title }], 0).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert!(crate::clock::now().mono_ms - begun_ms < 30_000);
    }

    #[test]
    fn what_waits_is_told_together_and_what_finds_no_room_is_counted() {
        let notifier = Notifier::new(vec!["/bin/true".to_owned()], &BTreeMap::new()).unwrap();
        notifier.state().busy = true;
        let limit =
            |n: usize| Notice::Limit { run_id: None, scope: format!("s{n}"), note: String::new() };
        let reasons = tokio::sync::watch::Sender::new(NOTICES_MAX + 2);
        for n in 0..NOTICES_MAX + 2 {
            notifier.tell(limit(n), Attached { reasons: reasons.clone() });
        }
        let (notices, left_out) = notifier.next().unwrap();
        assert_eq!((notices.len(), left_out), (NOTICES_MAX, 2));
        assert_eq!(notifier.next(), None);
        assert!(!notifier.state().busy);
    }
}
