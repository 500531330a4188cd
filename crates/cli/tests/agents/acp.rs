//! Real agents by ACP: the runtimes that have both lanes, on their second one, through what only that
//! lane can do (a question that is allowed, one that is denied, a turn that is interrupted) and what
//! both must do. What differs between them is a row; what is true of one today and ought not to be is
//! asserted as it is, with a note.

use crate::budgets;
use crate::clis::Cli;
use crate::ostler::{BOUND_MS, Ostler, Running, Said, assert_gap_free, result};
use crate::tokens;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{Model, agents, find_marked, until};

/// Words that no CLI has of its own.
const WORD: &str = "heron-48-at-the-weir";

/// One agent, and what is peculiar to it over ACP.
struct Row {
    runtime: &'static str,
    /// What is linked into PATH: each is a pin.
    programs: &'static [&'static str],
    /// Files below HOME and variables, where the native rows have none for it.
    own: Option<Own>,
    model: Option<&'static str>,
    denied: Denied,
    resumes: Resumes,
    speaks: Speaks,
}

struct Own {
    files: &'static [(&'static str, &'static str)],
    env: &'static [(&'static str, &'static str)],
    given: &'static [(&'static str, &'static str)],
}

/// What it does when it may not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denied {
    /// It goes on to an answer.
    GoesOn,
    /// It takes the no for the end of its turn.
    Ends,
    /// It does not ask before everything it does, so that it is not started at all.
    NotStarted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resumes {
    ItsOwn,
    /// It loads what it kept, or cannot and is begun afresh with a hand-over.
    Either,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    InPieces,
    Whole,
}

const ROWS: &[Row] = &[
    Row {
        runtime: "gemini",
        programs: &["gemini"],
        own: None,
        model: None,
        denied: Denied::GoesOn,
        // This version names the file of a session by the minute: what is to be loaded in the minute in
        // which it was kept is "No previous sessions found for this project", and later it is found.
        resumes: Resumes::Either,
        speaks: Speaks::InPieces,
    },
    Row {
        runtime: "opencode",
        programs: &["opencode"],
        own: None,
        model: None,
        denied: Denied::Ends,
        resumes: Resumes::ItsOwn,
        speaks: Speaks::InPieces,
    },
    Row {
        runtime: "claude",
        programs: &["claude-agent-acp"],
        own: None,
        model: None,
        denied: Denied::GoesOn,
        resumes: Resumes::ItsOwn,
        speaks: Speaks::InPieces,
    },
    Row {
        runtime: "codex",
        programs: &["codex-acp"],
        own: None,
        model: None,
        denied: Denied::Ends,
        resumes: Resumes::ItsOwn,
        speaks: Speaks::InPieces,
    },
    Row {
        runtime: "copilot",
        programs: &["copilot", "node"],
        own: Some(Own {
            files: &[],
            env: &[
                ("COPILOT_PROVIDER_BASE_URL", "{base}/v1"),
                ("COPILOT_PROVIDER_TYPE", "openai"),
                ("COPILOT_PROVIDER_API_KEY", "test-key"),
                ("COPILOT_MODEL", "gpt-5"),
                ("COPILOT_OFFLINE", "true"),
                ("COPILOT_AUTO_UPDATE", "false"),
            ],
            given: &[],
        }),
        model: None,
        denied: Denied::Ends,
        resumes: Resumes::ItsOwn,
        speaks: Speaks::InPieces,
    },
    Row {
        runtime: "kilo",
        programs: &["kilo"],
        own: Some(Own {
            files: &[(
                ".config/kilo/kilo.json",
                r#"{ "autoupdate": false, "share": "disabled",
  "model": "scripted/fake-model", "small_model": "scripted/fake-model",
  "provider": { "scripted": { "npm": "@ai-sdk/openai-compatible", "name": "Scripted",
    "options": { "baseURL": "{base}/v1", "apiKey": "test-key" },
    "models": { "fake-model": { "name": "Fake", "reasoning": true, "tool_call": true,
      "limit": { "context": 200000, "output": 32000 } } } } } }"#,
            )],
            env: &[("KILO_DISABLE_AUTOUPDATE", "1"), ("KILO_DISABLE_MODELS_FETCH", "1")],
            given: &[("XDG_CONFIG_HOME", "{home}/.config"), ("KILO_TELEMETRY_LEVEL", "off")],
        }),
        model: None,
        denied: Denied::Ends,
        resumes: Resumes::ItsOwn,
        speaks: Speaks::InPieces,
    },
    Row {
        runtime: "droid",
        programs: &["droid"],
        own: Some(Own {
            files: &[(
                ".factory/settings.json",
                r#"{ "enableTelemetry": false, "customModels": [{
  "model": "fake-model", "id": "custom:fake", "displayName": "Fake", "baseUrl": "{base}/v1",
  "apiKey": "test-key", "provider": "generic-chat-completion-api", "maxOutputTokens": 8000 }] }"#,
            )],
            env: &[("FACTORY_API_KEY", "test-key"), ("FACTORY_DISABLE_AUTO_UPDATE", "1")],
            given: &[],
        }),
        model: Some("custom:fake"),
        denied: Denied::Ends,
        resumes: Resumes::ItsOwn,
        speaks: Speaks::Whole,
    },
    Row {
        runtime: "hermes",
        programs: &["hermes-acp"],
        own: None,
        model: None,
        // It asks before it edits a file, and runs commands unasked.
        denied: Denied::NotStarted,
        resumes: Resumes::ItsOwn,
        speaks: Speaks::InPieces,
    },
];

/// An instance with one agent on its second lane and a scripted model beside it.
struct Stage {
    row: &'static Row,
    model: Model,
    ostler: Ostler,
}

impl Stage {
    fn new(runtime: &str, scenario: &str) -> Self {
        let row = ROWS.iter().find(|row| row.runtime == runtime).expect("a row");
        let ostler = Ostler::new();
        let model = Model::start(&ostler.instance.root().join("model"), scenario);
        let stage = Self { row, model, ostler };
        let root = stage.ostler.instance.root();
        for name in row.programs {
            let program = match *name {
                "node" => agents::newer_node(),
                name => agents::installed(name),
            };
            std::os::unix::fs::symlink(program, root.join("bin").join(name)).expect("a link");
        }
        for (path, text) in stage.prepared().files {
            let path = root.join("home").join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, stage.filled(text)).expect("a file of the agent's");
        }
        let given: serde_json::Map<String, Value> = stage
            .prepared()
            .given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), stage.filled(value).into()))
            .collect();
        let mut adapter = json!({ "type": "cli", "lane": "acp", "env": given });
        if let Some(model) = row.model {
            adapter["model"] = json!(model);
        }
        let config = json!({ "adapters": { (row.runtime): adapter } });
        stage.ostler.instance.write_config(&config.to_string());
        stage
    }

    fn prepared(&self) -> Own {
        match &self.row.own {
            Some(Own { files, env, given }) => Own { files, env, given },
            None => {
                let Cli { files, env, given, .. } = Cli::of(self.row.runtime);
                Own { files, env, given }
            }
        }
    }

    fn filled(&self, text: &str) -> String {
        let home = self.ostler.instance.root().join("home");
        text.replace("{base}", self.model.base()).replace("{home}", &home.display().to_string())
    }

    fn command(&self, args: &[&str], prompt: &str) -> Command {
        let file = self.ostler.instance.root().join("tmp/prompt.txt");
        fs::write(&file, prompt).expect("the prompt can be written");
        let mut command =
            self.ostler.command(&[&["run", self.row.runtime, "--json"], args].concat());
        for (name, value) in self.prepared().env {
            command.env(name, self.filled(value));
        }
        command.stdin(Stdio::from(File::open(file).expect("the prompt can be read")));
        command
    }

    fn run(&self, args: &[&str], prompt: &str) -> Said {
        Said::from(self.command(args, prompt).output().expect("ostler starts"))
    }

    fn assert_nothing_left(&self) {
        until("everything of the run to be gone", BOUND_MS, || {
            find_marked(&self.ostler.instance.mark()).is_empty().then_some(())
        });
    }

    /// Writes down that all of a scenario held.
    fn held(&self, scenario: &str, exit: i32, events: &[Value]) {
        self.came_to(scenario, exit, result(events));
    }

    /// The same of what came to this end.
    fn came_to(&self, scenario: &str, exit: i32, end: &Value) {
        self.assert_nothing_left();
        let Some(dir) = std::env::var_os("OSTLER_AGENTS_ROWS") else { return };
        let program = self.row.programs[0];
        // A bridge has a name of its own.
        let cli = match program == self.row.runtime {
            true => format!("{program} by ACP"),
            false => program.to_owned(),
        };
        let row = json!({
            "cli": cli,
            "scenario": scenario,
            "outcome": end["outcome"],
            "code": end["code"],
            "exit": exit,
            "tokens": tokens::told(end),
            "duration_ms": end["duration_ms"],
            "network": std::env::var("OSTLER_AGENTS_NETWORK").unwrap_or_default(),
        });
        let name = format!("{cli} {}.json", scenario.replace([' ', ','], "-"));
        fs::write(Path::new(&dir).join(name), row.to_string()).expect("a row");
    }
}

const ALLOW: &[&str] = &["--permission", "allow-all"];

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

fn text_of(events: &[Value], kind: &str) -> String {
    of_kind(events, kind).iter().filter_map(|event| event["text"].as_str()).collect()
}

/// The events of a run that succeeded.
fn succeeded(said: &Said) -> Vec<Value> {
    let events = said.events();
    assert_gap_free(&events);
    let end = result(&events);
    assert_eq!(
        (said.code, &end["outcome"]),
        (0, &"succeeded".into()),
        "{events:#?}\n{}",
        said.stderr
    );
    events
}

/// Budgets of an agent that does not tell what it spends while it works: turns are refused, and under
/// dollars or tokens it is stopped when its second round of calls begins.
pub fn untold_budgets(runtime: &str) {
    let name = format!("{runtime} by ACP");
    for (flag, limit) in [("--budget-usd", "0.08"), ("--budget-tokens", "60000")] {
        let stage = Stage::new(runtime, budgets::LOOP);
        let limits = [flag, limit, "--timeout", budgets::TIMEOUT];
        let said = stage.run(&[ALLOW, &limits].concat(), "Go on and on.");
        let events = said.events();
        let end = result(&events);
        let seen = (said.code, &end["code"]);
        assert_eq!(seen, (3, &"budget_not_countable".into()), "{end}\n{}", said.stderr);
        let answers = budgets::answers(&stage.model.requests()).len();
        // The second answer begins the second round; a third may be in flight.
        assert!((2..=3).contains(&answers), "{answers} answers");
        stage.assert_nothing_left();
        budgets::keep(&name, (flag, limit), (None, Some(answers)), said.code, end);
    }
    let stage = Stage::new(runtime, budgets::LOOP);
    let said = stage.run(&[ALLOW, &["--budget-turns", "3"]].concat(), "Go on and on.");
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.stderr.contains("budget_not_countable"), "{said:?}");
    assert_eq!(stage.model.requests(), Vec::<Value>::new());
    let end = json!({ "code": "budget_not_countable" });
    budgets::keep(&name, ("--budget-turns", "3"), (None, None), said.code, &end);
}

/// Says hello, and goes on with the conversation in another run.
pub fn goes_on(runtime: &str) {
    let stage = Stage::new(runtime, "hello");
    let first = succeeded(&stage.run(ALLOW, &format!("Remember the word {WORD}.")));
    assert_eq!(result(&first)["text"], "Hello from the fake model.", "{first:#?}");
    let before = stage.model.requests().len();
    let said = stage.run(&[ALLOW, &["--continue"]].concat(), "Which word was it?");
    let events = succeeded(&said);
    assert_eq!(result(&events)["text"], "Hello from the fake model.", "{events:#?}");
    let resumed = of_kind(&events, "session").iter().any(|event| event["resumed"] == true);
    assert!(resumed || stage.row.resumes == Resumes::Either, "{events:#?}");
    let after = stage.model.requests().split_off(before);
    let remembered = after.iter().any(|request| {
        let body = stage.model.body(request);
        body.contains(WORD) && body.contains("Which word was it?")
    });
    assert!(remembered, "the model was told both: {after:#?}");
    stage.held("hello, and go on", said.code, &events);
}

fn written(stage: &Stage) -> Option<String> {
    fs::read_to_string(stage.ostler.instance.work().join("written.txt")).ok()
}

/// Writes a file, with every question answered with yes.
pub fn write_allowed(runtime: &str) {
    let stage = Stage::new(runtime, "write");
    let said = stage.run(ALLOW, "Write the file.");
    let events = succeeded(&said);
    assert_eq!(written(&stage).as_deref().map(str::trim_end), Some("line one\nline two"));
    let results = of_kind(&events, "tool_result");
    assert!(results.iter().all(|result| result["status"] == "ok"), "{results:#?}");
    assert_eq!(results.len(), of_kind(&events, "tool_use").len());
    stage.held("write a file", said.code, &events);
}

/// Would write a file, and may not.
pub fn write_denied(runtime: &str) {
    let stage = Stage::new(runtime, "write");
    let said = stage.run(&["--permission", "deny"], "Write the file.");
    if stage.row.denied == Denied::NotStarted {
        return not_started(&stage, &said);
    }
    let events = said.events();
    assert_gap_free(&events);
    let end = result(&events);
    assert_eq!(written(&stage), None, "it was not allowed: {events:#?}");
    let asked = of_kind(&events, "permission");
    let expected = match stage.row.denied {
        Denied::GoesOn => (0, Value::Null),
        Denied::Ends | Denied::NotStarted => (12, "permission_denied".into()),
    };
    assert_eq!((said.code, end["code"].clone()), expected, "{events:#?}");
    assert!(!asked.is_empty(), "it asks: {events:#?}");
    let denied = asked.iter().filter(|event| event["decision"] == "deny").count();
    assert_eq!(denied * 2, asked.len(), "each question is denied: {asked:#?}");
    stage.held("write a file and may not", said.code, &events);
}

/// A policy that it cannot be held to keeps it from being started.
fn not_started(stage: &Stage, said: &Said) {
    assert_eq!((said.code, written(stage)), (3, None), "{said:?}");
    assert!(said.stderr.contains("policy_not_possible"), "{said:?}");
    assert_eq!(stage.model.requests().len(), 0, "no model was asked");
    let end = json!({ "outcome": "not started", "code": "policy_not_possible", "duration_ms": 0 });
    stage.came_to("write a file and may not", said.code, &end);
}

pub fn thinking(runtime: &str) {
    let stage = Stage::new(runtime, "thinking");
    let said = stage.run(ALLOW, "Think, then answer.");
    let events = succeeded(&said);
    assert_eq!(text_of(&events, "assistant_text").trim(), "After thinking: the answer is 42.");
    let thought = text_of(&events, "thinking").replace("****", "");
    assert!(thought.contains("First I consider"), "{events:#?}");
    stage.held("think", said.code, &events);
}

/// Is interrupted in the middle of an answer, and stopped after that.
pub fn interrupted(runtime: &str) {
    let row = ROWS.iter().find(|row| row.runtime == runtime).expect("a row");
    // One that tells an answer only when it is whole is interrupted in a tool instead.
    let (scenario, kind) = match row.speaks {
        Speaks::InPieces => ("very_slow", "assistant_text"),
        Speaks::Whole => ("tool_sleep", "tool_use"),
    };
    let stage = Stage::new(runtime, scenario);
    let mut run = Running::of(&mut stage.command(ALLOW, "Tell me something long."));
    let begun = run.event("it to be at work", |event| event["kind"] == kind);
    let id = begun["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(stage.ostler.says(&["interrupt", &id]).code, 0);
    let ended = run.event("the turn to end", |event| event["phase"] == "ended");
    assert_eq!(ended["stop_reason"], "cancelled", "{ended}");
    // The run waits for what comes next.
    assert_eq!(stage.ostler.says(&["stop", &id]).code, 0);
    let said = run.finish();
    assert_eq!(said.code, 130, "{}", said.stderr);
    let events = stage.ostler.events(&["show", &id, "--json"]);
    assert_gap_free(&events);
    stage.held("interrupted in an answer", said.code, &events);
}

pub fn quota(runtime: &str) {
    let stage = Stage::new(runtime, crate::stage::QUOTA);
    let said = stage.run(ALLOW, "Say hello.");
    let events = said.events();
    assert_gap_free(&events);
    let end = result(&events);
    let seen = (said.code, &end["outcome"], &end["code"]);
    assert_eq!(seen, (6, &"failed".into(), &"provider_quota".into()), "{events:#?}");
    stage.held("a used-up quota", said.code, &events);
}

/// One module for each agent, one test for each scenario.
macro_rules! by_acp {
    ($($runtime:ident)*) => {
        $(mod $runtime {
            const RUNTIME: &str = stringify!($runtime);

            #[test]
            fn it_greets_and_a_conversation_goes_on() {
                crate::acp::goes_on(RUNTIME);
            }

            #[test]
            fn a_file_is_written_when_that_is_allowed() {
                crate::acp::write_allowed(RUNTIME);
            }

            #[test]
            fn a_file_is_not_written_when_that_is_denied() {
                crate::acp::write_denied(RUNTIME);
            }

            #[test]
            fn thinking_is_told_apart_from_text() {
                crate::acp::thinking(RUNTIME);
            }

            #[test]
            fn a_turn_is_interrupted_in_the_middle_of_an_answer() {
                crate::acp::interrupted(RUNTIME);
            }

            #[test]
            fn a_used_up_quota_is_named() {
                crate::acp::quota(RUNTIME);
            }
        })*
    };
}

pub(crate) use by_acp;

by_acp!(gemini opencode claude);
