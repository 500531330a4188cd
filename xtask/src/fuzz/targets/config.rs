//! The reader of `ostler.json`: it answers any text, every finding it places stands inside the text,
//! and a text without findings reads the same twice.

use super::{Target, holds};
use crate::fuzz::search::Try;

// The pure part of the binary's configuration.
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/expected.rs"]
mod expected;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/file.rs"]
mod file;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/nearest.rs"]
mod nearest;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/read.rs"]
mod read;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/words.rs"]
mod words;

pub const TARGET: Target = Target {
    name: "config",
    seeds: || {
        vec![
            include_bytes!("../../../../crates/cli/src/config/init.jsonc").to_vec(),
            br#"{"agents":{"a":{"adapter":"demo","budgets":[{"window":"run","usd":0.5}]}}}"#.into(),
            br#"{"adapters":{"p":{"type":"process","cliPath":"x","args":["{{prompt}}"],
                "commandTimeoutMs":1000,"env":{"K":"${K}"}}}} // end"#
                .into(),
            Vec::new(),
        ]
    },
    words: &[
        b"\"agents\":{",
        b"\"adapters\":{",
        b"\"mcpServers\":{",
        b"\"budgets\":[{",
        b"\"window\":\"day\"",
        b"\"permission\":",
        b"\"timeoutSec\":",
        b"\"cliPath\":",
        b"\"commandTimeoutMs\":1e308",
        b"\"fallback\":[",
        b"/*",
        b"*/",
        b"//",
        b"\n",
        b",",
    ],
    make,
};

fn make() -> Try {
    Box::new(|input, _| {
        let text = String::from_utf8_lossy(input);
        let reading = read::read(&text);
        let lines = text.split('\n').count();
        let longest = text.split('\n').map(str::len).max().unwrap_or(0);
        for finding in &reading.findings {
            let inside = |(line, column): (usize, usize)| {
                (1..=lines).contains(&line) && (1..=longest + 1).contains(&column)
            };
            let place = finding.at.or_else(|| reading.place(&finding.path));
            holds(place.is_none_or(inside), || format!("a finding outside: {finding:?}"))?;
            holds(!finding.message.is_empty(), || format!("nothing is said: {finding:?}"))?;
        }
        Ok(())
    })
}
