//! Turns that an update ends, for agents that never reply to their prompt: only where that is
//! configured, once for each turn, whichever end is told first.

use super::*;
use contract::plan::TurnEnd;

fn configured(turn_end: Option<TurnEnd>) -> Box<dyn Dialect> {
    let mut spec = spec();
    spec.adapter.turn_end = turn_end;
    let (mut dialect, _) = greeted(&spec, json!({}));
    told(&mut *dialect, &reply(1, json!({ "sessionId": "s" })));
    dialect
}

fn end(more: Value) -> Value {
    let mut end = json!({ "sessionUpdate": "turn_end" });
    for (name, value) in more.as_object().into_iter().flatten() {
        end[name] = value.clone();
    }
    update(end)
}

fn ends(out: &Out) -> usize {
    let ended = |signal: &&Signal| matches!(signal, Signal::TurnEnded { .. });
    out.signals.iter().filter(ended).count()
}

#[test]
fn an_update_ends_a_turn_where_that_is_configured_and_is_a_line_like_others_elsewhere() {
    for (configured_as, expected) in
        [(None, 0), (Some(TurnEnd::Reply), 0), (Some(TurnEnd::Update), 1)]
    {
        let mut dialect = configured(configured_as);
        told(&mut *dialect, &chunk("Done."));
        // What is configured is kept with the conversation.
        let mut dialect = Acp.restore(&dialect.save()).unwrap();
        let out = told(&mut *dialect, &end(json!({})));
        assert_eq!(ends(&out), expected, "{configured_as:?}");
        match ending(&out) {
            Some(ending) => {
                assert_eq!((ending.code, ending.text.as_deref()), (None, Some("Done.")));
            }
            None => assert_eq!(bodies(&out)[0]["level"], "unrecognised"),
        }
    }
}

#[test]
fn the_update_has_what_the_reply_would_have() {
    let mut dialect = configured(Some(TurnEnd::Update));
    told(&mut *dialect, &chunk("I cannot"));
    let usage = json!({ "inputTokens": 7, "outputTokens": 2, "totalTokens": 9 });
    let out = told(&mut *dialect, &end(json!({ "stopReason": "refusal", "usage": usage })));
    assert_eq!(ending(&out).unwrap().code, Some(Code::ModelRefusal));
    let spent = bodies(&out).into_iter().find(|body| body["kind"] == "usage").expect("tokens");
    assert_eq!(
        (&spent["tokens"]["input_uncached"], &spent["tokens"]["output"]),
        (&7.into(), &2.into())
    );
}

#[test]
fn an_update_without_a_word_or_a_call_before_it_is_no_success() {
    let mut dialect = configured(Some(TurnEnd::Update));
    let out = told(&mut *dialect, &end(json!({})));
    assert_eq!(ending(&out).unwrap().code, Some(Code::EndedWithoutResult));
}

#[test]
fn a_turn_that_is_ended_in_both_ways_ended_once_and_the_next_one_is_not_touched() {
    let replied = |id: u64| reply(id, json!({ "stopReason": "end_turn" }));
    for update_first in [true, false] {
        let mut dialect = configured(Some(TurnEnd::Update));
        told(&mut *dialect, &chunk("One."));
        // What waits is said as soon as the turn is over.
        say(&mut *dialect, &Utterance::Message { text: "And two?".into() });
        let (first, second) = match update_first {
            true => (end(json!({})), replied(2)),
            false => (replied(2), end(json!({}))),
        };
        let out = told(&mut *dialect, &first);
        assert_eq!((ends(&out), frames(&out).len()), (1, 1), "the next turn begins");
        let mut dialect = Acp.restore(&dialect.save()).unwrap();
        let out = told(&mut *dialect, &second);
        assert_eq!((ends(&out), out.drafts.len()), (0, 0), "update first: {update_first}");
        told(&mut *dialect, &chunk("Two."));
        let out = told(&mut *dialect, &end(json!({})));
        assert_eq!(ending(&out).unwrap().text.as_deref(), Some("Two."), "{update_first}");
    }
}
