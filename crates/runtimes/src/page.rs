//! The page of a runtime in `docs/runtimes`, made from its whole card: what `cargo xtask docs` writes and
//! `ostler runtimes NAME` prints. Markdown for people and for language models that choose and configure
//! agents.

use crate::registry;
use contract::Card;
use contract::card::{CardEvidence, Dollars, Mcp, ModelList, Retries, SystemPrompt, Told};
use contract::config::is_common_key;
use contract::plan::Lane;
use serde_json::Value;
use std::fmt::Write as _;

/// The page of a whole card (`catalogue::whole`).
pub fn of(card: &Card) -> String {
    let mut page = format!("# {} (`{}`)\n\n", card.label, card.id);
    head(card, &mut page);
    for (title, reasons) in [("Use when", &card.use_when), ("Do not use when", &card.dont_use_when)]
    {
        section(&mut page, title);
        reasons.lines().for_each(|line| page.push_str(&format!("- {line}\n")));
    }
    models(card, &mut page);
    abilities(card, &mut page);
    permissions(card, &mut page);
    keys(card, &mut page);
    example(card, &mut page);
    page
}

fn section(page: &mut String, title: &str) {
    // A `String` takes whatever is written to it.
    let _ = write!(page, "\n## {title}\n\n");
}

fn head(card: &Card, page: &mut String) {
    let evidence = match card.evidence {
        CardEvidence::Recorded if card.versions_recorded.is_empty() => "recorded".to_owned(),
        CardEvidence::Recorded => format!("recorded with {}", card.versions_recorded.join(", ")),
        CardEvidence::Documented => {
            "follows its documentation; not tested with the program".to_owned()
        }
    };
    let mut rows = vec![format!("- Evidence: {evidence}.")];
    for required in &card.requires {
        rows.push(format!(
            "- Program: `{}`. Install: `{}`.",
            required.binary, required.install_hint
        ));
    }
    rows.push(format!("- Lanes: {}.", words(card.lanes.iter().map(|lane| lane_word(*lane)))));
    rows.push(format!("- A run succeeds by: {}.", card.closing));
    if let Some(login) = &card.login {
        rows.push(format!("- Login: {}.", login.hint));
    }
    if !card.env.is_empty() {
        rows.push(format!("- Variables that it gets from your environment: {}.", coded(&card.env)));
    }
    page.push_str(&rows.join("\n"));
    page.push('\n');
}

fn models(card: &Card, page: &mut String) {
    section(page, "Models");
    page.push_str(&format!("Source: {}.\n\n", card.models_source.trim_end_matches('.')));
    let default = match &card.default_model {
        Some(model) => format!("`{model}`"),
        None => "none of its own that is known".to_owned(),
    };
    page.push_str(&format!("- Default: {default}.\n"));
    let window = match card.context_window {
        Some(tokens) => format!("{tokens} tokens"),
        None => "depends on the model, or is not known".to_owned(),
    };
    page.push_str(&format!("- Context window: {window}.\n"));
    let asked = match &card.model_list {
        Some(ModelList::Command { .. } | ModelList::Session | ModelList::Request { .. }) => {
            format!("`ostler runtimes {} --models` asks the program", card.id)
        }
        None => match registry::by_acp().iter().find(|laned| laned.runtime == card.id) {
            Some(laned) => {
                format!("`ostler runtimes {} --models` asks its ACP session", laned.known.id)
            }
            None => "the program does not list them".to_owned(),
        },
    };
    page.push_str(&format!("- Others: {asked}.\n"));
    if !card.models.is_empty() {
        page.push_str("\n| model | |\n|---|---|\n");
        for model in &card.models {
            page.push_str(&format!("| `{}` | {} |\n", model.id, cell(&model.label)));
        }
    }
}

fn abilities(card: &Card, page: &mut String) {
    section(page, "What it reports and can do");
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let when = |told: Told| match told {
        Told::PerAnswer => "with each answer",
        Told::AtTurnEnd => "when its turn ends",
        Told::ByAgent => "if the agent uses the place that the protocol has",
        Told::Never => "never",
    };
    let rows = [
        ("tokens", format!("{}, {}", yes(card.reports.tokens), when(card.reports.usage))),
        (
            "dollars",
            match card.reports.dollars {
                Dollars::None => "no: computed from the table of prices",
                Dollars::Shown => "shown, and computed from the table of prices",
                Dollars::Trusted => "yes, taken as the truth",
            }
            .to_owned(),
        ),
        ("quota of the account", yes(card.reports.quota)),
        ("activity while it works", yes(card.reports.activity)),
        ("resume a conversation", yes(card.can.resume)),
        ("take messages", yes(card.can.message)),
        ("interrupt a turn", yes(card.can.interrupt)),
        ("ask for permission", yes(card.can.permissions)),
        ("compact its own context", yes(card.can.compaction)),
        ("call the API of Ostler", yes(card.can.api)),
        (
            "system prompt",
            match card.can.system_prompt {
                Some(SystemPrompt::Flag) => "by a flag",
                Some(SystemPrompt::File) => "by a file",
                Some(SystemPrompt::Prepend) => "before the prompt",
                None => "no",
            }
            .to_owned(),
        ),
        (
            "tools of Ostler by MCP",
            match card.can.mcp {
                Mcp::Http => "over HTTP",
                Mcp::Stdio => "over standard input",
                Mcp::None => "no",
            }
            .to_owned(),
        ),
        (
            "retries when its provider limits it",
            match card.retries {
                Retries::Bounded => "a bounded number",
                Retries::Unbounded => "without a bound",
                Retries::Silent => "without telling",
            }
            .to_owned(),
        ),
    ];
    page.push_str("| | |\n|---|---|\n");
    for (what, how) in rows {
        page.push_str(&format!("| {what} | {how} |\n"));
    }
}

fn permissions(card: &Card, page: &mut String) {
    section(page, "Permissions");
    page.push_str("| policy | lane | flags | note |\n|---|---|---|---|\n");
    for row in &card.policies {
        let flags = match &row.flags {
            None => "not possible".to_owned(),
            Some(flags) if flags.is_empty() => "none needed".to_owned(),
            Some(flags) => format!("`{}`", cell(&flags.join(" "))),
        };
        let note = cell(row.note.as_deref().unwrap_or_default());
        let (policy, lane) = (row.policy.word(), lane_word(row.lane));
        page.push_str(&format!("| {policy} | {lane} | {flags} | {note} |\n"));
    }
    let is_dangerous = |flags: &&Vec<String>| !flags.is_empty();
    let all = card.policies.iter().filter(|row| row.policy == contract::Policy::AllowAll);
    let mut dangerous: Vec<String> = all
        .filter_map(|row| row.flags.as_ref())
        .filter(is_dangerous)
        .map(|flags| format!("`{}`", flags.join(" ")))
        .collect();
    dangerous.dedup();
    page.push_str("\nDangerous: under `allow-all` changes are made without asking");
    match dangerous.is_empty() {
        true => page.push_str("; it needs no flag for that.\n"),
        false => page.push_str(&format!("; the flags for that are {}.\n", dangerous.join(", "))),
    }
}

fn keys(card: &Card, page: &mut String) {
    section(page, "Keys of its adapter");
    page.push_str(
        "Under `adapters.<name>` in `ostler.json`. A key without a default may be left out.\n",
    );
    for (title, is_listed) in [("Its own", false), ("Common to all adapters", true)] {
        page.push_str(&format!(
            "\n{title}:\n\n| key | takes | default | meaning |\n|---|---|---|---|\n"
        ));
        for (name, schema) in &card.config_schema {
            if is_common_key(name) != is_listed {
                continue;
            }
            let default =
                schema.get("default").map(|value| format!("`{}`", cell(&value.to_string())));
            let default = default.unwrap_or_default();
            let says = cell(schema["description"].as_str().unwrap_or_default());
            page.push_str(&format!("| `{name}` | {} | {default} | {says} |\n", takes(schema)));
        }
    }
}

fn example(card: &Card, page: &mut String) {
    section(page, "Example");
    let (kind, id) = (card.kind().word(), &card.id);
    page.push_str("```json\n");
    let own: String = match (card.kind(), card.requires.first()) {
        (contract::config::words::AdapterType::Cli, _) => format!("\"runtime\": \"{id}\""),
        (contract::config::words::AdapterType::Http, _) => {
            "\"baseUrl\": \"https://agents.example.com\", \"auth\": { \"type\": \"bearer\", \"tokenFile\": \"remote.token\" }".to_owned()
        }
        (_, Some(required)) => format!("\"binary\": \"{}\"", required.binary),
        (_, None) => "\"binary\": \"my-agent\"".to_owned(),
    };
    page.push_str(&format!(
        "{{ \"adapters\": {{ \"mine\": {{ \"type\": \"{kind}\", {own} }} }} }}\n```\n"
    ));
}

/// The values that a key takes, in words.
fn takes(schema: &Value) -> String {
    if let Some(only) = schema.get("const") {
        return format!("`{}`", cell(&only.to_string()));
    }
    if let Some(choices) = schema["enum"].as_array() {
        let all: Vec<_> =
            choices.iter().map(|one| format!("`{}`", cell(&one.to_string()))).collect();
        return all.join(", ");
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[several].as_array() {
            let all: Vec<_> = choices.iter().map(takes).collect();
            return all.join(" or ");
        }
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", takes(&schema["items"])),
        Some("object") => "object".to_owned(),
        Some("string") if schema.get("pattern").is_some() => {
            "duration such as `\"10m\"`".to_owned()
        }
        Some("integer") => "whole number".to_owned(),
        Some("boolean") => "`true`, `false`".to_owned(),
        Some(other) => other.to_owned(),
        None => "any".to_owned(),
    }
}

const fn lane_word(lane: Lane) -> &'static str {
    match lane {
        Lane::Native => "native",
        Lane::Acp => "acp",
        Lane::Process => "process",
        Lane::Http => "http",
    }
}

fn words<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.collect::<Vec<_>>().join(", ")
}

fn coded(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A text that keeps a row of a table whole.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use crate::catalogue;

    #[test]
    fn a_page_has_everything_to_configure_its_runtime() {
        for card in catalogue::runtimes() {
            let page = super::of(&catalogue::whole(card.clone()));
            for section in [
                "Use when",
                "Do not use when",
                "Models",
                "Permissions",
                "Keys of its adapter",
                "Example",
            ] {
                assert!(page.contains(&format!("\n## {section}\n")), "{}: {section}", card.id);
            }
            assert!(page.contains("| `timeoutSec` |") && page.contains("`7200`"), "{page}");
            assert!(page.contains("| allow-all |"), "{}", card.id);
        }
    }
}
