//! MCP servers of revision 2026-07-28 behind the relay, over standard input and output and over HTTP:
//! they are opened by `server/discover`, their results arrive whole, their progress is passed on, and a
//! call that its caller gives up is cancelled there. What a server that cannot be used is told as.

use crate::mcp::{AGENT, Guest, list, tool_call};
use crate::ostler::{BOUND_MS, Ostler, Running};
use crate::stream::Stream;
use serde_json::{Value, json};
use std::process::Command;
use testkit::until;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_modern.py");

/// The server at an address of this machine.
fn at_an_address(mode: &[&str], ostler: &Ostler) -> (Running, String) {
    let mut command = Command::new(testkit::python().expect("Python 3"));
    command.arg(SERVER).arg("http").args(mode).current_dir(ostler.instance.work());
    let mut server = Running::of(&mut command);
    let port = server.line();
    (server, format!("http://127.0.0.1:{}/mcp", port.trim()))
}

/// A run that is offered these servers.
fn run(ostler: &Ostler, servers: &Value) -> Guest {
    let agent = ostler.instance.root().join("agent.sh");
    std::fs::write(&agent, AGENT).unwrap();
    let adapter = json!({ "type": "process", "binary": "sh", "args": [agent] });
    let config = json!({ "mcpServers": servers, "adapters": { "here": adapter } });
    ostler.instance.write_config(&config.to_string());
    let mut command = ostler.command(&["run", "here", "be there", "--json"]);
    Guest::at(ostler.instance.work(), &mut command)
}

#[test]
fn servers_of_2026_07_28_are_used_whole() {
    let ostler = Ostler::new();
    let (mut server, url) = at_an_address(&[], &ostler);
    let near = json!({ "command": "python3", "args": [SERVER] });
    let guest = run(&ostler, &json!({ "near": near, "far": { "url": url } }));
    let (_, answer) = guest.post(&list());
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    let names: Vec<_> = tools.filter_map(|tool| tool["name"].as_str()).collect();
    for server in ["near", "far"] {
        for tool in ["picture", "slow", "stuck"] {
            assert!(names.contains(&format!("{server}__{tool}").as_str()), "{names:?}");
        }
        // A screenshot of 800 kB of base64 arrives whole; what is larger than 1 MiB is refused.
        let (_, answer) =
            guest.post(&tool_call(&format!("{server}__picture"), &json!({ "bytes": 800_000 })));
        let content = &answer["result"]["content"];
        assert_eq!(content[1]["data"].as_str().map(str::len), Some(800_000), "{server}");
        assert_eq!(content[0]["text"], "picture");
        let too_large = json!({ "bytes": 2_000_000 });
        let refused = guest.call(&format!("{server}__picture"), &too_large);
        assert_eq!(refused, Err("too_large".to_owned()), "{server}");
        // A caller that sent a token hears what the server reports.
        let mut call = Stream::call(&guest, 5, &format!("{server}__slow"), &json!({}), Some("p"));
        call.hears(r#""id":5"#);
        let told = call.messages();
        let progress = told.iter().filter(|message| message["method"] == "notifications/progress");
        let steps: Vec<_> = progress.map(|message| message["params"].clone()).collect();
        let steps: Vec<_> = steps
            .iter()
            .filter(|step| step["progressToken"] == "p" && step["total"] == 3.0)
            .filter_map(|step| step["message"].as_str())
            .collect();
        assert_eq!(steps, ["step 1", "step 2", "step 3"], "{told:?}");
        assert_eq!(told.last().unwrap()["result"]["content"][0]["text"], "slow");
        // One that leaves cancels the call at the server.
        let mut call = Stream::call(&guest, 6, &format!("{server}__stuck"), &json!({}), Some("q"));
        call.hears("step 1");
        drop(call);
        let marker = guest.work().join("cancelled");
        until("the call to be cancelled at its server", BOUND_MS, || marker.exists().then_some(()));
        std::fs::remove_file(marker).unwrap();
    }
    let events = guest.finish();
    let stuck: Vec<_> = events
        .iter()
        .filter(|event| event["kind"] == "tool_result" && event["output"]["code"] == "cancelled")
        .collect();
    assert_eq!(stuck.len(), 2, "{events:#?}");
    let _ = server.child.kill();
    let _ = server.child.wait();
}

#[test]
fn unusable_servers_are_told_in_words() {
    let ostler = Ostler::new();
    let (mut old, old_url) = at_an_address(&["old"], &ostler);
    let (mut login, login_url) = at_an_address(&["login"], &ostler);
    let servers = json!({ "old": { "url": old_url }, "locked": { "url": login_url } });
    let guest = run(&ostler, &servers);
    guest.post(&list());
    let logs: Vec<String> = guest
        .finish()
        .iter()
        .filter_map(|event| event["text"].as_str().map(str::to_owned))
        .filter(|text| text.starts_with("the MCP server"))
        .collect();
    let told = |words: &str| logs.iter().any(|log| log.contains(words));
    assert!(told("'old' failed: it speaks the retired SSE transport"), "{logs:?}");
    assert!(told("'locked' failed: it wants a login"), "{logs:?}");
    assert!(told("`ostler mcp login locked`") && told("`headers`"), "{logs:?}");
    assert!(!logs.iter().any(|log| log.contains("rmcp") || log.contains("<h1>")), "{logs:?}");
    for server in [&mut old, &mut login] {
        let _ = server.child.kill();
        let _ = server.child.wait();
    }
}

#[test]
fn server_that_ends_at_discover_is_started_again() {
    let ostler = Ostler::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_server.py");
    let strict = json!({ "command": "python3", "args": [script], "env": { "STRICT": "1" } });
    let guest = run(&ostler, &json!({ "strict": strict }));
    let (_, answer) = guest.post(&tool_call("strict__add", &json!({ "a": 3, "b": 4 })));
    assert_eq!(answer["result"]["content"][0]["text"], "7", "{answer}");
    guest.finish();
}

#[test]
fn ambiguous_server_names_are_refused() {
    let ostler = Ostler::new();
    let server = json!({ "command": "true" });
    let pairs = [("a", "a__b"), ("a", "a_")];
    for (one, other) in pairs {
        let config = json!({ "mcpServers": { one: server, other: server } });
        ostler.instance.write_config(&config.to_string());
        let said = ostler.says(&["config", "check"]);
        assert_ne!(said.code, 0, "{one} {other}: {said:?}");
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(all.contains(&format!("mcpServers.{other}")), "{all}");
        assert!(all.contains("cannot be told from those of"), "{all}");
    }
    let config = json!({ "mcpServers": { "a": server, "ab": server, "b__a": server } });
    ostler.instance.write_config(&config.to_string());
    assert_eq!(ostler.says(&["config", "check"]).code, 0);
}
