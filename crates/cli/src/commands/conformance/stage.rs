//! Where scenes are played: a temporary directory, and the agent's command under a keeper, without a
//! store or a host. What a scene says comes from its judge as `Act`s; here are the hands that do them
//! and the ears that write down what was heard. Dropping the stage takes the directory away.

use crate::commands::Context;
use crate::hosting::OWN_PROGRAM;
use contract::plan::{Adapter, Lane};
use contract::{Code, Fault};
use host::aside::{Aside, Launch};
use host::environment::{self, Reserved};
use host::{chance, clock};
use keeper::plan::StdinMode;
use keeper::record::Testimony;
use runtimes::verdict::{Act, Exit, Heard};
use runtimes::{Spec, Stream, registry, template};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the agent is listened to.
const LISTEN: Duration = Duration::from_millis(5);
/// No scene takes longer: an agent that talks without end is ended by its keeper.
pub(super) const SCENE_MS_MAX: u64 = 30 * 60 * 1000;
/// All output of a scene: enough to judge.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;
/// An address at which nobody listens: there is no host behind a judge.
const NOWHERE: &str = "http://127.0.0.1:0";

/// The other side of a scene: it says what to do, and is told what was heard and what time it is.
pub(super) trait Partner {
    fn begin(&mut self, now_ms: u64) -> Vec<Act>;
    fn hear(&mut self, now_ms: u64, line: &[u8]) -> Vec<Act>;
    fn tick(&mut self, now_ms: u64) -> Vec<Act>;
}

/// What a scene came to.
pub(super) struct Heeded {
    pub lines: Vec<Heard>,
    pub exit: Exit,
    /// The keeper had to use force.
    pub forced: bool,
}

/// A temporary directory, and the agent's command.
pub(super) struct Stage {
    pub root: PathBuf,
    adapter: Adapter,
    lane: Lane,
    vars: BTreeMap<String, String>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed is in the directory for temporary files, which others sweep.
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Stage {
    /// A stage for a command; the adapter says how such a command is started.
    pub(super) fn new(
        context: &Context,
        command: &[String],
        mut adapter: Adapter,
        lane: Lane,
    ) -> Result<Self, Fault> {
        let surroundings = &context.surroundings;
        let vars = surroundings.vars.clone();
        let temporary = vars.get("TMPDIR").map_or(Path::new("/tmp"), Path::new);
        let name = format!("ostler-judge-{}", chance::run_id().uuid().simple());
        let root = temporary.join(name);
        fs::DirBuilder::new().mode(0o700).create(&root).map_err(|error| cannot(&root, &error))?;
        let words: Vec<String> =
            command.iter().map(|word| absolute(&surroundings.cwd, word)).collect();
        adapter.binary = words.first().cloned();
        adapter.args = words.into_iter().skip(1).collect();
        Ok(Self { root, adapter, lane, vars })
    }

    /// A directory for the agent of this name, made where it is not there yet.
    pub(super) fn room(&self, name: &str, files: &[(&str, &str)]) -> Result<PathBuf, Fault> {
        let room = self.root.join(name);
        if room.exists() {
            return Ok(room);
        }
        fs::create_dir(&room).map_err(|error| cannot(&room, &error))?;
        for (name, text) in files {
            fs::write(room.join(name), text).map_err(|error| cannot(&room, &error))?;
        }
        Ok(room)
    }

    /// One launch of the agent in this directory, to its end; `name` is new for each. When it is
    /// stopped it may take `term_ms` to obey SIGTERM.
    pub(super) async fn play(
        &self,
        name: &str,
        room: &Path,
        term_ms: u64,
        partner: &mut impl Partner,
    ) -> Result<Heeded, Fault> {
        let spool = self.root.join(format!("{name}.spool"));
        let mut agent = Aside::start(Path::new(OWN_PROGRAM), self.launch(room, spool, term_ms)?)?;
        let mut ears = Ears::default();
        let begun_ms = clock::now().mono_ms;
        act(&mut agent, partner.begin(0));
        loop {
            let seen = agent.look().map_err(|error| cannot(&self.root, &error))?;
            let now_ms = clock::now().mono_ms.saturating_sub(begun_ms);
            let heard = ears.lines.len();
            ears.hear(now_ms, &seen.chunks);
            for line in &ears.lines[heard..] {
                act(&mut agent, partner.hear(now_ms, &line.bytes));
            }
            if seen.over {
                break;
            }
            act(&mut agent, partner.tick(now_ms));
            tokio::time::sleep(LISTEN).await;
        }
        let testimony = agent.testimony().cloned();
        agent.leave().await;
        Ok(ears.close(testimony))
    }

    /// What the product itself would start, in this directory.
    fn launch(&self, work: &Path, spool: PathBuf, term_ms: u64) -> Result<Launch, Fault> {
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
            lane: self.lane,
            session: None,
            budget: Default::default(),
            counts_spending: false,
            files: String::new(),
            as_root: false,
            own_program: OWN_PROGRAM.to_owned(),
            caller_env: self.vars.clone(),
        };
        let id = &self.adapter.runtime;
        let runtime = registry::find(id).ok_or_else(|| {
            Fault::new(Code::UnknownAgent, format!("the protocol '{id}' is not known here"))
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
            wake_comment: None,
            approval: None,
            linked_tasks: &[],
            compat: &[],
        };
        let prefixes = runtimes::passed_env::ENV_ALLOWLIST_PREFIXES;
        Ok(Launch {
            program: plan.program,
            args: plan.args,
            cwd: work.to_owned(),
            env: environment::build(&plan.env, prefixes, &self.vars, &reserved),
            stdin: StdinMode::Open,
            first_frame: None,
            spool,
            wall_ms: SCENE_MS_MAX,
            term_ms,
            output_bytes_max: OUTPUT_BYTES_MAX,
            level: Default::default(),
        })
    }
}

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

    /// Everything that was said, and how it ended.
    fn close(mut self, testimony: Option<Testimony>) -> Heeded {
        let at_ms = self.lines.last().map_or(0, |line| line.at_ms);
        if !self.rest.is_empty() {
            let bytes = std::mem::take(&mut self.rest);
            self.lines.push(Heard { at_ms, bytes, ended: false });
        }
        let lines = self.lines;
        let Some(testimony) = testimony else {
            return Heeded { lines, exit: Exit::default(), forced: true };
        };
        let exit = Exit {
            code: testimony.exit_code,
            signal: testimony.signal,
            spawn_error: testimony.spawn_error,
        };
        Heeded { lines, exit, forced: testimony.forced }
    }
}
