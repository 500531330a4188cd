//! The agent of `ostler run "PROMPT"`, where only a prompt is given: `defaultAgent` of the
//! configuration, else the only installed runtime. A text with blanks is a prompt, because no agent has
//! blanks in its name; several words whose first names no agent
//! and resembles none are a prompt too. A single unknown word is taken for a misspelt agent.

use crate::hosting::Place;
use crate::{args, config};
use contract::{Card, Code, Fault};
use host::diagnose::find_program;

/// Where the name of the agent came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    CommandLine,
    /// `defaultAgent` of the configuration.
    Configuration,
    /// It is the only installed one.
    Installed,
}

/// Settles which agent runs if none is named.
pub fn settle(args: &mut args::Run, place: &Place) -> Result<NamedBy, Fault> {
    if args.agent.as_deref().is_some_and(is_prompt) {
        args.prompt.splice(0..0, args.agent.take());
    }
    if args.agent.is_some() {
        return Ok(NamedBy::CommandLine);
    }
    let path = place.surroundings.vars.get("PATH").map(String::as_str);
    let cards = runtimes::registry::all().iter().map(|runtime| runtime.card());
    let is_installed = |card: &Card| {
        card.requires.first().is_some_and(|program| find_program(&program.binary, path).is_some())
    };
    let installed = cards.filter(is_installed).map(|card| card.id).collect();
    let (agent, named_by) = choose(place.config.file.default_agent.as_deref(), installed)?;
    args.agent = Some(agent);
    Ok(named_by)
}

/// Whether the first of several words looks like the beginning of a prompt: it resembles no name of an
/// agent. `hired` are the names of hired agents.
pub fn begins_prompt<'a>(
    args: &args::Run,
    place: &'a Place,
    hired: impl Iterator<Item = &'a str>,
) -> bool {
    let known = config::names(&place.config).chain(hired);
    match (&args.agent, &args.prompt[..]) {
        (Some(_), []) | (None, _) => false,
        (Some(word), _) => config::nearest(word, known).is_empty(),
    }
}

/// Makes all words the prompt of the default agent; absent if there is none.
pub fn take_as_prompt(args: &mut args::Run, place: &Place) -> Option<NamedBy> {
    let (word, words) = (args.agent.take(), args.prompt.clone());
    args.prompt.splice(0..0, word.clone());
    let named_by = settle(args, place).ok();
    if named_by.is_none() {
        (args.agent, args.prompt) = (word, words);
    }
    named_by
}

fn is_prompt(word: &str) -> bool {
    word == "-" || word.contains(char::is_whitespace)
}

/// The configured agent, else the only installed one.
fn choose(configured: Option<&str>, installed: Vec<String>) -> Result<(String, NamedBy), Fault> {
    if let Some(configured) = configured {
        return Ok((configured.to_owned(), NamedBy::Configuration));
    }
    let fault = |hint: String| Fault::new(Code::Usage, "no agent is named").with_hint(hint);
    match &installed[..] {
        [only] => Ok((only.clone(), NamedBy::Installed)),
        [] => Err(fault(
            "no agent is installed that Ostler knows (`ostler doctor`); try: ostler run demo \
             \"hello\""
                .to_owned(),
        )),
        several => Err(fault(format!(
            "give one: ostler run {} \"PROMPT\", or set defaultAgent in ostler.json; installed: {}",
            several[0],
            several.join(", ")
        ))),
    }
}

/// A fault for an unknown agent, with the likely reason: a wrong `defaultAgent`, or a prompt without
/// quotes.
pub fn explained(fault: Fault, args: &args::Run, named_by: NamedBy, place: &Place) -> Fault {
    if fault.code != Code::UnknownAgent {
        return fault;
    }
    if named_by == NamedBy::Configuration {
        let file = place.config.path.as_deref();
        let file = file.map_or("ostler.json".to_owned(), |path| path.display().to_string());
        let near = fault.hint.as_deref().map(|near| format!("; {near}")).unwrap_or_default();
        let message = format!("defaultAgent: {}", fault.message);
        return Fault { message, ..fault }.with_hint(format!("fix `defaultAgent` in {file}{near}"));
    }
    match (&fault.hint, &args.agent) {
        (None, Some(agent)) => {
            let words = [std::slice::from_ref(agent), &args.prompt[..]].concat().join(" ");
            let hint = format!(
                "`ostler runtimes` lists the names; if this is a prompt, name an agent: ostler run \
                 AGENT \"{words}\""
            );
            fault.with_hint(hint)
        }
        _ => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_or_only_installed_agent_is_taken() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(choose(Some("scout"), names(&["claude", "codex"])).unwrap().0, "scout");
        assert_eq!(choose(None, names(&["claude"])).unwrap().0, "claude");
        let fault = choose(None, names(&["claude", "codex"])).unwrap_err();
        assert!(fault.hint().contains("installed: claude, codex"), "{}", fault.hint());
        assert!(choose(None, Vec::new()).unwrap_err().hint().contains("run demo"));
    }

    #[test]
    fn a_text_with_blanks_is_a_prompt() {
        assert!(is_prompt("fix the bug") && is_prompt("-"));
        assert!(!is_prompt("claude"));
    }
}
