//! One CLI with everything around it that a run needs: an instance, its program on PATH, its settings
//! in an empty HOME, and a scripted model that is made anew for every round. Both sides of the bench
//! run here and nowhere else.

use super::super::{Programs, said, usage};
use super::clis::Cli;
use contract::Policy;
use contract::plan::{Adapter, EnvSource, LaunchPlan};
use runtimes::{Runtime, Spec, registry};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::agents::{self, Pin};
use testkit::{Instance, Model, recorded};

const PROMPT: &str = "Say hello.";
/// What the scripted model answers.
const ANSWER: &str = "Hello from the fake model.";
const SCENARIO: &str = "hello";

/// Whether the agent is offered the tools of Ostler, as it is by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tools {
    Off,
    Offered,
}

pub struct Stage {
    ostler: PathBuf,
    cli: &'static Cli,
    runtime: &'static dyn Runtime,
    instance: Instance,
    /// The model's address of this round.
    base: RefCell<String>,
    /// The last run through Ostler without tools.
    run_id: RefCell<String>,
}

impl Stage {
    pub fn new(programs: &Programs, pin: &Pin) -> Result<Self, String> {
        let cli = super::clis::CLIS.iter().find(|cli| cli.id == pin.id);
        let cli = cli.ok_or_else(|| format!("{} has no row among the CLIs", pin.id))?;
        let runtime =
            registry::find(pin.id).ok_or_else(|| format!("no runtime drives {}", pin.id))?;
        let stage = Self {
            ostler: programs.ostler.clone(),
            cli,
            runtime,
            instance: Instance::new(),
            base: RefCell::default(),
            run_id: RefCell::default(),
        };
        stage.link(pin.id, &agents::installed(pin.id))?;
        if pin.newer_node {
            stage.link("node", &agents::newer_node())?;
        }
        Ok(stage)
    }

    /// A text that the environment of everything of this stage holds.
    pub fn mark(&self) -> String {
        self.instance.mark()
    }

    fn link(&self, name: &str, program: &Path) -> Result<(), String> {
        let link = self.instance.root().join("bin").join(name);
        std::os::unix::fs::symlink(program, link).map_err(said("linking a program"))
    }

    /// A model for one round, to which the CLI's settings then point.
    pub fn model(&self, round: usize) -> Result<Model, String> {
        let model = Model::start(&self.instance.root().join(format!("model-{round}")), SCENARIO);
        model.base().clone_into(&mut self.base.borrow_mut());
        for (path, text) in self.cli.files {
            let path = self.home().join(path);
            let dir = path.parent().map_or(Ok(()), fs::create_dir_all);
            dir.and_then(|()| fs::write(&path, self.filled(text)))
                .map_err(said(format!("writing {}", path.display())))?;
        }
        Ok(model)
    }

    fn home(&self) -> PathBuf {
        self.instance.root().join("home")
    }

    fn filled(&self, text: &str) -> String {
        let home = self.home().display().to_string();
        text.replace("{base}", &self.base.borrow()).replace("{home}", &home)
    }

    fn pairs(&self, pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), self.filled(value))).collect()
    }

    /// The environment of the person who starts something here.
    fn caller_env(&self) -> BTreeMap<String, String> {
        let mut env: BTreeMap<String, String> = self.instance.env().into_iter().collect();
        env.extend(self.pairs(self.cli.env));
        env
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.instance.command(&self.ostler);
        command.args(args).envs(self.caller_env()).stdin(Stdio::null());
        command
    }

    /// `ostler run`, from its start to its end, in milliseconds.
    pub fn run(&self, tools: Tools) -> Result<f64, String> {
        let mut adapter = json!({ "type": "cli", "env": self.pairs(self.cli.given) });
        if tools == Tools::Off {
            adapter["mcp"] = json!("off");
        }
        let config = json!({ "adapters": { (self.cli.id): adapter } });
        self.instance.write_config(&config.to_string());
        let args = ["run", self.cli.id, PROMPT, "--json", "--permission", "allow-all"];
        let mut command = self.command(&args);
        let from_ns = usage::now_ns();
        let output = command.output().map_err(said("starting ostler"))?;
        let took_ms = (usage::now_ns() - from_ns) as f64 / 1e6;
        let text = String::from_utf8_lossy(&output.stdout);
        let last: Value = text
            .lines()
            .last()
            .map_or(Ok(Value::Null), serde_json::from_str)
            .map_err(said("reading what ostler said"))?;
        if !output.status.success() || last["text"] != ANSWER {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "{} through ostler: {}: {last}\n{stderr}",
                self.cli.id, output.status
            ));
        }
        if tools == Tools::Off {
            last["run_id"].as_str().unwrap_or_default().clone_into(&mut self.run_id.borrow_mut());
        }
        Ok(took_ms)
    }

    /// The same program by a plain spawn, in milliseconds.
    pub fn bare(&self) -> Result<f64, String> {
        let spec = self.spec();
        let plan = self.plan(&spec)?;
        fs::create_dir_all(&spec.files).map_err(said("making a directory"))?;
        for file in &plan.files {
            fs::write(Path::new(&spec.files).join(&file.name), &file.text)
                .map_err(said("writing a file of the plan"))?;
        }
        let mut dialect = self.runtime.dialect(&spec);
        let stderr_path = self.instance.root().join("tmp/bare.stderr");
        let stderr = fs::File::create(&stderr_path).map_err(said("making a file"))?;
        let mut command = self.instance.command(&plan.program);
        command.env_clear().envs(self.environment(&plan)).args(&plan.args).stderr(stderr);
        let from_ns = usage::now_ns();
        let heard = super::bare::run(&mut command, plan.stdin, &mut *dialect)?;
        let took_ms = (usage::now_ns() - from_ns) as f64 / 1e6;
        if heard.as_deref() != Some(ANSWER) {
            let stderr = fs::read_to_string(stderr_path).unwrap_or_default();
            return Err(format!("{} by itself ended with {heard:?}\n{stderr}", self.cli.id));
        }
        Ok(took_ms)
    }

    /// What a run without tools is made from.
    fn spec(&self) -> Spec {
        let card = self.runtime.card();
        let lane = card.lanes.first().copied().unwrap_or(contract::plan::Lane::Native);
        let mut spec = recorded::spec(self.runtime, lane);
        spec.context.set("workspacePath", self.instance.work().display().to_string());
        spec.adapter = Adapter { env: self.pairs(self.cli.given), mcp: false, ..spec.adapter };
        Spec {
            prompt: PROMPT.to_owned(),
            policy: Policy::AllowAll,
            files: self.instance.root().join("tmp/files").display().to_string(),
            as_root: rustix::process::geteuid().is_root(),
            own_program: self.ostler.display().to_string(),
            ..spec
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, String> {
        self.runtime.plan(spec).map_err(|fault| format!("{}: {}", self.cli.id, fault.message))
    }

    /// What a plan lets through of the caller's variables, and what it sets itself.
    fn environment(&self, plan: &LaunchPlan) -> BTreeMap<String, String> {
        let caller = self.caller_env();
        let entries = plan.env.iter().filter_map(|entry| {
            let value = match &entry.source {
                EnvSource::Allowlist
                | EnvSource::Card
                | EnvSource::Passthrough
                | EnvSource::Flag => caller.get(&entry.name)?,
                EnvSource::Runtime { value } | EnvSource::Config { value } => value,
            };
            Some((entry.name.clone(), value.clone()))
        });
        entries.collect()
    }

    /// Refuses to compare what was not started alike: the arguments of the run through Ostler are
    /// those of the plain spawn, but for paths of files that are each side's own.
    pub fn same_start(&self) -> Result<(), String> {
        let run_id = self.run_id.borrow().clone();
        let output = self.command(&["show", &run_id, "--plan", "--json"]).output();
        let output = output.map_err(said("starting ostler"))?;
        let doing = "reading the plan of a run";
        let told: Value = serde_json::from_slice(&output.stdout).map_err(said(doing))?;
        let told: Vec<&str> =
            told["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let plan = self.plan(&self.spec())?;
        let own = |arg: &str| arg.starts_with('/');
        let alike = told.len() == plan.args.len()
            && told.iter().zip(&plan.args).all(|(told, arg)| told == arg || own(told) && own(arg));
        match alike {
            true => Ok(()),
            false => {
                Err(format!("{} is started otherwise: {told:?}, {:?}", self.cli.id, plan.args))
            }
        }
    }
}
