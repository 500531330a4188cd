//! The queue as people meet it: tasks that are handed over and started by a server, one after the
//! other for each agent, when their time has come and what is before them is done; looked at, sent
//! back, cancelled, opened again; and handed on by agents at work. What agents did is told by their
//! own log.

use crate::ostler::{BOUND_MS, Ostler, Running, Said};
use serde_json::{Value, json};
use std::path::PathBuf;
use testkit::until;

/// An agent that notes why it was woken and what it was asked, and does what the first word says.
const AGENT: &str = r#"
LOG=$1; PROMPT=$2; HOW=${PROMPT%% *}
printf '%s|%s|%s\n' "$OSTLER_WAKE_REASON" "$OSTLER_TASK_ID" "$(printf %s "$PROMPT" | tr '\n' ' ')" >> "$LOG"
done_() { echo '{"type":"complete","output":{"text":"done"}}'; }
case $HOW in
  fail) echo '{"type":"failed","reason":"no"}';;
  crash) [ -e "$LOG.$OSTLER_TASK_ID" ] && done_ || { : > "$LOG.$OSTLER_TASK_ID"; exit 3; };;
  die) exit 3;;
  hold) while [ ! -e "$LOG.go" ]; do sleep 0.05; done; done_;;
  stay) while [ ! -e go ]; do sleep 0.05; done; done_;;
  split) echo '{"type":"tool_call","id":"1","tool":"create_subtask","args":{"title":"ok part"}}'
         while read -r LINE; do case $LINE in *tool_result*) break;; esac; done; done_;;
  spend) echo '{"type":"progress","summary":"spent","cost":{"usd":0.2}}'
         while [ ! -e "$LOG.go" ]; do sleep 0.05; done
         echo '{"type":"progress","summary":"spent more","cost":{"usd":0.2}}'; sleep 1; done_;;
  hand) echo '{"type":"progress","summary":"spent","cost":{"usd":0.2}}'
        for ID in 1 2; do
          echo '{"type":"tool_call","id":"'$ID'","tool":"create_subtask","args":{"title":"pay"}}'
          while read -r LINE; do case $LINE in *tool_result*) echo "$LINE" >> "$LOG.said"; break;; esac; done
        done
        echo '{"type":"complete","output":{"text":"done"},"cost":{"usd":0.25}}';;
  pay) echo '{"type":"complete","output":{"text":"done"},"cost":{"usd":0.2}}';;
  ask) [ "$OSTLER_WAKE_REASON" = answered ] && done_ || {
         echo '{"type":"tool_call","id":"1","tool":"handoff","args":{"question":"which one?"}}'
         while read -r LINE; do case $LINE in *tool_result*) break;; esac; done; };;
  *) done_;;
esac
"#;

pub(crate) struct Yard {
    pub(crate) ostler: Ostler,
    pub(crate) log: PathBuf,
    serve: Option<Running>,
}

impl Yard {
    /// Agents `a` and `b` with one hand and one directory each; nobody serves yet.
    fn new() -> Self {
        Self::of(&[("a", json!({})), ("b", json!({}))])
    }

    /// Agents with these keys beside those that all have; nobody serves yet. The adapter `worker` is
    /// the one they have unless they say otherwise, and `gone` has a program that is not there.
    pub(crate) fn of(agents: &[(&str, Value)]) -> Self {
        let ostler = Ostler::new();
        let root = ostler.instance.root().to_owned();
        let (script, log) = (root.join("agent.sh"), root.join("log"));
        std::fs::write(&script, AGENT).unwrap();
        std::fs::write(&log, "").unwrap();
        let adapter = json!({
            "type": "process", "binary": "sh", "args": [script, log, "{{prompt}}"],
        });
        let mut all = json!({});
        for (name, keys) in agents {
            let cwd = ostler.instance.work().join(name);
            std::fs::create_dir(&cwd).unwrap();
            // The first word of what is asked is what they are to do.
            let template = "{{prompt}}";
            all[name] = json!({ "adapter": "worker", "cwd": cwd, "promptTemplate": template });
            for (key, value) in keys.as_object().unwrap() {
                all[name][key] = value.clone();
            }
        }
        let gone = json!({ "type": "process", "binary": root.join("gone"), "args": [] });
        // It states its figures at the end of a turn, so it cannot be held to dollars or tokens.
        let late = json!({ "type": "cli", "runtime": "gemini", "binary": script });
        let adapters = json!({ "worker": adapter, "gone": gone, "late": late });
        let config = json!({ "adapters": adapters, "agents": all });
        ostler.instance.write_config(&config.to_string());
        Self { ostler, log, serve: None }
    }

    fn serving() -> Self {
        let mut yard = Self::new();
        yard.serve();
        yard
    }

    pub(crate) fn serve(&mut self) {
        let mut serve = self.ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(serve.line().starts_with("listening on "));
        self.serve = Some(serve);
    }

    pub(crate) fn task(&self, args: &[&str]) -> Said {
        let mut all = vec!["task"];
        all.extend(args);
        all.push("--json");
        self.ostler.says(&all)
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let said = self.task(args);
        assert_eq!(said.code, 0, "{args:?}: {}", said.stderr);
        serde_json::from_str(&said.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said.stdout))
    }

    /// Adds a task and gives its id.
    fn add(&self, title: &str, more: &[&str]) -> String {
        let mut args = vec!["add", "--title", title, "--agent", "a"];
        args.extend(more);
        self.json(&args)["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn until_is(&self, task: &str, state: &str) -> Value {
        until(&format!("{task} to be {state}"), BOUND_MS, || {
            let sheet = self.json(&["show", task]);
            (sheet["state"] == state).then_some(sheet)
        })
    }

    /// Why each run was woken and what it was asked, in order.
    pub(crate) fn log(&self) -> Vec<(String, String, String)> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let line = |line: &str| {
            let mut words = line.splitn(3, '|').map(str::to_owned);
            Some((words.next()?, words.next()?, words.next()?))
        };
        text.lines().filter_map(line).collect()
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        if let Some(serve) = &mut self.serve {
            let _ = serve.child.kill();
            let _ = serve.child.wait();
        }
    }
}

#[test]
fn tasks_that_waited_for_a_server_are_done_by_priority_and_arrival() {
    let mut yard = Yard::new();
    let first = yard.add("ok 1", &["--review", "none", "--label", "x", "--key", "one"]);
    let second = yard.add("ok 2", &["--review", "none"]);
    let urgent =
        yard.add("ok 3", &["--review", "none", "--priority", "5", "--body", "ok all of it"]);
    assert_eq!(yard.add("ok 1", &["--key", "one"]), first, "a key is one task");
    let said = yard.task(&["add", "--title", "x", "--agent", "nobody"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(yard.log().is_empty(), "nobody serves");
    yard.serve();
    for task in [&first, &second, &urgent] {
        yard.until_is(task, "done");
    }
    let asked: Vec<_> = yard.log().into_iter().map(|(_, task, prompt)| (task, prompt)).collect();
    let expected = [(&urgent, "ok 3  ok all of it"), (&first, "ok 1"), (&second, "ok 2")];
    assert_eq!(asked, expected.map(|(task, prompt)| (task.clone(), prompt.to_owned())));
    let labelled = yard.json(&["list", "--label", "x"]);
    assert_eq!(labelled.as_array().unwrap().len(), 1, "{labelled}");
    assert_eq!(labelled[0]["id"], first.as_str());
    let listed = yard.json(&["list", "--state", "done"]);
    let newest: Vec<_> = listed.as_array().unwrap().iter().map(|task| task["id"].clone()).collect();
    assert_eq!(newest, [urgent.as_str(), second.as_str(), first.as_str()]);
    let table = yard.ostler.says(&["task", "list"]).stdout;
    assert!(table.contains("✓ done") && table.contains("ok 2"), "{table}");
}

#[test]
fn a_task_comes_after_what_must_be_done_and_not_before_its_time() {
    let yard = Yard::serving();
    let first = yard.add("hold", &["--review", "none"]);
    let then = yard.add("ok then", &["--review", "none", "--after", &first]);
    let late = yard.add("ok late", &["--review", "none", "--not-before", "2h"]);
    let sheet = yard.json(&["show", &then]);
    assert_eq!((&sheet["waiting_for"], &sheet["after"][0]), (&json!("dependency"), &json!(first)));
    std::fs::write(yard.log.with_extension("go"), "").unwrap();
    yard.until_is(&then, "done");
    let sheet = yard.json(&["show", &late]);
    assert_eq!((&sheet["state"], &sheet["waiting_for"]), (&json!("waiting"), &json!("not_before")));
    assert!(sheet["until"].is_string(), "{sheet}");
    assert_eq!(yard.json(&["retry", &late])["id"], late.as_str());
    yard.until_is(&late, "done");

    // Who waits for one that failed is told, and goes on when a person says so.
    let broken = yard.add("fail", &["--review", "none"]);
    let behind = yard.add("ok behind", &["--review", "none", "--after", &broken]);
    yard.until_is(&broken, "failed");
    let sheet = yard.json(&["show", &behind]);
    assert_eq!(sheet["note"], format!("{broken} is failed"));
    yard.json(&["retry", &behind]);
    yard.until_is(&behind, "done");
    let unknown = yard.task(&["add", "--title", "x", "--agent", "a", "--after", "task_0"]);
    assert_eq!(unknown.code, 16, "{}", unknown.stderr);
}

#[test]
fn a_result_is_looked_at_sent_back_with_its_reason_and_taken() {
    let yard = Yard::serving();
    let task = yard.add("ok try", &[]);
    yard.until_is(&task, "review");
    assert_eq!(yard.task(&["reopen", &task]).code, 13);
    yard.json(&["reject", &task, "ok but shorter"]);
    let sheet = until("the second run", BOUND_MS, || {
        let sheet = yard.until_is(&task, "review");
        (sheet["runs"].as_array().unwrap().len() == 2).then_some(sheet)
    });
    let log = yard.log();
    assert_eq!(log[0].0, "task");
    assert_eq!(log[1].0, "rejected");
    // It names no conversation, so it is told what is known.
    let asked = &log[1].2;
    assert!(asked.starts_with("You are continuing work") && asked.contains("done"), "{asked}");
    assert!(asked.ends_with("ok try  ok but shorter"), "{asked}");
    assert!(sheet["runs"][0]["fence"].is_null(), "fences are internal: {sheet}");
    assert_eq!(yard.json(&["approve", &task])["state"], "done");
    assert_eq!(yard.json(&["approve", &task])["state"], "done", "said again it is what it was");
    assert_eq!(yard.task(&["reject", &task, "no"]).code, 13);
    assert_eq!(yard.task(&["cancel", &task]).code, 13);
}

#[test]
fn what_may_mend_itself_is_tried_again_and_what_will_not_is_not() {
    let yard = Yard::serving();
    let crashed = yard.add("crash", &["--review", "none"]);
    let sheet = yard.until_is(&crashed, "done");
    assert_eq!((sheet["runs"].as_array().unwrap().len(), &sheet["tries"]), (2, &json!(1)));
    assert_eq!(sheet["runs"][1]["code"], "process_crashed");
    let dies = yard.add("die", &["--review", "none"]);
    let sheet = yard.until_is(&dies, "failed");
    assert_eq!(
        (sheet["runs"].as_array().unwrap().len(), &sheet["code"]),
        (2, &json!("process_crashed"))
    );
    let failed = yard.add("fail", &["--review", "none"]);
    let sheet = yard.until_is(&failed, "failed");
    assert_eq!(
        (sheet["runs"].as_array().unwrap().len(), &sheet["code"]),
        (1, &json!("agent_failed"))
    );
    assert_eq!(yard.json(&["reopen", &failed])["generation"], 2);
    let sheet = until("the second generation", BOUND_MS, || {
        let sheet = yard.until_is(&failed, "failed");
        (sheet["runs"].as_array().unwrap().len() == 2).then_some(sheet)
    });
    assert_eq!(sheet["tries"], 0, "{sheet}");
    let reasons: Vec<_> = yard.log().into_iter().map(|(reason, _, _)| reason).collect();
    assert_eq!(reasons, ["task", "retry", "task", "retry", "task", "reopened"]);
}

#[test]
fn a_task_is_cancelled_wherever_it_stands() {
    let yard = Yard::serving();
    let runs = yard.add("hold", &[]);
    let queued = yard.add("ok queued", &[]);
    let sheet = yard.until_is(&runs, "running");
    let run = sheet["runs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(yard.json(&["show", &queued])["state"], "queued", "one hand is one run");
    assert_eq!(yard.json(&["cancel", &queued])["state"], "cancelled");
    yard.json(&["cancel", &run]);
    let sheet = yard.until_is(&runs, "cancelled");
    assert_eq!(sheet["runs"][0]["outcome"], "cancelled");
    assert_eq!(yard.json(&["cancel", &runs])["state"], "cancelled");
    assert_eq!(yard.log().len(), 1);
}

#[test]
fn agents_hand_on_and_are_woken_by_their_name() {
    let yard = Yard::serving();
    let whole = yard.add("split it", &["--review", "none"]);
    yard.until_is(&whole, "done");
    let part = until("the sub-task", BOUND_MS, || {
        let tasks = yard.json(&["list", "--state", "done"]);
        let tasks = tasks.as_array().unwrap().clone();
        tasks.into_iter().find(|task| task["parent"] == whole.as_str())
    });
    assert_eq!((&part["title"], &part["agent"]), (&json!("ok part"), &json!("a")));
    let part = yard.json(&["show", part["id"].as_str().unwrap()]);
    assert_eq!(part["budget"], Value::Null, "a run's clock is no budget to hand on: {part}");
    let task = yard.add("hold", &[]);
    yard.json(&["comment", &task, "ok @b, what do you think?"]);
    yard.json(&["comment", &task, "nobody@example.org said so"]);
    let log = until("the mentioned agent", BOUND_MS, || {
        let log = yard.log();
        log.iter().any(|(reason, _, _)| reason == "comment").then_some(log)
    });
    let woken: Vec<_> = log.iter().filter(|(reason, _, _)| reason == "comment").collect();
    assert_eq!(woken.len(), 1, "{log:?}");
    assert!(woken[0].2.contains("what do you think?"), "{log:?}");
    let sheet = yard.json(&["show", &task]);
    assert_eq!(sheet["comments"].as_array().unwrap().len(), 2);
    assert_eq!(sheet["comments"][0]["mentions"], json!(["b"]));
    let shown = yard.ostler.says(&["task", "show", &task]).stdout;
    assert!(shown.contains("what do you think?") && shown.contains("● running"), "{shown}");
}

#[test]
fn what_a_task_may_spend_is_changed_while_it_runs_while_it_waits_and_after() {
    let yard = Yard::serving();
    let budget = |task: &str, usd: &str| yard.json(&["budget", task, "--usd", usd]);
    let task = yard.add("spend", &["--review", "none", "--budget-usd", "0.3"]);
    // It was given all there is, and more than half of that is spent.
    until("it to have spent something", BOUND_MS, || {
        (yard.json(&["show", &task])["last_progress"]["summary"] == "spent").then_some(())
    });
    budget(&task, "5");
    std::fs::write(yard.log.with_extension("go"), "").unwrap();
    let sheet = yard.until_is(&task, "done");
    assert_eq!(sheet["runs"].as_array().unwrap().len(), 1, "the live run asked again: {sheet}");
    assert_eq!(sheet["budget"]["used"]["nanousd"], 400_000_000, "{sheet}");
    let audit = std::fs::read_to_string(yard.ostler.instance.data().join("audit.jsonl")).unwrap();
    let lines = audit.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<_> = lines.filter(|line| line["what"] == "task_budget_changed").collect();
    let [line] = &lines[..] else { panic!("{audit}") };
    let usd = |budget: &Value| budget["nanousd"].as_i64().unwrap() as f64 / 1e9;
    assert_eq!((usd(&line["before"]), usd(&line["budget"])), (0.3, 5.0), "{line}");
    assert_eq!((&line["by"], &line["task_id"]), (&json!("owner"), &json!(task)));

    // Less than was spent: nothing below it starts, until it may spend what it likes.
    budget(&task, "0.1");
    let below = yard.add("ok", &["--review", "none", "--parent", &task]);
    assert_eq!(yard.until_is(&below, "waiting")["waiting_for"], "budget");
    assert_eq!(budget(&task, "unlimited")["id"], task.as_str());
    yard.until_is(&below, "done");
    assert_eq!(yard.json(&["show", &task])["budget"], Value::Null);

    // One that failed for its budget is raised, and opened again.
    let task = yard.add("spend", &["--review", "none", "--budget-usd", "0.3"]);
    assert_eq!(yard.until_is(&task, "failed")["code"], "budget_exceeded");
    yard.json(&["reopen", &task]);
    assert_eq!(yard.until_is(&task, "waiting")["waiting_for"], "budget");
    let shown = yard.ostler.says(&["task", "show", &task]).stdout;
    let step = format!("ostler task budget {} --usd N", &task[task.len() - 8..]);
    assert!(shown.contains("$0.40 of $0.30 spent") && shown.contains(&step), "{shown}");
    budget(&task, "1");
    yard.until_is(&task, "done");

    for (args, code) in [
        (&["budget", &task][..], 2),
        (&["budget", &task, "--usd", "0"], 2),
        (&["budget", "nobody", "--usd", "1"], 16),
    ] {
        assert_eq!(yard.task(args).code, code, "{args:?}");
    }
    let run = yard.ostler.says(&["run", "b", "ok", "--json"]).events()[0]["run_id"].clone();
    let said = yard.task(&["budget", run.as_str().unwrap(), "--usd", "1"]);
    assert_eq!(said.code, 13, "it is no task of the queue: {}", said.stderr);
}

#[test]
fn what_a_run_hands_on_is_bounded_by_its_own_budget_and_charged_to_its_task() {
    let run_may = json!({ "budgets": [{ "window": "run", "usd": 0.5 }] });
    let mut yard = Yard::of(&[("a", run_may)]);
    yard.serve();
    let whole = yard.add("hand", &["--review", "none", "--budget-usd", "5"]);
    yard.until_is(&whole, "done");
    let part = until("the sub-task", BOUND_MS, || {
        let tasks = yard.json(&["list", "--state", "done"]);
        let tasks = tasks.as_array().unwrap().clone();
        tasks.into_iter().find(|task| task["parent"] == whole.as_str())
    });
    let said = std::fs::read_to_string(yard.log.with_extension("said")).unwrap();
    let [first, second] = &said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(first.contains("task_id"), "{said}");
    assert!(second.contains("no dollars are left for a subtask"), "all was handed on: {said}");
    // It was given what its maker had left, and its maker still spent that: $0.65 of $0.50 and $0.30.
    let part = yard.json(&["show", part["id"].as_str().unwrap()]);
    let budget = &part["budget"];
    assert_eq!(
        (&budget["nanousd"], &budget["used"]["nanousd"]),
        (&json!(300_000_000), &json!(200_000_000))
    );
    let whole = yard.json(&["show", &whole]);
    assert_eq!(whole["budget"]["used"]["nanousd"], 650_000_000, "both are charged to it: {whole}");
}

#[test]
fn a_task_with_a_budget_that_cannot_be_counted_is_not_started() {
    // Where it need not ask, it is driven headless.
    let keys = json!({ "adapter": "late", "permission": "allow-all" });
    let mut yard = Yard::of(&[("a", keys)]);
    yard.serve();
    let rows = [(["--budget-usd", "0.01"], "$0.01"), (["--budget-tokens", "100"], "100 tokens")];
    for (budget, limit) in rows {
        let task = yard.add("x", &budget);
        let sheet = yard.until_is(&task, "failed");
        assert_eq!((&sheet["code"], &sheet["runs"]), (&"budget_not_countable".into(), &json!([])));
        let note = sheet["note"].as_str().unwrap_or_default();
        assert!(note.contains(limit), "{note}");
    }
    // The program of this adapter is no agent, so the run is started and fails.
    let task = yard.add("x", &["--budget-usd", "0.01", "--budget-best-effort"]);
    until("a run of the task", BOUND_MS, || {
        let sheet = yard.json(&["show", &task]);
        sheet["runs"].as_array().is_some_and(|runs| !runs.is_empty()).then_some(())
    });
}
