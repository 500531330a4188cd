//! Doctor: what keeps an agent from running, found without running it. Every probe is a program under
//! a keeper, in a directory of its own, and swept with its family. All probes of one name are made at
//! the same time and have one deadline (`limits::DOCTOR_MS`); a program that answers none of them by
//! then is an error. A login is told by a variable that is set or a file that is there, and neither is
//! read. What is found are checks with stable codes, never a fault: looking always succeeds.

use crate::aside::{Aside, Launch};
use crate::{chance, clock, environment, token_file};
use contract::card::{CardEvidence, Handshake, Login, ModelList, Requirement};
use contract::diagnosis::{Check, CheckCode, Diagnosis};
use contract::plan::{Adapter, EnvEntry, Lane};
use contract::{Card, Code, Fault, Policy, limits};
use keeper::plan::{Level, StdinMode};
use keeper::record::Isolation;
use runtimes::acp::lane;
use runtimes::acp::mode_trial::{self, ModeTrial};
use runtimes::launch::{Start, sounds_secret};
use runtimes::models::{self, ModelListing};
use runtimes::passed_env::{self, ENV_ALLOWLIST_PREFIXES};
use runtimes::{Spec, Stream, registry, template};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a probe is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The notification by which a program that was greeted is told that requests follow.
const INITIALIZED: &str = r#"{"method":"initialized"}"#;

/// What of the caller's environment a handshake is given.
const HANDSHAKE_ENV: [&str; 4] = ["PATH", "LANG", "TERM", "NODE_EXTRA_CA_CERTS"];

/// Where probes are made.
pub struct Practice {
    /// The product's own binary, which keepers are started from.
    pub own_program: PathBuf,
    /// The caller's environment.
    pub vars: BTreeMap<String, String>,
    pub level: Level,
    root: PathBuf,
}

/// Whom to look at: what a name stands for.
pub struct Patient {
    pub name: String,
    pub card: Card,
    pub adapter: Adapter,
    /// Where it is to work, when that is said.
    pub cwd: Option<PathBuf>,
    pub policy: Option<Policy>,
    /// What the configuration alone tells of it.
    pub remarks: Vec<Check>,
}

/// What a session that was opened showed of each policy.
type PolicyTrials = Vec<(Policy, ModeTrial)>;

/// What is said to a probe: a greeting; once it is answered a request, such as one that opens a session;
/// and then what sets its modes.
struct Talk<'a> {
    say: &'a str,
    answered: &'a (dyn Fn(&str) -> bool + Sync),
    then: Option<&'a str>,
    sets_modes: bool,
}

/// The reason why a policy is listed as possible, in the order in which reasons are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PolicyBasis {
    /// The agent accepted the mode that it needs.
    ModeAccepted,
    /// The session began in such a mode.
    ModeBegun,
    /// The agent's own flags or its card promise it.
    Promised,
    /// Ostler answers by it what the agent asks, and nothing says that the agent does ask.
    Answered,
    /// It governs only the tools that Ostler offers.
    OwnTools,
}

/// What a question for the version showed.
struct VersionProbe {
    check: Check,
    version: Option<String>,
    is_late: bool,
}

/// What a greeting showed.
struct Greeting {
    check: Check,
    trials: Option<PolicyTrials>,
    is_late: bool,
}

/// What a probe said and how it ended.
struct Probed {
    stdout: String,
    stderr: String,
    /// `None` when it had to be ended.
    exit_code: Option<i32>,
    /// Whether it had said nothing that was waited for when the deadline came.
    is_late: bool,
    spawn_error: Option<String>,
    isolation: Option<(Isolation, Option<String>)>,
}

impl Drop for Practice {
    fn drop(&mut self) {
        // What cannot be removed is in the directory for temporary files, which others sweep.
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Practice {
    pub fn open(
        own_program: PathBuf,
        vars: BTreeMap<String, String>,
        level: Level,
    ) -> Result<Self, Fault> {
        let temporary = vars.get("TMPDIR").map_or(Path::new("/tmp"), Path::new);
        let root = temporary.join(format!("ostler-doctor-{}", chance::run_id().uuid().simple()));
        fs::DirBuilder::new().mode(0o700).create(&root).map_err(|error| {
            let message = format!("{}: {error}", root.display());
            Fault::new(Code::BadWorkspace, message).with_hint(
                "set TMPDIR to a directory that you \
             can write to",
            )
        })?;
        Ok(Self { own_program, vars, level, root })
    }

    /// How agents are held here, and why not more strongly.
    pub async fn isolation(&self) -> Option<(Isolation, Option<String>)> {
        let program = self.own_program.display().to_string();
        let deadline_ms = clock::now().mono_ms + limits::DOCTOR_MS;
        let asked = vec!["--version".to_owned()];
        self.probe(program, asked, Vec::new(), None, deadline_ms).await?.isolation
    }

    /// Everything that can be told about one name.
    pub async fn diagnose(&self, patient: &Patient) -> Diagnosis {
        let deadline_ms = clock::now().mono_ms + limits::DOCTOR_MS;
        let mut checks = Vec::new();
        let program = self.binary(patient, &mut checks);
        let is_missing = checks.iter().any(|check| check.code == CheckCode::BinaryMissing);
        let (version, greeting, remote) = tokio::join!(
            self.version(patient, program.as_deref(), deadline_ms),
            self.handshake(patient, program.as_deref(), deadline_ms),
            self.remote(patient, deadline_ms),
        );
        checks.extend(hanging(program.as_deref(), version.as_ref(), greeting.as_ref()));
        let (mut found_version, mut trials) = (None, None);
        if let Some(VersionProbe { check, version, .. }) = version {
            checks.push(check);
            found_version = version;
        }
        if let Some(Greeting { check, trials: tried, .. }) = greeting {
            checks.push(check);
            trials = tried;
        }
        checks.extend(remote);
        let named = environment::named_by_agent(&patient.card, &self.vars);
        if let Some(login) = &patient.card.login {
            checks.extend(logged_in(login, &named, &self.vars_of(patient)));
        }
        if patient.adapter.remote.is_none() {
            checks.extend(variables(patient, &named, &self.vars));
        }
        checks.extend(not_set(&patient.adapter, &self.vars));
        checks.extend(patient.cwd.as_deref().map(directory));
        let mut of_policies = policies(&patient.card, patient.policy, trials.as_ref());
        if is_missing {
            // Nothing can be said of an agent that is not there, but what is configured may be wrong.
            of_policies.retain(|check| check.code == CheckCode::PolicyNotPossible);
        }
        checks.extend(of_policies);
        checks.extend(arguments(&patient.adapter));
        let is_a_product = !patient.card.requires.is_empty();
        if is_a_product && patient.card.evidence == CardEvidence::Documented {
            let message = "follows its documentation; not tested with the program itself";
            checks.push(Check::new(CheckCode::OnlyDocumented, message));
        }
        checks.extend(patient.remarks.iter().cloned());
        Diagnosis::new(&patient.name, &patient.card.id, checks, clock::now().wall)
            .with_version(found_version)
    }

    /// Whether the program of a name is there. Nothing is started.
    pub fn find(&self, patient: &Patient) -> Diagnosis {
        let mut checks = Vec::new();
        self.binary(patient, &mut checks);
        Diagnosis::new(&patient.name, &patient.card.id, checks, clock::now().wall)
    }

    /// The program, when it is there.
    fn binary(&self, patient: &Patient, checks: &mut Vec<Check>) -> Option<PathBuf> {
        let required = patient.card.requires.first();
        let configured = patient.adapter.binary.as_deref().filter(|binary| !binary.is_empty());
        let binary = configured.or(required.map(|required| required.binary.as_str()))?;
        match find_program(binary, self.vars_of(patient).get("PATH").map(String::as_str)) {
            Some(path) => {
                checks.push(Check::new(CheckCode::BinaryFound, path.display().to_string()));
                Some(path)
            }
            None => {
                let message = match binary.contains('/') {
                    true => format!("{binary} is not an executable program"),
                    false => format!("{binary} is not on PATH"),
                };
                let hint = match required.filter(|required| required.binary == binary) {
                    Some(required) => required.install_hint.clone(),
                    None => fix_binary(&patient.adapter.name, binary),
                };
                checks.push(Check::new(CheckCode::BinaryMissing, message).with_hint(hint));
                None
            }
        }
    }

    /// What the program says of its version; `None` when it is not asked.
    async fn version(
        &self,
        patient: &Patient,
        program: Option<&Path>,
        deadline_ms: u64,
    ) -> Option<VersionProbe> {
        let program = program?;
        let Requirement { version_args, .. } = patient.card.requires.first()?;
        if version_args.is_empty() {
            return None;
        }
        let asked = format!("{} {}", program.display(), version_args.join(" "));
        let env = self.environment(patient);
        let program = program.display().to_string();
        let probed = self.probe(program, version_args.clone(), env, None, deadline_ms).await;
        let version = probed.as_ref().and_then(|probed| {
            version_in(&probed.stdout).or_else(|| version_in(&probed.stderr)).map(str::to_owned)
        });
        let is_late = probed.as_ref().is_some_and(|probed| probed.is_late) && version.is_none();
        let recorded = &patient.card.versions_recorded;
        let check = match (&version, probed) {
            (Some(version), _) if recorded.contains(version) => {
                Check::new(CheckCode::VersionRecorded, version)
            }
            (Some(version), _) if recorded.is_empty() => {
                Check::new(CheckCode::VersionNotRecorded, version)
            }
            (Some(version), _) => {
                let message = format!("{version}; tested with {}", recorded.join(", "));
                Check::new(CheckCode::VersionNotRecorded, message)
            }
            (None, probed) => {
                let message = format!("`{asked}` {}", how_it_failed(probed.as_ref()));
                let said = probed.map(|probed| probed.stderr).filter(|said| !said.is_empty());
                let check = Check::new(CheckCode::VersionUnknown, message).with_hint(
                    "run it by hand; an agent that cannot print its version may not start",
                );
                match said {
                    Some(said) => check.with_detail(said),
                    None => check,
                }
            }
        };
        Some(VersionProbe { check, version, is_late })
    }

    /// Whether a remote is there and takes our token. It is asked for nothing that costs.
    async fn remote(&self, patient: &Patient, deadline_ms: u64) -> Vec<Check> {
        let Some(remote) = &patient.adapter.remote else { return Vec::new() };
        let mut env = self.environment(patient);
        if let Some(name) = remote.auth.token_env() {
            let of_file = match remote.auth.token_file() {
                Some(file) => match token_file::read_aside(file.to_owned()).await {
                    Ok(token) => Some(token),
                    Err(fault) => {
                        let check = Check::new(CheckCode::LoginNotSeen, &fault.message);
                        return vec![check.with_hint(fault.hint())];
                    }
                },
                None => None,
            };
            let token = of_file.as_ref().or_else(|| self.vars.get(name));
            match token.filter(|token| !token.trim().is_empty()) {
                Some(token) => env.push((name.to_owned(), token.clone())),
                None => {
                    let message = format!("the variable {name}, which holds its token, is not set");
                    let check = Check::new(CheckCode::LoginNotSeen, message);
                    return vec![check.with_hint(template::not_set_hint(name))];
                }
            }
        }
        let program = self.own_program.display().to_string();
        let args = runtimes::remote::greeting(remote);
        let probed = self.probe(program, args, env, None, deadline_ms).await;
        let well = |probed: &Probed| {
            let line: Option<serde_json::Value> = serde_json::from_str(probed.stdout.trim()).ok();
            line.and_then(|line| line["message"].as_str().map(str::to_owned))
        };
        vec![match probed.as_ref().and_then(well) {
            Some(words) => {
                let message = format!("{}: {words}", remote.base_url);
                Check::new(CheckCode::HandshakeAnswered, message)
            }
            None => {
                let message = format!("{} does not answer like a remote", remote.base_url);
                Check::new(CheckCode::HandshakeFailed, message)
                    .with_hint(format!(
                        "fix adapters.{}, or start the remote",
                        patient.adapter.name
                    ))
                    .with_detail(probed.map(|probed| probed.stderr).unwrap_or_default())
            }
        }]
    }

    /// Greets the program without its keys and in a home of its own, so that it reaches no account and
    /// leaves nothing behind. Gives what its session told of policies too. `None` when the card has no
    /// greeting.
    async fn handshake(
        &self,
        patient: &Patient,
        program: Option<&Path>,
        deadline_ms: u64,
    ) -> Option<Greeting> {
        let (program, with) = (program?, patient.card.handshake.as_ref()?);
        let probed = self.greeted(patient, program, with, deadline_ms).await;
        let check = match &probed {
            Some(said) if said.stdout.lines().any(|line| is_answer(line, &with.answer)) => {
                let check = "it answers the first request";
                let trials = mode_trial::policies_tried(&said.stdout);
                let check = Check::new(CheckCode::HandshakeAnswered, check);
                return Some(Greeting { check, trials, is_late: false });
            }
            _ => {
                let how = how_it_failed(probed.as_ref());
                let message = format!("it does not answer the first request: it {how}");
                let hint = format!(
                    "check that this command speaks the protocol, or try `ostler run {} hello`",
                    patient.name
                );
                let detail = probed.as_ref().map(|probed| probed.stderr.clone());
                Check::new(CheckCode::HandshakeFailed, message)
                    .with_hint(hint)
                    .with_detail(detail.unwrap_or_default())
            }
        };
        let is_late = probed.is_some_and(|probed| probed.is_late);
        Some(Greeting { check, trials: None, is_late })
    }

    /// Says the greeting and, once it is answered, the request that opens a session.
    async fn greeted(
        &self,
        patient: &Patient,
        program: &Path,
        with: &Handshake,
        deadline_ms: u64,
    ) -> Option<Probed> {
        let home = ("HOME".to_owned(), self.root.display().to_string());
        let kept = |(name, _): &(String, String)| HANDSHAKE_ENV.contains(&name.as_str());
        let env = self.environment(patient).into_iter().filter(kept).chain([home]).collect();
        let program = program.display().to_string();
        let answered = |line: &str| is_answer(line, &with.answer);
        let cwd = serde_json::Value::from(self.root.display().to_string()).to_string();
        let session = with.session.as_ref().map(|line| line.replace("\"{{cwd}}\"", &cwd));
        let talk = Talk {
            say: &with.say,
            answered: &answered,
            then: session.as_deref(),
            sets_modes: true,
        };
        self.probe(program, with.args.clone(), env, Some(talk), deadline_ms).await
    }

    /// The models that the program tells, in the environment that a run would have: what is set up there
    /// decides which there are.
    pub async fn models(&self, patient: &Patient) -> Result<ModelListing, Fault> {
        let deadline_ms = clock::now().mono_ms + limits::MODELS_MS;
        let name = &patient.name;
        let Some(list) = &patient.card.model_list else {
            let message = format!("{name} does not list its models");
            let hint = format!("{}; name one with `model`", patient.card.models_source);
            return Err(Fault::new(Code::NotSupported, message).with_hint(hint));
        };
        let mut checks = Vec::new();
        let Some(program) = self.binary(patient, &mut checks) else {
            let missing = checks.pop();
            let message = missing.as_ref().map(|check| check.message.clone());
            let fault = Fault::new(Code::NotInstalled, message.unwrap_or_else(|| name.clone()));
            let hint = missing.and_then(|check| check.hint);
            return Err(hint.into_iter().fold(fault, Fault::with_hint));
        };
        let program = program.display().to_string();
        let cwd = serde_json::Value::from(self.root.display().to_string()).to_string();
        let handshake = patient.card.handshake.as_ref();
        let then = match list {
            ModelList::Command { .. } => None,
            ModelList::Session => handshake
                .and_then(|with| with.session.as_ref())
                .map(|line| line.replace("\"{{cwd}}\"", &cwd)),
            ModelList::Request { say } => Some(format!("{INITIALIZED}\n{say}")),
        };
        let answered = |line: &str| handshake.is_some_and(|with| is_answer(line, &with.answer));
        let (args, talk) = match (list, handshake) {
            (ModelList::Command { args, .. }, _) => (args.clone(), None),
            (ModelList::Session | ModelList::Request { .. }, Some(with)) => {
                let (say, then) = (with.say.as_str(), then.as_deref());
                let talk = Talk { say, answered: &answered, then, sets_modes: false };
                (with.args.clone(), Some(talk))
            }
            (ModelList::Session | ModelList::Request { .. }, None) => {
                let message = format!("the command of {name} is known only in a run");
                return Err(Fault::new(Code::NotSupported, message));
            }
        };
        let env = self.environment(patient);
        let probed = self.probe(program, args, env, talk, deadline_ms).await;
        let found = probed.as_ref().map(|probed| models::listing(list, &probed.stdout));
        match found.filter(|found| !found.models.is_empty()) {
            Some(found) => Ok(found),
            None => {
                let how = match &probed {
                    Some(probed) if probed.is_late => {
                        format!("took longer than {} s and was ended", limits::MODELS_MS / 1000)
                    }
                    Some(Probed { exit_code: Some(0), .. }) => "named no model".to_owned(),
                    probed => how_it_failed(probed.as_ref()),
                };
                let mut fault = Fault::new(Code::AgentFailed, format!("{name} {how}"));
                fault.detail = probed.map(|probed| probed.stderr).filter(|said| !said.is_empty());
                Err(fault
                    .with_hint(format!("`ostler doctor {name}` shows what keeps it from running")))
            }
        }
    }

    /// The variables that the agent would see, the configured ones over the caller's.
    fn vars_of(&self, patient: &Patient) -> BTreeMap<String, String> {
        let mut vars = self.vars.clone();
        vars.extend(self.environment(patient));
        vars
    }

    fn environment(&self, patient: &Patient) -> Vec<(String, String)> {
        let entries = self.entries(patient).unwrap_or_default();
        environment::without_run(&entries, ENV_ALLOWLIST_PREFIXES, &self.vars)
    }

    /// The environment of its plan; a configuration that cannot be filled in gives none, and the
    /// check of its variables says why.
    fn entries(&self, patient: &Patient) -> Result<Vec<EnvEntry>, Fault> {
        let mut context = template::Context::new();
        for name in template::FLAT_NAMES {
            context.set(name, "");
        }
        let spec = Spec {
            adapter: Adapter {
                extra_args: Vec::new(),
                skills: Vec::new(),
                ..patient.adapter.clone()
            },
            context,
            model: None,
            prompt: String::new(),
            system_prompt: None,
            policy: Policy::Deny,
            lane: Lane::Native,
            session: None,
            budget: Default::default(),
            counts_spending: false,
            files: String::new(),
            as_root: false,
            own_program: self.own_program.display().to_string(),
            caller_env: self.vars.clone(),
        };
        Ok(Start::default().plan(&spec, &patient.card)?.env)
    }

    /// Runs a program until the deadline at most, and no longer than its answers take. `None` when no
    /// keeper could be had.
    async fn probe(
        &self,
        program: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        talk: Option<Talk<'_>>,
        deadline_ms: u64,
    ) -> Option<Probed> {
        let say = talk.as_ref().map(|talk| format!("{}\n", talk.say).into_bytes());
        // The keeper's own clock is the second belt: it comes after our deadline.
        let left_ms = deadline_ms.saturating_sub(clock::now().mono_ms);
        let wall_ms = left_ms + limits::PROBE_TERM_MS;
        let name = chance::run_id().uuid().simple().to_string();
        let cwd = self.root.join(&name);
        // A temporary directory of doctor, which hosts nobody meanwhile.
        fs::DirBuilder::new().mode(0o700).create(&cwd).ok()?;
        let launch = Launch {
            program,
            args,
            cwd,
            env,
            stdin: if say.is_some() { StdinMode::Open } else { StdinMode::Null },
            first_frame: say,
            spool: self.root.join(format!("{name}.spool")),
            wall_ms,
            term_ms: limits::PROBE_TERM_MS,
            output_bytes_max: limits::PROBE_OUTPUT_BYTES_MAX,
            level: self.level,
        };
        let mut aside = Aside::start(&self.own_program, launch).ok()?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        // The request that waits for its reply; the greeting is none of them.
        let mut asked: Option<u64> = None;
        let mut to_set = VecDeque::new();
        let is_late = loop {
            let seen = aside.look().ok()?;
            for (stream, chunk) in seen.chunks {
                match stream {
                    Stream::Stdout => out.extend(chunk),
                    Stream::Stderr => err.extend(chunk),
                }
            }
            let is_late = clock::now().mono_ms >= deadline_ms;
            if seen.over || is_late {
                break is_late;
            }
            let text = String::from_utf8_lossy(&out);
            let reply = |id: u64| text.lines().find(|line| mode_trial::answers(line, id));
            match (&talk, asked) {
                (Some(talk), None) if text.lines().any(talk.answered) => {
                    let Some(then) = talk.then else { break false };
                    aside.say(format!("{then}\n").into_bytes());
                    asked = Some(mode_trial::OPEN_ID);
                }
                (_, Some(id)) => {
                    if let Some(reply) = reply(id) {
                        let sets_modes = talk.as_ref().is_some_and(|talk| talk.sets_modes);
                        if id == mode_trial::OPEN_ID && sets_modes {
                            to_set.extend(mode_trial::mode_requests(reply));
                        }
                        let Some(request) = to_set.pop_front() else { break false };
                        aside.say(request);
                        asked = Some(id + 1);
                    }
                }
                (_, None) => {}
            }
            tokio::time::sleep(LOOK).await;
        };
        let testimony = aside.testimony().cloned().unwrap_or_default();
        let isolation = aside.begin().map(|begin| (begin.isolation, begin.isolation_note.clone()));
        aside.leave().await;
        Some(Probed {
            is_late: is_late && testimony.exit_code.is_none(),
            stdout: String::from_utf8_lossy(&out).into_owned(),
            stderr: tail(&String::from_utf8_lossy(&err)),
            exit_code: testimony.exit_code,
            spawn_error: testimony.spawn_error,
            isolation,
        })
    }
}

/// Whether a line is JSON with something at the place of the answer.
fn is_answer(line: &str, pointer: &str) -> bool {
    let line: Option<serde_json::Value> = serde_json::from_str(line).ok();
    line.is_some_and(|line| line.pointer(pointer).is_some())
}

/// An error for a program that answered none of the probes that were made of it.
fn hanging(
    program: Option<&Path>,
    version: Option<&VersionProbe>,
    greeting: Option<&Greeting>,
) -> Option<Check> {
    let program = program?;
    let waits = [version.map(|probe| probe.is_late), greeting.map(|probe| probe.is_late)];
    let mut made = waits.iter().flatten().peekable();
    made.peek()?;
    if !made.all(|is_late| *is_late) {
        return None;
    }
    let probes = match (version, greeting) {
        (Some(_), Some(_)) => "neither a question for its version nor the first request",
        (None, Some(_)) => "not the first request",
        (Some(_), None) | (None, None) => "not a question for its version",
    };
    let seconds = limits::DOCTOR_MS / 1000;
    let message = format!("{} hangs: it answered {probes} within {seconds} s", program.display());
    let hint = "run it by hand; it may wait for a terminal, a login or the network";
    Some(Check::new(CheckCode::ProgramHangs, message).with_hint(hint))
}

fn how_it_failed(probed: Option<&Probed>) -> String {
    match probed {
        None => "could not be held by a keeper".to_owned(),
        Some(Probed { spawn_error: Some(error), .. }) => format!("could not be started: {error}"),
        Some(Probed { exit_code: Some(0), .. }) => "printed no version".to_owned(),
        Some(Probed { exit_code: Some(code), .. }) => format!("ended with exit status {code}"),
        Some(Probed { exit_code: None, .. }) => {
            format!("took longer than {} s and was ended", limits::DOCTOR_MS / 1000)
        }
    }
}

/// The last lines of what was said to stderr.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// A program by the rules of a shell: a path as it is, a name along PATH.
pub fn find_program(name: &str, path: Option<&str>) -> Option<PathBuf> {
    let can_run = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(can_run);
    }
    let directories = path.unwrap_or_default().split(':').filter(|directory| !directory.is_empty());
    directories.map(|directory| Path::new(directory).join(name)).find(can_run)
}

/// The first word that looks like a version: two numbers or more with dots between them.
fn version_in(text: &str) -> Option<&str> {
    let not_of_it = |c: char| !(c.is_ascii_alphanumeric() || "._-+".contains(c));
    let words = text.split(not_of_it).map(|word| word.trim_start_matches('v'));
    let mut versions = words.filter(|word| {
        let mut parts = word.split('.');
        let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let leading = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
        parts.next().is_some_and(number) && parts.next().is_some_and(leading)
    });
    versions.next().map(|word| word.trim_end_matches(['.', '-', '_', '+']))
}

/// What can be told of a login by looking at names alone.
fn logged_in(
    login: &Login,
    named: &[(String, String)],
    vars: &BTreeMap<String, String>,
) -> Vec<Check> {
    let is_set = |name: &&String| vars.get(*name).is_some_and(|value| !value.is_empty());
    let by_name = login.env.iter().find(is_set);
    let by_provider = named.iter().find(|(name, _)| is_set(&name));
    let files = login.files.iter().filter_map(|file| expanded(file, vars));
    let by_file = files.into_iter().find(|file| file.exists());
    let mut checks = Vec::new();
    match (by_name, &by_file) {
        (Some(name), _) => {
            checks.push(Check::new(CheckCode::LoginSeen, format!("{name} is set")));
        }
        (None, Some(file)) => {
            let message = format!("{} exists", file.display());
            checks.push(Check::new(CheckCode::LoginSeen, message));
        }
        (None, None) if by_provider.is_some() => {
            let (name, file) = by_provider.cloned().unwrap_or_default();
            let message = format!("{name} is set; {file} names it");
            checks.push(Check::new(CheckCode::LoginSeen, message));
        }
        (None, None) if !named.is_empty() => {
            let (name, file) = named[0].clone();
            let message = format!("{file} names the variable {name}, which is not set");
            let check = Check::new(CheckCode::LoginNotSeen, message);
            checks.push(check.with_hint(format!("export {name}, or {}", login.hint)));
        }
        (None, None) => {
            let looked: Vec<&str> =
                login.env.iter().chain(&login.files).map(String::as_str).collect();
            let check = Check::new(CheckCode::LoginNotSeen, "no sign of a login was found")
                .with_detail(format!("looked for {}", looked.join(", ")))
                .with_hint(login.hint.clone());
            checks.push(check);
        }
    }
    if let Some(name) = login.billed.iter().find(is_set) {
        let message = match &by_file {
            Some(file) => format!(
                "billed by use: {name} is set, and is used instead of the login in {}",
                file.display()
            ),
            None => format!("billed by use: {name} is set"),
        };
        checks.push(Check::new(CheckCode::KeySwitchesBilling, message));
    }
    checks
}

/// The hint for a program of the configuration that is not there.
pub fn fix_binary(adapter: &str, binary: &str) -> String {
    let fix = format!("fix adapters.{adapter}.binary");
    match registry::install_hint(binary) {
        Some(install) => format!("{fix}, or install it: {install}"),
        None => fix,
    }
}

/// The variables without which a run of this adapter fails at its start.
fn not_set(adapter: &Adapter, vars: &BTreeMap<String, String>) -> Vec<Check> {
    let missing = template::references(adapter).into_iter().filter(|it| !vars.contains_key(it));
    let check = |name: String| {
        let message = format!("adapters.{} uses ${{{name}}}, which is not set", adapter.name);
        Check::new(CheckCode::VariableNotSet, message).with_hint(template::not_set_hint(&name))
    };
    missing.map(check).collect()
}

/// The caller's variables that the agent gets, those that the configuration sets, and those that it
/// may need and does not get. Names alone: no value is shown.
fn variables(
    patient: &Patient,
    named: &[(String, String)],
    vars: &BTreeMap<String, String>,
) -> Vec<Check> {
    let mut passed = passed_env::passed(&patient.adapter, &patient.card, vars);
    let set = named.iter().map(|(name, _)| name).filter(|name| vars.contains_key(*name));
    passed.extend(set.cloned());
    let listed = |names: Vec<&str>| names.join(", ");
    let configured = &patient.adapter.env;
    passed.retain(|name| !configured.contains_key(name));
    let given = listed(passed.iter().map(String::as_str).collect());
    let mut message = format!("of your environment the agent gets: {given}");
    if !configured.is_empty() {
        let names = listed(configured.keys().map(String::as_str).collect());
        message.push_str(&format!("; the configuration sets: {names}"));
    }
    let mut checks = vec![Check::new(CheckCode::EnvironmentPassed, message)];
    passed.extend(configured.keys().cloned());
    passed.extend(template::references(&patient.adapter));
    let of_modes = patient.card.env_modes.iter().flat_map(|mode| &mode.env);
    let of_modes: Vec<&String> = of_modes.collect();
    let is_relevant = |name: &&String| sounds_secret(name) || of_modes.contains(name);
    let is_held_back = |name: &&String| {
        !passed.contains(*name) && !passed_env::is_reserved(name) && is_relevant(name)
    };
    let held_back: Vec<&str> = vars.keys().filter(is_held_back).map(String::as_str).collect();
    if let Some(first) = held_back.first() {
        let hint =
            format!("pass one with `ostler run --env {first}`, or name it in `envPassthrough`");
        let message = format!("set here and not passed: {}", listed(held_back));
        checks.push(Check::new(CheckCode::EnvironmentNotPassed, message).with_hint(hint));
    }
    checks
}

/// A path on a card as a path here; `None` when no home is known.
pub(crate) fn expanded(file: &str, vars: &BTreeMap<String, String>) -> Option<PathBuf> {
    runtimes::skills::expanded(file, vars).map(PathBuf::from)
}

fn directory(path: &Path) -> Check {
    match fs::read_dir(path) {
        Ok(_) => Check::new(CheckCode::DirectoryUsable, path.display().to_string()),
        Err(error) => {
            let message = format!("{}: {error}", path.display());
            Check::new(CheckCode::DirectoryUnusable, message)
                .with_hint("fix the agent's cwd, or give one with --cwd")
        }
    }
}

impl PolicyBasis {
    const ALL: [Self; 5] =
        [Self::ModeAccepted, Self::ModeBegun, Self::Promised, Self::Answered, Self::OwnTools];

    /// The reason for which a policy that a lane can keep is listed.
    fn of(card: &Card, lane: Lane, trial: Option<&ModeTrial>) -> Self {
        match (lane, trial) {
            (Lane::Process | Lane::Http, _) => Self::OwnTools,
            (Lane::Acp, Some(ModeTrial::Accepted)) => Self::ModeAccepted,
            (Lane::Acp, Some(ModeTrial::Begun)) => Self::ModeBegun,
            // Of an agent that is a runtime here the card says how it is held.
            (Lane::Acp, _) if lane::of(&card.id).is_none() => Self::Answered,
            (Lane::Native | Lane::Acp, _) => Self::Promised,
        }
    }

    /// The policies with what is known of them, for a person.
    fn told(self, policies: &str) -> String {
        match self {
            Self::ModeAccepted => {
                format!("accepts the mode for: {policies} (not tested with a change)")
            }
            Self::ModeBegun => {
                format!("begins in a mode for: {policies} (not tested with a change)")
            }
            Self::Promised => format!("promised by the agent: {policies}"),
            Self::Answered => {
                format!("answered by Ostler where the agent asks: {policies} (not tested)")
            }
            Self::OwnTools => format!("only for the tools that Ostler offers: {policies}"),
        }
    }
}

/// Which policies can be kept, and what the dangerous one means here. `trials` is what a session of the
/// agent showed.
fn policies(card: &Card, configured: Option<Policy>, trials: Option<&PolicyTrials>) -> Vec<Check> {
    let trial = |policy: Policy| {
        let tried = trials.filter(|_| card.lane_for(policy) == Some(Lane::Acp));
        let mut tried = tried.into_iter().flatten().filter(move |(of, _)| *of == policy);
        tried.next().map(|(_, trial)| trial)
    };
    let refusal = |policy: Policy| match trial(policy) {
        Some(ModeTrial::NotPossible(why)) => Some(why.clone()),
        _ => None,
    };
    let possible = |policy: Policy| card.lane_for(policy).is_some() && refusal(policy).is_none();
    let all = [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll];
    let named = |policy: Policy| match card.lane_for(policy) {
        // What needs another lane than the usual one says which.
        Some(Lane::Acp) if card.lanes.len() > 1 => format!("{} (lane acp)", policy.word()),
        _ => policy.word().to_owned(),
    };
    let kept: Vec<String> = all.into_iter().filter(|it| possible(*it)).map(named).collect();
    let refused: Vec<&str> =
        all.into_iter().filter(|policy| !possible(*policy)).map(Policy::word).collect();
    let basis = |policy: Policy| {
        let lane = card.lane_for(policy).filter(|_| possible(policy))?;
        Some(PolicyBasis::of(card, lane, trial(policy)))
    };
    let part = |of: PolicyBasis| {
        let names: Vec<String> =
            all.into_iter().filter(|policy| basis(*policy) == Some(of)).map(named).collect();
        (!names.is_empty()).then(|| of.told(&names.join(", ")))
    };
    let refused_words =
        (!refused.is_empty()).then(|| format!("not possible: {}", refused.join(", ")));
    let parts = PolicyBasis::ALL.into_iter().filter_map(part).chain(refused_words);
    let message = parts.collect::<Vec<_>>().join("; ");
    let check = Check::new(CheckCode::PolicyPossible, message);
    let why = all.into_iter().find_map(refusal);
    let mut checks = vec![match why {
        Some(why) => check.with_detail(why),
        None => check,
    }];
    let dangerous = card.policies.iter().find(|row| row.policy == Policy::AllowAll);
    if let Some(flags) = dangerous.and_then(|row| row.flags.as_ref()) {
        let flags = match flags.is_empty() {
            true => String::new(),
            false => format!(" ({})", flags.join(" ")),
        };
        let message = format!("allow-all{flags} is dangerous: changes are made without asking");
        let check = Check::new(CheckCode::PolicyDangerous, message);
        checks.push(match dangerous.and_then(|row| row.note.clone()) {
            Some(note) => check.with_detail(note),
            None => check,
        });
    }
    if let Some(policy) = configured.filter(|policy| !possible(*policy)) {
        let message = format!("the configured permission {} cannot be enforced", policy.word());
        let hint = format!("choose one of {}", kept.join(", "));
        checks.push(Check::new(CheckCode::PolicyNotPossible, message).with_hint(hint));
    }
    checks
}

/// Secrets in arguments are seen by everyone on the machine.
fn arguments(adapter: &Adapter) -> Vec<Check> {
    let telling = |argument: &&String| {
        argument.contains("${") || argument.replace(' ', "").contains("{{leaseToken")
    };
    let all = adapter.args.iter().chain(&adapter.extra_args);
    let check = |argument: &String| {
        let message = format!(
            "the argument {argument:?} shows a secret to every process of this \
         machine"
        );
        Check::new(CheckCode::SecretInArguments, message)
            .with_hint("give it by `env` instead of `args`")
    };
    all.filter(telling).map(check).collect()
}

#[cfg(test)]
mod tests;
