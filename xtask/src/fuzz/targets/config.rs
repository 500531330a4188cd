//! The reader of `ostler.json`: it answers any text, every finding it places stands inside the text,
//! and a text without findings reads the same twice.

use super::{Target, holds};
use crate::fuzz::search::Try;

// The pure part of the binary's configuration.
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/check.rs"]
pub(super) mod check;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/command_line.rs"]
pub(super) mod command_line;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/expected.rs"]
pub(super) mod expected;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/log_level.rs"]
pub(super) mod log_level;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/mistaken.rs"]
pub(super) mod mistaken;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/nearest.rs"]
pub(super) mod nearest;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/placeholder.rs"]
pub(super) mod placeholder;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/read.rs"]
pub(super) mod read;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/resolve.rs"]
pub(super) mod resolve;
#[allow(dead_code, reason = "the product uses all of it")]
#[path = "../../../../crates/cli/src/config/show.rs"]
pub(super) mod show;

pub(super) use contract::config::{file, words};
pub(super) use resolve::Config;

pub const TARGET: Target = Target {
    name: "config",
    everyday: None,
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
        for finding in &reading.findings {
            let place = finding.at.or_else(|| reading.place(&finding.path));
            said_well(finding, place, &text)?;
        }
        Ok(())
    })
}

/// A finding says something, and stands inside the text.
pub(super) fn said_well(
    finding: &read::Finding,
    place: Option<(usize, usize)>,
    text: &str,
) -> Result<(), String> {
    let inside = |(line, column): (usize, usize)| {
        let found = line.checked_sub(1).and_then(|line| text.split('\n').nth(line));
        found.is_some_and(|found| (1..=found.len() + 1).contains(&column))
    };
    holds(place.is_none_or(inside), || format!("a finding outside: {finding:?}"))?;
    holds(!finding.message.is_empty(), || format!("nothing is said: {finding:?}"))
}
