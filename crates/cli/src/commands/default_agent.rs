//! The agent of `ostler run "PROMPT"`, where only a prompt is given: `defaultAgent` of the
//! configuration, else the only installed runtime. A text with blanks is a prompt, because no agent has
//! blanks in its name; a single unknown word is taken for a misspelt agent.

use crate::args;
use crate::hosting::Place;
use contract::{Card, Code, Fault};
use host::diagnose::find_program;

/// Settles which agent runs if none is named.
pub fn settle(args: &mut args::Run, place: &Place) -> Result<(), Fault> {
    if args.agent.as_deref().is_some_and(is_prompt) {
        args.prompt.splice(0..0, args.agent.take());
    }
    if args.agent.is_some() {
        return Ok(());
    }
    let path = place.surroundings.vars.get("PATH").map(String::as_str);
    let cards = runtimes::registry::all().iter().map(|runtime| runtime.card());
    let is_installed = |card: &Card| {
        card.requires.first().is_some_and(|program| find_program(&program.binary, path).is_some())
    };
    let installed = cards.filter(is_installed).map(|card| card.id).collect();
    args.agent = Some(choose(place.config.file.default_agent.as_deref(), installed)?);
    Ok(())
}

fn is_prompt(word: &str) -> bool {
    word == "-" || word.contains(char::is_whitespace)
}

/// The configured agent, else the only installed one.
fn choose(configured: Option<&str>, installed: Vec<String>) -> Result<String, Fault> {
    if let Some(configured) = configured {
        return Ok(configured.to_owned());
    }
    let fault = |hint: String| Fault::new(Code::Usage, "no agent is named").with_hint(hint);
    match &installed[..] {
        [only] => Ok(only.clone()),
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

/// A fault for an unknown agent, with a reason that is likely: a prompt without quotes.
pub fn explained(fault: Fault, args: &args::Run) -> Fault {
    if fault.code != Code::UnknownAgent {
        return fault;
    }
    match (&fault.hint, &args.agent) {
        (None, Some(agent)) if !args.prompt.is_empty() => {
            let words = [std::slice::from_ref(agent), &args.prompt[..]].concat().join(" ");
            let hint = format!(
                "`ostler runtimes` lists the names; if this is a prompt, quote it: ostler run \"{words}\""
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
        assert_eq!(choose(Some("scout"), names(&["claude", "codex"])).unwrap(), "scout");
        assert_eq!(choose(None, names(&["claude"])).unwrap(), "claude");
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
