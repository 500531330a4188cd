//! The process protocol with agents that know nothing of us but its pages.

use crate::ostler::{Ostler, assert_gap_free, kinds, result};
use std::path::Path;

fn tree() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_printed_python_agent_completes() {
    let ostler = Ostler::new();
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/printed_agent.py");
    let said =
        ostler.says(&["run", "--process", &format!("python3 {agent}"), "do the work", "--json"]);
    let events = said.events();
    assert_gap_free(&events);
    let result = result(&events);
    assert_eq!((said.code, &result["outcome"]), (0, &"succeeded".into()), "{said:#?}");
    assert_eq!(result["output"], serde_json::json!({ "done": true }));
    assert_eq!(result["totals"]["effective_nanousd"], 0, "a direct zero is a price");
    assert!(kinds(&events).contains(&"progress"));
}

#[test]
fn the_agent_of_the_protocol_page_completes() {
    let ostler = Ostler::new();
    let agent = tree().join("docs/protocols/agent.py");
    let said = ostler.says(&[
        "run",
        "--process",
        &format!("python3 {}", agent.display()),
        "do the work",
        "--json",
    ]);
    assert_eq!(
        (said.code, &result(&said.events())["outcome"]),
        (0, &"succeeded".into()),
        "{said:#?}"
    );
}

#[test]
fn a_foreign_cli_behind_the_wrapper_is_an_agent() {
    let ostler = Ostler::new();
    let wrap = tree().join("docs/protocols/wrap.py");
    let command = format!("python3 {} tr a-z A-Z", wrap.display());
    let said = ostler.says(&["run", "--process", &command, "shout this", "--json"]);
    let events = said.events();
    assert_eq!((said.code, &result(&events)["outcome"]), (0, &"succeeded".into()), "{said:#?}");
    assert!(
        events
            .iter()
            .any(|event| event["text"].as_str().is_some_and(|text| text.contains("SHOUT THIS")))
    );

    let failing = format!("python3 {} false", wrap.display());
    let said = ostler.says(&["run", "--process", &failing, "x", "--json"]);
    assert_eq!(
        (said.code, &result(&said.events())["code"]),
        (9, &"agent_failed".into()),
        "{said:#?}"
    );
}

#[test]
fn an_adapter_of_the_configuration_gets_its_arguments_and_environment() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ // comments are allowed
            "adapters": {{ "mine": {{
                "type": "process",
                "binary": "{}",
                "args": ["--echo-env", "WHERE", "--echo-env", "KEY", "--echo-env", "CA_RUN_ID", "--echo-env", "MCP_SERVER_URL", "--echo-env", "STRANGER"],
                "env": {{ "WHERE": "{{{{workspacePath}}}}", "KEY": "${{MY_KEY}}" }},
                "protocol": "json-lines"
            }} }},
            "agents": {{ "worker": {{ "adapter": "mine" }} }}
        }}"#,
        testkit::fake_agent().display()
    ));
    let mut command = ostler.command(&["run", "worker", "show yourself", "--json"]);
    let said = crate::ostler::Said::from(
        command.env("MY_KEY", "s3cr3t-v4lue").env("STRANGER", "danger").output().unwrap(),
    );
    let events = said.events();
    assert_eq!(result(&events)["outcome"], "succeeded", "{said:#?}");
    let work = ostler.instance.work().canonicalize().unwrap();
    assert!(said.stdout.contains(work.to_str().unwrap()), "{}", said.stdout);
    assert!(said.stdout.contains("127.0.0.1") && said.stdout.contains("/mcp"));
    assert!(
        said.stdout.contains("[redacted:") && !said.stdout.contains("s3cr3t-v4lue"),
        "{}",
        said.stdout
    );
    assert!(!said.stdout.contains("danger"), "nothing gets in that was not asked for");
}

#[test]
fn every_broken_line_is_kept_and_none_is_fatal() {
    let ostler = Ostler::new();
    let said = ostler.says(&["run", "--process", &ostler.fake("--garbage"), "x", "--json"]);
    let events = said.events();
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded", "{said:#?}");
    assert!(kinds(&events).iter().filter(|kind| **kind == "log").count() >= 3);
}

#[test]
fn money_is_counted_as_it_was_reported() {
    let ostler = Ostler::new();
    let rows = [
        (r#"{"usd":0.25}"#, Some(250_000_000)),
        (r#"{"model":"m","inputTokens":10,"outputTokens":5}"#, None),
        (r#"{"usd":0.25,"extras":[{"label":"image","usd":0.12}]}"#, Some(370_000_000)),
    ];
    for (cost, expected) in rows {
        let agent = ostler.fake(&format!("--cost '{cost}'"));
        let said = ostler.says(&["run", "--process", &agent, "x", "--json"]);
        let events = said.events();
        let result = result(&events);
        assert_eq!(result["totals"]["effective_nanousd"].as_i64(), expected, "{cost}: {result}");
    }
}

#[test]
fn a_price_of_the_configuration_turns_tokens_into_money() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "mine": {{ "type": "process", "binary": "{}", "costModel": "acme/large",
              "args": ["--cost", "{{\"model\":\"large\",\"inputTokens\":1000,\"outputTokens\":100}}"] }} }},
             "prices": {{ "acme/large": {{ "input": 2.0, "output": 10.0 }} }} }}"#,
        testkit::fake_agent().display()
    ));
    let events = ostler.events(&["run", "mine", "x", "--json"]);
    assert_eq!(
        result(&events)["totals"]["effective_nanousd"],
        3_000_000,
        "1,000 × $2/M + 100 × $10/M"
    );
}
