//! What is wrong with a mapping, each mistake with its key and what to do about it. Asked where a
//! configuration is read and again before a run: a mapping may come from a client. A mapping without
//! mistakes is bounded, has paths that can be read, and can come to a success.

use super::book::each_path;
use super::path::Path;
use crate::template::{FLAT_NAMES, ROOTS, closest, paths_in};
use contract::Code;
use contract::limits::{MAPPING_BYTES_MAX, MAPPING_RULES_MAX};
use contract::mapping::{Conditions, Mapping, On, PromptBy, Rule, Success, Test, Usage, Words};
use std::collections::BTreeMap;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The key below `mapping`; empty for the mapping itself.
    pub key: String,
    pub message: String,
    pub hint: String,
}

/// Everything that is wrong.
pub fn mistakes(mapping: &Mapping) -> Vec<Mistake> {
    let mut check = Check { found: Vec::new() };
    check.size(mapping);
    check.placeholders(mapping);
    if mapping.policies.deny.is_none()
        && mapping.policies.allow_reads.is_none()
        && mapping.policies.allow_all.is_none()
    {
        let hint = "give the arguments of deny, allow-reads or allow-all; [] when it needs none";
        check.wrong("policies", "no policy can be kept, so nothing could be run", hint);
    }
    check.words("errors.words", &mapping.errors.words);
    each_path(mapping, &mut |key, path| {
        if let Err(why) = Path::read(path) {
            let message = format!("'{path}' is no path: {why}");
            check.wrong(&key, &message, "write a.b[0].c, [] for every member, $ for the line");
        }
    });
    for (index, rule) in mapping.rules.iter().enumerate() {
        check.rule(rule, &format!("rules[{index}]"));
    }
    check.exit(mapping);
    check.codes(mapping);
    check.found
}

/// What can be wrong with an agent, its model or its provider. The other codes of the house say what
/// went wrong on our side, which no line of an agent can know.
const CODES: &[Code] = &[
    Code::AgentFailed,
    Code::AnswerCut,
    Code::AuthFailed,
    Code::AuthRequired,
    Code::BadWorkspace,
    Code::Billing,
    Code::BudgetExceeded,
    Code::Cancelled,
    Code::ContextOverflow,
    Code::EndedWithoutResult,
    Code::MaxTurns,
    Code::ModelNotFound,
    Code::ModelRefusal,
    Code::NativeSessionUnknown,
    Code::Overloaded,
    Code::PermissionDenied,
    Code::ProcessCrashed,
    Code::PromptTooLarge,
    Code::ProviderQuota,
    Code::RateLimited,
    Code::UpstreamError,
];

struct Check {
    found: Vec<Mistake>,
}

impl Check {
    fn size(&mut self, mapping: &Mapping) {
        let bytes = serde_json::to_vec(mapping).map_or(0, |bytes| bytes.len());
        if bytes > MAPPING_BYTES_MAX {
            let message = format!("{bytes} bytes, and {MAPPING_BYTES_MAX} are allowed");
            self.wrong("", &message, "leave out rules for lines that need not be known");
        }
        let rules = mapping.rules.len();
        if rules > MAPPING_RULES_MAX {
            let message = format!("{rules} rules, and {MAPPING_RULES_MAX} are allowed");
            self.wrong("rules", &message, "join rules with \"in\": [..], or leave some out");
        }
    }

    fn placeholders(&mut self, mapping: &Mapping) {
        for (key, text) in mapping.templates() {
            for name in paths_in(text) {
                self.placeholder(mapping, &key, &name);
            }
        }
        let has = |name: &str| mapping.args.iter().any(|text| paths_in(text).contains(name));
        let wanted = match mapping.prompt {
            PromptBy::Stdin => None,
            PromptBy::Argument => Some("prompt"),
            PromptBy::File => Some("promptFile"),
        };
        if let Some(name) = wanted.filter(|name| !has(name)) {
            let message = format!("the prompt is nowhere: no argument has {{{{{name}}}}}");
            let hint = format!("add \"{{{{{name}}}}}\", or set prompt to stdin");
            self.wrong("args", &message, &hint);
        }
    }

    fn placeholder(&mut self, mapping: &Mapping, key: &str, name: &str) {
        let (place, hint, fits) = match name {
            "session" => ("in with.session", "move it there", key.starts_with("with.session")),
            "systemPrompt" | "systemPromptFile" => {
                let fits = key.starts_with("with.systemPrompt");
                ("in with.systemPrompt", "move it there", fits)
            }
            "prompt" => {
                let fits = mapping.prompt == PromptBy::Argument;
                ("when prompt is argument", "set prompt to argument, or leave it out", fits)
            }
            "promptFile" => {
                let fits = mapping.prompt == PromptBy::File;
                ("when prompt is file", "set prompt to file, or leave it out", fits)
            }
            name => {
                let root = name.split('.').next().unwrap_or(name);
                let known = if name.contains('.') {
                    ROOTS.contains(&root)
                } else {
                    FLAT_NAMES.contains(&name)
                };
                if !known && !ROOTS.contains(&name) {
                    let names = FLAT_NAMES.iter().chain(ROOTS).chain(OWN_NAMES).copied();
                    let hint = closest(name, names).map_or_else(
                        || format!("the placeholders are {}", FLAT_NAMES.join(", ")),
                        |name| format!("did you mean '{name}'?"),
                    );
                    self.wrong(key, &format!("{{{{{name}}}}} is not a placeholder"), &hint);
                }
                return;
            }
        };
        if !fits {
            let message = format!("{{{{{name}}}}} has a value only {place}");
            self.wrong(key, &message, hint);
        }
    }

    fn rule(&mut self, rule: &Rule, at: &str) {
        let key = |name: &str| format!("{at}.{name}");
        if rule.when.is_empty() {
            let hint = "say which lines it is about, as { \"type\": \"message\" }";
            self.wrong(&key("when"), "missing: the rule would fit every line", hint);
        }
        if !rule.member.is_empty() && rule.each.is_none() {
            let hint = "name the list in each, or move the condition to when";
            self.wrong(&key("where"), "there is no each whose members it could ask", hint);
        }
        self.tests(&key("when"), &rule.when);
        self.tests(&key("where"), &rule.member);
        for (name, text) in [("text", &rule.text), ("thinking", &rule.thinking)] {
            if text.as_ref().is_some_and(|text| text.delta && text.repeats) {
                let hint = "a piece has delta, the whole text that follows the pieces has repeats";
                self.wrong(&key(name), "it cannot be a piece and the whole", hint);
            }
        }
        if let Some(result) = &rule.tool_result {
            self.tests(&key("toolResult.ok"), &result.ok);
            self.tests(&key("toolResult.denied"), &result.denied);
        }
        if rule.usage.as_ref().is_some_and(counts_nothing) {
            let hint = "give at least one of input, cacheRead, cacheWrite, output and usd";
            self.wrong(&key("usage"), "it finds neither tokens nor dollars", hint);
        }
        if let Some(error) = &rule.error {
            self.words(&key("error.words"), &error.words);
        }
        for (name, verdict) in [("verdict", &rule.verdict), ("end", &rule.end)] {
            let Some(verdict) = verdict else { continue };
            if verdict.success == Some(true) && verdict.code.is_some() {
                let hint = "a success has no code: leave out one of the two";
                self.wrong(&key(name), "it is a success and has a code", hint);
            }
            if name == "verdict" && verdict.success.is_none() && verdict.code.is_none() {
                self.wrong(&key(name), "it says nothing", "give success or code");
            }
        }
        self.actions(rule, at);
    }

    /// A rule gives something, and on stderr only what is read there.
    fn actions(&mut self, rule: &Rule, at: &str) {
        let activity = rule.session.is_some()
            || rule.turn
            || rule.text.is_some()
            || rule.thinking.is_some()
            || rule.tool_use.is_some()
            || rule.tool_update.is_some()
            || rule.tool_result.is_some()
            || rule.usage.is_some()
            || rule.lifted
            || rule.verdict.is_some()
            || rule.end.is_some();
        let trouble = rule.error.is_some()
            || rule.limit.is_some()
            || rule.session_unknown
            || rule.log.is_some();
        if !activity && !trouble && !rule.ignore {
            let hint = "say what the line gives, or \"ignore\": true if it says nothing new";
            self.wrong(at, "the rule gives nothing", hint);
        }
        if rule.ignore && (activity || trouble) {
            self.wrong(at, "the rule ignores the line and uses it", "leave out one of the two");
        }
        if rule.on == On::Stderr && activity {
            let hint = "on stderr there are error, limit, sessionUnknown, log and ignore";
            self.wrong(at, "on stderr nothing but trouble is heard", hint);
        }
    }

    fn tests(&mut self, key: &str, tests: &BTreeMap<String, Test>) {
        for (path, test) in tests {
            if *test == Test::Words(Conditions::default()) {
                let hint = "give a value, or one of exists, in, notIn, starts, has";
                self.wrong(key, &format!("the condition of '{path}' is empty"), hint);
            }
        }
    }

    fn words(&mut self, key: &str, words: &[Words]) {
        for (index, _) in words.iter().enumerate().filter(|(_, words)| words.says.is_empty()) {
            let hint = "give words that are in the message, in any case";
            self.wrong(&format!("{key}[{index}].says"), "it is empty and fits everything", hint);
        }
    }

    fn exit(&mut self, mapping: &Mapping) {
        self.words("exit.words", &mapping.exit.words);
        for number in mapping.exit.codes.keys() {
            if !number.parse::<u8>().is_ok_and(|number| number > 0) {
                let message = format!("'{number}' is no exit that could be a fault");
                self.wrong("exit.codes", &message, "an exit is a number from 1 to 255");
            }
        }
        let ends = mapping.rules.iter().any(|rule| rule.end.is_some());
        if !ends && mapping.exit.success == Success::End {
            let hint = "add a rule with end for its last line, or set exit.success to zero";
            self.wrong("rules", "no rule has an end, so no run could succeed", hint);
        }
    }

    fn codes(&mut self, mapping: &Mapping) {
        let known: Vec<&str> = CODES.iter().map(|code| code.word()).collect();
        let hint = format!("the codes of an agent are {}", known.join(", "));
        let mut ask = |key: String, code: Option<Code>| {
            if let Some(code) = code.filter(|code| !CODES.contains(code)) {
                self.wrong(&key, &format!("{code} is no code that an agent can have"), &hint);
            }
        };
        let listed = |words: &[Words]| words.iter().map(|words| words.code).collect::<Vec<_>>();
        for (key, words) in
            [("errors.words", &mapping.errors.words), ("exit.words", &mapping.exit.words)]
        {
            listed(words).into_iter().for_each(|code| ask(key.to_owned(), Some(code)));
        }
        for (number, code) in &mapping.exit.codes {
            ask(format!("exit.codes.{number}"), Some(*code));
        }
        for (index, rule) in mapping.rules.iter().enumerate() {
            let key = |name: &str| format!("rules[{index}].{name}");
            if let Some(error) = &rule.error {
                ask(key("error.code"), error.code);
                ask(key("error.otherwise"), error.otherwise);
                listed(&error.words)
                    .into_iter()
                    .for_each(|code| ask(key("error.words"), Some(code)));
            }
            ask(key("limit.code"), rule.limit.as_ref().and_then(|limit| limit.code));
            ask(key("verdict.code"), rule.verdict.as_ref().and_then(|verdict| verdict.code));
            ask(key("end.code"), rule.end.as_ref().and_then(|end| end.code));
        }
    }

    fn wrong(&mut self, key: &str, message: &str, hint: &str) {
        let (key, message, hint) = (key.to_owned(), message.to_owned(), hint.to_owned());
        self.found.push(Mistake { key, message, hint });
    }
}

/// Placeholders that only a mapping has.
const OWN_NAMES: &[&str] = &["session", "systemPromptFile", "promptFile"];

fn counts_nothing(usage: &Usage) -> bool {
    let Usage { input, cache_read, cache_write, output, usd, .. } = usage;
    [input, cache_read, cache_write, output].iter().all(|sum| sum.is_none()) && usd.is_none()
}
