//! What an agent is told of why it runs: the context of its caller, the decision or the comment that
//! woke it, its environment; and whom its own comments wake.

use crate::ostler::{BOUND_MS, Ostler};
use crate::tasks::Yard;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use testkit::until;

/// Notes its arguments and its environment by the number of its start, and does what its first word
/// says.
const AGENT: &str = r#"
LOG=$1; PROMPT=$2; shift 2
N=$(($(cat "$LOG.n" 2>/dev/null || echo 0) + 1)); echo $N > "$LOG.n"
printf '%s' "$*" > "$LOG.args.$N"; printf '%s' "$PROMPT" > "$LOG.prompt.$N"
case $PROMPT in
  *ask*) [ "$OSTLER_WAKE_REASON" = task ] && {
    echo '{"type":"tool_call","id":"1","tool":"handoff","args":{"question":"which one?"}}'
    while read -r LINE; do case $LINE in *tool_result*) break;; esac; done; };;
  *read*) echo '{"type":"tool_call","id":"1","tool":"read_task"}'
    while read -r LINE; do case $LINE in *tool_result*) echo "$LINE" > "$LOG.task"; break;; esac; done;;
esac
env > "$LOG.env.$N"
echo '{"type":"complete","output":{"text":"done"}}'
"#;

const TEMPLATE: [&str; 5] = [
    "{{context.ticket}}/{{context.of.team}}",
    "{{context.wakeReason}}/{{context.wakeCommentId}}",
    "{{context.approvalId}}/{{context.approvalStatus}}/{{context.linkedTaskIds}}",
    "{{agent.companyId}}/{{agent.adapterType}}/{{agent.name}}",
    "{{context.taskId}}={{taskId}}",
];

fn configured(ostler: &Ostler, log: &Path) -> Value {
    let script = ostler.instance.root().join("woken.sh");
    std::fs::write(&script, AGENT).unwrap();
    let mut args = vec![script.display().to_string(), log.display().to_string()];
    args.push("{{prompt}}".to_owned());
    args.extend(TEMPLATE.map(str::to_owned));
    json!({ "type": "process", "binary": "sh", "args": args, "envCompat": ["paperclip"] })
}

struct Desk {
    yard: Yard,
    log: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let yard = Yard::of(&[]);
        let log = yard.ostler.instance.root().join("woken");
        let work = yard.ostler.instance.work();
        let config = json!({
            "adapters": { "mine": configured(&yard.ostler, &log) },
            "agents": { "a": { "adapter": "mine", "cwd": work, "concurrency": 1 } },
        });
        yard.ostler.instance.write_config(&config.to_string());
        Self { yard, log }
    }

    fn add(&self, title: &str, more: &[&str]) -> String {
        let args = [&["add", "--title", title, "--agent", "a"], more].concat();
        self.yard.json(&args)["id"].as_str().unwrap().to_owned()
    }

    fn note(&self, name: &str, n: usize) -> String {
        let path = format!("{}.{name}.{n}", self.log.display());
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn env(&self, n: usize) -> BTreeMap<String, String> {
        let pairs = self.note("env", n);
        let pairs = pairs.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn until_runs(&self, task: &str, count: usize, state: &str) -> Value {
        until(&format!("{count} runs and {state}"), BOUND_MS, || {
            let sheet = self.yard.json(&["show", task]);
            let runs = sheet["runs"].as_array().unwrap().len();
            (runs == count && sheet["state"] == state).then_some(sheet)
        })
    }
}

#[test]
fn context_of_a_run_reaches_its_arguments_and_its_task() {
    let desk = Desk::new();
    let ostler = &desk.yard.ostler;
    let context = r#"{"ticket": 7, "of": {"team": "blue"}, "wakeReason": "mine"}"#;
    let said = ostler.says(&["run", "mine", "read it", "--context", context]);
    assert_eq!(said.code, 0, "{said:#?}");
    let args = desk.note("args", 1);
    assert!(args.starts_with("7/blue run/ //[] default/process/mine task_"), "{args}");
    let task = args.rsplit(' ').next().unwrap();
    let (one, other) = task.split_once('=').unwrap();
    assert_eq!(one, other);
    let read: Value = serde_json::from_str(&desk.note_of("task")).unwrap();
    let told = &read["value"]["context"];
    assert_eq!((&told["ticket"], &told["wakeReason"]), (&json!(7), &json!("run")), "{told}");

    // One that is not given is empty, and one that is no object, or too large, is refused.
    assert_eq!(ostler.says(&["run", "mine", "go"]).code, 0);
    assert!(desk.note("args", 2).starts_with("/ run/ "), "{}", desk.note("args", 2));
    assert_eq!(ostler.says(&["run", "mine", "go", "--context", "[1]"]).code, 2);
    let long = json!({ "x": "y".repeat(16 * 1024) }).to_string();
    let said = ostler.says(&["run", "mine", "go", "--context", &long]);
    assert_eq!(said.code, 2, "{said:#?}");
    assert!(said.stderr.contains("the limit is 16384"), "{said:#?}");
}

impl Desk {
    fn note_of(&self, name: &str) -> String {
        std::fs::read_to_string(format!("{}.{name}", self.log.display())).unwrap()
    }
}

#[test]
fn task_context_links_and_decisions_are_told() {
    let mut desk = Desk::new();
    let before = desk.add("go first", &["--review", "none"]);
    let context = r#"{"ticket": 9}"#;
    let task = desk.add(
        "ask about it",
        &[
            "--body",
            "the body says more",
            "--after",
            &before,
            "--parent",
            &before,
            "--context",
            context,
        ],
    );
    let shown = desk.yard.json(&["show", &task]);
    assert_eq!(shown["context"], json!({ "ticket": 9 }), "{shown}");
    desk.yard.serve();
    until("the question", BOUND_MS, || {
        (desk.yard.json(&["show", &task])["waiting_for"] == "answer").then_some(())
    });
    let prompt = desk.note("prompt", 2);
    assert!(prompt.contains("ask about it") && prompt.contains("the body says more"), "{prompt}");
    let env = desk.env(2);
    assert_eq!(env["OSTLER_LINKED_TASK_IDS"], before, "an ID is there once");
    assert_eq!(env["PAPERCLIP_LINKED_ISSUE_IDS"], before);
    for name in ["OSTLER_APPROVAL_ID", "OSTLER_WAKE_COMMENT_ID", "PAPERCLIP_APPROVAL_STATUS"] {
        assert!(!env.contains_key(name), "{name}");
    }
    let args = desk.note("args", 2);
    assert!(args.starts_with(&format!("9/ task/ //[\"{before}\"] default/process/a ")), "{args}");

    desk.yard.json(&["comment", &task, "the left one"]);
    let sheet = desk.until_runs(&task, 2, "review");
    let asked_by = sheet["runs"][1]["id"].as_str().unwrap();
    let comment = sheet["comments"][0]["id"].as_str().unwrap();
    let env = desk.env(3);
    for (name, value) in [
        ("WAKE_REASON", "answered"),
        ("WAKE_COMMENT_ID", comment),
        ("APPROVAL_ID", asked_by),
        ("APPROVAL_STATUS", "answered"),
    ] {
        assert_eq!(env[&format!("OSTLER_{name}")], value, "{name}");
        assert_eq!(env[&format!("PAPERCLIP_{name}")], value, "{name}");
    }
    let args = desk.note("args", 3);
    let expected = format!("9/ answered/{comment} {asked_by}/answered/[\"{before}\"] ");
    assert!(args.starts_with(&expected), "{args}");

    desk.yard.json(&["reject", &task, "no, the right one"]);
    let sheet = desk.until_runs(&task, 3, "review");
    let env = desk.env(4);
    assert_eq!(env["OSTLER_APPROVAL_ID"], sheet["runs"][1]["id"].as_str().unwrap());
    assert_eq!(env["OSTLER_APPROVAL_STATUS"], "rejected");
}

/// Says a word about its task and ends.
const TALKER: &str = r#"
echo "$OSTLER_AGENT_NAME$1" >> "$2"
echo '{"type":"comment","text":"'"$3"'","mentions":['"$4"']}'
echo '{"type":"complete","output":{"text":"done"}}'
"#;

/// Agents that each comment on whatever task they are given, with these words and mentions.
fn talkers(agents: &[(&str, &str, &str)], told: &Path) -> (Yard, PathBuf) {
    let yard = Yard::of(&[]);
    let root = yard.ostler.instance.root().to_owned();
    let (script, log) = (root.join("talker.sh"), root.join("talked"));
    std::fs::write(&script, TALKER).unwrap();
    let (mut adapters, mut all) = (json!({}), json!({}));
    for (name, text, mentions) in agents {
        let cwd = yard.ostler.instance.work().join(name);
        std::fs::create_dir(&cwd).unwrap();
        let args = json!([script, name, log, text, mentions]);
        adapters[format!("talks-{name}")] =
            json!({ "type": "process", "binary": "sh", "args": args });
        all[name] = json!({ "adapter": format!("talks-{name}"), "cwd": cwd });
    }
    let command = format!("(env | grep OSTLER_NOTIFY; cat) >> {}", root.join(told).display());
    let config = json!({
        "adapters": adapters, "agents": all,
        "notify": { "command": ["/bin/sh", "-c", command] },
    });
    yard.ostler.instance.write_config(&config.to_string());
    (yard, log)
}

fn talked(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn comment_of_an_agent_wakes_and_notifies_the_mentioned() {
    let says = [
        ("a", "please look at it, @b", "\"@board-operator\",\"b\",\"talks-b\""),
        ("b", "I did", ""),
    ];
    let (mut yard, log) = talkers(&says, Path::new("told"));
    yard.serve();
    let task = yard.json(&["add", "--title", "dig", "--agent", "a", "--review", "none"]);
    let task = task["id"].as_str().unwrap();
    yard.until_is(task, "done");
    let woken = until("the task of the mentioned agent", BOUND_MS, || {
        let all = yard.json(&["list", "--state", "done"]);
        let found = all.as_array().unwrap().iter().find(|other| other["parent"] == task);
        found.cloned()
    });
    assert_eq!((&woken["agent"], &woken["title"]), (&json!("b"), &json!("Mentioned in: dig")));
    let body = yard.json(&["show", woken["id"].as_str().unwrap()])["body"].clone();
    assert!(body.as_str().unwrap().contains("please look at it"), "{body}");
    assert_eq!(talked(&log), ["a", "b"]);
    let told = yard.ostler.instance.root().join("told");
    let notice = until("people to be notified", BOUND_MS, || {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().find(|notice| notice["kind"] == "mention")
    });
    // An adapter is nobody who was hired, and neither is it woken.
    assert_eq!(notice["mentions"], json!(["board-operator", "talks-b"]), "{notice}");
    assert_eq!((&notice["agent"], &notice["task_id"]), (&json!("a"), &json!(task)));
    assert!(notice["text"].as_str().unwrap().contains("please look at it"), "{notice}");
}

#[test]
fn agents_that_mention_each_other_come_to_an_end() {
    let says = [("a", "your turn", "\"b\""), ("b", "no, yours", "\"a\"")];
    let (mut yard, log) = talkers(&says, Path::new("told"));
    yard.serve();
    let task = yard.json(&["add", "--title", "dig", "--agent", "a", "--review", "none"]);
    yard.until_is(task["id"].as_str().unwrap(), "done");
    let last = until("the refusal", BOUND_MS, || {
        let all = yard.json(&["list", "--state", "done"]);
        let sheets = all.as_array().unwrap().iter();
        let sheets = sheets.map(|task| yard.json(&["show", task["id"].as_str().unwrap()]));
        sheets.into_iter().find(|sheet| {
            let said = sheet["comments"].as_array().unwrap();
            said.iter().any(|said| said["author"] == "ostler")
        })
    });
    let said = last["comments"].as_array().unwrap();
    let refusal = said.iter().find(|said| said["author"] == "ostler").unwrap();
    let text = refusal["text"].as_str().unwrap();
    assert!(text.contains("'a' is mentioned and was not woken: 3 mentions"), "{text}");
    assert_eq!(talked(&log), ["a", "b", "a", "b"], "and no more");
    let all = yard.json(&["list", "--all"]);
    assert_eq!(all.as_array().unwrap().len(), 4, "{all}");
}
