//! The operator log as an operator meets it: lines of `ostler serve` on standard error that name the
//! run, and hold no secret and no text of an agent.

use crate::ostler::{BOUND_MS, Ostler, Running, Said, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::until;

/// The value of a variable that an agent gets and prints.
const SECRET: &str = "canary-of-the-operator-log-4711";

fn configured() -> Ostler {
    let ostler = Ostler::new();
    let agent = testkit::fake_agent().display().to_string();
    let program = |args: Value| json!({ "type": "process", "binary": agent, "args": args, "env": { "CANARY": "${CANARY}" } });
    let config = json!({ "adapters": {
        "leaky": program(json!(["--leak", "CANARY", "--burst", "2"])),
        "failing": program(json!(["--failed", "words of the agent", "--exit", "3"])),
        "missing": { "type": "process", "binary": "/nonexistent/agent" },
    } });
    ostler.instance.write_config(&config.to_string());
    ostler
}

fn serve(ostler: &Ostler, flags: &[&str]) -> Running {
    let mut args = vec!["serve", "--listen", "127.0.0.1:0"];
    args.extend(flags);
    let mut serve = Running::of(ostler.command(&args).env("CANARY", SECRET));
    assert!(serve.line().starts_with("listening on "));
    serve
}

fn stop(serve: Running) -> Said {
    signal(serve.child.id() as i32, Signal::TERM);
    serve.finish()
}

fn records(said: &Said) -> Vec<Value> {
    let line =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    said.stderr.lines().map(line).collect()
}

fn run(ostler: &Ostler, agent: &str) -> String {
    let said = Said::from(
        ostler.command(&["run", agent, "x", "--json"]).env("CANARY", SECRET).output().unwrap(),
    );
    said.events()[0]["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn each_run_is_logged_with_its_ids() {
    let ostler = configured();
    let server = serve(&ostler, &["--log-format", "json"]);
    let (leaky, failing) = (run(&ostler, "leaky"), run(&ostler, "failing"));
    let said = stop(server);
    let records = records(&said);
    for record in &records {
        for field in ["ts", "level", "target", "node", "message"] {
            assert!(record[field].is_string(), "{field}: {record}");
        }
    }
    let of = |run: &str, message: &str| {
        let fits = |record: &&Value| record["run"] == run && record["message"] == message;
        records.iter().find(fits).unwrap_or_else(|| panic!("{message} of {run}: {records:#?}"))
    };
    for started in [of(&leaky, "run started"), of(&failing, "run started")] {
        assert!(
            started["task"].as_str().is_some_and(|task| task.starts_with("task_")),
            "{started}"
        );
        assert!(started["pid"].is_u64() && started["fence"] == 1, "{started}");
    }
    assert_eq!(of(&leaky, "run started")["agent"], "leaky");
    let ended = of(&leaky, "run ended");
    assert_eq!((&ended["level"], &ended["outcome"]), (&json!("info"), &json!("succeeded")));
    let ended = of(&failing, "run ended");
    assert_eq!((&ended["level"], &ended["code"]), (&json!("warn"), &json!("agent_failed")));
    // Nothing of what the agents said, and no secret.
    assert!(!said.stderr.contains(SECRET), "{}", said.stderr);
    assert!(!said.stderr.contains("words of the agent"), "{}", said.stderr);
    for message in ["server started", "server stopping", "server stopped"] {
        assert!(said.stderr.contains(message), "{message}: {}", said.stderr);
    }
}

#[test]
fn a_task_that_cannot_start_is_logged() {
    let ostler = configured();
    let server = serve(&ostler, &["--log-format", "json"]);
    // The variable that it needs is not there for the server's other agents either.
    let added = ostler.says(&["task", "add", "x", "--agent", "missing", "--json"]);
    let task: Value = serde_json::from_str(&added.stdout).unwrap_or_else(|_| panic!("{added:?}"));
    let task = task["id"].as_str().unwrap();
    until("the task to fail", BOUND_MS, || {
        let shown = ostler.says(&["task", "show", task, "--json"]);
        let shown: Value = serde_json::from_str(&shown.stdout).ok()?;
        (shown["state"] == "failed").then_some(())
    });
    let said = stop(server);
    let told = records(&said).into_iter().find(|record| {
        record["task"] == task && record["code"] == "not_installed" && record["level"] == "warn"
    });
    assert!(told.is_some(), "{}", said.stderr);
}

#[test]
fn levels_and_formats_are_chosen() {
    let ostler = configured();
    let said = stop(serve(&ostler, &["--log-level", "off"]));
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let said = stop(serve(&ostler, &["--log-level", "warn,ostler=info"]));
    assert!(
        said.stderr.contains(" INFO  ostler server started address=http://127"),
        "{}",
        said.stderr
    );
    ostler
        .instance
        .write_config(r#"{ "server": { "log": { "level": "info", "format": "json" } } }"#);
    let said = stop(serve(&ostler, &[]));
    assert_eq!(records(&said)[0]["message"], "server started");
    // The variable is above the configuration.
    let mut command = ostler.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut server = Running::of(command.env("OSTLER_LOG", "off"));
    server.line();
    assert_eq!(stop(server).stderr, "");
    let refused = ostler.says(&["serve", "--log-level", "loud"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.complaint().contains("invalid level in --log-level"), "{refused:?}");
    ostler.instance.write_config(r#"{ "server": { "log": { "level": "loud" } } }"#);
    let checked = ostler.says(&["config", "check"]);
    assert!(checked.code != 0 && checked.stdout.contains("server.log.level"), "{checked:?}");
}

#[test]
fn other_commands_log_only_when_asked() {
    let ostler = configured();
    let run = |level: &str| {
        let mut command = ostler.command(&["run", "leaky", "x", "--quiet"]);
        Said::from(command.env("CANARY", SECRET).env("OSTLER_LOG", level).output().unwrap())
    };
    assert_eq!(run("").stderr, "");
    let said = run("debug");
    assert!(said.stderr.contains("INFO  host run started run=run_"), "{}", said.stderr);
    assert!(!said.stderr.contains(SECRET), "{}", said.stderr);
}

#[test]
fn a_refused_token_is_logged_without_it() {
    let ostler = configured();
    let mut server = Running::of(&mut ostler.command(&["serve", "--listen", "127.0.0.1:0"]));
    let address = server.line().trim().trim_start_matches("listening on ").to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let status = runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{address}/api/v1/runs?after=words-of-the-caller");
        client.get(url).bearer_auth("not-a-token-of-ours").send().await.unwrap().status()
    });
    assert_eq!(status.as_u16(), 401);
    let said = stop(server);
    let line = said.stderr.lines().find(|line| line.contains("refused for its token"));
    let line = line.unwrap_or_else(|| panic!("{}", said.stderr));
    assert!(line.contains("from=127.0.0.1") && line.contains("route=/api/v1/runs"), "{line}");
    for word in ["not-a-token-of-ours", "words-of-the-caller"] {
        assert!(!said.stderr.contains(word), "{}", said.stderr);
    }
}
