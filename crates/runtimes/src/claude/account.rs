//! The usage endpoint that the agent's own `/usage` asks. The vendor does not document it: its shape is
//! known from public reports alone, so it is read leniently. Windows are objects by name, or, in newer
//! answers, a list; whatever is not understood is left out, and an answer without any window is none.

use super::result::at_second;
use crate::account::{Account, Question};
use contract::Timestamp;
use contract::event::{Quota, QuotaWindow};
use serde_json::Value;

/// More windows than any account has.
const WINDOWS_MAX: usize = 32;
/// The name of a window is shown; a longer one is cut.
const NAME_CHARS_MAX: usize = 64;
/// Windows that stop everything once they are full, and not only one model.
const GENERAL: [&str; 4] = ["five_hour", "seven_day", "session", "weekly_all"];

/// The account of a subscription.
pub struct Usage;

impl Account for Usage {
    fn question(&self) -> Question {
        Question {
            credentials: "${CLAUDE_CONFIG_DIR:-~/.claude}/.credentials.json",
            token: "/claudeAiOauth/accessToken",
            url: "https://api.anthropic.com/api/oauth/usage",
            headers: &[("anthropic-beta", "oauth-2025-04-20")],
        }
    }

    fn read(&self, answer: &[u8]) -> Option<Quota> {
        let answer: Value = serde_json::from_slice(answer).ok()?;
        let named = answer.as_object()?.iter().filter_map(|(name, value)| window(name, value));
        let mut windows: Vec<_> = named.take(WINDOWS_MAX).collect();
        if windows.is_empty() {
            let listed = answer["limits"].as_array().into_iter().flatten();
            let listed = listed.filter_map(|limit| window(limit["kind"].as_str()?, limit));
            windows = listed.take(WINDOWS_MAX).collect();
        }
        let full =
            |window: &&QuotaWindow| window.exhausted && GENERAL.contains(&window.id.as_str());
        // What is full in two windows is free again when the later one resets.
        let resets_at = windows.iter().filter(full).filter_map(|window| window.resets_at).max();
        let rate_limited = windows.iter().any(|window| full(&window)) && !has_extra(&answer[EXTRA]);
        let provider = "anthropic".to_owned();
        let quota = Quota { provider, account: None, windows, rate_limited, resets_at };
        (!quota.windows.is_empty()).then_some(quota)
    }
}

/// A window, if its share is told. The endpoint counts in percent.
fn window(name: &str, value: &Value) -> Option<QuotaWindow> {
    let share = ["utilization", "percent", "used_percentage"];
    let used_percent = share.iter().find_map(|key| value[*key].as_f64())?;
    let resets_at = &value["resets_at"];
    Some(QuotaWindow {
        id: name.chars().take(NAME_CHARS_MAX).collect(),
        label: None,
        used_percent: Some(used_percent),
        resets_at: resets_at
            .as_f64()
            .and_then(at_second)
            .or_else(|| serde_json::from_value::<Timestamp>(resets_at.clone()).ok()),
        exhausted: used_percent >= 100.0,
    })
    .filter(|_| used_percent.is_finite() && used_percent >= 0.0 && name != EXTRA)
}

/// Bought on top of the windows: no window itself.
const EXTRA: &str = "extra_usage";

/// Whether requests go on beyond full windows, because more was bought and is not used up.
fn has_extra(extra: &Value) -> bool {
    let left = extra["utilization"].as_f64().is_none_or(|used| used < 100.0);
    extra["is_enabled"] == true && left
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Windows as `name percent reset`, and whether and until when everything is held back.
    fn read(answer: &Value) -> Option<(Vec<String>, bool, Option<String>)> {
        let quota = Usage.read(answer.to_string().as_bytes())?;
        let shown = |window: &QuotaWindow| {
            let reset = window.resets_at.map(|at| format!(" {at}")).unwrap_or_default();
            format!("{} {}{reset}", window.id, window.used_percent.unwrap())
        };
        let windows = quota.windows.iter().map(shown).collect();
        Some((windows, quota.rate_limited, quota.resets_at.map(|at| at.to_string())))
    }

    #[test]
    fn an_answer_is_read_in_every_shape_that_was_reported() {
        let noon = "2026-03-10T12:00:00.000Z";
        let five = json!({"utilization": 37.0, "resets_at": "2026-03-10T12:00:00.123456+00:00"});
        let named = json!({"five_hour": five, "seven_day": {"utilization": 26},
            "seven_day_opus": null, "extra_usage": {"is_enabled": false, "utilization": 3.0}});
        let windows = vec!["five_hour 37 2026-03-10T12:00:00.123Z".into(), "seven_day 26".into()];
        assert_eq!(read(&named), Some((windows, false, None)));

        let listed = json!({"limits": [{"kind": "session", "percent": 100, "resets_at": noon},
            {"kind": "weekly_all", "percent": 40}, {"severity": "odd"}, 7]});
        let windows = vec![format!("session 100 {noon}"), "weekly_all 40".into()];
        assert_eq!(read(&listed), Some((windows, true, Some(noon.to_owned()))));

        let seconds = json!({"seven_day": {"used_percentage": 120, "resets_at": 1773144000},
            "seven_day_opus": {"utilization": 100, "resets_at": "soon"}});
        let windows = vec![format!("seven_day 120 {noon}"), "seven_day_opus 100".into()];
        assert_eq!(read(&seconds), Some((windows, true, Some(noon.to_owned()))));
    }

    #[test]
    fn one_model_that_is_used_up_does_not_hold_back_the_others() {
        let answer =
            json!({"five_hour": {"utilization": 1}, "seven_day_opus": {"utilization": 100}});
        let (windows, rate_limited, _) = read(&answer).unwrap();
        assert_eq!((windows.len(), rate_limited), (2, false));
    }

    #[test]
    fn bought_usage_goes_on_beyond_a_full_window() {
        for (extra, rate_limited) in [
            (json!({"is_enabled": true, "utilization": 3.0}), false),
            (json!({"is_enabled": true}), false),
            (json!({"is_enabled": true, "utilization": 100.0}), true),
            (json!({"is_enabled": false, "utilization": 3.0}), true),
        ] {
            let answer = json!({"five_hour": {"utilization": 100}, "extra_usage": extra});
            assert_eq!(read(&answer).unwrap().1, rate_limited, "{extra}");
        }
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for answer in [json!({}), json!([]), json!({"error": {"type": "x"}}), json!({"limits": 3})]
        {
            assert_eq!(read(&answer), None, "{answer}");
        }
        assert!(Usage.read(b"<html>").is_none());
        let many: Value = (0..100).map(|n| (format!("w{n}"), json!({"utilization": 1}))).collect();
        assert_eq!(read(&many).unwrap().0.len(), WINDOWS_MAX);
    }
}
