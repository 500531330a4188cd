//! From a text to something to run: whatever is wrong is found and said, what `ostler config check`
//! has nothing against can be run or is said not to be built, what is shown of a configuration reads
//! again, and a command line comes apart into the words it was put together from.

use super::config::{self, Config, check, command_line, read, resolve, show};
use super::{Target, holds};
use crate::fuzz::search::Try;
use contract::Code;
use serde_json::Value;
use std::collections::BTreeMap;

pub const TARGET: Target = Target {
    name: "resolve",
    everyday: Some(1_000),
    seeds: || {
        let mut seeds = (config::TARGET.seeds)();
        seeds.extend([
            br#"{"adapters":{"p":{"type":"process","binary":"x","args":["--key=${K}","{{prompt}}"],
                "env":{"TOKEN":"t","U":"https://me:pw@host/x"},"timeoutSec":"unlimited"}},
                "agents":{"a":{"adapter":"p","promptTemplate":"{{task.title}}","cwd":"../w",
                "fallback":[{"agent":"b"},{"adapter":"demo"}]},"b":{"adapter":"demo"}}}"#
                .to_vec(),
            br#"{"adapters":{"h":{"type":"http","baseUrl":"http://h","protocol":"a2a",
                "auth":{"type":"bearer","tokenEnv":"T"}},"c":{"type":"cli","runtime":"demo"}},
                "server":{"leaseSec":0.001,"activity":"off"},"budgets":[{"window":"run","usd":1}],
                "mcpServers":{"m":{"command":"x","args":["y"]},"n":{"url":"https://h/mcp"}}}"#
                .to_vec(),
        ]);
        seeds
    },
    words: &[
        b"\"a\":{\"adapter\":\"p\"},",
        b"\"type\":\"cli\",",
        b"\"type\":\"acp\",",
        b"\"runtime\":\"demo\",",
        b"\"runtime\":\"nobody\",",
        b"\"args\":[\"{{prompt}}\"],",
        b"{{workspacePath}}",
        b"{{nobody}}",
        b"${K}",
        b"${",
        b"\"env\":{\"API_KEY\":\"x\"},",
        b"\"timeoutSec\":0,",
        b"\"minutes\":1e308,",
        b"\"usd\":-1,",
        b"'",
        b"\"",
        b"\\",
        b"|",
    ],
    make,
};

fn make() -> Try {
    let vars: BTreeMap<String, String> = [("K".to_owned(), "v".to_owned())].into();
    Box::new(move |input, _| {
        let text = String::from_utf8_lossy(input);
        words_come_back(&text)?;
        let findings = check::findings(&text, &vars);
        for finding in &findings {
            config::said_well(finding, finding.at, &text)?;
        }
        let (file, formed) = check::formed(&text);
        let wrong = |finding: &read::Finding| finding.level == read::Level::Error;
        let clean = !findings.iter().any(wrong);
        holds(!clean || !formed.iter().any(wrong), || "a load refuses what was checked".into())?;
        let config = Config { path: Some("/etc/ostler/ostler.json".into()), file };
        if !formed.iter().any(wrong) {
            shown_reads_again(&config)?;
        }
        let runtimes = runtimes::registry::ids();
        let names = config.file.agents.keys().chain(config.file.adapters.keys()).chain(runtimes);
        for name in names.map(String::as_str).chain([&*text]) {
            resolves(name, &config, clean)?;
        }
        Ok(())
    })
}

/// What is found wrong when something is run was found before, but for what is not built yet.
fn resolves(name: &str, config: &Config, clean: bool) -> Result<(), String> {
    match resolve::resolve(name, config) {
        Ok(resolved) => holds(resolved.agent == name, || format!("another agent: {resolved:?}")),
        Err(fault) => {
            let stranger =
                !config.file.agents.contains_key(name) && !config.file.adapters.contains_key(name);
            let told = !clean || stranger || fault.code == Code::NotSupported;
            holds(!fault.message.is_empty(), || format!("nothing is said of {name}"))?;
            holds(told, || format!("what was checked cannot be run: {name}: {}", fault.message))
        }
    }
}

fn shown_reads_again(config: &Config) -> Result<(), String> {
    let shown = show::show(config);
    let (file, findings) = check::formed(&shown.to_string());
    let wrong = findings.iter().find(|finding| finding.level == read::Level::Error);
    holds(wrong.is_none(), || format!("what is shown does not read again: {wrong:?} in {shown}"))?;
    let again = show::show(&Config { path: None, file });
    holds(alike(&again, &shown), || {
        format!("shown twice it is something else: {again} not {shown}")
    })
}

/// Numbers beyond the exactness of JSON's reader may lose their last digit.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if one.is_f64() => {
            let (one, other) = (one.as_f64().unwrap_or(0.0), other.as_f64().unwrap_or(0.0));
            (one - other).abs() <= one.abs() * 1e-12
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, one)| other.get(key).is_some_and(|other| alike(one, other)))
        }
        (one, other) => one == other,
    }
}

fn words_come_back(text: &str) -> Result<(), String> {
    let words: Vec<&str> = text.split('\n').take(8).collect();
    let quoted: Vec<String> =
        words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let split = command_line::split(&quoted.join(" "));
    holds(split.as_ref().is_ok_and(|split| *split == words), || format!("other words: {split:?}"))?;
    match command_line::split(text) {
        Ok(words) => holds(!words.is_empty(), || "no words, and no fault".to_owned()),
        Err(fault) => holds(fault.code == Code::Usage, || format!("another code: {fault:?}")),
    }
}
