//! The judge without an agent: the page lists its points, real agents by what they were recorded to
//! say, and the moments that only a clock decides. Each point turns red in `testkit`'s own tests,
//! where there is an agent that breaks it.

use super::*;
use crate::verdict::{Finding, Verdict};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[test]
fn the_page_lists_every_point_and_every_scene_as_it_is() {
    let page = include_str!("../../../../../docs/protocols/acp.md").replace('`', "");
    for point @ Point { id, what, .. } in POINTS {
        let kind = point.weight();
        assert!(page.contains(&format!("| {id} | {what} | {kind} |")), "{id}");
    }
    for scene in Scene::ALL {
        assert!(page.contains(&format!("| {} | ", scene.word())), "{}", scene.word());
    }
}

/// A transcript of both directions, as if it were the first scene.
fn recorded(text: &str) -> Recording {
    let (mut lines, mut exchanges): (Vec<Heard>, Vec<Exchange>) = (Vec::new(), Vec::new());
    for entry in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let message = &entry["msg"];
        let id = message["id"].as_u64();
        if entry["dir"] == "in" {
            let bytes = message.to_string().into_bytes();
            let reply = message.get("method").is_none() && id.is_some();
            let asked = exchanges.iter_mut().find(|asked| reply && asked.id == id);
            if let Some(asked) = asked {
                asked.reply = Some(lines.len());
                let session = message["result"]["sessionId"].as_str().map(str::to_owned);
                asked.session = session.or(asked.session.take());
            }
            lines.push(Heard { at_ms: entry["ms"].as_u64().unwrap_or(0), bytes, ended: true });
            continue;
        }
        let step = match message["method"].as_str() {
            Some("initialize") => Step::Greet(1),
            Some("session/new") => Step::New,
            Some("session/load") => Step::Load,
            Some("session/prompt") => Step::Prompt(Ask::Word, Then::Wait),
            Some("session/cancel") => Step::UnknownNotification,
            Some(_) => Step::UnknownMethod,
            None => continue,
        };
        let session = message["params"]["sessionId"].as_str().map(str::to_owned);
        let after = lines.len();
        exchanges.push(Exchange { step, id, session, after, reply: None, cancel: None });
    }
    Recording {
        scene: Scene::Plain,
        lines,
        exchanges,
        done: Done::default(),
        exit: Exit::default(),
    }
}

/// What a transcript can show against an agent; files were offered when these were recorded.
fn shown(recording: &Recording) -> Vec<Finding> {
    let told = |id: &str| {
        let whole = ["lines.", "updates."].iter().any(|room| id.starts_with(room));
        whole || ["greets.version", "greets.name", "asks.options"].contains(&id)
    };
    judge(std::slice::from_ref(recording))
        .into_iter()
        .filter(|finding| told(finding.point.id) && finding.verdict != Verdict::NotSeen)
        .collect()
}

#[test]
fn what_real_agents_were_recorded_to_say_offends_in_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/acp/recordings");
    let (mut offences, mut spoiled, mut judged) = (Vec::new(), 0, 0);
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".ndjson") else { continue };
        let mut recording = recorded(&fs::read_to_string(entry.path()).unwrap());
        let findings = shown(&recording);
        judged += findings.len();
        let failed = findings.into_iter().filter(|finding| finding.verdict == Verdict::Fail);
        offences.extend(failed.map(|finding| format!("{name}: {finding:?}")));
        // The same with one byte too few in one line.
        let line = recording.lines.len() / 2;
        recording.lines[line].bytes.pop();
        spoiled += usize::from(
            shown(&recording)
                .iter()
                .any(|finding| finding.verdict == Verdict::Fail && finding.line == Some(line + 1)),
        );
    }
    assert!(offences.is_empty(), "{offences:#?}");
    assert!(spoiled > 90 && judged > 8 * spoiled, "{spoiled} spoiled, {judged} judged");
}

#[test]
fn tokens_count_where_a_run_reads_them() {
    let usage = json!({ "usage": { "inputTokens": 3, "outputTokens": 4, "totalTokens": 7 } });
    let none = json!({});
    let rows = [
        (json!({ "_meta": { "q.branchPoint": "b" } }), &none, Verdict::Fail),
        (json!({ "usage": { "inputTokens": 0, "outputTokens": 0 } }), &none, Verdict::Fail),
        (usage.clone(), &none, Verdict::Pass),
        (none.clone(), &usage, Verdict::Pass),
    ];
    for (mut result, meta, expected) in rows {
        result["stopReason"] = json!("end_turn");
        let params = json!({ "sessionId": "s" });
        let update = json!({ "sessionUpdate": "agent_message_chunk", "_meta": meta });
        let lines = [
            json!({ "dir": "out", "msg": { "id": 2, "method": "session/prompt", "params": params } }),
            json!({ "dir": "in", "msg": { "jsonrpc": "2.0", "method": "session/update",
                "params": { "sessionId": "s", "update": update } } }),
            json!({ "dir": "in", "msg": { "jsonrpc": "2.0", "id": 2, "result": result } }),
        ];
        let text = lines.map(|line| line.to_string()).join("\n");
        let findings = judge(&[recorded(&text)]);
        let found = findings.iter().find(|finding| finding.point.id == "turn.usage").unwrap();
        assert_eq!(found.verdict, expected, "{result} {meta}");
    }
}

fn setting(patience_ms: u64) -> Setting {
    let (cwd, nowhere) = ("/srv/work".to_owned(), "/srv/nowhere".to_owned());
    Setting { cwd, nowhere, wish: None, patience_ms }
}

/// The first scene up to a turn that is cancelled, which is answered so late and with this reason.
fn cancelled_after(ms: u64, reason: &str) -> Verdict {
    let setting = setting(60_000);
    let mut client = Client::new(Scene::Cancelled, setting, &[]);
    client.begin(0);
    let update = json!({ "sessionUpdate": "agent_message_chunk",
        "content": { "type": "text", "text": "one" } });
    let said = [
        (1, json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": 1 } })),
        (2, json!({ "jsonrpc": "2.0", "id": 2, "result": { "sessionId": "s" } })),
        (
            3,
            json!({ "jsonrpc": "2.0", "method": "session/update",
            "params": { "sessionId": "s", "update": update } }),
        ),
        (3 + ms, json!({ "jsonrpc": "2.0", "id": 3, "result": { "stopReason": reason } })),
    ];
    let mut lines = Vec::new();
    for (at_ms, message) in said {
        let bytes = message.to_string().into_bytes();
        client.hear(at_ms, &bytes);
        lines.push(Heard { at_ms, bytes, ended: true });
    }
    let (exchanges, done) = client.done();
    let recording =
        Recording { scene: Scene::Cancelled, lines, exchanges, done, exit: Exit::default() };
    let findings = judge(&[recording]);
    findings.iter().find(|finding| finding.point.id == "cancel.ends").unwrap().verdict
}

#[test]
fn a_turn_that_ends_as_it_is_cancelled_is_not_held_against_anyone() {
    assert_eq!(cancelled_after(10, "cancelled"), Verdict::Pass);
    assert_eq!(cancelled_after(10, "end_turn"), Verdict::NotSeen);
    assert_eq!(cancelled_after(10, "refusal"), Verdict::Fail);
    assert_eq!(cancelled_after(5_000, "end_turn"), Verdict::Fail);
}

#[test]
fn an_answer_that_comes_late_is_an_answer() {
    let mut client = Client::new(Scene::Strangers, setting(60_000), &[]);
    client.begin(0);
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": 1 } });
    client.hear(1, greeting.to_string().as_bytes());
    // The method that nobody has is not answered in time, and the conversation goes on.
    assert!(!client.tick(6_000).is_empty());
    let error = json!({ "code": -32_601, "message": "no" });
    let late = json!({ "jsonrpc": "2.0", "id": 2, "error": error });
    assert_eq!(client.hear(6_001, late.to_string().as_bytes()), []);
    let (exchanges, _) = client.done();
    assert_eq!((exchanges[1].step, exchanges[1].reply), (Step::UnknownMethod, Some(1)));
}

#[test]
fn a_quiet_agent_is_left_by_and_by() {
    let setting = setting(1_000);
    let mut client = Client::new(Scene::Plain, setting, &[]);
    let begun = client.begin(0);
    let [Act::Say(line)] = &begun[..] else { panic!("{begun:?}") };
    let line: Value = serde_json::from_slice(line).unwrap();
    assert_eq!(
        (&line["method"], &line["params"]["protocolVersion"]),
        (&json!("initialize"), &json!(1))
    );
    assert_eq!(client.tick(999), []);
    assert_eq!(client.tick(1_000), [Act::CloseStdin]);
    assert_eq!(client.tick(5_999), []);
    assert_eq!(client.tick(6_000), [Act::Stop]);
    assert_eq!(client.tick(7_000), []);
    let (exchanges, done) = client.done();
    assert_eq!((exchanges.len(), done.told, done.mid_turn), (1, true, false));
}

#[test]
fn questions_are_answered_with_the_narrowest_option_of_the_kind_that_is_wanted() {
    let options = json!([
        { "optionId": "ever", "name": "Ever", "kind": "allow_always" },
        { "optionId": "once", "name": "Once", "kind": "allow_once" },
        { "optionId": "never", "name": "Never", "kind": "reject_always" },
    ]);
    let rows = [
        (Scene::Allowed, json!({ "outcome": "selected", "optionId": "once" })),
        (Scene::Denied, json!({ "outcome": "selected", "optionId": "never" })),
        (Scene::Withdrawn, json!({ "outcome": "cancelled" })),
    ];
    for (scene, expected) in rows {
        let setting = setting(1_000);
        let mut client = Client::new(scene, setting, &[]);
        client.begin(0);
        for message in [
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": 1 } }),
            json!({ "jsonrpc": "2.0", "id": 2, "result": { "sessionId": "s" } }),
        ] {
            client.hear(1, message.to_string().as_bytes());
        }
        let asks = json!({ "jsonrpc": "2.0", "id": "q", "method": "session/request_permission",
            "params": { "sessionId": "s", "toolCall": {}, "options": options } });
        let acts = client.hear(2, asks.to_string().as_bytes());
        let lines: Vec<Value> = acts
            .iter()
            .map(|act| match act {
                Act::Say(line) => serde_json::from_slice(line).unwrap(),
                Act::CloseStdin | Act::Stop => Value::Null,
            })
            .collect();
        let answer = lines.iter().find(|line| line["id"] == "q").unwrap();
        assert_eq!(answer["result"]["outcome"], expected, "{scene:?}");
        let cancels = lines.iter().any(|line| line["method"] == "session/cancel");
        assert_eq!(cancels, scene == Scene::Withdrawn);
    }
}
