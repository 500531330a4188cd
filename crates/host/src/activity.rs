//! What is kept of a run when its activity is not (`server.activity: off`). One pure rule, applied
//! where drafts become a Batch: the machine, the money and the clocks have seen everything by then,
//! so outcome, cost and timing are the same with and without it.

use contract::Draft;
use contract::event::{Body, Origin, Via};

/// Whether the activity of runs is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activity {
    #[default]
    Full,
    /// How a run stands, what it asks of us, what it costs and how it ends; not what it says and
    /// does on the way.
    Off,
}

impl Activity {
    pub fn keeps(self, draft: &Draft) -> bool {
        self == Self::Full || draft.origin != Origin::Agent || !is_activity(&draft.body)
    }
}

/// What an agent shows of its work. Calls that go through us are ours to account for, and stay; so
/// does what people and Ostler itself state, because that is not the agent's activity.
fn is_activity(stated: &Body) -> bool {
    match stated {
        Body::Session(_)
        | Body::Turn(_)
        | Body::AssistantText(_)
        | Body::Thinking(_)
        | Body::UserText(_)
        | Body::ToolUpdate(_)
        | Body::ToolResult(_)
        | Body::Plan(_)
        | Body::Diff(_)
        | Body::Log(_) => true,
        Body::ToolUse(tool) => tool.via == Via::Native,
        Body::Permission(_)
        | Body::Progress(_)
        | Body::Comment(_)
        | Body::Usage(_)
        | Body::Quota(_)
        | Body::Budget(_)
        | Body::Lease(_)
        | Body::Lifecycle(_)
        | Body::Error(_)
        | Body::Result(_)
        | Body::Unknown(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn without_activity_only_what_the_agent_shows_of_its_work_goes() {
        let rows = [
            (json!({ "kind": "session" }), false),
            (json!({ "kind": "turn", "phase": "started", "n": 1 }), false),
            (json!({ "kind": "assistant_text", "text": "x" }), false),
            (json!({ "kind": "thinking", "text": "x" }), false),
            (json!({ "kind": "user_text", "text": "x" }), false),
            (json!({ "kind": "tool_use", "tool_call_id": "1", "name": "x" }), false),
            (
                json!({ "kind": "tool_use", "tool_call_id": "1", "name": "x", "via": "relayed" }),
                true,
            ),
            (json!({ "kind": "tool_update", "tool_call_id": "1" }), false),
            (json!({ "kind": "tool_result", "tool_call_id": "1", "status": "ok" }), false),
            (json!({ "kind": "plan", "entries": [] }), false),
            (json!({ "kind": "diff", "path": "x" }), false),
            (json!({ "kind": "log", "stream": "stdout", "text": "x" }), false),
            (json!({ "kind": "progress", "summary": "x", "beliefs": [], "attempted": [] }), true),
            (json!({ "kind": "comment", "text": "x", "mentions": [] }), true),
        ];
        for (body, kept) in rows {
            let body: Body = serde_json::from_value(body).unwrap();
            let draft = Draft::agent(body.clone());
            assert!(Activity::Full.keeps(&draft));
            assert_eq!(Activity::Off.keeps(&draft), kept, "{body:?}");
            assert!(Activity::Off.keeps(&Draft::ostler(body)), "what Ostler states stays");
        }
    }
}
