//! `ostler conformance process -- CMD`: plays every scene of the process protocol with an agent and
//! says, point by point, what it does right. What is said and judged is `runtimes::jsonlines::judge`;
//! here are its hands: each scene is a launch of its own under a keeper, without a store or a host,
//! and nothing of it is left behind.

use super::{Context, Stopped};
use crate::args;
use crate::config::process_adapter;
use crate::hosting::OWN_PROGRAM;
use contract::plan::{Adapter, Limit};
use contract::{Code, Fault, limits};
use host::environment::{self, Reserved};
use host::{chance, clock};
use keeper::door::{self, Spawned};
use keeper::packet;
use keeper::plan::{LeaseClock, Plan, StdinMode};
use keeper::record::{Kind, Testimony};
use keeper::spool::Reader;
use keeper::wire::{Assembler, Order, Report};
use runtimes::jsonlines::judge::{
    self, Act, Exit, Finding, Heard, Orchestrator, Recording, Scene, Verdict,
};
use runtimes::{Spec, registry, template};
use serde_json::json;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How often the agent is listened to.
const LISTEN: Duration = Duration::from_millis(5);
/// No scene takes longer: an agent that talks without end is ended by its keeper.
const SCENE_MS_MAX: u64 = 30 * 60 * 1000;
/// All output of a scene: enough to judge.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;

pub async fn conformance(context: &Context, args: args::Conformance) -> Result<ExitCode, Stopped> {
    let args::Conformance::Process(judged) = args;
    let patience_ms = match judged.patience {
        Limit::Ms(ms) => ms,
        Limit::Unlimited => SCENE_MS_MAX,
    };
    let stage = Stage::new(context, &judged.command)?;
    let mut recordings: Vec<Recording> = Vec::new();
    for scene in Scene::ALL {
        if !scene.is_worth_playing(&recordings) {
            continue;
        }
        let recording = tokio::select! {
            recording = stage.play(scene, patience_ms) => recording?,
            // The stage falls, and with the socket the keeper's reason to let the agent live.
            _ = tokio::signal::ctrl_c() => {
                return Err(Fault::new(Code::Cancelled, "judging was interrupted").into());
            }
        };
        recordings.push(recording);
    }
    let findings = judge::judge(&recordings);
    let fails = |finding: &Finding| finding.verdict == Verdict::Fail && finding.point.required;
    let ok = !findings.iter().any(fails);
    match context.global.json {
        true => context.print_json(&json!({ "ok": ok, "points": findings }))?,
        false => context.print(&report(&findings))?,
    }
    Ok(match ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(Code::ProtocolError.row().exit),
    })
}

/// The findings for people: one line per point, and below it what offends.
fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    let width = findings.iter().map(|finding| finding.point.id.len()).max().unwrap_or(0);
    for Finding { point, verdict, scene, line, text: offends, why, more } in findings {
        let sign = match (verdict, point.required) {
            (Verdict::Pass, _) => '✓',
            (Verdict::Fail, true) => '✗',
            (Verdict::Fail, false) => '!',
            (Verdict::NotSeen, _) => '·',
        };
        text.push_str(&format!("{sign} {:width$}  {}\n", point.id, point.what));
        let Some(why) = why else { continue };
        let place = match (scene, line) {
            (Some(scene), Some(line)) => format!("{} scene, line {line}: ", scene.word()),
            (Some(scene), None) => format!("{} scene: ", scene.word()),
            (None, _) => "not seen: ".to_owned(),
        };
        let more = if *more > 0 { format!(" (and {more} more)") } else { String::new() };
        text.push_str(&format!("    {place}{why}{more}\n"));
        if let Some(offends) = offends {
            text.push_str(&format!("    {offends}\n"));
        }
    }
    let count = |wanted: Verdict, required: bool| {
        let fits =
            |finding: &&Finding| finding.verdict == wanted && (finding.point.required || !required);
        findings.iter().filter(fits).count()
    };
    let failed = count(Verdict::Fail, true);
    text.push_str(&format!(
        "{} passed, {failed} failed, {} advised against, {} not seen",
        count(Verdict::Pass, false),
        count(Verdict::Fail, false) - failed,
        count(Verdict::NotSeen, false),
    ));
    text
}

/// Where the scenes are played: a temporary directory, and the agent's command.
struct Stage {
    root: PathBuf,
    adapter: Adapter,
    context: Surroundings,
}

type Surroundings = std::collections::BTreeMap<String, String>;

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed is in the directory for temporary files, which others sweep.
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Stage {
    fn new(context: &Context, command: &[String]) -> Result<Self, Fault> {
        let surroundings = &context.surroundings;
        let vars = surroundings.vars.clone();
        let temporary = vars.get("TMPDIR").map_or(Path::new("/tmp"), Path::new);
        let name = format!("ostler-judge-{}", chance::run_id().uuid().simple());
        let root = temporary.join(name);
        fs::DirBuilder::new().mode(0o700).create(&root).map_err(|error| cannot(&root, &error))?;
        let words: Vec<String> =
            command.iter().map(|word| absolute(&surroundings.cwd, word)).collect();
        let mut adapter = process_adapter("agent")?;
        adapter.binary = words.first().cloned();
        adapter.args = words.into_iter().skip(1).collect();
        Ok(Self { root, adapter, context: vars })
    }

    /// One launch of the agent, to its end.
    async fn play(&self, scene: Scene, patience_ms: u64) -> Result<Recording, Fault> {
        let work = self.root.join(scene.word());
        let spool = self.root.join(format!("{}.spool", scene.word()));
        fs::create_dir(&work)
            .and_then(|()| fs::write(work.join(judge::NOTE), judge::NOTE_TEXT))
            .map_err(|error| cannot(&work, &error))?;
        let plan = self.plan(&work, &spool)?;
        let failed = |error: io::Error| {
            Fault::new(Code::SpawnFailed, format!("handing the agent to its keeper: {error}"))
        };
        let Spawned { control, mut child } =
            door::spawn(Path::new(OWN_PROGRAM), None).map_err(failed)?;
        door::prepare_spool(&spool)
            .and_then(|()| door::send_plan(&control, &plan))
            .map_err(failed)?;
        let mut hands = Hands {
            control,
            assembler: Assembler::default(),
            buffer: packet::buffer(),
            waiting: VecDeque::new(),
            next: 0,
            said: None,
            gone: false,
        };
        let mut ears = Ears {
            reader: Reader::open(&spool, 0).map_err(|error| failed(io::Error::other(error)))?,
            rest: Vec::new(),
            lines: Vec::new(),
            testimony: None,
        };
        let mut orchestrator = Orchestrator::new(scene, patience_ms);
        let begun_ms = clock::now().mono_ms;
        loop {
            // Asked before the spool is read: what a keeper wrote before it left is then read too.
            hands.listen();
            let over = hands.gone;
            let now_ms = clock::now().mono_ms.saturating_sub(begun_ms);
            let heard = ears.lines.len();
            ears.hear(now_ms).map_err(failed)?;
            for line in &ears.lines[heard..] {
                hands.take(orchestrator.hear(now_ms, &line.bytes));
            }
            if over || ears.testimony.is_some() {
                break;
            }
            hands.take(orchestrator.tick(now_ms));
            hands.speak();
            tokio::time::sleep(LISTEN).await;
        }
        drop(hands);
        let _ = tokio::task::spawn_blocking(move || child.wait()).await;
        let mut done = orchestrator.done();
        let (lines, exit, forced) = ears.close();
        done.stopped = done.stopped || forced;
        Ok(Recording { scene, lines, done, exit })
    }

    /// What the product itself would start, in this directory.
    fn plan(&self, work: &Path, spool: &Path) -> Result<Plan, Fault> {
        let (run, task, agent) = (chance::run_id(), chance::task_id(), chance::agent_id("judged"));
        let token = chance::token().map_err(|error| cannot(work, &error))?;
        let mut context = template::Context::new();
        context
            .set("workspacePath", work.display().to_string())
            .set("leaseToken", token.as_str())
            .set("fencingToken", "1")
            .set("taskId", task.to_string())
            .set("runId", run.to_string())
            .set("mcpUrl", format!("{NOWHERE}/mcp"))
            .set("agentId", agent.to_string())
            .set("companyId", "default");
        let spec = Spec {
            adapter: self.adapter.clone(),
            context,
            model: None,
            prompt: String::new(),
            system_prompt: None,
            policy: contract::Policy::Ask,
            lane: contract::plan::Lane::Process,
            session: None,
            files: String::new(),
            as_root: false,
            own_program: OWN_PROGRAM.to_owned(),
            caller_env: self.context.clone(),
        };
        let runtime = registry::find(&self.adapter.runtime).ok_or_else(|| {
            Fault::new(Code::UnknownAgent, "the process protocol is not known here")
        })?;
        let plan = runtime.plan(&spec)?;
        let reserved = Reserved {
            run,
            task,
            agent,
            fence: 1,
            lease_token: &token,
            api_url: NOWHERE,
            organization: "default",
            workspace: work,
            wake_reason: "run",
            compat: &[],
        };
        let prefixes = runtimes::launch::ENV_ALLOWLIST_PREFIXES;
        Ok(Plan {
            level: Default::default(),
            version: keeper::wire::VERSION,
            run_id: run.to_string(),
            attempt: 1,
            fence: 1,
            hello_secret: token.clone(),
            spool_dir: spool.to_owned(),
            program: plan.program,
            args: plan.args,
            cwd: work.to_owned(),
            env: environment::build(&plan.env, prefixes, &self.context, &reserved),
            secrets: Vec::new(),
            luggage: None,
            stdin: StdinMode::Open,
            first_frame: None,
            deadline_ms: LeaseClock::Monotonic.now_ms() + SCENE_MS_MAX,
            clock: LeaseClock::Monotonic,
            farewell: None,
            farewell_ms: 0,
            term_ms: 0,
            drain_ms: limits::DRAIN_MS,
            output_bytes_max: OUTPUT_BYTES_MAX,
            segment_bytes: limits::SPOOL_SEGMENT_BYTES,
            mark: ("OSTLER_RUN_ID".to_owned(), run.to_string()),
        })
    }
}

/// An address at which nobody listens: there is no host behind a judge.
const NOWHERE: &str = "http://127.0.0.1:0";

/// A word that names a file here names it from the temporary directory too.
fn absolute(cwd: &Path, word: &str) -> String {
    let path = cwd.join(word);
    match path.is_file() {
        true => path.display().to_string(),
        false => word.to_owned(),
    }
}

fn cannot(path: &Path, error: &io::Error) -> Fault {
    Fault::new(Code::BadWorkspace, format!("{}: {error}", path.display()))
}

/// The way to the agent's stdin, one frame at a time.
struct Hands {
    control: std::os::fd::OwnedFd,
    assembler: Assembler,
    buffer: Box<[u8]>,
    waiting: VecDeque<Act>,
    next: u32,
    /// The frame the keeper has.
    said: Option<u32>,
    gone: bool,
}

impl Drop for Hands {
    /// An agent that is no longer judged does not live on.
    fn drop(&mut self) {
        if !self.gone {
            self.stop();
        }
    }
}

impl Hands {
    fn take(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Stop => self.stop(),
                Act::Say(_) | Act::CloseStdin => self.waiting.push_back(act),
            }
        }
    }

    fn stop(&mut self) {
        let reason = Code::Cancelled.word().to_owned();
        self.send(&Order::Stop { reason, farewell_ms: 0, term_ms: 0 });
    }

    fn speak(&mut self) {
        if self.said.is_some() || self.gone {
            return;
        }
        let Some(act) = self.waiting.pop_front() else { return };
        self.next += 1;
        let n = self.next;
        self.said = Some(n);
        match act {
            Act::Say(bytes) => self.send(&Order::Say { n, bytes }),
            Act::CloseStdin => self.send(&Order::CloseStdin { n }),
            Act::Stop => {}
        }
    }

    /// A keeper that does not take an order is gone, or will be when its lease ends.
    fn send(&mut self, order: &Order) {
        for packet in order.packets() {
            if packet::send(&self.control, &packet).is_err() {
                self.gone = true;
            }
        }
    }

    fn listen(&mut self) {
        loop {
            let received = match packet::receive(&self.control, &mut self.buffer) {
                Ok(Some(packet)) => self.assembler.push(packet),
                Ok(None) => break self.gone = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => break self.gone = true,
            };
            let report = received.and_then(|message| message.map(Report::from_message).transpose());
            match report {
                Ok(Some(Report::SaidAck { n } | Report::Dropped { n })) if self.said == Some(n) => {
                    self.said = None;
                }
                Ok(Some(Report::Exit)) => break self.gone = true,
                Ok(_) => {}
                Err(_) => break self.gone = true,
            }
        }
        self.speak();
    }
}

/// The agent's stdout, as lines.
struct Ears {
    reader: Reader,
    rest: Vec<u8>,
    lines: Vec<Heard>,
    testimony: Option<Testimony>,
}

impl Ears {
    fn hear(&mut self, at_ms: u64) -> io::Result<()> {
        while let Some(record) = self.reader.next().map_err(io::Error::other)? {
            match record.kind {
                Kind::Out => self.rest.extend_from_slice(record.payload),
                Kind::Exit => self.testimony = serde_json::from_slice(record.payload).ok(),
                Kind::Begin
                | Kind::Err
                | Kind::Said
                | Kind::Dropped
                | Kind::StdinBroken
                | Kind::Note => {}
            }
        }
        let mut read = 0;
        while let Some(length) = self.rest[read..].iter().position(|byte| *byte == b'\n') {
            let bytes = self.rest[read..read + length].to_vec();
            self.lines.push(Heard { at_ms, bytes, ended: true });
            read += length + 1;
        }
        self.rest.drain(..read);
        Ok(())
    }

    /// Everything that was said, and how it ended; true when the keeper had to use force.
    fn close(mut self) -> (Vec<Heard>, Exit, bool) {
        let at_ms = self.lines.last().map_or(0, |line| line.at_ms);
        if !self.rest.is_empty() {
            let bytes = std::mem::take(&mut self.rest);
            self.lines.push(Heard { at_ms, bytes, ended: false });
        }
        let Some(testimony) = self.testimony else {
            return (self.lines, Exit::default(), true);
        };
        let exit = Exit {
            code: testimony.exit_code,
            signal: testimony.signal,
            spawn_error: testimony.spawn_error,
        };
        (self.lines, exit, testimony.forced)
    }
}
