//! Agents that speak ACP and do what their policy forbids, by small scripts of ours: what they report,
//! what they only do, the modes they offer, and the first request that is never answered.

use crate::ostler::{Ostler, Said, result};
use serde_json::Value;

const GREETED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#;
const OPENED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#;
const ENDED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#;
const SAYS: &str =
    r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"ok"}}"#;
const EDITS: &str = r#"{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Write it","kind":"edit","status":"completed"}"#;

/// A command that answers three requests and does something in the turn.
fn agent(ostler: &Ostler, opened: &str, act: &str, update: &str) -> String {
    let update = format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
    );
    let script = format!(
        "read line; echo '{GREETED}'\nread line; echo '{opened}'\nread line || exit 0; {act}\n\
         echo '{update}'; echo '{ENDED}'; cat > /dev/null\n"
    );
    let path = ostler.instance.root().join("agent.sh");
    std::fs::write(&path, script).expect("a script");
    format!("sh {}", path.display())
}

fn run(ostler: &Ostler, agent: &str, policy: &str) -> (Said, Value) {
    let said = ostler.says(&["run", "--acp", agent, "do it", "--permission", policy, "--json"]);
    let last = result(&said.events()).clone();
    (said, last)
}

#[test]
fn a_reported_act_that_was_not_asked_for_ends_the_run() {
    for policy in ["deny", "ask", "allow-reads"] {
        let ostler = Ostler::new();
        let agent = agent(&ostler, OPENED, ":", EDITS);
        let (said, last) = run(&ostler, &agent, policy);
        assert_eq!((said.code, &last["code"]), (12, &"policy_broken".into()), "{policy}: {said:?}");
        let message = last["message"].as_str().expect("a message");
        let told =
            format!("under {policy} the edit call 'Write it' was carried out without asking");
        assert!(message.ends_with(&told), "{message}");
    }
    let ostler = Ostler::new();
    let agent = agent(&ostler, OPENED, ":", EDITS);
    assert_eq!(run(&ostler, &agent, "allow-all").0.code, 0);
}

#[test]
fn a_file_that_changed_in_silence_ends_the_run() {
    // Under `ask` other programs are expected to change files: people work beside the agent.
    let rows = [("deny", "> made.txt", 12), ("allow-reads", "> made.txt", 12), ("deny", ":", 0)];
    for (policy, act, code) in rows.into_iter().chain([("ask", "> made.txt", 0)]) {
        let ostler = Ostler::new();
        let agent = agent(&ostler, OPENED, act, SAYS);
        let (said, last) = run(&ostler, &agent, policy);
        assert_eq!(said.code, code, "{policy} {act}: {said:?}");
        let message = last["message"].as_str().unwrap_or_default();
        assert_eq!(message.contains("made.txt (new)"), code == 12, "{message}");
    }
}

#[test]
fn a_run_that_another_host_took_over_is_compared() {
    for (act, code) in [("sleep 3; > made.txt", 12), ("sleep 3", 0)] {
        let ostler = Ostler::new();
        let agent = agent(&ostler, OPENED, act, SAYS);
        let flags = ["do it", "--permission", "deny", "--json"];
        let mut run = ostler.starts(&[&["run", "--acp", agent.as_str()], &flags[..]].concat());
        let began = run.event("the agent to run", |event| event["phase"] == "running");
        let elsewhere = ostler.instance.root().join("elsewhere");
        std::fs::create_dir(&elsewhere).expect("a directory");
        let mut detached = ostler.command(&["run", "-d", "demo", "hi"]);
        let detached = detached.current_dir(elsewhere).output().expect("ostler starts");
        assert!(detached.status.success(), "{detached:?}");
        let said = run.finish();
        assert_eq!(said.code, code, "{act}: {said:?}");
        let id = began["run_id"].as_str().expect("an id");
        let events = ostler.events(&["show", id, "--json"]);
        assert!(events.iter().any(|event| event["phase"] == "adopted"), "{events:#?}");
        let last = result(&events);
        assert_eq!(last["evidence"]["workspace"], "compared", "{last}");
        let message = last["message"].as_str().unwrap_or_default();
        assert_eq!(message.contains("made.txt (new)"), code == 12, "{message}");
    }
}

#[test]
fn a_comparison_that_was_not_made_is_told() {
    let ostler = Ostler::new();
    let git = ostler.instance.work().join(".git");
    std::fs::create_dir_all(git.join("objects")).expect("a directory");
    std::fs::create_dir_all(git.join("refs")).expect("a directory");
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").expect("a file");
    let config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tunheard = 1\n";
    std::fs::write(git.join("config"), config).expect("a file");
    let agent = agent(&ostler, OPENED, "> made.txt", SAYS);
    let (said, last) = run(&ostler, &agent, "deny");
    assert_eq!(
        (said.code, &last["evidence"]["workspace"]),
        (0, &"not_compared".into()),
        "{said:?}"
    );
    let told = "the workspace was not compared with its beginning: the repository has the setting";
    let run = ["run", "--acp", &agent, "do it", "--permission", "deny"];
    let said = ostler.says(&run);
    let closing = said.stdout.split_once("✓ succeeded").expect("a success").1;
    assert!(closing.split_whitespace().collect::<Vec<_>>().join(" ").contains(told), "{closing}");
    let said = ostler.says(&[&run[..], &["--quiet"]].concat());
    assert_eq!((said.code, said.stdout.as_str()), (0, "ok\n"), "{said:?}");
    assert!(said.stderr.contains(&format!("warning: {told}")), "{said:?}");
}

#[test]
fn a_change_beside_another_run_is_told_and_not_counted() {
    let ostler = Ostler::new();
    let other = ostler.fake("--burst 1 --sleep-ms 6000");
    let mut other = ostler.starts(&["run", "--process", &other, "x", "--json"]);
    other.event("the other agent to run", |event| event["phase"] == "running");
    let agent = agent(&ostler, OPENED, "> made.txt", SAYS);
    let run = ["run", "--acp", &agent, "do it", "--permission", "deny", "--quiet"];
    let said = ostler.says(&run);
    assert_eq!(said.code, 0, "{said:?}");
    let told = "another run works there too";
    assert!(said.stderr.contains("made.txt (new)") && said.stderr.contains(told), "{said:?}");
    let last = ostler.events(&["show", "last", "--json"]);
    assert_eq!(result(&last)["evidence"]["workspace"], "changed_beside_other_run", "{last:#?}");
    assert_eq!(other.finish().code, 0);
}

#[test]
fn an_agent_whose_modes_are_not_known_is_not_prompted() {
    let opened = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s","modes":{"currentModeId":"turbo","availableModes":[{"id":"turbo","name":"Turbo"}]}}}"#;
    let ostler = Ostler::new();
    let agent = agent(&ostler, opened, "> made.txt", SAYS);
    let (said, last) = run(&ostler, &agent, "deny");
    assert_eq!((said.code, &last["code"]), (3, &"policy_not_possible".into()), "{said:?}");
    assert!(last["message"].as_str().is_some_and(|text| text.contains("seen: 'turbo'")), "{last}");
}

/// A command that answers every request by its method, sets modes in its own way (`$id` is the id of
/// the request) and says one update in the turn.
fn moody(ostler: &Ostler, modes: &str, set: &str, update: &str) -> String {
    let modes = match modes {
        "" => String::new(),
        modes => format!(r#","modes":{modes}"#),
    };
    let script = format!(
        r#"
while read -r line; do
  id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
  case "$line" in
    *'"initialize"'*) echo '{GREETED}' ;;
    *'"session/new"'*) echo '{{"jsonrpc":"2.0","id":1,"result":{{"sessionId":"s"{modes}}}}}' ;;
    *'"session/set_mode"'*) {set} ;;
    *'"session/prompt"'*)
      echo '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}'
      if [ -n "$WAITS" ]; then read -r line; id2=${{line#*\"id\":}}; id2=${{id2%%[,\}}]*}}; id1=$id; id=$id2; {set}; id=$id1; fi
      echo '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{SAYS}}}}}'
      echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"stopReason":"end_turn"}}}}' ;;
  esac
done
"#
    );
    let path = ostler.instance.root().join("moody.sh");
    std::fs::write(&path, script).expect("a script");
    path.display().to_string()
}

const TAKES: &str = r#"echo '{"jsonrpc":"2.0","id":'$id',"result":{}}'"#;
const REFUSES: &str =
    r#"echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}'"#;

fn modes(current: &str, offered: &[&str]) -> String {
    let offered: Vec<_> = offered.iter().map(|id| format!(r#"{{"id":"{id}"}}"#)).collect();
    format!(r#"{{"currentModeId":"{current}","availableModes":[{}]}}"#, offered.join(","))
}

#[test]
fn doctor_says_of_an_acp_agent_what_a_run_would_find() {
    let all = "answered by Ostler where the agent asks: allow-all (not tested)";
    let rows = [
        (modes("turbo", &["turbo"]), TAKES, format!("{all}; not possible: deny, ask, allow-reads")),
        (
            modes("plan", &["plan"]),
            TAKES,
            format!(
                "begins in a mode for: deny, allow-reads (not tested with a change); {all}; not \
                 possible: ask"
            ),
        ),
        (
            modes("default", &["default"]),
            TAKES,
            format!(
                "begins in a mode for: deny, ask, allow-reads (not tested with a change); {all}"
            ),
        ),
        (
            modes("yolo", &["yolo", "ask"]),
            TAKES,
            format!("accepts the mode for: deny, ask, allow-reads (not tested with a change); {all}"),
        ),
        (
            modes("yolo", &["yolo", "ask"]),
            REFUSES,
            format!("{all}; not possible: deny, ask, allow-reads"),
        ),
        (
            String::new(),
            TAKES,
            "answered by Ostler where the agent asks: deny, ask, allow-reads, allow-all (not tested)"
                .to_owned(),
        ),
    ];
    for (modes, set, told) in rows {
        let ostler = Ostler::new();
        let script = moody(&ostler, &modes, set, SAYS);
        ostler.instance.write_config(&format!(
            r#"{{ "adapters": {{ "mine": {{ "type": "acp", "binary": "sh", "args": ["{script}"] }} }} }}"#
        ));
        let said = ostler.says(&["doctor", "mine", "--json"]);
        let report: Value = serde_json::from_str(&said.stdout).expect("JSON");
        let checks = report["diagnoses"][0]["checks"].as_array().expect("checks");
        let policies = checks.iter().find(|check| check["code"] == "policy_possible");
        assert_eq!(policies.expect("a check")["message"], told, "{checks:#?}");
        for policy in ["deny", "ask"] {
            let (said, last) = run(&ostler, &format!("sh {script}"), policy);
            let refused = told.split("not possible: ").nth(1).unwrap_or_default().contains(policy);
            assert_eq!(said.code, if refused { 3 } else { 0 }, "{policy}: {last}");
        }
    }
}

#[test]
fn doctor_promises_nothing_of_a_missing_program() {
    let ostler = Ostler::new();
    ostler.instance.write_config(
        r#"{ "adapters": { "absent": { "type": "acp", "binary": "no-such-program" } } }"#,
    );
    let said = ostler.says(&["doctor", "absent", "--json"]);
    assert!(said.stdout.contains("binary_missing"), "{said:?}");
    assert!(!said.stdout.contains("policy_"), "{said:?}");
}

#[test]
fn a_mode_that_the_agent_changes_is_set_back_or_ends_the_run() {
    let to_yolo = r#"{"sessionUpdate":"current_mode_update","currentModeId":"yolo"}"#;
    for (set, code) in [(TAKES, 0), (REFUSES, 12)] {
        let ostler = Ostler::new();
        let script = moody(&ostler, &modes("ask", &["yolo", "ask"]), set, to_yolo);
        let (said, last) = run(&ostler, &format!("env WAITS=1 sh {script}"), "ask");
        assert_eq!(said.code, code, "{said:?}");
        assert!(said.stdout.contains("which does not ask before it acts"), "{said:?}");
        let message = last["message"].as_str().unwrap_or_default();
        assert_eq!(message.contains("it did not take the mode 'ask': no"), code == 12, "{last}");
    }
}

#[test]
fn a_title_like_ostlers_tools_is_no_exemption() {
    let ostler = Ostler::new();
    let edits = EDITS.replace("Write it", "ostler-notes.md");
    let agent = agent(&ostler, OPENED, ":", &edits);
    assert_eq!(run(&ostler, &agent, "ask").0.code, 12);
}

#[test]
fn a_chosen_policy_says_what_it_covers() {
    let ostler = Ostler::new();
    let covers = "covers only the tools that Ostler offers to this agent";
    for (policy, told) in [(Some("deny"), 1), (Some("ask"), 1), (Some("allow-all"), 0), (None, 0)] {
        let permission = policy.map(|policy| ["--permission", policy]);
        let mut args = vec!["run", "demo", "hello", "--json"];
        args.extend(permission.iter().flatten());
        let said = ostler.says(&args);
        assert_eq!(said.code, 0, "{policy:?}: {said:?}");
        assert_eq!(said.stdout.matches(covers).count(), told, "{policy:?}: {said:?}");
    }
}

#[test]
fn a_program_that_never_answers_initialize_is_told_apart() {
    let ostler = Ostler::new();
    ostler.instance.write_config(
        r#"{ "adapters": { "mute": { "type": "acp", "binary": "sleep", "args": ["60"],
            "firstOutputSec": 1, "graceSec": 1 } } }"#,
    );
    let said = ostler.says(&["run", "mute", "hi", "--json"]);
    let events = said.events();
    let last = result(&events);
    assert_eq!((said.code, &last["code"]), (8, &"timeout_first_output".into()), "{said:?}");
    let told = "did not answer `initialize` within 1 s: does it speak ACP?";
    assert!(last["message"].as_str().is_some_and(|text| text.contains(told)), "{last}");
    let error = events.iter().find(|event| event["kind"] == "error").expect("an error");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("`sleep 60`")), "{error}");
}
