//! Modes by conversations that were not recorded: which one is set under which policy, by which way,
//! and what becomes of an agent that does not take it.

use super::*;

/// A session that was opened in a mode, with those that are offered.
fn opened_in(current: &str, offered: &[&str]) -> Value {
    let offered: Vec<_> = offered.iter().map(|id| json!({ "id": id, "name": id })).collect();
    json!({ "sessionId": "s",
        "modes": { "currentModeId": current, "availableModes": offered } })
}

/// A session that was opened by an agent whose modes are an option.
fn opened_by_option(current: &str, offered: &[&str]) -> Value {
    let options: Vec<_> = offered.iter().map(|id| json!({ "value": id, "name": id })).collect();
    json!({ "sessionId": "s", "configOptions": [{ "id": "level", "category": "mode",
        "type": "select", "currentValue": current, "options": options }] })
}

#[test]
fn the_mode_that_fits_the_policy_is_set_before_the_first_turn() {
    let claude = ["default", "acceptEdits", "plan", "bypassPermissions"];
    let copilot = "https://agentclientprotocol.com/protocol/session-modes#";
    let (agent, autopilot) = (format!("{copilot}agent"), format!("{copilot}autopilot"));
    let codex = ["read-only", "agent", "agent-full-access"];
    let rows = [
        (Policy::Ask, opened_in("default", &claude), None),
        (Policy::Ask, opened_in("bypassPermissions", &claude), Some("default")),
        (Policy::Deny, opened_in("plan", &claude), Some("default")),
        (Policy::AllowAll, opened_in("plan", &claude), None),
        (Policy::Deny, opened_in(&autopilot, &[&agent, &autopilot]), Some(agent.as_str())),
        (Policy::Deny, opened_in("agent", &codex), Some("read-only")),
        (Policy::AllowReads, opened_in("agent", &codex), Some("read-only")),
        (Policy::Deny, opened_in("build", &["build", "plan"]), Some("plan")),
        // Other spellings than the usual ones.
        (Policy::Ask, opened_in("accept-edits", &["accept-edits", "Ask"]), Some("Ask")),
        (Policy::Ask, opened_in("build", &["build", "ostler-asks"]), Some("ostler-asks")),
    ];
    for (policy, opened, mode) in rows {
        let (mut dialect, _) = greeted(&Spec { policy, ..spec() }, json!({}));
        let out = told(&mut *dialect, &reply(1, opened.clone()));
        let said = frames(&out);
        let Some(mode) = mode else {
            assert_eq!(said[0]["method"], "session/prompt", "{policy:?} {opened}");
            continue;
        };
        assert_eq!(said.len(), 1, "nothing else is said before it is set");
        assert_eq!(said[0]["method"], "session/set_mode");
        assert_eq!(said[0]["params"], json!({ "sessionId": "s", "modeId": mode }));
        // Left and taken up between the wish and its reply.
        let mut dialect = Acp.restore(&dialect.save()).unwrap();
        let out = told(&mut *dialect, &reply(2, json!({})));
        assert_eq!(frames(&out)[0]["method"], "session/prompt");
    }
}

#[test]
fn a_mode_that_is_an_option_is_set_as_one_and_before_the_model() {
    let spec = Spec { policy: Policy::Ask, model: Some("m-1".into()), ..spec() };
    let (mut dialect, _) = greeted(&spec, json!({}));
    let opened = opened_by_option("auto-high", &["normal", "auto-high"]);
    let said = frames(&told(&mut *dialect, &reply(1, opened)));
    let set = json!({ "sessionId": "s", "configId": "level", "value": "normal" });
    assert_eq!(
        (&said[0]["method"], &said[0]["params"]),
        (&json!("session/set_config_option"), &set)
    );
    let said = frames(&told(&mut *dialect, &reply(2, json!({}))));
    assert_eq!(said[0]["method"], "session/set_model");
    let said = frames(&told(&mut *dialect, &reply(3, json!({}))));
    assert_eq!(said[0]["method"], "session/prompt");
}

#[test]
fn an_option_that_allows_everything_is_turned_off() {
    for (value, is_set) in [(json!("on"), true), (json!(true), true), (json!("off"), false)] {
        let (mut dialect, _) = greeted(&Spec { policy: Policy::Deny, ..spec() }, json!({}));
        let option = json!({ "id": "allow_all", "category": "permissions", "currentValue": value });
        let opened = json!({ "sessionId": "s", "configOptions": [option] });
        let said = frames(&told(&mut *dialect, &reply(1, opened)));
        let off = json!({ "sessionId": "s", "configId": "allow_all", "value": "off" });
        assert_eq!(said[0]["params"] == off, is_set, "{value}: {said:?}");
    }
}

#[test]
fn an_agent_that_stays_in_a_mode_that_does_as_it_likes_is_not_run() {
    let policy = Policy::Deny;
    // It offers no other.
    let (mut dialect, _) = greeted(&Spec { policy, ..spec() }, json!({}));
    let out = told(&mut *dialect, &reply(1, opened_in("yolo", &["yolo", "autoEdit"])));
    assert_eq!(ending(&out).unwrap().code, Some(Code::PolicyNotPossible));
    assert!(out.frames.is_empty(), "no turn begins");
    // It offers one and does not take it, or has no login.
    let rows = [
        ("yolo", -32_601, Some(Code::PolicyNotPossible)),
        ("plan", -32_000, Some(Code::AuthRequired)),
        // It is no worse than it was.
        ("plan", -32_603, None),
    ];
    for (current, number, code) in rows {
        let (mut dialect, _) = greeted(&Spec { policy, ..spec() }, json!({}));
        told(&mut *dialect, &reply(1, opened_in(current, &["default", "yolo", "plan"])));
        let out = told(&mut *dialect, &refusal(2, number, "no"));
        assert_eq!(ending(&out).and_then(|ending| ending.code), code, "{current}");
        match code {
            Some(_) => assert!(out.frames.is_empty()),
            None => {
                assert_eq!(frames(&out)[0]["method"], "session/prompt");
                assert!(bodies(&out).iter().any(|body| body["level"] == "warning"));
            }
        }
    }
}

#[test]
fn an_agent_without_a_mode_that_is_known_to_ask_is_not_run() {
    let rows = [
        (Policy::Deny, opened_in("agent", &["agent", "turbo"]), Some("'agent', 'turbo'")),
        // A mode that changes nothing would let nobody be asked.
        (Policy::Ask, opened_in("build", &["build", "plan"]), Some("'build', 'plan'")),
        (Policy::Ask, opened_by_option("code", &["code"]), Some("'code'")),
        (Policy::AllowAll, opened_in("agent", &["agent", "turbo"]), None),
        // Without modes there is nothing to choose; what it does is held against the policy.
        (Policy::Deny, json!({ "sessionId": "s" }), None),
    ];
    for (policy, opened, seen) in rows {
        let (mut dialect, _) = greeted(&Spec { policy, ..spec() }, json!({}));
        let out = told(&mut *dialect, &reply(1, opened.clone()));
        let ending = ending(&out);
        assert_eq!(
            ending.and_then(|ending| ending.code),
            seen.map(|_| Code::PolicyNotPossible),
            "{policy:?} {opened}"
        );
        assert_eq!(out.frames.is_empty(), seen.is_some(), "no prompt is sent: {opened}");
        let detail = ending.and_then(|ending| ending.detail.as_deref()).unwrap_or_default();
        assert!(detail.contains(seen.unwrap_or_default()), "{detail}");
    }
}

#[test]
fn the_description_of_a_mode_says_what_it_does() {
    let modes = json!([
        { "id": "turbo", "name": "Turbo", "description": "Auto-approves all tools" },
        { "id": "calm", "name": "Calm", "description": "Requires approval for tool executions" },
    ]);
    let opened = json!({ "sessionId": "s",
        "modes": { "currentModeId": "turbo", "availableModes": modes } });
    let (mut dialect, _) = greeted(&Spec { policy: Policy::Ask, ..spec() }, json!({}));
    let said = frames(&told(&mut *dialect, &reply(1, opened)));
    assert_eq!(said[0]["params"], json!({ "sessionId": "s", "modeId": "calm" }));
}

fn mode_is(mode: &str) -> Value {
    update(json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }))
}

fn option_is(value: &Value) -> Value {
    let option = json!({ "id": "allow_all", "category": "permissions", "currentValue": value });
    update(json!({ "sessionUpdate": "config_option_update", "configOptions": [option] }))
}

fn broken(out: &Out) -> Option<&str> {
    out.signals.iter().find_map(|signal| match signal {
        Signal::PolicyBroken { what } => Some(what.as_str()),
        _ => None,
    })
}

/// An agent in its first turn, in a mode that asks; the prompt is request 2.
fn asking(policy: Policy) -> Box<dyn Dialect> {
    let modes = json!([
        { "id": "ask" },
        { "id": "turbo", "description": "Runs every tool without asking" },
        { "id": "odd" },
        { "id": "plan" },
    ]);
    let opened = json!({ "sessionId": "s",
        "modes": { "currentModeId": "ask", "availableModes": modes } });
    let (mut dialect, _) = greeted(&Spec { policy, ..spec() }, json!({}));
    told(&mut *dialect, &reply(1, opened));
    dialect
}

#[test]
fn a_mode_that_the_agent_changes_is_set_back() {
    for mode in ["turbo", "odd", "yolo"] {
        let mut dialect = asking(Policy::Ask);
        let out = told(&mut *dialect, &mode_is(mode));
        assert!(bodies(&out).iter().any(|body| body["level"] == "warning"), "{mode}");
        let said = frames(&out);
        assert_eq!((&said[0]["method"], &said[0]["id"]), (&"session/set_mode".into(), &3.into()));
        assert_eq!(said[0]["params"], json!({ "sessionId": "s", "modeId": "ask" }));
        // Told twice, and left and taken up before the reply.
        assert!(frames(&told(&mut *dialect, &mode_is(mode))).is_empty(), "{mode}");
        let mut dialect = Acp.restore(&dialect.save()).unwrap();
        let out = told(&mut *dialect, &reply(3, json!({})));
        assert!(broken(&out).is_none() && ending(&out).is_none(), "{mode}");
        told(&mut *dialect, &mode_is("ask"));
        told(&mut *dialect, &chunk("Done."));
        let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
        assert_eq!(ending(&out).unwrap().code, None, "{mode}");
    }
}

#[test]
fn a_mode_that_stays_changed_ends_the_run() {
    let mut dialect = asking(Policy::Ask);
    told(&mut *dialect, &mode_is("turbo"));
    let out = told(&mut *dialect, &refusal(3, -32_603, "no"));
    let expected = "under ask the agent changed its mode to 'turbo', and when that was set back it \
                    did not take the mode 'ask': no";
    assert_eq!(broken(&out), Some(expected));

    let mut dialect = asking(Policy::Deny);
    told(&mut *dialect, &mode_is("turbo"));
    told(&mut *dialect, &reply(3, json!({})));
    let out = told(&mut *dialect, &mode_is("yolo"));
    let expected = "under deny the agent changed its mode to 'yolo', which does not ask before it \
                    acts, a second time";
    assert_eq!(broken(&out), Some(expected));
}

#[test]
fn a_reset_is_answered_before_the_turn_ends() {
    // What the agent tells before it ends its turn, and whether that breaks the policy or is a warning.
    let rows = [
        ("turbo", None, true, false),
        ("odd", None, false, true),
        // The mode itself says more than a reply.
        ("turbo", Some("ask"), false, false),
    ];
    for (mode, then, breaks, warns) in rows {
        let mut dialect = asking(Policy::Ask);
        told(&mut *dialect, &mode_is(mode));
        if let Some(then) = then {
            told(&mut *dialect, &mode_is(then));
        }
        told(&mut *dialect, &chunk("Done."));
        let out = told(&mut *dialect, &reply(2, json!({ "stopReason": "end_turn" })));
        assert_eq!(broken(&out).is_some(), breaks, "{mode} {then:?}");
        let warned = bodies(&out).iter().any(|body| body["level"] == "warning");
        assert_eq!(warned, warns, "{mode} {then:?}");
    }
}

#[test]
fn a_mode_that_keeps_the_policy_is_left() {
    let rows = [(Policy::Ask, "plan"), (Policy::Deny, "ask"), (Policy::AllowAll, "turbo")];
    for (policy, mode) in rows {
        let out = told(&mut *asking(policy), &mode_is(mode));
        assert!(out.frames.is_empty() && broken(&out).is_none(), "{policy:?} {mode}");
        assert!(bodies(&out).iter().all(|body| body["level"] != "warning"), "{policy:?} {mode}");
    }
}

#[test]
fn an_unoffered_mode_cannot_be_set_back() {
    for (mode, breaks) in [("acceptEdits", true), ("odd", false), ("default", false)] {
        let (mut dialect, _) = greeted(&Spec { policy: Policy::Ask, ..spec() }, json!({}));
        told(&mut *dialect, &reply(1, json!({ "sessionId": "s" })));
        let out = told(&mut *dialect, &mode_is(mode));
        assert_eq!(broken(&out).is_some(), breaks, "{mode}");
        let warned = bodies(&out).iter().any(|body| body["level"] == "warning");
        assert_eq!(warned, mode == "odd", "{mode}");
    }
}

#[test]
fn an_option_that_allows_everything_is_set_back() {
    let mut dialect = asking(Policy::Ask);
    let out = told(&mut *dialect, &option_is(&json!("on")));
    let off = json!({ "sessionId": "s", "configId": "allow_all", "value": "off" });
    assert_eq!(frames(&out)[0]["params"], off);
    told(&mut *dialect, &reply(3, json!({})));
    let out = told(&mut *dialect, &option_is(&json!("on")));
    assert!(broken(&out).is_some());
}

#[test]
fn a_mode_told_before_it_is_set_is_no_change() {
    let (mut dialect, _) = greeted(&Spec { policy: Policy::Ask, ..spec() }, json!({}));
    told(&mut *dialect, &reply(1, opened_in("yolo", &["yolo", "ask"])));
    let out = told(&mut *dialect, &mode_is("yolo"));
    assert!(out.frames.is_empty() && broken(&out).is_none());
}

#[test]
fn a_trial_says_what_the_session_showed() {
    use mode_trial::{ModeTrial, mode_requests, policies_tried};
    let refused = |id: u64, code: i64| refusal(id, code, "no").to_string();
    let accepted = |id: u64| reply(id, json!({})).to_string();
    let row = |opened: Value, replies: &[String]| {
        let opened = reply(1, opened).to_string();
        let requests = mode_requests(&opened).len();
        let printed = [&[opened], replies].concat().join("\n");
        (requests, policies_tried(&printed))
    };
    let all = |trial: ModeTrial| {
        Some([Policy::Deny, Policy::Ask, Policy::AllowReads].map(|it| (it, trial.clone())).into())
    };
    let yolo = || opened_in("yolo", &["yolo", "ask"]);
    let no = "it did not take the mode 'ask': no";
    assert_eq!(row(json!({ "sessionId": "s" }), &[]), (0, None));
    assert_eq!(row(opened_in("ask", &["ask"]), &[]), (0, all(ModeTrial::Begun)));
    assert_eq!(row(yolo(), &[accepted(2)]), (1, all(ModeTrial::Accepted)));
    assert_eq!(
        row(yolo(), &[refused(2, -32_601)]),
        (1, all(ModeTrial::NotPossible(no.to_owned())))
    );
    assert_eq!(row(yolo(), &[refused(2, -32_000)]), (1, all(ModeTrial::Unknown)));
    assert_eq!(row(yolo(), &[]), (1, all(ModeTrial::Unknown)));
    // A refusal in a mode that asks or changes nothing changes nothing.
    let (requests, tried) = row(opened_in("plan", &["plan", "ask"]), &[refused(2, -32_603)]);
    assert_eq!((requests, tried), (1, all(ModeTrial::Begun)));
}
