//! What the bridge from Codex to ACP tells of the model beside that protocol: in the `_meta` of an
//! update about its session. Pure, and for the second lane alone; the native one never sees a bridge.

use crate::acp::lane::{Told, ToldError};
use serde_json::Value;

/// Its words among these, if there are any.
pub(super) fn told(meta: &Value) -> Option<Told> {
    let ours = meta.get("codex")?;
    let failing = ours["threadStatus"]["type"] == "systemError";
    Some(Told { failing, error: ours.get("error").map(error) })
}

fn error(error: &Value) -> ToldError {
    let word = |name: &str| error[name].as_str().unwrap_or_default();
    let mut infos = error["codexErrorInfo"].as_object().into_iter().flatten();
    ToldError {
        said: [word("message"), word("additionalDetails")].join(": "),
        status: infos.find_map(|(_, held)| held.get("httpStatusCode")?.as_u64()),
        tries_again: error["willRetry"] == true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_is_told_with_its_status_and_whether_it_is_tried_again() {
        let info = json!({ "responseStreamConnectionFailed": { "httpStatusCode": 429 } });
        let error = json!({
            "message": "Reconnecting... 1/5",
            "additionalDetails": "slow down",
            "codexErrorInfo": info,
            "willRetry": true,
        });
        let status = json!({ "type": "systemError" });
        let said = "Reconnecting... 1/5: slow down".to_owned();
        let error_told = ToldError { said, status: Some(429), tries_again: true };
        let rows = [
            (json!({ "other": 1 }), None),
            (json!({ "codex": {} }), Some(Told::default())),
            (
                json!({ "codex": { "threadStatus": status } }),
                Some(Told { failing: true, error: None }),
            ),
            (
                json!({ "codex": { "error": error } }),
                Some(Told { failing: false, error: Some(error_told) }),
            ),
        ];
        for (meta, expected) in rows {
            assert_eq!(told(&meta), expected, "{meta}");
        }
    }
}
