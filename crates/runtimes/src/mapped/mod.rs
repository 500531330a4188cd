//! Any command-line agent that prints JSON lines, described in data: the runtime behind
//! `adapters.<name>.mapping`. The shapes are `contract::mapping`; `check` says what is wrong with
//! one, `book` reads it for use, `path` follows its paths, `dialect` and `ear` hear by its rules.
//! It knows no agent by name. `examples/` holds mappings of agents that also have a folder, and a
//! test holds both to the same events; the page for people is `docs/protocols/mapped.md`.

mod book;
mod check;
mod dialect;
mod ear;
mod path;
mod state;
mod tools;
mod trouble;

#[cfg(test)]
mod tests;

pub use check::{Mistake, mistakes};

use crate::headless::{self, Listener};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, saved};
use book::Book;
use contract::card::{
    Can, CardEvidence, Dollars, Mcp, PolicyRow, Reports, Requirement, Retries, SystemPrompt, Told,
};
use contract::limits::PROMPT_ARGV_BYTES_MAX;
use contract::mapping::{Mapping, PromptBy, Rule, Success};
use contract::plan::{Adapter, Lane, PlanFile, ProjectContext, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use std::sync::Arc;

/// What the id of every such runtime begins with.
const PREFIX: &str = "mapped:";
/// The files of a run.
const SYSTEM_FILE: &str = "system-prompt.md";
const PROMPT_FILE: &str = "prompt.md";

/// The id of the runtime that an adapter's mapping describes. Each has its own, so that no
/// conversation of one agent is taken up by another.
pub fn id(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Whether an id is that of a mapping.
pub fn is_id(id: &str) -> bool {
    id.starts_with(PREFIX)
}

/// An agent that a mapping describes.
pub struct Mapped {
    /// The adapter's name.
    name: String,
    binary: Option<String>,
    book: Arc<Book>,
}

impl Mapped {
    /// The runtime of an adapter's mapping; a mapping with mistakes is a fault that names them.
    pub fn new(adapter: &Adapter, mapping: &Mapping) -> Result<Self, Fault> {
        let mut mistakes = mistakes(mapping).into_iter();
        if let Some(first) = mistakes.next() {
            let key = |key: &str| match key {
                "" => format!("adapters.{}.mapping", adapter.name),
                key => format!("adapters.{}.mapping.{key}", adapter.name),
            };
            let said = |mistake: &Mistake| format!("{}: {}", key(&mistake.key), mistake.message);
            let mut fault = Fault::new(Code::InvalidConfig, said(&first)).with_hint(first.hint);
            let others: Vec<String> = mistakes.map(|mistake| said(&mistake)).collect();
            fault.detail = (!others.is_empty()).then(|| others.join("\n"));
            return Err(fault);
        }
        let book = Arc::new(Book::new(mapping.clone()));
        Ok(Self { name: adapter.name.clone(), binary: adapter.binary.clone(), book })
    }

    /// The runtime of a saved conversation, which holds its mapping.
    pub fn of_saved(saved: &[u8]) -> Result<Self, Fault> {
        let dialect::Mapped { name, book, .. } = saved::load(saved, dialect::Mapped::VERSION)?;
        Ok(Self { name, binary: None, book })
    }

    fn label(&self) -> String {
        self.book.mapping.label.clone().unwrap_or_else(|| self.name.clone())
    }
}

impl Runtime for Mapped {
    fn card(&self) -> Card {
        let mapping = &self.book.mapping;
        let any = |has: fn(&Rule) -> bool| mapping.rules.iter().any(has);
        let usd = any(|rule| rule.usage.as_ref().is_some_and(|usage| usage.usd.is_some()));
        let by_file = |text: &String| text.contains("{{systemPromptFile}}");
        let system_prompt = match &mapping.with.system_prompt {
            args if args.is_empty() => SystemPrompt::Prepend,
            args if args.iter().any(by_file) => SystemPrompt::File,
            _ => SystemPrompt::Flag,
        };
        Card {
            id: id(&self.name),
            label: self.label(),
            versions_recorded: Vec::new(),
            evidence: CardEvidence::Documented,
            requires: self.binary.as_deref().map(requirement).into_iter().collect(),
            lanes: vec![Lane::Native],
            models: Vec::new(),
            models_source: "the program decides; the mapping says where it names its model"
                .to_owned(),
            default_model: None,
            context_window: None,
            model_list: None,
            reports: Reports {
                tokens: any(|rule| rule.usage.is_some()),
                usage: if any(|rule| rule.usage.is_some()) { Told::ByAgent } else { Told::Never },
                answers: Told::ByAgent,
                dollars: if usd { Dollars::Trusted } else { Dollars::None },
                quota: mapping.quota.is_some(),
                activity: true,
            },
            can: Can {
                resume: !mapping.with.session.is_empty() && any(|rule| rule.session.is_some()),
                interrupt: false,
                message: false,
                permissions: false,
                compaction: false,
                system_prompt: Some(system_prompt),
                mcp: Mcp::None,
                api: true,
            },
            env: Vec::new(),
            env_modes: Vec::new(),
            env_files: Vec::new(),
            retries: Retries::Bounded,
            closing: closing(mapping).to_owned(),
            policies: policies(mapping),
            skills: None,
            login: None,
            handshake: None,
            use_when: "its lines are described in the configuration".to_owned(),
            dont_use_when: "a runtime of its own is there: `ostler runtimes` lists them".to_owned(),
            config_schema: Default::default(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let card = self.card();
        let binary = spec.adapter.binary.as_deref().filter(|binary| !binary.trim().is_empty());
        let Some(program) = binary.map(str::to_owned) else {
            let message = format!("adapters.{}.binary: missing: a mapping needs it", self.name);
            return Err(Fault::new(Code::InvalidConfig, message));
        };
        launch::policy_flags(&card, spec.policy)?;
        let filling = self.filling(spec)?;
        let args = self.args(&filling, spec)?;
        let mapping = &self.book.mapping;
        let files = [
            (PROMPT_FILE, (mapping.prompt == PromptBy::File).then(|| self.prompt(spec))),
            (SYSTEM_FILE, filling.system_prompt.clone().filter(|_| self.system_is_apart())),
        ];
        let file = |(name, text): (&str, Option<String>)| {
            Some(PlanFile { name: name.to_owned(), text: text? })
        };
        let stdin = match mapping.prompt {
            PromptBy::Stdin => StdinMode::Prompt,
            PromptBy::Argument | PromptBy::File => StdinMode::None,
        };
        let files = files.into_iter().filter_map(file).collect();
        Start { program, args, stdin, files, ..Start::default() }.plan(spec, &card)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let prompt = match self.book.mapping.prompt {
            PromptBy::Stdin => Some(self.prompt(spec)),
            PromptBy::Argument | PromptBy::File => None,
        };
        let (name, book) = (self.name.clone(), Arc::clone(&self.book));
        headless::dialect(prompt, dialect::Mapped::new(name, book, spec.session.clone()))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        headless::restore::<dialect::Mapped>(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        trouble::at_exit(&self.book, evidence)
    }
}

impl Mapped {
    /// The system prompt has arguments of its own.
    fn system_is_apart(&self) -> bool {
        !self.book.mapping.with.system_prompt.is_empty()
    }

    /// The prompt, with the system prompt before it where that has no other way.
    fn prompt(&self, spec: &Spec) -> String {
        if self.system_is_apart() { spec.prompt.clone() } else { launch::with_system_prompt(spec) }
    }

    /// The spec with everything in it that a mapping's placeholders can name.
    fn filling(&self, spec: &Spec) -> Result<Spec, Fault> {
        let mut filling = Spec { prompt: self.prompt(spec), ..spec.clone() };
        let in_args = self.book.mapping.prompt == PromptBy::Argument;
        if in_args && filling.prompt.len() > PROMPT_ARGV_BYTES_MAX {
            let message = format!(
                "{} takes its prompt as an argument: {} bytes, and {PROMPT_ARGV_BYTES_MAX} are possible",
                self.label(),
                filling.prompt.len(),
            );
            return Err(Fault::new(Code::PromptTooLarge, message)
                .with_hint("set the mapping's prompt to stdin or file, if the agent can"));
        }
        let file = |name: &str| format!("{}/{name}", spec.files);
        filling
            .context
            .set_some("session", spec.session.clone())
            .set("promptFile", file(PROMPT_FILE))
            .set("systemPromptFile", file(SYSTEM_FILE));
        Ok(filling)
    }

    fn args(&self, filling: &Spec, spec: &Spec) -> Result<Vec<String>, Fault> {
        let mapping = &self.book.mapping;
        let with = &mapping.with;
        let isolate = spec.adapter.project_context == Some(ProjectContext::Isolate);
        if isolate && with.isolate.is_empty() {
            let key = format!("adapters.{}.projectContext", self.name);
            let message = format!("{key}: the mapping does not say how to isolate");
            return Err(Fault::new(Code::InvalidConfig, message)
                .with_hint("give its arguments in mapping.with.isolate"));
        }
        let none = Vec::new();
        let lists = [
            ("args".to_owned(), true, &mapping.args),
            (
                format!("policies.{}", spec.policy.word()),
                true,
                mapping.policies.of(spec.policy).unwrap_or(&none),
            ),
            ("with.model".to_owned(), spec.model.is_some(), &with.model),
            ("with.session".to_owned(), spec.session.is_some(), &with.session),
            ("with.systemPrompt".to_owned(), spec.system_prompt.is_some(), &with.system_prompt),
            ("with.isolate".to_owned(), isolate, &with.isolate),
        ];
        let mut args = Vec::new();
        for (key, _, list) in lists.into_iter().filter(|(_, there, _)| *there) {
            args.extend(launch::filled(filling, &format!("mapping.{key}"), list)?);
        }
        Ok(args)
    }
}

fn requirement(binary: &str) -> Requirement {
    Requirement {
        binary: binary.to_owned(),
        version_args: vec!["--version".to_owned()],
        install_hint: "install it, or give its path in binary".to_owned(),
    }
}

fn closing(mapping: &Mapping) -> &'static str {
    match mapping.exit.success {
        Success::End => "the line that the mapping calls the end; exit 0 alone is none",
        Success::Zero => {
            "the line that the mapping calls the end, or exit 0 after a text or a call"
        }
    }
}

/// The matrix as the mapping states it.
fn policies(mapping: &Mapping) -> Vec<PolicyRow> {
    let row = |policy: Policy| {
        let note = match (policy, mapping.policies.of(policy)) {
            (Policy::Ask, _) => "it only prints, so nobody can be asked",
            (_, None) => "the mapping has no arguments for it",
            (Policy::AllowAll, Some(_)) => "dangerous: everything is done unasked",
            (Policy::Deny | Policy::AllowReads, Some(_)) => "as the mapping says",
        };
        PolicyRow {
            policy,
            lane: Lane::Native,
            flags: mapping.policies.of(policy).cloned(),
            note: Some(note.to_owned()),
        }
    };
    [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll].map(row).into()
}
