//! Calls of tools: when they are told, how they ended, and what is made of one whose end is never
//! told.

use super::*;

#[test]
fn a_call_is_told_when_its_input_is_known_and_once() {
    let mut dialect = in_turn();
    let call = |fields: Value| {
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c" });
        update.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        update
    };
    let announced = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "name": "Bash",
        "title": "Terminal", "kind": "execute", "status": "pending", "rawInput": {} });
    let out = told(&mut *dialect, &update(announced));
    assert_eq!(bodies(&out), Vec::<Value>::new());
    assert_eq!(out.signals, [Signal::ToolOpened { tool_call_id: "c".into() }]);
    let steps = [
        (call(json!({ "rawInput": { "command": "ls" }, "title": "ls" })), 1),
        (call(json!({ "rawInput": { "command": "ls" }, "title": "ls" })), 0),
        (call(json!({ "status": "in_progress" })), 1),
        (call(json!({ "status": "in_progress" })), 0),
        (
            call(
                json!({ "content": [{ "type": "content", "content": { "type": "text", "text": "a" } }] }),
            ),
            1,
        ),
        (
            call(
                json!({ "content": [{ "type": "content", "content": { "type": "text", "text": "a" } }] }),
            ),
            0,
        ),
        (call(json!({ "_meta": { "x": 1 } })), 0),
        (call(json!({ "_meta": { "terminal_output_delta": { "data": "b" } } })), 1),
        (call(json!({ "status": "completed" })), 1),
    ];
    for (line, told_of) in steps {
        assert_eq!(bodies(&told(&mut *dialect, &update(line.clone()))).len(), told_of, "{line}");
    }
}

#[test]
fn a_command_that_ended_badly_did_not_go_well_whatever_its_call_is_called() {
    let shell = |code: i64| json!({ "contents": [{ "type": "shell_exit", "exitCode": code }] });
    let rows = [
        (json!({ "rawOutput": { "metadata": { "exit": 3 } } }), "error"),
        (json!({ "rawOutput": { "metadata": { "exit": 0 } } }), "ok"),
        (json!({ "rawOutput": shell(1) }), "error"),
        (json!({ "rawOutput": shell(0) }), "ok"),
        (json!({ "_meta": { "terminal_exit": { "exit_code": 2 } } }), "error"),
        (json!({ "rawOutput": "exit 3" }), "ok"),
    ];
    for (fields, status) in rows {
        let mut call =
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "status": "completed" });
        call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let out = told(&mut *in_turn(), &update(call));
        let result = bodies(&out).into_iter().find(|body| body["kind"] == "tool_result").unwrap();
        assert_eq!(result["status"], status, "{fields}");
    }
}

#[test]
fn a_diff_is_a_fact_once_its_call_has_ended_well() {
    for (status, facts) in [("completed", 1), ("failed", 0)] {
        let mut dialect = in_turn();
        let diff = json!([{ "type": "diff", "path": "a", "oldText": "x", "newText": "y" }]);
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "kind": "edit",
            "rawInput": { "path": "a" }, "status": "pending", "content": diff });
        let out = told(&mut *dialect, &update(call));
        assert!(out.drafts.iter().all(|draft| !matches!(draft.body, Body::Diff(_))));
        let end =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": status });
        let out = told(&mut *dialect, &update(end));
        let diffs: Vec<_> =
            bodies(&out).into_iter().filter(|body| body["kind"] == "diff").collect();
        assert_eq!(diffs.len(), facts, "{status}");
        if facts == 1 {
            let expected = json!({ "kind": "diff", "path": "a", "old_text": "x", "new_text": "y",
                "tool_call_id": "c" });
            assert_eq!(diffs[0], expected);
        }
    }
}

#[test]
fn a_call_whose_end_is_never_told_ended_well_only_if_it_was_allowed_and_its_turn_did() {
    let rows = [
        (Some("y"), "end_turn", "ok"),
        (Some("y"), "max_tokens", "error"),
        (Some("n"), "end_turn", "error"),
        (None, "end_turn", "error"),
    ];
    for (option, stop, status) in rows {
        let mut dialect = in_turn();
        match option {
            Some(option) => {
                let options = [("y", "allow_once"), ("n", "reject_once")];
                let out = told(&mut *dialect, &permission(json!(5), &options));
                let request = question(&out).request.clone();
                say(
                    &mut *dialect,
                    &Utterance::Decide { request, option: Some(option.into()), reason: None },
                );
            }
            None => {
                let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c" });
                told(&mut *dialect, &update(call));
            }
        }
        // Left and taken up before the turn ends.
        let mut dialect = Acp.restore(&dialect.save()).unwrap();
        told(&mut *dialect, &chunk("Done."));
        let out = told(&mut *dialect, &reply(2, json!({ "stopReason": stop })));
        let bodies = bodies(&out);
        let result = bodies.iter().find(|body| body["kind"] == "tool_result").expect("a result");
        assert_eq!(result["status"], status, "{option:?} {stop}: {result}");
        assert_eq!(result["denied"] == true, option == Some("n"), "{result}");
    }
}

#[test]
fn question_carries_command_or_diff() {
    let ask = |call: Value| {
        let params = json!({ "sessionId": "s", "toolCall": call, "options": [] });
        let line = json!({ "jsonrpc": "2.0", "id": 5, "method": "session/request_permission",
                           "params": params });
        let out = told(&mut *in_turn(), &line);
        question(&out).content.clone()
    };
    let content = ask(json!({ "toolCallId": "c", "kind": "execute", "title": "bash",
                              "rawInput": { "command": "make", "description": "build it" } }));
    assert_eq!(content.command.as_deref(), Some("make"));
    assert_eq!(content.reason.as_deref(), Some("build it"));
    assert_eq!((content.tool_kind.as_deref(), content.input), (Some("execute"), None));
    let diff = json!({ "type": "diff", "path": "/w/a", "oldText": "1", "newText": "2" });
    let content = ask(json!({ "toolCallId": "c", "kind": "edit", "content": [diff],
                              "locations": [{ "path": "/w/b" }] }));
    assert_eq!(content.paths, ["/w/b", "/w/a"]);
    assert_eq!(content.diffs[0].new_text.as_deref(), Some("2"));
    let content = ask(json!({ "toolCallId": "c", "kind": "other", "rawInput": { "n": 1 } }));
    assert_eq!(content.input, Some(json!({ "n": 1 })));
}
