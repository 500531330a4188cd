//! Variables that a user gives to one run: `--env`, where its value goes and where it does not, and
//! the hint when a variable was not passed.

use crate::ostler::{Ostler, Said};
use rustix::process::Signal;

/// An agent that says which of some variables it has, without their values, and shows its arguments.
const AGENT: &str = r#"
has() { eval "value=\$$1"; [ "$value" = "$2" ] && printf '%s ' "$1"; }
text="$(has PASSED hush-passed-value; has GIVEN_TOKEN hush-given-value; has UNASKED hush-unasked-value)"
printf '{"type":"complete","output":{"text":"has %s"}}\n' "$text"
"#;

fn script(ostler: &Ostler, text: &str) -> String {
    let path = ostler.instance.root().join("agent.sh");
    std::fs::write(&path, text).unwrap();
    format!("sh {}", path.display())
}

fn run(ostler: &Ostler, args: &[&str]) -> Said {
    let mut command = ostler.command(args);
    command.env("PASSED", "hush-passed-value").env("UNASKED", "hush-unasked-value");
    Said::from(command.output().unwrap())
}

/// No file of the data directory holds a value.
fn nothing_is_kept(ostler: &Ostler) {
    for path in ostler.files().into_iter().filter(|path| !path.ends_with("agent.sh")) {
        let bytes = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("hush-"), "{}", path.display());
    }
}

#[test]
fn env_reaches_the_agent_and_is_not_stored() {
    let ostler = Ostler::new();
    let agent = script(&ostler, AGENT);
    let args = ["run", "--process", &agent, "--env", "PASSED", "--env"];
    let args = [&args[..], &["GIVEN_TOKEN=hush-given-value", "go", "--json"]].concat();
    let said = run(&ostler, &args);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("has PASSED GIVEN_TOKEN "), "{said:?}");
    let id = said.events()[0]["run_id"].as_str().unwrap().to_owned();
    let plan = ostler.says(&["show", &id, "--plan", "--json"]);
    assert!(plan.stdout.contains("GIVEN_TOKEN") && !plan.stdout.contains("hush-"), "{plan:?}");
    nothing_is_kept(&ostler);
}

#[test]
fn env_reaches_a_run_that_another_process_hosts() {
    let ostler = Ostler::new();
    let agent = script(&ostler, AGENT);
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    let args = ["run", "--process", &agent, "--env", "PASSED", "go", "--quiet"];
    let said = run(&ostler, &args);
    crate::ostler::signal(serve.child.id() as i32, Signal::TERM);
    let served = serve.finish();
    assert_eq!(said.stdout.trim(), "has PASSED", "{said:?}");
    assert!(!format!("{served:?}").contains("hush-"), "{served:?}");
    nothing_is_kept(&ostler);
}

#[test]
fn env_beats_the_configuration() {
    let ostler = Ostler::new();
    let agent = script(&ostler, AGENT);
    let path = agent.strip_prefix("sh ").unwrap();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "mine": {{ "type": "process", "binary": "sh", "args": ["{path}"],
            "env": {{ "PASSED": "of the file" }} }} }} }}"#
    ));
    let said = run(&ostler, &["run", "mine", "go", "--quiet"]);
    assert_eq!(said.stdout.trim(), "has", "{said:?}");
    let said = run(&ostler, &["run", "mine", "--env", "PASSED", "go", "--quiet"]);
    assert_eq!(said.stdout.trim(), "has PASSED", "{said:?}");
}

#[test]
fn env_that_is_not_set_or_reserved_is_an_error() {
    let ostler = Ostler::new();
    let said = run(&ostler, &["run", "demo", "--env", "NOT_SET_ANYWHERE", "hello"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("the variable NOT_SET_ANYWHERE is not set"), "{said:?}");
    let said = run(&ostler, &["run", "demo", "--env", "OSTLER_API_KEY=hush-x", "hello"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("reserved") && !said.stderr.contains("hush"), "{said:?}");
}

#[test]
fn a_variable_that_was_not_passed_is_named() {
    let ostler = Ostler::new();
    let agent = script(
        &ostler,
        r#"[ -n "$UNASKED" ] && echo '{"type":"complete","output":{"text":"has it"}}' && exit
echo '{"type":"failed","reason":"Missing environment variable: `UNASKED`"}'"#,
    );
    let said = run(&ostler, &["run", "--process", &agent, "go"]);
    assert_ne!(said.code, 0, "{said:?}");
    let shown = format!("{}{}", said.stdout, said.stderr);
    let hint = "UNASKED is set in your environment but was not passed to the agent";
    assert!(shown.contains(hint) && shown.contains("--env UNASKED"), "{said:?}");
    assert!(!shown.contains("hush-"), "{said:?}");
    let said = run(&ostler, &["run", "--process", &agent, "--env", "UNASKED", "go"]);
    assert_eq!(said.code, 0, "{said:?}");
    let crashes = script(&ostler, "echo \"KeyError: 'UNASKED_NAME' 'PASSED'\" >&2; exit 1");
    let said = run(&ostler, &["run", "--process", &crashes, "go"]);
    assert!(!said.stdout.contains("--env"), "neither is missed by its name: {said:?}");
    let crashes = script(&ostler, "echo 'missing environment variable: UNASKED' >&2; exit 1");
    let said = run(&ostler, &["run", "--process", &crashes, "go"]);
    let (advice, show) = (said.stdout.find(hint), said.stdout.find("ostler show "));
    assert!(advice.is_some() && advice < show, "before the last line: {said:?}");
}
