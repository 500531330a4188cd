//! Mistakes that people make in good faith, with the line that they meant: an agent that Ostler knows
//! configured as one that speaks JSON lines, a runtime's name in `type`, a whole command line in one
//! key. Pure: `check.rs` and `read.rs` say where each stands.

use super::command_line;
use super::file::{Adapter, Agent};
use super::nearest::nearest;
use super::resolve::HTTP_RUNTIME;
use super::words::AdapterType;
use contract::Card;
use runtimes::{acp, registry};

/// Says what is wrong with an adapter of type process whose program is an agent that Ostler drives by
/// its own runtime or by ACP, and which does not speak JSON lines: the message and the hint. `name` is
/// that of the adapter in the file; an adapter of the command line has none.
pub fn process_of_a_runtime(name: Option<&str>, binary: &str) -> Option<(String, String)> {
    let (id, label, adapter) = match registry::by_binary(binary) {
        Some(runtime) => {
            let Card { id, label, .. } = runtime.card();
            let adapter = format!("\"type\": \"cli\", \"runtime\": \"{id}\"");
            (id, label, adapter)
        }
        None => {
            let known = acp::cards::by_binary(binary)?;
            let adapter =
                format!("\"type\": \"acp\", \"binary\": {binary:?}{}", args_key(known.args));
            (known.id.to_owned(), known.label.to_owned(), adapter)
        }
    };
    let message = format!("{label} does not speak the JSON lines of type process");
    let hint = name.map_or(format!("use `ostler run {id}`"), |name| {
        let line = format!("\"{name}\": {{ {adapter} }}");
        match name == id {
            true => {
                format!("use `ostler run {id}` without an adapter of this name, or write {line}")
            }
            false => format!("use `ostler run {id}`, or write {line}"),
        }
    });
    Some((message, hint))
}

/// Says what is wrong with an adapter of type acp whose program speaks ACP only through another one.
pub fn acp_of_a_bridge(binary: &str) -> Option<(String, String)> {
    if acp::cards::by_binary(binary).is_some() {
        return None;
    }
    let Card { id, label, .. } = registry::by_binary(binary)?.card();
    let bridge = &registry::by_acp().iter().find(|laned| laned.runtime == id)?.known;
    let message = format!("{label} speaks ACP only through {}", bridge.binary);
    let hint = format!("use `ostler run {}`, or write \"binary\": {:?}", bridge.id, bridge.binary);
    Some((message, hint))
}

/// The same two for an adapter that is about to be run, or has just failed. `in_file` tells whether it
/// is one of the configuration.
pub fn of_adapter(adapter: &contract::plan::Adapter, in_file: bool) -> Option<(String, String)> {
    let binary = adapter.binary.as_deref()?;
    match AdapterType::ALL.into_iter().find(|kind| kind.word() == adapter.runtime)? {
        AdapterType::Process => {
            process_of_a_runtime(in_file.then_some(adapter.name.as_str()), binary)
        }
        AdapterType::Acp => acp_of_a_bridge(binary),
        AdapterType::Cli | AdapterType::Http => None,
    }
}

/// The type to write in place of a `runtime` that is a way to drive agents and no agent.
pub fn type_of_runtime(runtime: &str) -> Option<AdapterType> {
    AdapterType::ALL
        .into_iter()
        .find(|kind| kind.word() == runtime)
        .or_else(|| (runtime == HTTP_RUNTIME).then_some(AdapterType::Http))
        .filter(|_| registry::find(runtime).is_some())
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
