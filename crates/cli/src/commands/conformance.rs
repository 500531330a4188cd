//! `ostler conformance process -- CMD`: plays every scene of the process protocol with an agent and
//! says, point by point, what it does right. What is said and judged is `runtimes::jsonlines::judge`;
//! here are its hands: each scene is a launch of its own under a keeper, without a store or a host,
//! and nothing of it is left behind.

use super::{Context, Stopped};
use crate::args;
use crate::config::process_adapter;
use crate::hosting::OWN_PROGRAM;
use contract::plan::{Adapter, Limit};
use contract::{Code, Fault};
use host::aside::{Aside, Launch};
use host::environment::{self, Reserved};
use host::{chance, clock};
use keeper::plan::StdinMode;
use keeper::record::Testimony;
use runtimes::jsonlines::judge::{
    self, Act, Exit, Finding, Heard, Orchestrator, Recording, Scene, Verdict,
};
use runtimes::{Spec, Stream, registry, template};
use serde_json::json;
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
        let mut agent = Aside::start(Path::new(OWN_PROGRAM), self.launch(&work, spool)?)?;
        let mut ears = Ears::default();
        let mut orchestrator = Orchestrator::new(scene, patience_ms);
        let begun_ms = clock::now().mono_ms;
        loop {
            let seen = agent.look().map_err(|error| cannot(&self.root, &error))?;
            let now_ms = clock::now().mono_ms.saturating_sub(begun_ms);
            let heard = ears.lines.len();
            ears.hear(now_ms, &seen.chunks);
            for line in &ears.lines[heard..] {
                act(&mut agent, orchestrator.hear(now_ms, &line.bytes));
            }
            if seen.over {
                break;
            }
            act(&mut agent, orchestrator.tick(now_ms));
            tokio::time::sleep(LISTEN).await;
        }
        let testimony = agent.testimony().cloned();
        agent.leave().await;
        let mut done = orchestrator.done();
        let (lines, exit, forced) = ears.close(testimony);
        done.stopped = done.stopped || forced;
        Ok(Recording { scene, lines, done, exit })
    }

    /// What the product itself would start, in this directory.
    fn launch(&self, work: &Path, spool: PathBuf) -> Result<Launch, Fault> {
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
        Ok(Launch {
            program: plan.program,
            args: plan.args,
            cwd: work.to_owned(),
            env: environment::build(&plan.env, prefixes, &self.context, &reserved),
            stdin: StdinMode::Open,
            first_frame: None,
            spool,
            wall_ms: SCENE_MS_MAX,
            term_ms: 0,
            output_bytes_max: OUTPUT_BYTES_MAX,
            level: Default::default(),
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

fn act(agent: &mut Aside, acts: Vec<Act>) {
    for act in acts {
        match act {
            Act::Say(bytes) => agent.say(bytes),
            Act::CloseStdin => agent.close_stdin(),
            Act::Stop => agent.stop(),
        }
    }
}

/// The agent's stdout, as lines.
#[derive(Default)]
struct Ears {
    rest: Vec<u8>,
    lines: Vec<Heard>,
}

impl Ears {
    fn hear(&mut self, at_ms: u64, chunks: &[(Stream, Vec<u8>)]) {
        for (stream, chunk) in chunks {
            match stream {
                Stream::Stdout => self.rest.extend_from_slice(chunk),
                Stream::Stderr => {}
            }
        }
        let mut read = 0;
        while let Some(length) = self.rest[read..].iter().position(|byte| *byte == b'\n') {
            let bytes = self.rest[read..read + length].to_vec();
            self.lines.push(Heard { at_ms, bytes, ended: true });
            read += length + 1;
        }
        self.rest.drain(..read);
    }

    /// Everything that was said, and how it ended; true when the keeper had to use force.
    fn close(mut self, testimony: Option<Testimony>) -> (Vec<Heard>, Exit, bool) {
        let at_ms = self.lines.last().map_or(0, |line| line.at_ms);
        if !self.rest.is_empty() {
            let bytes = std::mem::take(&mut self.rest);
            self.lines.push(Heard { at_ms, bytes, ended: false });
        }
        let Some(testimony) = testimony else {
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
