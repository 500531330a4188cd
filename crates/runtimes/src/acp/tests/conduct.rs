//! What an agent did, held against the policy: which calls break it, and which were asked for.

use super::*;

/// A dialect in its first turn under a policy; the prompt is request 2.
fn under(policy: Policy) -> Box<dyn Dialect> {
    let (mut dialect, _) = greeted(&Spec { policy, ..spec() }, json!({}));
    told(&mut *dialect, &reply(1, json!({ "sessionId": "s" })));
    dialect
}

fn call(id: &str, fields: Value) -> Value {
    let mut call = json!({ "sessionUpdate": "tool_call", "toolCallId": id });
    call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    update(call)
}

fn done(id: &str, kind: &str) -> Value {
    call(id, json!({ "title": "do it", "kind": kind, "status": "completed" }))
}

fn asks(request: u64, call: Value) -> Value {
    let option = |id: &str, kind: &str| json!({ "optionId": id, "kind": kind, "name": id });
    let options =
        [option("y", "allow_once"), option("a", "allow_always"), option("n", "reject_once")];
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    json!({ "jsonrpc": "2.0", "id": request, "method": "session/request_permission",
        "params": params })
}

/// Asks about a call and is answered with an option.
fn asked(dialect: &mut dyn Dialect, request: u64, call: Value, option: &str) {
    let out = told(dialect, &asks(request, call));
    let request = question(&out).request.clone();
    say(dialect, &Utterance::Decide { request, option: Some(option.into()), reason: None });
}

fn broken(out: &Out) -> Option<&str> {
    out.signals.iter().find_map(|signal| match signal {
        Signal::PolicyBroken { what } => Some(what.as_str()),
        _ => None,
    })
}

#[test]
fn a_change_nobody_asked_for_breaks_the_policy() {
    let diff = json!([{ "type": "diff", "path": "a", "oldText": "x", "newText": "y" }]);
    let rows = [
        (Policy::Deny, json!({ "kind": "edit", "status": "completed" }), true),
        (Policy::Ask, json!({ "kind": "delete", "status": "completed" }), true),
        (Policy::AllowReads, json!({ "kind": "move", "status": "completed" }), true),
        (Policy::Deny, json!({ "kind": "execute", "status": "completed" }), true),
        // A change of a file, whatever the kind says.
        (Policy::Deny, json!({ "kind": "other", "status": "completed", "content": diff }), true),
        (Policy::Deny, json!({ "status": "completed", "content": diff }), true),
        // A command that ended badly has run.
        (
            Policy::Deny,
            json!({ "kind": "execute", "status": "failed", "rawOutput": { "exit_code": 1 } }),
            true,
        ),
        // What only looks, what did not happen, and what is allowed.
        (Policy::Deny, json!({ "kind": "read", "status": "completed" }), false),
        (Policy::Deny, json!({ "kind": "search", "status": "completed" }), false),
        (Policy::Deny, json!({ "kind": "other", "status": "completed" }), false),
        (Policy::Deny, json!({ "kind": "edit", "status": "failed" }), false),
        (Policy::Deny, json!({ "kind": "execute", "status": "in_progress" }), false),
        (Policy::AllowAll, json!({ "kind": "edit", "status": "completed" }), false),
        // A command that only reads is a read, and one that does not is not.
        (
            Policy::AllowReads,
            json!({ "kind": "execute", "status": "completed", "rawInput": { "command": "ls" } }),
            false,
        ),
        (
            Policy::AllowReads,
            json!({ "kind": "execute", "status": "completed", "rawInput": { "command": "rm a" } }),
            true,
        ),
        // The protocol's words in other letters, words of an agent's own, and unknown kinds.
        (Policy::Ask, json!({ "kind": "Edit", "status": "Completed" }), true),
        (Policy::Ask, json!({ "kind": "edit", "status": "success" }), true),
        (Policy::Ask, json!({ "kind": "edit", "status": "done" }), true),
        (Policy::Ask, json!({ "kind": "write", "status": "completed" }), true),
        (Policy::Ask, json!({ "kind": "Read", "status": "completed" }), false),
        (Policy::Ask, json!({ "kind": "", "status": "completed" }), false),
        (
            Policy::Ask,
            json!({ "kind": "shell", "status": "completed", "rawInput": { "command": "ls" } }),
            false,
        ),
        (Policy::Ask, json!({ "kind": "switch_mode", "status": "completed" }), false),
        (Policy::Ask, json!({ "kind": "write", "status": "error" }), false),
    ];
    for (policy, fields, breaks) in rows {
        let out = told(&mut *under(policy), &call("c", fields.clone()));
        assert_eq!(broken(&out).is_some(), breaks, "{policy:?} {fields}");
        let cancels = frames(&out).iter().any(|frame| frame["method"] == "session/cancel");
        assert_eq!(cancels, breaks, "{policy:?} {fields}");
    }
}

#[test]
fn only_relayed_tools_are_left_to_the_relay() {
    let rows = [
        ("mcp__ostler__write_file", true),
        ("mcp_ostler_write_file", true),
        ("ostler_write_file", true),
        ("ostler-write_file", true),
        ("write_file (ostler MCP Server)", true),
        // Another tool, and titles that only begin like one.
        ("mcp__ostler__apply_patch", false),
        ("ostler-notes.md", false),
        ("ostler-write_file.md", false),
        ("ostler: write_file to notes.md", false),
        ("Write notes (ostler MCP Server)", false),
    ];
    for (title, is_own) in rows {
        let fields = json!({ "title": title, "kind": "edit", "status": "completed" });
        let out = told(&mut *under(Policy::Deny), &call("c", fields.clone()));
        assert!(broken(&out).is_some(), "{title}: the relay saw no call");
        let mut dialect = under(Policy::Deny);
        dialect.note_relayed("write_file");
        let mut dialect = Acp.restore(&dialect.save()).unwrap();
        let out = told(&mut *dialect, &call("c", fields));
        assert_eq!(broken(&out).is_none(), is_own, "{title}");
    }
}

#[test]
fn relayed_call_names_the_report_of_it() {
    let fields = |title: &str| json!({ "title": title, "kind": "edit", "status": "in_progress" });
    let mut dialect = under(Policy::AllowAll);
    assert_eq!(dialect.note_relayed("write_file"), None, "nothing was reported");
    told(&mut *dialect, &call("c1", fields("mcp__ostler__write_file")));
    told(&mut *dialect, &call("c2", fields("ostler_read_file")));
    assert_eq!(dialect.note_relayed("write_file").as_deref(), Some("c1"));
    assert_eq!(dialect.note_relayed("ask_person"), None);
    told(&mut *dialect, &call("c3", fields("write_file (ostler MCP Server)")));
    assert_eq!(dialect.note_relayed("write_file"), None, "one of two cannot be told");
}

#[test]
fn an_answer_is_good_in_any_spelling_of_the_kind() {
    let mut dialect = under(Policy::Ask);
    asked(&mut *dialect, 5, json!({ "toolCallId": "x", "kind": "Edit" }), "y");
    assert_eq!(broken(&told(&mut *dialect, &done("c", "edit"))), None);
}

#[test]
fn a_change_whose_end_is_never_told_breaks_the_policy() {
    let diff = json!([{ "type": "diff", "path": "a", "oldText": "x", "newText": "y" }]);
    let edit = |status: &str| json!({ "kind": "edit", "status": status, "content": diff });
    let rows = [
        (edit("in_progress"), "end_turn", true, false),
        (edit("IN_PROGRESS"), "end_turn", true, false),
        // It may have been stopped before it happened.
        (edit("in_progress"), "max_tokens", false, false),
        // It was announced, or changes nothing that is known.
        (edit("pending"), "end_turn", false, true),
        (json!({ "kind": "edit", "status": "in_progress" }), "end_turn", false, true),
        (json!({ "kind": "read", "status": "in_progress" }), "end_turn", false, false),
    ];
    for (fields, stop, breaks, warns) in rows {
        let mut dialect = under(Policy::Ask);
        told(&mut *dialect, &call("c", fields.clone()));
        told(&mut *dialect, &chunk("Done."));
        let out = told(&mut *dialect, &reply(2, json!({ "stopReason": stop })));
        assert_eq!(broken(&out).is_some(), breaks, "{fields} {stop}");
        let warned = bodies(&out).iter().any(|body| body["level"] == "warning");
        assert_eq!(warned, warns, "{fields} {stop}");
    }
    for option in ["y", "n"] {
        let mut dialect = under(Policy::Ask);
        told(&mut *dialect, &call("c", edit("in_progress")));
        asked(&mut *dialect, 5, json!({ "toolCallId": "c", "kind": "edit" }), option);
        told(&mut *dialect, &chunk("Done."));
        let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
        assert_eq!(broken(&out), None, "{option}");
    }
}

#[test]
fn the_broken_policy_names_policy_and_call() {
    let mut dialect = under(Policy::Deny);
    told(&mut *dialect, &call("c", json!({ "title": "Write a.txt", "kind": "edit" })));
    // Left and taken up in between.
    let mut dialect = Acp.restore(&dialect.save()).unwrap();
    let end = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c",
        "status": "completed" });
    let out = told(&mut *dialect, &update(end));
    let expected = "under deny the edit call 'Write a.txt' was carried out without asking";
    assert_eq!(broken(&out), Some(expected));
    let out = told(&mut *dialect, &done("d", "edit"));
    assert_eq!(broken(&out), None, "it is told once");
}

#[test]
fn an_allowed_call_keeps_the_policy_and_a_denied_one_does_not() {
    for (option, breaks) in [("y", false), ("a", false), ("n", true)] {
        let mut dialect = under(Policy::Ask);
        asked(&mut *dialect, 5, json!({ "toolCallId": "c", "kind": "edit" }), option);
        let out = told(&mut *dialect, &done("c", "edit"));
        assert_eq!(broken(&out).is_some(), breaks, "{option}: {:?}", broken(&out));
        // One answer is for one call, unless it was given for always.
        let out = told(&mut *dialect, &done("d", "edit"));
        assert_eq!(broken(&out).is_some(), option == "y", "{option}: {:?}", broken(&out));
        let out = told(&mut *dialect, &done("e", "execute"));
        assert_eq!(broken(&out).is_some(), option == "a", "{option}: {:?}", broken(&out));
    }
}

#[test]
fn an_answer_under_another_id_is_good_for_one_call() {
    let questions = [
        json!({ "toolCallId": "approval-1", "kind": "edit" }),
        json!({ "toolCallId": "approval-1" }),
        json!({ "kind": "edit" }),
        json!({}),
    ];
    for question in questions {
        let mut dialect = under(Policy::Ask);
        asked(&mut *dialect, 5, question.clone(), "y");
        let out = told(&mut *dialect, &done("c", "edit"));
        assert_eq!(broken(&out), None, "{question}");
        let out = told(&mut *dialect, &done("d", "edit"));
        assert!(broken(&out).is_some(), "{question}");
    }
    // An answer about another kind of call is not.
    let mut dialect = under(Policy::Ask);
    asked(&mut *dialect, 5, json!({ "toolCallId": "x", "kind": "execute" }), "y");
    assert!(broken(&told(&mut *dialect, &done("c", "edit"))).is_some());
}

/// As deepagents-acp does it: the question has an id of its own, and the call that did not happen is
/// reported as completed.
#[test]
fn a_denied_call_that_says_so_keeps_the_policy() {
    let rows = [
        ("User rejected the tool call for `write_file`. The tool was not executed.", None),
        (
            "wrote a.txt",
            Some("under deny the edit call 'Write' was carried out although it was denied"),
        ),
    ];
    for (output, breaks) in rows {
        let mut dialect = under(Policy::Deny);
        let input = json!({ "path": "a.txt" });
        let fields = json!({ "title": "Write", "kind": "edit", "rawInput": input });
        told(&mut *dialect, &call("c", fields));
        asked(&mut *dialect, 5, json!({ "toolCallId": "other", "rawInput": input }), "n");
        let content = json!([{ "type": "content", "content": { "type": "text", "text": output } }]);
        let end = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c",
            "status": "completed", "content": content });
        let out = told(&mut *dialect, &update(end));
        assert_eq!(broken(&out), breaks, "{output}");
        let result = bodies(&out).into_iter().find(|body| body["kind"] == "tool_result").unwrap();
        assert_eq!(result["denied"] == true, breaks.is_none(), "{result}");
    }
}

#[test]
fn one_answer_covers_calls_that_are_open_together() {
    let mut dialect = under(Policy::Ask);
    for id in ["a", "b"] {
        let fields = json!({ "kind": "execute", "rawInput": { "command": "make" } });
        told(&mut *dialect, &call(id, fields));
    }
    asked(&mut *dialect, 5, json!({ "toolCallId": "b", "kind": "execute" }), "y");
    for id in ["a", "b"] {
        assert_eq!(broken(&told(&mut *dialect, &done(id, "execute"))), None, "{id}");
    }
    assert!(broken(&told(&mut *dialect, &done("c", "execute"))).is_some());
}

#[test]
fn history_of_a_resumed_session_breaks_nothing() {
    let spec = Spec { policy: Policy::Deny, session: Some("s".into()), ..spec() };
    let (mut dialect, _) = greeted(&spec, json!({ "loadSession": true }));
    assert_eq!(broken(&told(&mut *dialect, &done("old", "edit"))), None);
    told(&mut *dialect, &reply(1, json!({})));
    assert!(broken(&told(&mut *dialect, &done("new", "edit"))).is_some());
}

#[test]
fn a_call_in_a_session_of_a_helper_counts() {
    let mut dialect = under(Policy::Deny);
    let update = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "kind": "edit",
        "status": "completed" });
    let params = json!({ "sessionId": "helper", "update": update });
    let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    assert!(broken(&told(&mut *dialect, &line)).is_some());
}

#[test]
fn commands_are_judged_but_in_the_sandbox_of_codex() {
    let rows = [
        ("read-only", "execute", false),
        ("read-only", "edit", true),
        // OpenCode runs commands in this mode, unasked and without a sandbox.
        ("plan", "execute", true),
        ("plan", "edit", true),
    ];
    for (mode, kind, breaks) in rows {
        let modes = json!({ "currentModeId": mode, "availableModes": [{ "id": mode }] });
        let (mut dialect, _) = greeted(&Spec { policy: Policy::Deny, ..spec() }, json!({}));
        told(&mut *dialect, &reply(1, json!({ "sessionId": "s", "modes": modes })));
        let out = told(&mut *dialect, &done("c", kind));
        assert_eq!(broken(&out).is_some(), breaks, "{mode} {kind}");
    }
}

#[test]
fn a_command_that_printed_and_never_ended_has_run() {
    let mut dialect = under(Policy::Deny);
    let meta = json!({ "terminal_output_delta": { "data": "one\n" } });
    told(&mut *dialect, &call("c", json!({ "kind": "execute", "_meta": meta })));
    let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
    assert!(broken(&out).is_some());
}
