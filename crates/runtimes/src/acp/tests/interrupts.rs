//! What is said during a turn: an interrupt, a message, the farewell, and what becomes of calls and
//! questions that are open then.

use super::*;

#[test]
fn an_interrupt_is_a_notification_and_open_questions_are_cancelled() {
    let mut dialect = in_turn();
    told(&mut *dialect, &permission(json!(5), &[("y", "allow_once")]));
    let out = say(&mut *dialect, &Utterance::Interrupt);
    let said = frames(&out);
    assert_eq!(
        said[0],
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s" } })
    );
    let outcome = json!({ "outcome": { "outcome": "cancelled" } });
    assert_eq!(said[1], json!({ "jsonrpc": "2.0", "id": 5, "result": outcome }));
    assert_eq!(out.signals, [Signal::AskWithdrawn { request: "5".into() }]);
    // The turn that was asked to end is no end of the run: the next message begins another.
    let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "cancelled" })));
    assert!(ending(&out).is_none());
    let out = say(&mut *dialect, &Utterance::Message { text: "do that".into() });
    assert_eq!(frames(&out)[0]["params"]["prompt"][0]["text"], "do that");
    assert!(out.signals.contains(&Signal::TurnStarted));
    assert!(say(&mut *in_turn_ended(), &Utterance::Interrupt).frames.is_empty());
}

/// A dialect whose first turn has ended.
fn in_turn_ended() -> Box<dyn Dialect> {
    let mut dialect = in_turn();
    told(&mut *dialect, &chunk("done"));
    told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
    dialect
}

#[test]
fn an_interrupt_that_comes_too_late_is_not_for_the_next_turn() {
    let mut dialect = in_turn();
    told(&mut *dialect, &chunk("done"));
    say(&mut *dialect, &Utterance::Interrupt);
    say(&mut *dialect, &Utterance::Message { text: "more".into() });
    told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
    let out = told(&mut *dialect, &reply(3, json!({ "stopReason": "cancelled" })));
    assert_eq!(ending(&out).unwrap().code, Some(Code::Cancelled), "nobody here asked for this one");
}

#[test]
fn a_message_in_a_turn_waits_for_its_own() {
    let mut dialect = in_turn();
    told(&mut *dialect, &chunk("first"));
    let out = say(&mut *dialect, &Utterance::Message { text: "and then?".into() });
    assert!(out.frames.is_empty());
    let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
    assert!(ending(&out).is_none(), "the run goes on");
    let prompt = &frames(&out)[0];
    assert_eq!(
        (&prompt["id"], &prompt["params"]["prompt"][0]["text"]),
        (&json!(3), &json!("and then?"))
    );
    let turns: Vec<_> = bodies(&out).into_iter().filter(|body| body["kind"] == "turn").collect();
    assert_eq!(
        (&turns[0]["phase"], &turns[1]["phase"], &turns[1]["n"]),
        (&json!("ended"), &json!("started"), &json!(2))
    );
    told(&mut *dialect, &chunk("second"));
    let out = told(&mut *dialect, &reply(3, json!({ "stopReason": "end_turn" })));
    assert_eq!(ending(&out).unwrap().text.as_deref(), Some("second"));
}

#[test]
fn the_farewell_ends_the_turn_and_its_questions() {
    let mut dialect = in_turn();
    told(&mut *dialect, &permission(json!(5), &[("y", "allow_once")]));
    let farewell = String::from_utf8(dialect.farewell(Code::Cancelled).unwrap()).unwrap();
    let lines: Vec<Value> =
        farewell.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["method"], &lines[1]["id"]), (&json!("session/cancel"), &json!(5)));
    assert_eq!(Acp.dialect(&spec()).farewell(Code::Cancelled), None, "there is no turn to end");
}

#[test]
fn a_call_that_its_turn_leaves_open_is_closed_with_it() {
    let mut dialect = in_turn();
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "status": "pending" });
    told(&mut *dialect, &update(call));
    let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "cancelled" })));
    let kinds: Vec<_> = out.drafts.iter().map(|draft| draft.body.kind()).collect();
    assert_eq!(kinds, ["tool_use", "tool_result", "turn"]);
    assert!(out.signals.contains(&Signal::ToolClosed { tool_call_id: "c".into(), denied: false }));
    let Body::ToolResult(result) = &out.drafts[1].body else { panic!("{out:?}") };
    assert_eq!(result.status, ToolStatus::Error);
}

#[test]
fn reasons_of_denials_do_not_pile_up_in_a_turn() {
    let mut dialect = in_turn();
    let deny = |request: u64| Utterance::Decide {
        request: request.to_string(),
        option: None,
        reason: Some("use git mv instead".to_owned()),
    };
    for id in 0..5_000 {
        told(&mut *dialect, &permission(json!(id), &[("y", "allow_once")]));
        say(&mut *dialect, &deny(id));
    }
    assert!(
        dialect.save().len() < 2 * contract::limits::TEXT_BYTES_MAX,
        "{}",
        dialect.save().len()
    );
    let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
    let prompt = frames(&out)[0]["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
    assert!(prompt.contains("use git mv instead"), "{prompt}");
}
