//! Mistakes that people make in good faith, with the line that they meant: an agent that Ostler knows
//! configured as one that speaks JSON lines, a runtime's name in `type`, a whole command line in one
//! key, a time with its unit. Pure: `check.rs` and `read.rs` say where each stands.

use super::command_line;
use super::file::{Adapter, Agent};
use super::nearest::nearest;
use super::words::AdapterType;
use contract::Card;
use runtimes::{acp, registry};

/// Says what is wrong with an adapter of type process whose program is an agent that Ostler drives by
/// its own runtime or by ACP, and which does not speak JSON lines: the message and the hint.
pub fn process_of_a_runtime(name: &str, binary: &str) -> Option<(String, String)> {
    let (id, label, adapter) = match registry::by_binary(binary) {
        Some(runtime) => {
            let Card { id, label, .. } = runtime.card();
            let adapter = format!("\"type\": \"cli\", \"runtime\": \"{id}\"");
            (id, label, adapter)
        }
        None => {
            let program = binary.rsplit('/').next().unwrap_or_default();
            let known = acp::cards::all().find(|known| known.binary == program)?;
            let adapter =
                format!("\"type\": \"acp\", \"binary\": {binary:?}{}", args_key(known.args));
            (known.id.to_owned(), known.label.to_owned(), adapter)
        }
    };
    let message = format!("{label} does not speak the JSON lines of type process");
    let line = format!("\"{name}\": {{ {adapter} }}");
    let hint = match name == id {
        true => format!("use `ostler run {id}` without an adapter of this name, or write {line}"),
        false => format!("use `ostler run {id}`, or write {line}"),
    };
    Some((message, hint))
}

/// The same for an adapter that is about to be run, or has just failed.
pub fn of_adapter(adapter: &contract::plan::Adapter) -> Option<(String, String)> {
    let is_process = adapter.runtime == AdapterType::Process.word();
    let binary = adapter.binary.as_deref().filter(|_| is_process)?;
    process_of_a_runtime(&adapter.name, binary)
}

/// The hint for a runtime that does not exist.
pub fn runtime_hint(given: &str) -> String {
    let ids = installable();
    let near = nearest(given, ids.iter().map(String::as_str));
    match near.first() {
        Some(id) => format!("did you mean \"{id}\"?"),
        None => format!("the runtimes are {}", ids.join(", ")),
    }
}

/// The hint for a `type` that is the name of a runtime.
pub fn type_hint(given: &str) -> Option<String> {
    let ids = installable();
    let id = *nearest(given, ids.iter().map(String::as_str)).first()?;
    let label = registry::find(id)?.card().label;
    Some(format!("for {label} write \"type\": \"cli\", \"runtime\": \"{id}\""))
}

/// The hint for `command`, which other programs have in place of `binary` and `args`.
pub fn command_hint(key: &str, value: Option<&str>) -> Option<String> {
    if !matches!(key, "command" | "cmd" | "exec" | "program") {
        return None;
    }
    let words = value.and_then(|value| command_line::split(value).ok()).unwrap_or_default();
    let Some((binary, args)) = words.split_first() else {
        return Some("did you mean \"binary\" and \"args\"?".to_owned());
    };
    Some(format!("did you mean \"binary\": {binary:?}{}?", args_key(args)))
}

/// The hint for a `binary` that holds arguments too, such as `gemini --acp`.
pub fn words_in_binary(binary: &str) -> Option<String> {
    let has_words = binary.contains(" -") || (binary.contains(' ') && !binary.contains('/'));
    has_words.then(|| command_hint("command", Some(binary))).flatten()
}

/// `args` as it stands in the file, behind the key before it.
fn args_key(args: &[impl std::fmt::Debug]) -> String {
    let args: Vec<String> = args.iter().map(|arg| format!("{arg:?}")).collect();
    match args.is_empty() {
        true => String::new(),
        false => format!(", \"args\": [{}]", args.join(", ")),
    }
}

/// The hint for a time that is written with its unit where seconds are wanted.
pub fn seconds_hint(path: &str, given: &str) -> Option<String> {
    if !path.ends_with("Sec") {
        return None;
    }
    let given = given.trim().to_ascii_lowercase();
    let digits = given.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(given.len());
    let (number, unit) = given.split_at(digits);
    let unit_seconds = match unit.trim() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * unit_seconds;
    Some(format!("write {seconds}, without quotes: it is a number of seconds"))
}

/// The built-in runtime that an agent of the file hides although it runs something else.
pub fn hidden_by_agent<'n>(name: &'n str, agent: &Agent) -> Option<&'n str> {
    (is_built_in(name) && agent.adapter != name).then_some(name)
}

/// The built-in runtime that an adapter hides although it runs something else.
pub fn hidden_by_adapter<'n>(name: &'n str, adapter: &Adapter) -> Option<&'n str> {
    if !is_built_in(name) {
        return None;
    }
    let is_the_same = match adapter.kind {
        AdapterType::Cli => {
            adapter.mapping.is_none() && adapter.runtime.as_deref().is_none_or(|id| id == name)
        }
        // The same program, driven in another way.
        AdapterType::Process | AdapterType::Acp => {
            let binary = adapter.binary.as_deref().unwrap_or_default();
            registry::by_binary(binary).is_some_and(|runtime| runtime.card().id == name)
        }
        AdapterType::Http => false,
    };
    (!is_the_same).then_some(name)
}

/// Whether `ostler run NAME` runs a runtime when the file says nothing.
fn is_built_in(name: &str) -> bool {
    let is_a_lane = |card: Card| card.requires.is_empty() && card.id != "demo";
    registry::find(name).is_some_and(|runtime| !is_a_lane(runtime.card()))
}

/// The ids of the runtimes that are agents, not ways to drive one.
fn installable() -> Vec<String> {
    registry::ids().iter().filter(|id| is_built_in(id)).cloned().collect()
}
