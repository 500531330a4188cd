//! What a caller sends to a session, as a wish of its run: the lines that the process protocol says to
//! an agent, one object per request. What cannot be one is refused in words of the fault table, so
//! that nothing a caller sends is lost silently. Nothing here knows whether the run still lives.

use super::wire;
use contract::event::Remaining;
use contract::speech::ToolAnswer;
use contract::{Code, Fault, NanoUsd, Wish};
use serde::Deserialize;
use serde_json::Value;

/// An input as it comes.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Input {
    ToolResult {
        id: Value,
        ok: bool,
        #[serde(default)]
        value: Value,
        #[serde(default)]
        error: Value,
    },
    BudgetUpdate {
        remaining: wire::Remaining,
    },
    Shutdown {
        #[serde(default)]
        reason: Value,
    },
    Message {
        text: String,
    },
    Interrupt,
}

/// Reads one input.
pub fn read(body: &[u8]) -> Result<Wish, Fault> {
    let input: Input = serde_json::from_slice(body).map_err(|error| {
        Fault::new(Code::Usage, format!("the input is none of the protocol: {error}")).with_hint(
            "send one object: tool_result, budget_update, shutdown, message or interrupt",
        )
    })?;
    Ok(match input {
        Input::ToolResult { id, ok, value, error } => {
            let tool_call_id = match id {
                Value::String(id) => id,
                Value::Number(id) => id.to_string(),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                    let message = "the id of a tool_result is a text or a number";
                    return Err(Fault::new(Code::Usage, message));
                }
            };
            let answer = if ok { ToolAnswer::Value(value) } else { refusal(&error) };
            Wish::ToolResult { tool_call_id, answer }
        }
        Input::BudgetUpdate { remaining } => Wish::Budget { remaining: left(&remaining)? },
        Input::Shutdown { reason } => {
            let reason = reason.as_str().and_then(Code::from_word).unwrap_or(Code::Cancelled);
            Wish::Stop { reason, at_once: false }
        }
        Input::Message { text } => Wish::Say { text },
        Input::Interrupt => Wish::Interrupt,
    })
}

/// Why a tool gave nothing: `<code>: <what happened>`, or whatever the caller says instead.
fn refusal(error: &Value) -> ToolAnswer {
    let text = match error {
        Value::String(text) => text.clone(),
        Value::Null => "the caller gave no reason".to_owned(),
        other => other.to_string(),
    };
    let coded = text.split_once(": ").and_then(|(word, rest)| {
        Code::from_word(word).map(|code| ToolAnswer::Error { code, message: rest.to_owned() })
    });
    coded.unwrap_or(ToolAnswer::Error { code: Code::InternalError, message: text })
}

/// What may be spent, in our units.
pub fn left(given: &wire::Remaining) -> Result<Remaining, Fault> {
    let nanousd = match given.usd {
        None => None,
        Some(usd) => Some(NanoUsd::from_usd(usd).ok_or_else(|| {
            Fault::new(Code::Usage, format!("{usd} dollars are no amount of money"))
        })?),
    };
    let turns = given.turns.map(|turns| u32::try_from(turns).unwrap_or(u32::MAX));
    Ok(Remaining { nanousd, tokens: given.tokens, turns, ms: given.ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_input_is_the_wish_of_its_row() {
        let rows = [
            r#"{"type":"tool_result","id":"1","ok":true,"value":{"a":1}}"#,
            r#"{"type":"tool_result","id":7,"ok":true}"#,
            r#"{"type":"tool_result","id":"1","ok":false,"error":"not_found: 'x' is not there"}"#,
            r#"{"type":"tool_result","id":"1","ok":false,"error":"it broke"}"#,
            r#"{"type":"tool_result","id":"1","ok":false}"#,
            r#"{"type":"tool_result","id":null,"ok":true}"#,
            r#"{"type":"budget_update","remaining":{"tokens":5,"usd":0.5}}"#,
            r#"{"type":"budget_update","remaining":{"usd":-1}}"#,
            r#"{"type":"shutdown","reason":"lease_expired"}"#,
            r#"{"type":"shutdown","reason":"because"}"#,
            r#"{"type":"shutdown"}"#,
            r#"{"type":"message","text":"go on"}"#,
            r#"{"type":"interrupt"}"#,
            r#"{"type":"complete"}"#,
            r#"[{"type":"interrupt"}]"#,
            "7",
        ];
        let mut shown = String::new();
        for row in rows {
            let heard = match read(row.as_bytes()) {
                Ok(wish) => serde_json::to_string(&wish).unwrap(),
                Err(fault) => format!("{}: {}", fault.code, fault.message),
            };
            shown.push_str(&format!("{row}\n    {heard}\n"));
        }
        insta::assert_snapshot!(shown);
    }
}
