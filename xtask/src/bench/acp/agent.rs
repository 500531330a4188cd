//! The scripted agent of `bench acp`, as little of an agent as can be: it greets, opens a session, and
//! answers every prompt with so many updates, as fast as the pipe takes them. Each update is a message
//! of its own with a number in it. The same program stands behind every peer and behind us.

use super::super::said;
use serde_json::{Value, json};
use std::io::{BufRead as _, Write};

/// How much is handed to the pipe at once, at most.
const WRITE_BYTES: usize = 64 * 1024;
/// The length of an update, without its newline; agents tell about so much at a time.
const PADDING: usize = 64;
const SESSION: &str = "bench";

/// The arguments that start this agent.
pub fn args(updates: u32) -> Vec<String> {
    vec!["bench-agent".to_owned(), "acp".to_owned(), updates.to_string()]
}

pub fn run(words: &[&str]) -> Result<(), String> {
    let usage = "bench-agent acp takes a count";
    let [count] = words else { return Err(usage.to_owned()) };
    let count: u32 = count.parse().map_err(said(usage))?;
    let mut out =
        std::fs::File::from(rustix::io::dup(rustix::stdio::stdout()).map_err(said(usage))?);
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(said("hearing"))?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        answer(&mut out, &message, count).map_err(said("answering"))?;
    }
    Ok(())
}

fn answer(out: &mut impl Write, message: &Value, count: u32) -> std::io::Result<()> {
    let id = &message["id"];
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": 1,
            "agentCapabilities": { "loadSession": true },
            "agentInfo": { "name": "bench", "version": "1" },
        }),
        Some("session/new") => json!({ "sessionId": SESSION }),
        Some("session/load") => Value::Null,
        Some("session/prompt") => {
            say(out, count)?;
            json!({ "stopReason": "end_turn" })
        }
        Some(method) if !id.is_null() => {
            let error = json!({ "code": -32_601, "message": format!("no method '{method}'") });
            return writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
        Some(_) | None => return Ok(()),
    };
    writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// Says all updates, numbered from 0.
pub fn say(out: &mut impl Write, count: u32) -> std::io::Result<()> {
    let mut block = Vec::with_capacity(WRITE_BYTES + 1024);
    for number in 0..count {
        let padding = ".".repeat(PADDING);
        writeln!(
            block,
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{SESSION}\",\
             \"update\":{{\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"m{number}\",\
             \"content\":{{\"type\":\"text\",\"text\":\"#{number:08}; {padding}\"}}}}}}}}"
        )?;
        if block.len() >= WRITE_BYTES {
            out.write_all(&block)?;
            block.clear();
        }
    }
    out.write_all(&block)
}
