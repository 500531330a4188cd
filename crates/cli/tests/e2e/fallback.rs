//! Chains of agents, end to end: when the account of a task's agent is used up, or what it needs is not
//! there, another of its chain goes on, is told what is known of the work so far, and says that it took
//! over. What agents were asked is told by their own log.

use crate::ostler::{BOUND_MS, Ostler, Running};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use testkit::until;

/// Notes who it is and what it was asked. While there is a file `full-WHO`, its provider has nothing
/// left; while there is one `shut-WHO`, nobody may use it; while there is one `hold-WHO`, it goes on.
const AGENT: &str = r#"#!/bin/sh
who=$1; words=$(cat)
printf '%s|%s|%s\n' "$who" "$OSTLER_WAKE_REASON" "$(printf %s "$words" | tr '\n' ' ')" >> "$2"
echo '{"ev":"talk","bit":"'"$who"' began"}'
if [ -e "$3/full-$who" ]; then
  echo '{"ev":"oops","words":"You have hit your usage limit. Try again in '"$(cat "$3/full-$who")"'."}'
  echo '{"ev":"bye","well":false}'
elif [ -e "$3/shut-$who" ]; then
  echo '{"ev":"oops","words":"401 Unauthorized: invalid api key"}'
  echo '{"ev":"bye","well":false}'
else
  while [ -e "$3/hold-$who" ]; do sleep 0.05; done
  echo made by "$who" > "made-$who"
  echo '{"ev":"talk","bit":"done"}'
  echo '{"ev":"bye","well":true}'
fi
"#;

struct Yard {
    ostler: Ostler,
    serve: Running,
    root: PathBuf,
    log: PathBuf,
}

impl Yard {
    /// Agent `a` does its work with the adapter `one`, else with `two`, else `b` does it, with `three`;
    /// agent `alone` has no chain.
    fn new(more: Value) -> Self {
        let ostler = Ostler::new();
        let root = ostler.instance.root().to_owned();
        let (start, log) = (root.join("agent"), root.join("log"));
        std::fs::write(&start, AGENT).unwrap();
        std::fs::set_permissions(&start, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(&log, "").unwrap();
        let adapter = |who: &str| {
            json!({
                "type": "cli", "binary": start, "account": who, "permission": "allow-all",
                "mapping": {
                    "args": [who, log, root],
                    "prompt": "stdin",
                    "policies": { "allow-all": [] },
                    "rules": [
                        { "when": { "ev": "talk" }, "text": { "at": "bit", "delta": true } },
                        { "when": { "ev": "oops" }, "error": { "message": "words" } },
                        { "when": { "ev": "bye", "well": true }, "end": { "success": true } },
                        { "when": { "ev": "bye", "well": false }, "end": { "success": false } },
                    ],
                },
            })
        };
        let mut first = json!({
            "adapter": "one", "cwd": ostler.instance.work(), "promptTemplate": "{{prompt}}",
            "fallback": [{ "adapter": "two", "model": "small" }, { "agent": "b" }],
        });
        for (key, value) in more.as_object().unwrap() {
            first[key] = value.clone();
        }
        let cwd = ostler.instance.work();
        let config = json!({
            "adapters": {
                "one": adapter("one"), "two": adapter("two"), "three": adapter("three"),
            },
            "agents": {
                "a": first,
                "b": { "adapter": "three", "cwd": cwd, "promptTemplate": "{{prompt}}" },
                "alone": { "adapter": "one", "cwd": cwd },
            },
        });
        ostler.instance.write_config(&config.to_string());
        let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(serve.line().starts_with("listening on "));
        Self { ostler, serve, root, log }
    }

    /// Puts a file that the agents look for.
    fn put(&self, name: &str, words: &str) {
        std::fs::write(self.root.join(name), words).unwrap();
    }

    fn json(&self, args: &[&str]) -> Value {
        let said = self.ostler.says(&[args, &["--json"]].concat());
        assert_eq!(said.code, 0, "{args:?}: {}", said.stderr);
        serde_json::from_str(&said.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said.stdout))
    }

    fn add(&self, agent: &str, title: &str) -> String {
        let added = ["task", "add", "--title", title, "--agent", agent, "--review", "none"];
        self.json(&added)["id"].as_str().unwrap().to_owned()
    }

    /// Takes such a file away.
    fn take(&self, name: &str) {
        std::fs::remove_file(self.root.join(name)).unwrap();
    }

    /// Gives agent `b` work elsewhere that goes on until its file is taken away.
    fn busy(&self) -> String {
        self.put("hold-three", "");
        let elsewhere = self.root.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let cwd = elsewhere.to_str().unwrap();
        let args = ["task", "add", "--title", "long", "--agent", "b", "--review", "none"];
        let task = self.json(&[&args[..], &["--cwd", cwd]].concat())["id"].clone();
        let task = task.as_str().unwrap().to_owned();
        self.until_is(&task, "running");
        task
    }

    fn until_is(&self, task: &str, state: &str) -> Value {
        until(&format!("{task} to be {state}"), BOUND_MS, || {
            let sheet = self.json(&["task", "show", task]);
            (sheet["state"] == state).then_some(sheet)
        })
    }

    /// Who was asked what, and why it was woken, in order.
    fn log(&self) -> Vec<[String; 3]> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let line = |line: &str| {
            let mut words = line.splitn(3, '|').map(str::to_owned);
            Some([words.next()?, words.next()?, words.next()?])
        };
        text.lines().filter_map(line).collect()
    }

    fn who(&self) -> Vec<String> {
        self.log().into_iter().map(|[who, ..]| who).collect()
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = self.serve.child.kill();
        let _ = self.serve.child.wait();
    }
}

/// Of each run of a task, the oldest first: on which adapter, how it ended, and in whose place.
fn runs(sheet: &Value) -> Vec<(String, String, bool)> {
    let runs = sheet["runs"].as_array().unwrap().iter().rev();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    runs.map(|run| (word(&run["adapter"]), word(&run["code"]), run["fallback"].is_string()))
        .collect()
}

#[test]
fn when_an_account_is_used_up_the_next_of_the_chain_goes_on_and_is_told_what_is_known() {
    let yard = Yard::new(json!({}));
    yard.put("full-one", "2 hours 5 minutes");
    let task = yard.add("a", "mend the gate");
    let sheet = yard.until_is(&task, "done");
    let took = [("one", "provider_quota", false), ("two", "", true)];
    assert_eq!(runs(&sheet), took.map(|(on, code, is)| (on.to_owned(), code.to_owned(), is)));
    let [first, second] = &yard.log()[..] else { panic!("{:?}", yard.log()) };
    assert_eq!((first[1].as_str(), first[2].as_str()), ("task", "mend the gate"));
    assert_eq!(second[1], "fallback", "why it was woken");
    for words in ["are continuing work", "one began", "mend the gate"] {
        assert!(second[2].contains(words), "{words}: {}", second[2]);
    }
    let run = &sheet["runs"][0];
    assert_eq!((&run["agent"], &run["model"]), (&json!("a"), &json!("small")));
    let shown = yard.ostler.says(&["show", run["id"].as_str().unwrap()]).stdout;
    let said = "this run is a fallback: adapter two with small continues for agent a";
    assert!(shown.contains(said), "{shown}");
    let shown = yard.ostler.says(&["task", "show", &task]).stdout;
    assert!(shown.contains("adapter two with small continues"), "{shown}");

    // The next task finds the account used up before it starts, and goes elsewhere at once.
    let task = yard.add("a", "paint the gate");
    let sheet = yard.until_is(&task, "done");
    assert_eq!(runs(&sheet), [("two".to_owned(), String::new(), true)]);
    let last = yard.log().pop().unwrap();
    assert_eq!((last[1].as_str(), last[2].as_str()), ("task", "paint the gate"));
    // Who has no chain waits for the reset.
    let task = yard.add("alone", "wait");
    let sheet = yard.until_is(&task, "waiting");
    assert_eq!((&sheet["waiting_for"], yard.who().len()), (&json!("quota"), 3), "{sheet}");
}

#[test]
fn a_chain_that_is_gone_to_its_end_waits_for_the_earliest_reset() {
    let yard = Yard::new(json!({}));
    yard.put("full-one", "3 hours");
    yard.put("full-two", "1 hour");
    yard.put("shut-three", "");
    let task = yard.add("a", "mend the gate");
    let sheet = until("every way to be shut", BOUND_MS, || {
        let sheet = yard.until_is(&task, "waiting");
        (sheet["runs"].as_array().unwrap().len() == 3).then_some(sheet)
    });
    assert_eq!(yard.who(), ["one", "two", "three"]);
    assert_eq!(sheet["waiting_for"], "quota", "{sheet}");
    let quotas = yard.json(&["quotas"]);
    let two = quotas.as_array().unwrap().iter().find(|quota| quota["scope"] == "mapped:two/two");
    let until_two = two.unwrap_or_else(|| panic!("{quotas}"))["until"].clone();
    assert_eq!(sheet["until"], until_two, "the account of `two` is there first");

    // A person who opens that account lets the task go on with it, and with nobody else.
    std::fs::remove_file(yard.root.join("full-two")).unwrap();
    yard.json(&["quotas", "clear", "mapped:two/two"]);
    yard.until_is(&task, "done");
    assert_eq!(yard.who(), ["one", "two", "three", "two"]);
    let asked = yard.log().pop().unwrap()[2].clone();
    assert!(asked.contains("three began"), "who went between is told of too: {asked}");
}

#[test]
fn who_takes_over_goes_on_in_the_worktree_of_the_one_before() {
    let yard = Yard::new(json!({ "workspace": "worktree" }));
    crate::trees::repository(&yard.ostler);
    yard.put("full-one", "2 hours");
    let task = yard.add("a", "mend the gate");
    let sheet = yard.until_is(&task, "done");
    let [second, first] = &sheet["runs"].as_array().unwrap()[..] else { panic!("{sheet}") };
    assert_eq!(first["cwd"], second["cwd"], "{sheet}");
    let cwd = PathBuf::from(first["cwd"].as_str().unwrap());
    assert_ne!(cwd, yard.ostler.instance.work());
    assert!(cwd.join("made-two").exists());
}

#[test]
fn another_agent_of_the_chain_finishes_what_the_adapters_could_not() {
    let yard = Yard::new(json!({}));
    yard.put("full-one", "2 hours");
    yard.put("shut-two", "");
    let task = yard.add("a", "mend the gate");
    let sheet = yard.until_is(&task, "done");
    let took =
        [("one", "provider_quota", false), ("two", "auth_failed", true), ("three", "", true)];
    assert_eq!(runs(&sheet), took.map(|(on, code, is)| (on.to_owned(), code.to_owned(), is)));
    let run = &sheet["runs"][0];
    assert_eq!((&run["agent"], &run["cwd"]), (&json!("b"), &sheet["runs"][2]["cwd"]), "{sheet}");
    assert!(yard.ostler.instance.work().join("made-three").exists());
    assert_eq!((&sheet["agent"], &sheet["answer"]), (&json!("a"), &json!("three begandone")));
    let last = yard.log().pop().unwrap();
    assert_eq!(last[1], "fallback", "why it was woken");
    for words in ["are continuing work", "two began", "mend the gate"] {
        assert!(last[2].contains(words), "{words}: {}", last[2]);
    }
    let shown = yard.ostler.says(&["show", run["id"].as_str().unwrap()]).stdout;
    assert!(shown.contains("this run is a fallback: agent b continues for agent a"), "{shown}");
}

#[test]
fn while_the_last_of_a_chain_has_its_hands_full_the_task_waits_and_then_goes_on() {
    for (first, second) in [("full-one", "full-two"), ("shut-one", "shut-two")] {
        let yard = Yard::new(json!({}));
        let other = yard.busy();
        yard.put(first, "2 hours");
        yard.put(second, "3 hours");
        let task = yard.add("a", "mend the gate");
        let sheet = until("both adapters to have failed", BOUND_MS, || {
            let sheet = yard.until_is(&task, "waiting");
            (sheet["runs"].as_array().unwrap().len() == 2).then_some(sheet)
        });
        let why = (&sheet["waiting_for"], &sheet["note"]);
        assert_eq!(why, (&json!("agent"), &json!("agent b has no free slot")), "{sheet}");
        let shown = yard.ostler.says(&["task", "show", &task]).stdout;
        assert!(!shown.contains("agents resume"), "nobody is paused: {shown}");
        // Long before any reset.
        yard.take("hold-three");
        yard.until_is(&other, "done");
        let sheet = yard.until_is(&task, "done");
        assert_eq!((&sheet["runs"][0]["agent"], yard.who().len()), (&json!("b"), 4), "{sheet}");
    }
}

#[test]
fn a_task_that_waits_for_the_last_of_its_chain_keeps_no_other_of_its_agent_waiting() {
    let yard = Yard::new(json!({}));
    yard.busy();
    yard.put("shut-one", "");
    yard.put("shut-two", "");
    let first = yard.add("a", "mend the gate");
    let waits = |task: &str, note: &str| {
        until(&format!("{task} to wait: {note}"), BOUND_MS, || {
            let sheet = yard.until_is(task, "waiting");
            (sheet["note"] == note).then_some(())
        });
    };
    waits(&first, "agent b has no free slot");
    assert_eq!(yard.ostler.says(&["agents", "pause", "a"]).code, 0);
    let second = yard.add("a", "paint the gate");
    waits(&second, "'a' is paused");
    let shown = yard.ostler.says(&["task", "show", &second]).stdout;
    assert!(shown.contains("ostler agents resume a"), "{shown}");
    yard.take("shut-one");
    assert_eq!(yard.ostler.says(&["agents", "resume", "a"]).code, 0);
    // Of the same agent, in the same directory, and behind the first.
    yard.until_is(&second, "done");
    waits(&first, "agent b has no free slot");
}
