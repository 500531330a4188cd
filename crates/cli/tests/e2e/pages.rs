//! Lists that can grow are pages by key: every row is on one of them, once, in the same order whatever
//! their size, and the commands read all of them. Runs, tasks and agents are in `api.rs`.

use crate::door::Door;
use crate::ostler::{BOUND_MS, Ostler};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

/// Its provider has nothing left.
const USED_UP: &str = r#"#!/bin/sh
echo '{"ev":"oops","words":"You have hit your usage limit. Try again in 2 hours."}'
echo '{"ev":"bye"}'
"#;

const NAMES: [&str; 4] = ["ann", "bob", "cy", "zoe"];

/// An instance with four agents, four accounts and four prices of its own.
fn crowded() -> Ostler {
    let ostler = Ostler::new();
    let program = ostler.instance.root().join("used-up");
    std::fs::write(&program, USED_UP).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let adapter = |account: &str| {
        json!({
            "type": "cli", "binary": program, "account": account,
            "mapping": {
                "prompt": "stdin",
                "policies": { "allow-all": ["all"] },
                "rules": [
                    { "when": { "ev": "oops" }, "error": { "message": "words" } },
                    { "when": { "ev": "bye" }, "end": { "success": false } },
                ],
            },
        })
    };
    let of = |value: &dyn Fn(&str) -> Value, prefix: &str| -> Value {
        NAMES.iter().map(|name| (format!("{prefix}{name}"), value(name))).collect()
    };
    let config = json!({
        "adapters": of(&adapter, "full-"),
        "agents": of(&|_| json!({ "adapter": "demo" }), ""),
        "prices": of(&|_| json!({ "input": 1, "output": 1 }), "our own/"),
    });
    ostler.instance.write_config(&config.to_string());
    ostler
}

/// One value of a query.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn get(door: &Door, target: &str) -> Value {
    let answer = door.owner("GET", target, "");
    assert_eq!(answer.status, 200, "{target}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// Every row of a list, by pages of at most so many.
fn listed(door: &Door, list: &str, limit: usize) -> Vec<Value> {
    let first = format!("{list}{}limit={limit}", if list.contains('?') { '&' } else { '?' });
    let (mut rows, mut target) = (Vec::new(), first.clone());
    loop {
        let page = get(door, &target);
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{target}: {page}"));
        assert!((1..=limit).contains(&items.len()), "{target}: {page}");
        rows.extend(items.iter().cloned());
        let Some(next) = page["next"].as_str() else { return rows };
        assert_eq!(items.len(), limit, "only the last page is short: {target}");
        assert!(rows.len() < 20_000, "the pages of {list} have no end");
        target = format!("{first}&after={}", escaped(next));
    }
}

#[test]
fn every_list_that_can_grow_has_every_row_once_on_pages_of_any_size() {
    let ostler = crowded();
    for name in NAMES {
        let said = ostler.says(&["run", &format!("full-{name}"), "x", "--permission=allow-all"]);
        assert_eq!(said.code, 6, "{said:?}");
        assert_eq!(ostler.says(&["run", name, "hello"]).code, 0);
    }
    let door = Door::of(ostler);
    let work = door.ostler.instance.work();
    for name in NAMES {
        let token = json!({ "name": name, "scope": "viewer" }).to_string();
        assert_eq!(door.owner("POST", "/api/v1/tokens", &token).status, 201);
        let run = json!({ "agent": name, "prompt": "ask", "cwd": work, "permission": "ask", "attended": true });
        assert_eq!(door.owner("POST", "/api/v1/runs", &run.to_string()).status, 201);
    }
    testkit::until("four questions", BOUND_MS, || {
        let open = get(&door, "/api/v1/approvals");
        (open["items"].as_array()?.len() == NAMES.len()).then_some(())
    });
    let lists = [
        ("/api/v1/tokens", "/name", Some("")),
        ("/api/v1/approvals", "/ask_id", None),
        ("/api/v1/quotas", "/scope", None),
        ("/api/v1/prices?model=our%20own", "/model", Some("our own/")),
        ("/api/v1/costs?by=agent", "/agent", Some("")),
        ("/api/v1/costs?by=adapter,agent", "/agent", Some("")),
    ];
    for (list, key, prefix) in lists {
        let names = |rows: Vec<Value>| -> Vec<String> {
            rows.iter().map(|row| row.pointer(key).unwrap().as_str().unwrap().to_owned()).collect()
        };
        let whole = names(listed(&door, list, 500));
        let mut sorted = whole.clone();
        sorted.sort_unstable();
        assert_eq!((whole.len(), &whole), (NAMES.len(), &sorted), "{list}");
        if let Some(prefix) = prefix {
            assert_eq!(whole, NAMES.map(|name| format!("{prefix}{name}")), "{list}");
        }
        for limit in [1, 2, 3, 4] {
            assert_eq!(names(listed(&door, list, limit)), whole, "{list} by {limit}");
        }
    }
    let list = "/api/v1/costs?by=model,agent,day&since=9d";
    let whole = listed(&door, list, 500);
    assert!(whole.len() >= 2 * NAMES.len(), "the demo names two models: {whole:#?}");
    for limit in [1, 3] {
        assert_eq!(listed(&door, list, limit), whole, "{list} by {limit}");
    }
    let budgets = get(&door, "/api/v1/budgets");
    assert!(budgets.is_array(), "their number is limited, so they are one list: {budgets}");
}

#[test]
fn what_is_no_place_in_a_list_is_refused() {
    let door = Door::open();
    let targets = [
        "/api/v1/tokens?after=token_1".to_owned(),
        "/api/v1/approvals?after=x".to_owned(),
        "/api/v1/costs?after=".to_owned(),
        format!("/api/v1/costs?by=agent&after={}", escaped("[]")),
        format!("/api/v1/costs?by=agent&after={}", escaped(r#"["a","b"]"#)),
        format!("/api/v1/costs?by=day&after={}", escaped(r#"["yesterday"]"#)),
    ];
    for target in targets {
        let answer = door.owner("GET", &target, "");
        assert_eq!(answer.status, 400, "{target}: {}", answer.body);
    }
    let nothing = format!("/api/v1/costs?by=&after={}", escaped("[]"));
    assert_eq!(get(&door, &nothing), json!({ "items": [] }), "nothing is behind the one row");
}

#[test]
fn a_command_reads_every_page() {
    let door = Door::open();
    let whole = listed(&door, "/api/v1/prices", 500);
    assert!(whole.len() > 500, "one page would do for {} prices", whole.len());
    let said = door.ostler.says(&["prices", "list", "--json"]);
    let shown: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(shown, Value::from(whole));
}
