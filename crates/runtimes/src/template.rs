//! Fills in placeholders: `{{dotted.path}}` from the run's context and `${NAME}` from the caller's
//! environment. Strict on purpose: no loops, no filters, and a placeholder without a value is a
//! fault with a suggestion, never an empty string. What is filled in is never looked at again, so a
//! prompt that contains `{{x}}` stays as it is. The environment itself is read elsewhere:
//! `references` says which names are needed.

use contract::mapping::Mapping;
use contract::plan::Adapter;
use contract::{Code, Fault};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The placeholders that are one word.
pub const FLAT_NAMES: &[&str] = &[
    "workspacePath",
    "leaseToken",
    "fencingToken",
    "taskId",
    "runId",
    "mcpUrl",
    "agentId",
    "companyId",
    "prompt",
    "systemPrompt",
    "model",
];

/// The placeholders that have a dotted path.
pub const ROOTS: &[&str] = &["company", "agent", "run", "task", "context"];

/// The root whose names are whatever a caller hands over: a name that is not there is empty.
const CONTEXT: &str = "context";
/// What every run has below that root.
const CONTEXT_FILLED: &[&str] = &["taskId", "wakeReason", "linkedTaskIds"];

/// Whether a placeholder is empty in some runs.
pub fn can_be_empty(path: &str) -> bool {
    let mut names = path.split('.');
    names.next() == Some(CONTEXT)
        && names.next().is_some_and(|name| !CONTEXT_FILLED.contains(&name))
}

/// What `{{…}}` can name. A name that is known but has no value in this run is simply not set.
/// It holds the lease token, so it has no `Debug`.
#[derive(Clone, Default)]
pub struct Context {
    values: Map<String, Value>,
}

impl Context {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a flat name, or a root with its tree.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// Sets a name only when there is something to set.
    pub fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) -> &mut Self {
        if let Some(value) = value {
            self.set(name, value);
        }
        self
    }

    /// The value at a dotted path, as text. `Err` holds the names that exist where the path left.
    fn find(&self, path: &str) -> Result<String, BTreeSet<String>> {
        let mut names = path.split('.');
        let first = names.next().unwrap_or_default();
        let known = || FLAT_NAMES.iter().chain(ROOTS).map(|name| (*name).to_owned());
        let mut value = self
            .values
            .get(first)
            .ok_or_else(|| known().chain(self.values.keys().cloned()).collect::<BTreeSet<_>>())?;
        let mut walked = first.to_owned();
        for name in names {
            let here = value.as_object();
            if first == CONTEXT && here.is_none_or(|here| !here.contains_key(name)) {
                return Ok(String::new());
            }
            value = here.and_then(|here| here.get(name)).ok_or_else(|| {
                let siblings = here.into_iter().flat_map(Map::keys);
                siblings.map(|sibling| format!("{walked}.{sibling}")).collect::<BTreeSet<_>>()
            })?;
            walked = format!("{walked}.{name}");
        }
        match value {
            Value::Null if first == CONTEXT => Ok(String::new()),
            Value::Null => Err(BTreeSet::new()),
            Value::String(text) => Ok(text.clone()),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Ok(value.to_string())
            }
        }
    }
}

/// A piece of a template.
enum Piece<'a> {
    Literal(&'a str),
    /// `{{path}}`, trimmed.
    Path(&'a str),
    /// `${NAME}`.
    Variable(&'a str),
    /// A placeholder that is not closed, or closed around something that cannot be a name.
    Broken(&'a str),
}

/// Fills in `args` and `env`: both kinds of placeholder. `key` names the place for the fault.
pub fn fill(
    template: &str,
    key: &str,
    context: &Context,
    caller_env: &BTreeMap<String, String>,
) -> Result<String, Fault> {
    render(template, key, context, Some(caller_env))
}

/// Fills in a prompt template: a `${` stays as it stands, because a prompt is shown and stored.
/// A model reads it too, so the lease token is refused there.
pub fn fill_prompt(template: &str, key: &str, context: &Context) -> Result<String, Fault> {
    if let Some(path) = paths_in(template).iter().find(|path| is_lease_token(path)) {
        let message = format!("{key}: {{{{{path}}}}} would show a secret to the model");
        let hint = "give it to the agent's program by the adapter's `env` instead";
        return Err(Fault::new(Code::InvalidConfig, message).with_hint(hint));
    }
    render(template, key, context, None)
}

/// Whether a placeholder is the run's own token.
pub fn is_lease_token(path: &str) -> bool {
    path.split('.').any(|part| part.trim() == "leaseToken")
}

/// Every `${NAME}` in the arguments and `env` of an adapter, its mapping and its MCP servers: the
/// values a caller must send, and which the seal must know.
pub fn references(adapter: &Adapter) -> BTreeSet<String> {
    let servers = adapter.mcp_servers.values();
    let of_servers = servers.flat_map(|server| {
        server.args.iter().chain(server.env.values()).chain(server.headers.values())
    });
    let of_mapping = adapter.mapping.iter().flat_map(Mapping::templates).map(|(_, text)| text);
    let templates = adapter.args.iter().chain(&adapter.extra_args).chain(adapter.env.values());
    templates
        .chain(of_servers)
        .chain(of_mapping)
        .flat_map(|template| Pieces { rest: template, variables: true })
        .filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.to_owned()),
            Piece::Literal(_) | Piece::Path(_) | Piece::Broken(_) => None,
        })
        .collect()
}

/// Every `{{path}}` in an adapter's `args`: what doctor looks through for values that do not
/// belong on a command line.
pub fn paths_in_args(adapter: &Adapter) -> BTreeSet<String> {
    adapter.args.iter().flat_map(|template| paths_in(template)).collect()
}

/// Every `{{path}}` in a text.
pub(crate) fn paths_in(template: &str) -> BTreeSet<String> {
    let pieces = Pieces { rest: template, variables: true };
    pieces
        .filter_map(|piece| match piece {
            Piece::Path(path) => Some(path.to_owned()),
            Piece::Literal(_) | Piece::Variable(_) | Piece::Broken(_) => None,
        })
        .collect()
}

fn render(
    template: &str,
    key: &str,
    context: &Context,
    caller_env: Option<&BTreeMap<String, String>>,
) -> Result<String, Fault> {
    let mut filled = String::with_capacity(template.len());
    for piece in (Pieces { rest: template, variables: caller_env.is_some() }) {
        match piece {
            Piece::Literal(text) => filled.push_str(text),
            Piece::Path(path) => match context.find(path) {
                Ok(value) => filled.push_str(&value),
                Err(names) => return Err(unknown(key, path, &names)),
            },
            Piece::Variable(name) => {
                let value = caller_env.and_then(|caller_env| caller_env.get(name));
                filled.push_str(value.ok_or_else(|| unset(key, name))?);
            }
            Piece::Broken(text) => return Err(broken(key, text)),
        }
    }
    Ok(filled)
}

/// Walks over a template from left to right.
struct Pieces<'a> {
    rest: &'a str,
    /// Whether `${` begins a placeholder here.
    variables: bool,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let rest = self.rest;
        if rest.is_empty() {
            return None;
        }
        let (piece, length) = if let Some(inside) = rest.strip_prefix("{{") {
            closed(rest, inside, "}}", |path| Piece::Path(path.trim()), is_path)
        } else if let Some(inside) = rest.strip_prefix("${").filter(|_| self.variables) {
            closed(rest, inside, "}", Piece::Variable, is_variable)
        } else {
            let marks = if self.variables { &["{{", "${"][..] } else { &["{{"] };
            let next = marks.iter().filter_map(|mark| rest.find(mark)).min();
            let length = next.unwrap_or(rest.len());
            (Piece::Literal(&rest[..length]), length)
        };
        self.rest = &rest[length..];
        Some(piece)
    }
}

/// The placeholder at the head of `rest`, whose inside begins after two bytes, and its length.
fn closed<'a>(
    rest: &'a str,
    inside: &'a str,
    mark: &str,
    make: impl Fn(&'a str) -> Piece<'a>,
    is_name: impl Fn(&str) -> bool,
) -> (Piece<'a>, usize) {
    match inside.find(mark) {
        Some(end) => {
            let length = 2 + end + mark.len();
            let name = &inside[..end];
            if is_name(name) {
                (make(name), length)
            } else {
                (Piece::Broken(&rest[..length]), length)
            }
        }
        None => (Piece::Broken(rest), rest.len()),
    }
}

fn is_path(text: &str) -> bool {
    text.trim().split('.').all(|name| {
        !name.is_empty()
            && name.chars().all(|letter| letter.is_alphanumeric() || "_-".contains(letter))
    })
}

fn is_variable(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn unknown(key: &str, path: &str, names: &BTreeSet<String>) -> Fault {
    if FLAT_NAMES.contains(&path) || ROOTS.contains(&path) {
        let message = format!("{key}: the placeholder '{{{{{path}}}}}' has no value in this run");
        return Fault::new(Code::UnknownPlaceholder, message);
    }
    let message = format!("{key}: the placeholder '{{{{{path}}}}}' is not known");
    let fault = Fault::new(Code::UnknownPlaceholder, message);
    match closest(path, names.iter().map(String::as_str)) {
        Some(name) => fault.with_hint(format!("did you mean '{{{{{name}}}}}'?")),
        None => fault,
    }
}

fn unset(key: &str, name: &str) -> Fault {
    let message = format!("{key}: the variable {name} is not set");
    Fault::new(Code::InvalidConfig, message).with_hint(not_set_hint(name))
}

/// The hint for a variable that the configuration uses and that is not set.
pub fn not_set_hint(name: &str) -> String {
    format!("export {name} before you run the agent")
}

fn broken(key: &str, text: &str) -> Fault {
    let shown: String = text.chars().take(60).collect();
    let message = format!("{key}: '{shown}' is not a placeholder");
    Fault::new(Code::UnknownPlaceholder, message)
        .with_hint("write {{dotted.path}} or ${NAME}, each closed and without anything else inside")
}

/// The name nearest to what was written, if one is near enough to be meant.
pub(crate) fn closest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given: Vec<char> = given.to_lowercase().chars().take(80).collect();
    let far = (given.len() / 3).max(2);
    names
        .map(|name| (distance(&given, &name.to_lowercase()), name))
        .min()
        .filter(|(distance, _)| *distance <= far)
        .map(|(_, name)| name)
}

/// How many letters must be put in, taken out or changed.
fn distance(given: &[char], name: &str) -> usize {
    let mut row: Vec<usize> = (0..=given.len()).collect();
    for (line, letter) in name.chars().enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (column, other) in given.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[given.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn context() -> Context {
        let mut context = Context::new();
        context
            .set("workspacePath", "/w/run 1")
            .set("leaseToken", "lease")
            .set("fencingToken", 7)
            .set("taskId", "task_1")
            .set("prompt", "say {{taskId}} and ${HOME}")
            .set("task", json!({ "title": "mend it", "inputs": [1, "two"], "none": null }))
            .set("agent", json!({ "name": "ann", "team": { "name": "blue" } }))
            .set("context", json!({ "ticket": 7, "wakeCommentId": null, "of": { "x": "y" } }));
        context
    }

    fn caller_env() -> BTreeMap<String, String> {
        [("KEY", "s3cret"), ("ODD", "{{taskId}}${KEY}"), ("EMPTY", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn every_template_gives_a_text_or_a_fault_that_helps() {
        let rows = [
            "plain $HOME {x} }} $ {",
            "--workdir={{workspacePath}}",
            "{{ taskId }}/{{fencingToken}}",
            "{{task.title}} by {{agent.team.name}}: {{task.inputs}}",
            "{{prompt}}",
            "${KEY}${EMPTY}.",
            "${ODD}",
            "{{workspcePath}}",
            "{{workspace_path}}",
            "{{agent.nmae}}",
            "{{agent.name.first}}",
            "{{task.none}}",
            "{{mcpUrl}}",
            "{{something.else}}",
            "{{context.ticket}} {{context.of.x}} {{context.of}}",
            "[{{context.nothing}}{{context.nothing.below}}{{context.wakeCommentId}}]",
            "{{taskId",
            "{{}}",
            "{{#each task}}",
            "{{task..title}}",
            "${MISSING}",
            "${KEY",
            "${KEY:-x}",
            "${9}",
        ];
        let shown: Vec<String> = rows
            .iter()
            .map(|row| match fill(row, "args[0]", &context(), &caller_env()) {
                Ok(text) => format!("{row}  =>  {text}"),
                Err(fault) => format!("{row}  =>  {fault} [{}]", fault.hint()),
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn a_prompt_keeps_its_dollars() {
        let filled = fill_prompt("${KEY} {{task.title}} ${ 5", "promptTemplate", &context());
        assert_eq!(filled.unwrap(), "${KEY} mend it ${ 5");
    }

    #[test]
    fn references_are_found_in_arguments_and_env_and_nowhere_else() {
        let adapter: Adapter = serde_json::from_value(json!({
            "name": "${NOT_THIS}", "runtime": "process", "binary": "${NOR_THIS}",
            "args": ["--key=${A}", "{{runId}} {{ leaseToken }}", "$C"], "env": { "X": "${B}${A}" },
            "extra_args": ["${E}"], "mapping": { "args": ["${M}"], "with": { "model": ["${N}"] } },
        }))
        .unwrap();
        let found: Vec<_> = references(&adapter).into_iter().collect();
        assert_eq!(found, ["A", "B", "E", "M", "N"]);
        let paths: Vec<_> = paths_in_args(&adapter).into_iter().collect();
        assert_eq!(paths, ["leaseToken", "runId"]);
    }

    proptest! {
        #[test]
        fn any_template_is_filled_or_refused_without_a_panic(template in "[\\PC{}$.]{0,40}") {
            let _ = fill(&template, "k", &context(), &caller_env());
        }

        #[test]
        fn a_value_is_never_expanded_again(value in "\\PC{0,40}") {
            let mut context = Context::new();
            context.set("prompt", value.clone());
            prop_assert_eq!(fill("{{prompt}}", "k", &context, &BTreeMap::new()).unwrap(), value);
        }
    }
}
