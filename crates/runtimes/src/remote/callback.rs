//! What a service sends by itself when it calls back: one event of the process protocol, or several,
//! each bare or with its number. Here they become the lines in which a courier would have told them,
//! so that one dialect hears both. A request is taken whole or not at all; pure.

use super::wire;
use contract::limits::REMOTE_CALLBACK_EVENTS_MAX;
use contract::{Code, Fault};
use serde_json::Value;

/// The lines of what was given, for this run.
pub(super) fn lines(run: &str, given: &Value) -> Result<Vec<Vec<u8>>, Fault> {
    let events = match given {
        Value::Array(events) => events.as_slice(),
        one => std::slice::from_ref(one),
    };
    if !(1..=REMOTE_CALLBACK_EVENTS_MAX).contains(&events.len()) {
        let message = format!("a call back has 1 to {REMOTE_CALLBACK_EVENTS_MAX} events");
        return Err(Fault::new(Code::Usage, message));
    }
    let line = |(place, event)| line(run, event).map_err(|why| refused(place, &why));
    (1_usize..).zip(events).map(line).collect()
}

pub(super) fn not_supported() -> Fault {
    let message = "the agent of this run is no service that calls back";
    Fault::new(Code::NotSupported, message).with_hint("only agents of webhook-v1 do")
}

fn refused(place: usize, why: &str) -> Fault {
    Fault::new(Code::Usage, format!("event {place}: {why}"))
}

fn line(run: &str, given: &Value) -> Result<Vec<u8>, String> {
    let bare = given.get("type").is_some();
    let (id, event) = match given.get("event") {
        Some(event) if !bare => (given.get("id"), event),
        _ => (None, given),
    };
    let id = match id {
        None | Some(Value::Null) => None,
        Some(id) => Some(id.as_u64().ok_or("its id is no whole number")?),
    };
    if !event["type"].is_string() {
        return Err("it has no type, and no event that has one".to_owned());
    }
    let other = ["runId", "run_id"].iter().filter_map(|name| event[*name].as_str());
    if other.into_iter().any(|named| named != run) {
        return Err("it names another run".to_owned());
    }
    Ok(wire::frame(&wire::Called { id: id.map(|id| id.to_string()), event }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_called_back_is_taken_whole_or_not_at_all() {
        let progress = json!({ "type": "progress", "summary": "a" });
        let call = json!({ "type": "tool_call", "id": "7" });
        let state = json!({ "type": "event", "event": { "kind": "log" } });
        let numbered = |id: Value| json!({ "id": id, "event": progress });
        let many = |count: usize| Value::Array(vec![progress.clone(); count]);
        let rows = [
            (progress.clone(), Some(vec![None])),
            (call, Some(vec![None])),
            (state, Some(vec![None])),
            (numbered(json!(3)), Some(vec![Some("3")])),
            (numbered(Value::Null), Some(vec![None])),
            (json!([numbered(json!(1)), progress]), Some(vec![Some("1"), None])),
            (json!({ "type": "progress", "runId": "run_1" }), Some(vec![None])),
            (json!({ "type": "progress", "run_id": "run_2" }), None),
            (json!([progress, numbered(json!("x"))]), None),
            (json!([progress, { "event": 1 }]), None),
            (numbered(json!(-1)), None),
            (json!({ "type": 1 }), None),
            (json!([]), None),
            (json!("progress"), None),
            (many(REMOTE_CALLBACK_EVENTS_MAX + 1), None),
        ];
        for (given, expected) in rows {
            let lines = lines("run_1", &given);
            let ids = lines.as_ref().ok().map(|lines| {
                let line = |line: &Vec<u8>| serde_json::from_slice::<Value>(line).unwrap();
                lines.iter().map(|bytes| line(bytes)["id"].as_str().map(str::to_owned)).collect()
            });
            let expected: Option<Vec<_>> =
                expected.map(|ids| ids.iter().map(|id| id.map(str::to_owned)).collect());
            assert_eq!(ids, expected, "{given}: {lines:?}");
        }
        assert_eq!(lines("run_1", &many(REMOTE_CALLBACK_EVENTS_MAX)).unwrap().len(), 256);
    }
}
