//! A recording as a program: it prints what a real agent once printed, on the same streams, and ends
//! as that one ended. Of a transcript of both directions it says its own part, and waits for a line
//! wherever the agent had been told something. It stands in for a CLI that is not installed.

use crate::recorded;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

/// The first word of the command line that means it.
pub const AGAIN: &str = "--again";

/// Plays the files that begin with this path.
pub fn play(path: &Path) -> ExitCode {
    let file = |kind: &str| {
        let name = format!("{}.{kind}", path.display());
        std::fs::read(name).unwrap_or_default()
    };
    let mut stdout = io::stdout().lock();
    let stdout_text = file("ndjson");
    match recorded::transcript(&stdout_text) {
        Some(entries) => converse(&entries, &mut stdout),
        None => {
            // Whoever gives a prompt may wait until it has been read.
            std::thread::spawn(|| io::stdin().lock().read_to_end(&mut Vec::new()));
            let _ = stdout.write_all(&stdout_text);
        }
    }
    let _ = stdout.flush();
    let _ = io::stderr().write_all(&file("stderr"));
    let meta: Value = serde_json::from_slice(&file("meta.json")).unwrap_or_default();
    let exit = meta["exit_code"].as_i64().unwrap_or(0);
    if let Some(signal) = i32::try_from(-exit).ok().and_then(Signal::from_named_raw) {
        let _ = kill_process(getpid(), signal);
    }
    ExitCode::from(u8::try_from(exit).unwrap_or(1))
}

/// Its part of a conversation.
fn converse(entries: &[Value], stdout: &mut impl io::Write) {
    let mut told = io::stdin().lock().lines();
    for entry in entries {
        let text = match &entry["msg"] {
            Value::String(raw) => raw.clone(),
            message => message.to_string(),
        };
        match entry["dir"].as_str() {
            Some("in") => {
                let _ = writeln!(stdout, "{text}");
                let _ = stdout.flush();
            }
            Some("err") => {
                let _ = writeln!(io::stderr(), "{text}");
            }
            _ => {
                if told.next().is_none() {
                    return;
                }
            }
        }
    }
}
