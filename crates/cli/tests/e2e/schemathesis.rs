//! The API against its own OpenAPI document, by Schemathesis: requests made from the document, right
//! ones and wrong ones, with the tokens of an admin, a viewer and a run, against a server with runs in
//! it. No answer may be the server's fault, and none otherwise than the document says. The seed is
//! fixed and the examples are few, so that the stage `api` of the gate takes a minute or two.

use crate::door::Door;
use crate::mcp::Guest;
use crate::ostler::BOUND_MS;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The tool, as it is on PyPI.
const TOOL: &str = "schemathesis==4.32.5";
const SEED: &str = "20261116";
/// Everything that the document promises. Who comes without a token is not tried here: so many from one
/// address are told to wait, and `security/strangers.rs` knocks at every route from many.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,negative_data_rejection,\
    positive_data_acceptance,\
    unsupported_method";
/// What is tried with every token.
const EVERY: [&str; 4] = ["--phases", "examples,fuzzing", "--max-examples", "5"];
/// What is tried with the one that opens everything: every shape of the document, one by one.
const WHOLE: [&str; 4] = ["--phases", "examples,coverage,fuzzing", "--max-examples", "5"];
/// Whether a run has a worktree, and so changes to show and apply, is its state and no bound of a request;
/// whether a runtime is installed and lists its models is that of the machine.
const CONFIG: &str = r#"
[[operations]]
include-path = ["/api/v1/runs/{run}/diff", "/api/v1/runs/{run}/apply"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429"]

[[operations]]
include-path = "/api/v1/runtimes/{runtime}/models"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "424", "429"]
"#;
/// It has no end that could be waited for; `api.rs` reads it.
const ENDLESS: &str = "/api/v1/feed";
/// Its answers are those of MCP, whose own client tries them; here only that none is a server's fault.
const OF_MCP: &str = "/mcp";

/// The tool where the gate has put it; none unless this run is to use it.
fn tool() -> Option<PathBuf> {
    std::env::var_os("OSTLER_TEST_SCHEMATHESIS")?;
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("schemathesis");
    let tool = home.join("bin/st");
    assert!(tool.exists(), "{TOOL} is not at {}: run ./scripts/test --stage api", home.display());
    Some(tool)
}

/// One pass over the document with one token: what the tool printed, and whether it found nothing.
fn tried(tool: &Path, door: &Door, document: &Path, token: &str, only: &[&str]) -> (bool, String) {
    let mut command = Command::new(tool);
    command
        .args(["run", "--no-color", "--url", &format!("http://{}", door.address)])
        // One worker: `ast.parse` of CPython before 3.11.8 fails now and then in two threads at once
        // (cpython issue 106905).
        .args(["--seed", SEED, "--workers", "1", "--request-timeout", "20"])
        .args(["--suppress-health-check", "all", "--warnings", "off", "--max-redirects", "0"])
        .args(["--continue-on-failure", "--no-shrink", "--generation-database", "none"])
        .args(["-H", &format!("Authorization: Bearer {token}")])
        .args(only)
        .arg(document)
        .current_dir(door.ostler.instance.root())
        .stdin(Stdio::null());
    let output = command.output().expect("the tool starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), said + &complained)
}

/// Every operation was tried and nothing was found.
fn assert_clean(name: &str, (clean, said): (bool, String)) {
    let line = |of: &str| said.lines().find(|line| line.contains(of)).unwrap_or_default().trim();
    let (operations, cases) = (line("Operations:"), line("generated"));
    let phases = said.lines().filter(|line| line.contains(" passed"));
    let phases: Vec<_> =
        phases.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    eprintln!("schemathesis as {name}: {operations}; {cases}; {}", phases.join(", "));
    assert!(clean, "as {name}:\n{said}");
    assert!(said.contains(&format!("Seed: {SEED}")), "as {name}:\n{said}");
}

/// Puts names of what exists into the document where a request names something: an agent, a directory, a
/// row of a listing, a table of prices. What does not exist is refused, which no schema can say.
fn name_what_is_there(document: &mut Value, work: &Path) {
    let schemas = &mut document["components"]["schemas"];
    let spec = json!({ "adapter": "demo", "cwd": work });
    schemas["Hire"]["properties"]["spec"] = json!({ "const": spec });
    schemas["Edit"]["properties"]["spec"] = json!({ "enum": [{}, { "model": "m" }] });
    for schema in ["RunRequest", "NewTask"] {
        schemas[schema]["properties"]["agent"] = json!({ "enum": ["demo"] });
        schemas[schema]["properties"]["cwd"] = json!({ "enum": [work] });
    }
    // This agent has no directory of its own in the configuration.
    schemas["NewTask"]["required"] = json!(["title", "cwd"]);
    for property in ["adapter", "environment"] {
        schemas["RunRequest"]["properties"][property] = json!({ "type": "null" });
    }
    let price = json!({ "litellm_provider": "openai", "input_cost_per_token": 1e-6 });
    let body = "/paths/~1api~1v1~1prices/post/requestBody/content/application~1json/schema";
    *document.pointer_mut(body).unwrap() = json!({ "const": { "m": price } });
    let costs = document["paths"]["/api/v1/costs"]["get"]["parameters"].as_array_mut().unwrap();
    for parameter in costs {
        let named = match parameter["name"].as_str().unwrap() {
            "after" => json!(["[\"2026-11-15\"]"]),
            "by" => json!(["day"]),
            _ => continue,
        };
        parameter["schema"] = json!({ "enum": named });
    }
}

#[test]
fn every_answer_is_as_the_document_says_whoever_asks() {
    let Some(tool) = tool() else {
        eprintln!("skipped: the stage `api` of ./scripts/test brings {TOOL}");
        return;
    };
    let door = Door::open();
    let work = door.ostler.instance.work();
    for prompt in ["hello", "fail", "tools"] {
        let body = json!({ "agent": "demo", "prompt": prompt, "cwd": work }).to_string();
        assert_eq!(door.owner("POST", "/api/v1/runs", &body).status, 201);
    }
    testkit::until("the end of the runs", BOUND_MS, || {
        let live = door.owner("GET", "/api/v1/runs?live=true", "");
        let live: Value = serde_json::from_str(&live.body).ok()?;
        (live["items"] == json!([])).then_some(())
    });
    let guest = Guest::new(&door.ostler, &[]);
    let run = guest.run();
    let document = door.ostler.instance.root().join("openapi.json");
    let mut told: Value =
        serde_json::from_str(&door.owner("GET", "/api/v1/openapi.json", "").body).unwrap();
    // Something that is there, for every address that names it: guessing finds none.
    let new = json!({ "title": "hello", "agent": "demo", "cwd": work }).to_string();
    let task: Value =
        serde_json::from_str(&door.owner("POST", "/api/v1/tasks", &new).body).unwrap();
    let hire = json!({ "name": "helper", "spec": { "adapter": "demo", "cwd": work } }).to_string();
    assert_eq!(door.owner("POST", "/api/v1/agents", &hire).status, 201);
    let there = [("run", json!(run)), ("task", task["id"].clone()), ("agent", json!("helper"))];
    for (path, methods) in told["paths"].as_object_mut().unwrap() {
        let named = there.iter().find(|(name, _)| path.contains(&format!("{{{name}}}")));
        let Some((_, known)) = named else { continue };
        for method in methods.as_object_mut().unwrap().values_mut() {
            method["parameters"][0]["example"] = known.clone();
        }
    }
    name_what_is_there(&mut told, &work);
    std::fs::write(&document, told.to_string()).unwrap();
    std::fs::write(door.ostler.instance.root().join("schemathesis.toml"), CONFIG).unwrap();
    let body = json!({ "name": "viewer", "scope": "viewer" }).to_string();
    let viewer: Value =
        serde_json::from_str(&door.owner("POST", "/api/v1/tokens", &body).body).unwrap();
    let api = ["--checks", CHECKS, "--exclude-path", ENDLESS, "--exclude-path", OF_MCP];
    for (name, token, phases) in [
        ("admin", door.token.as_str(), WHOLE),
        ("viewer", viewer["token"].as_str().unwrap(), EVERY),
        ("run", guest.token(), EVERY),
    ] {
        let only = [&api[..], &phases].concat();
        assert_clean(name, tried(&tool, &door, &document, token, &only));
    }
    let mcp = ["--checks", "not_a_server_error", "--include-path", OF_MCP];
    let mcp = [&mcp[..], &EVERY].concat();
    assert_clean("a run, by MCP", tried(&tool, &door, &document, guest.token(), &mcp));
    guest.finish();
    // The instrument sees an answer that is otherwise than the document says.
    told["components"]["schemas"]["HostView"]["properties"]["pid"]["type"] = json!("string");
    std::fs::write(&document, told.to_string()).unwrap();
    let host = ["--checks", CHECKS, "--include-path", "/api/v1/host"];
    let host = [&host[..], &EVERY].concat();
    let (clean, said) = tried(&tool, &door, &document, &door.token, &host);
    assert!(!clean && said.contains("is not of type"), "{said}");
}
