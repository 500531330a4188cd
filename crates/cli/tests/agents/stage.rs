//! An instance with one CLI in it and a scripted model beside it: the program on PATH under its own
//! name, its settings in HOME, nothing of the machine's in its environment.

use crate::clis::{Cli, Quota, Tokens};
use crate::ostler::{BOUND_MS, Ostler, Running, Said, result};
use crate::tokens;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{Model, agents, find_marked, until};

/// The scenario of a quota that is used up.
pub const QUOTA: &str = "usage_limit";
/// How long one is waited for that says nothing then; long enough to have asked the model.
const SILENT_SEC: u32 = 20;

/// Everything of one test. The model is dropped first, so that no agent waits for it.
pub struct Stage {
    pub cli: &'static Cli,
    pub model: Model,
    pub ostler: Ostler,
}

impl Stage {
    pub fn new(id: &str, scenario: &str) -> Self {
        let cli = Cli::of(id);
        let ostler = Ostler::new();
        let root = ostler.instance.root();
        let model = Model::start(&root.join("model"), scenario);
        let stage = Self { cli, model, ostler };
        stage.link(id, &agents::installed(id));
        if agents::Pin::of(id).is_some_and(|pin| pin.newer_node) {
            stage.link("node", &agents::newer_node());
        }
        for (path, text) in cli.files {
            let path = stage.ostler.instance.root().join("home").join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, stage.filled(text)).expect("a file of the agent's");
        }
        let given: serde_json::Map<String, Value> = cli
            .given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), stage.filled(value).into()))
            .collect();
        let mut adapter = json!({ "type": "cli", "env": given });
        if let Some(model) = cli.model {
            adapter["model"] = json!(model);
        }
        if cli.quota == Quota::Silent && scenario == QUOTA {
            adapter["firstOutputSec"] = json!(SILENT_SEC);
        }
        let config = json!({ "adapters": { (id): adapter } });
        stage.ostler.instance.write_config(&config.to_string());
        stage
    }

    /// Puts a program before all others on PATH.
    fn link(&self, name: &str, program: &Path) {
        let link = self.ostler.instance.root().join("bin").join(name);
        std::os::unix::fs::symlink(program, link).expect("a link can be made");
    }

    fn filled(&self, text: &str) -> String {
        let home = self.ostler.instance.root().join("home");
        text.replace("{base}", self.model.base()).replace("{home}", &home.display().to_string())
    }

    /// What the person who starts Ostler has set for this CLI.
    pub fn environment(&self) -> Vec<(String, String)> {
        let set = self.cli.env.iter();
        set.map(|(name, value)| ((*name).to_owned(), self.filled(value))).collect()
    }

    /// `ostler run CLI …` with everything allowed, and the prompt on standard input.
    pub fn command(&self, args: &[&str], prompt: &str) -> Command {
        let root = self.ostler.instance.root();
        let file = root.join("tmp/prompt.txt");
        fs::write(&file, prompt).expect("the prompt can be written");
        let mut all = vec!["run", self.cli.id, "--json", "--permission", "allow-all"];
        all.extend(args);
        let mut command = self.ostler.command(&all);
        command.envs(self.environment());
        command.stdin(Stdio::from(File::open(file).expect("the prompt can be read")));
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str], prompt: &str) -> Said {
        Said::from(self.command(args, prompt).output().expect("ostler starts"))
    }

    pub fn start(&self, prompt: &str) -> Running {
        Running::of(&mut self.command(&[], prompt))
    }

    /// Writes down that all of a scenario held, where whoever runs the suite wants to know.
    pub fn held(&self, scenario: &str, exit: i32, events: &[Value]) {
        let Some(dir) = std::env::var_os("OSTLER_AGENTS_ROWS") else { return };
        let end = result(events);
        let tokens = match self.cli.tokens {
            Tokens::Told | Tokens::Undivided => tokens::told(end),
            Tokens::Untold => json!({}),
        };
        let row = json!({
            "cli": self.cli.id,
            "scenario": scenario,
            "outcome": end["outcome"],
            "code": end["code"],
            "exit": exit,
            "tokens": tokens,
            "duration_ms": end["duration_ms"],
            "network": std::env::var("OSTLER_AGENTS_NETWORK").unwrap_or_default(),
        });
        let name = format!("{} {}.json", self.cli.id, scenario.replace([' ', ','], "-"));
        fs::write(Path::new(&dir).join(name), row.to_string()).expect("a row");
    }

    pub fn tells_tokens(&self) -> bool {
        self.cli.tokens != Tokens::Untold
    }

    /// Whatever carries the instance's mark is gone, soon.
    pub fn assert_nothing_left(&self) {
        let mark = self.ostler.instance.mark();
        until("everything of the run to be gone", BOUND_MS, || {
            find_marked(&mark).is_empty().then_some(())
        });
    }
}
