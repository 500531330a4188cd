//! `docs/contract.md`: events, states, commands, faults, limits and cards as tables, made from the
//! crate that defines them. Prose that explains why lives elsewhere; this page says what is.

use super::schema::{Field, Schema, meaning, reference};
use contract::event::Body;
use contract::fault::Retry;
use contract::{Code, RunState, TaskState, limits};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The whole page.
pub fn page() -> String {
    let mut schema = Schema::new(contract::schema::document());
    let mut out = String::from(
        "<!-- Made from crates/contract by `cargo xtask docs`. Change the source, not this page. -->\n\n\
         # The contract\n\n\
         What Ostler stores, sends and promises, in one vocabulary for every agent.\n\
         Changes are additive: a field or kind that is here stays, and readers pass over what they do not know.\n\n\
         [Events](#events) · [Shapes](#shapes) · [States](#states) · [Commands](#commands) · \
         [Faults](#faults) · [Limits](#limits) · [Cards](#cards) · [Adapters](#adapters)\n\n",
    );
    events(&mut out, &mut schema);
    let shown = shapes(&mut out, &mut schema);
    states(&mut out, &schema);
    commands(&mut out, &mut schema);
    faults(&mut out);
    limits_table(&mut out);
    described(&mut out, &mut schema, "Cards", "card", CARDS);
    described(&mut out, &mut schema, "Adapters", "adapter", ADAPTERS);
    described(&mut out, &mut schema, "Launch plans", "launch_plan", PLANS);
    more_shapes(&mut out, &mut schema, shown);
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

const CARDS: &str =
    "What a runtime is and can do, as data. What it cannot do is absent from its card.";
const ADAPTERS: &str =
    "A configured runtime, resolved: what a client hands to the host with a run.";
const PLANS: &str = "How an attempt will be launched, as data. Its sealed form is stored before \
                     anything is started.";

fn events(out: &mut String, schema: &mut Schema) {
    let event = schema.shape("event");
    let mut paragraph = |text: &str| line(out, text);
    paragraph("## Events\n");
    paragraph(
        "An event is one flat JSON object: the envelope, then the fields of its kind. \
         `run_id` and `seq` together are its id. No kind uses a name of the envelope.\n\
         A text that is too long becomes a preview with `truncated`, and `<field>_blob` names the \
         blob with the whole.\n",
    );
    paragraph("### The envelope\n");
    fields_table(out, &schema.fields(&event));
    line(out, "### The kinds\n");
    line(out, "A name with `?` may be absent.\n");
    line(out, "| kind | fields | meaning |\n|---|---|---|");
    let variants = event["oneOf"].as_array().cloned().unwrap_or_default();
    for (kind, variant) in Body::KINDS.iter().zip(variants) {
        let definition = schema.definition(&reference(&variant).unwrap_or_default());
        let fields: Vec<String> = schema.fields(&definition).iter().map(Field::inline).collect();
        line(out, &format!("| `{kind}` | {} | {} |", fields.join("; "), meaning(&definition)));
    }
    line(out, "");
}

/// The shapes that events refer to, and those that they refer to in turn.
fn shapes(out: &mut String, schema: &mut Schema) -> BTreeSet<String> {
    line(out, "## Shapes\n");
    let mut shown = BTreeSet::new();
    show_linked(out, schema, &mut shown);
    shown
}

fn more_shapes(out: &mut String, schema: &mut Schema, mut shown: BTreeSet<String>) {
    line(out, "## Shapes of cards, adapters and plans\n");
    show_linked(out, schema, &mut shown);
}

fn show_linked(out: &mut String, schema: &mut Schema, shown: &mut BTreeSet<String>) {
    loop {
        let new: Vec<String> =
            schema.take_linked().into_iter().filter(|name| shown.insert(name.clone())).collect();
        if new.is_empty() {
            return;
        }
        for name in new {
            let definition = schema.definition(&name);
            line(out, &format!("### {name}\n"));
            if !meaning(&definition).is_empty() {
                line(out, &format!("{}\n", meaning(&definition)));
            }
            match definition["oneOf"].as_array() {
                Some(choices) => one_of(out, schema, choices),
                None => fields_table(out, &schema.fields(&definition)),
            }
        }
    }
}

fn one_of(out: &mut String, schema: &mut Schema, choices: &[Value]) {
    for choice in choices {
        let fields: Vec<String> = schema.fields(choice).iter().map(Field::inline).collect();
        let words = if fields.is_empty() { schema.words(choice) } else { fields.join("; ") };
        let meaning = meaning(choice);
        let dash = if meaning.is_empty() { "" } else { ": " };
        line(out, &format!("- {words}{dash}{meaning}"));
    }
    line(out, "");
}

fn states(out: &mut String, schema: &Schema) {
    line(out, "## States\n");
    let words = |words: Vec<&str>| {
        words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    };
    let tasks = words(TaskState::ALL.iter().map(|state| state.word()).collect());
    line(out, &format!("**Task:** {tasks}. {}\n", meaning(&schema.shape("task_state"))));
    line(out, "**Run:** a run only moves forward, and ends once.\n");
    line(out, "| from | to |\n|---|---|");
    for state in RunState::ALL {
        let next = RunState::ALL.iter().filter(|next| state.may_become(**next));
        let next = words(next.map(|next| next.word()).collect());
        let next = if next.is_empty() { "nothing else".to_owned() } else { next };
        line(out, &format!("| `{}` | {next} |", state.word()));
    }
    line(out, "");
}

fn commands(out: &mut String, schema: &mut Schema) {
    line(out, "## Commands\n");
    let command = schema.shape("command");
    line(
        out,
        "A command waits in the run's durable inbox and is taken exactly once. \
         *Interrupt* a turn, *stop* a run, *cancel* a task.\n",
    );
    line(out, "| command | fields | meaning |\n|---|---|---|");
    for wish in command["oneOf"].as_array().cloned().unwrap_or_default() {
        let name = wish["properties"]["wish"]["const"].as_str().unwrap_or_default();
        let fields = schema.fields(&wish);
        let fields: Vec<String> =
            fields.iter().filter(|field| field.name != "wish").map(Field::inline).collect();
        line(out, &format!("| `{name}` | {} | {} |", fields.join("; "), meaning(&wish)));
    }
    line(out, "");
}

fn faults(out: &mut String) {
    line(out, "## Faults\n");
    line(
        out,
        "One table decides exit status, HTTP status, retry and wording, on the command line and \
         over HTTP alike.\nThe words of `code` are stable.\n",
    );
    line(
        out,
        "| exit | HTTP | code | again? | what it says | what to do |\n|---|---|---|---|---|---|",
    );
    for code in Code::ALL {
        let row = code.row();
        line(
            out,
            &format!(
                "| {} | {} | `{}` | {} | {} | {} |",
                row.exit,
                row.http,
                row.word,
                again(row.retry),
                row.message.replace('|', "\\|"),
                row.hint.replace('|', "\\|"),
            ),
        );
    }
    line(out, "");
}

fn again(retry: Retry) -> &'static str {
    match retry {
        Retry::No => "no",
        Retry::Once => "once",
        Retry::Backoff => "after 2 min, 10 min, 30 min, 2 h",
        Retry::AtReset => "when the quota resets",
        Retry::Resume => "by going on, at most twice",
        Retry::Requeue => "as another run",
        Retry::AfterFix => "after a fix",
        Retry::Person => "when a person says so",
    }
}

fn limits_table(out: &mut String) {
    line(out, "## Limits\n");
    line(out, "Reaching a limit is an event or back-pressure, never silence.\n");
    line(out, "| name | value | meaning |\n|---|---|---|");
    for (name, value, meaning) in limits::ALL {
        let name = name.to_lowercase();
        line(out, &format!("| `{name}` | {} | {} |", amount(&name, *value), meaning.trim()));
    }
    line(out, "");
}

/// A limit with the unit that its name says.
fn amount(name: &str, value: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("h", 3_600_000), ("min", 60_000), ("s", 1_000)];
    const SIZES: [(&str, u64); 2] = [("MiB", 1024 * 1024), ("KiB", 1024)];
    let (units, smallest): (&[(&str, u64)], &str) = if name.ends_with("_ms") {
        (&UNITS, " ms")
    } else if name.contains("_bytes") {
        (&SIZES, " bytes")
    } else if name.ends_with("_percent") {
        (&[], " %")
    } else {
        (&[], "")
    };
    match units.iter().find(|(_, size)| value >= *size && value.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{} {unit}", value / size),
        None => format!("{value}{smallest}"),
    }
}

fn described(out: &mut String, schema: &mut Schema, title: &str, name: &str, words: &str) {
    line(out, &format!("## {title}\n\n{words}\n"));
    let shape = schema.shape(name);
    fields_table(out, &schema.fields(&shape));
}

fn fields_table(out: &mut String, fields: &[Field]) {
    let explained = fields.iter().any(|field| !field.meaning.is_empty());
    line(
        out,
        if explained {
            "| field | type | meaning |\n|---|---|---|"
        } else {
            "| field | type |\n|---|---|"
        },
    );
    for field in fields {
        let mark = if field.always { "" } else { "?" };
        let meaning = if explained { format!(" {} |", field.meaning) } else { String::new() };
        line(out, &format!("| `{}{mark}` | {} |{meaning}", field.name, field.words));
    }
    line(out, "");
}

fn line(out: &mut String, text: &str) {
    // An empty cell leaves two spaces behind; one reads better.
    let _ = writeln!(out, "{}", text.replace("|  |", "| |"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_code_and_limit_is_on_the_page() {
        let page = page();
        for kind in Body::KINDS {
            assert!(page.contains(&format!("| `{kind}` | `")), "{kind}");
        }
        for code in Code::ALL {
            assert!(page.contains(&format!("| `{code}` |")), "{code}");
        }
        for (name, _, _) in limits::ALL {
            assert!(page.contains(&format!("| `{}` |", name.to_lowercase())), "{name}");
        }
    }

    #[test]
    fn every_link_of_the_page_leads_to_a_heading() {
        let page = page();
        for link in page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
            let heading = |text: &str| {
                text.trim_start_matches('#').trim().to_lowercase().replace(' ', "-") == link
            };
            assert!(page.lines().any(|line| line.starts_with('#') && heading(line)), "{link}");
        }
    }

    #[test]
    fn limits_are_said_with_their_units() {
        for (name, value, words) in [
            ("wall_ms", 7_200_000, "2 h"),
            ("drain_ms", 200, "200 ms"),
            ("line_bytes_max", 64 << 20, "64 MiB"),
            ("secret_bytes_min", 6, "6 bytes"),
            ("lease_renew_percent", 60, "60 %"),
            ("inbox_max", 256, "256"),
        ] {
            assert_eq!(amount(name, value), words);
        }
    }
}
