//! Sets the session mode that fits the permission policy, before the first turn: what an agent does
//! without asking is its own setting. `mode_kind` says what a mode means. An agent that offers modes
//! and stays in one that is not known to ask, or to change nothing, cannot be held to a policy: its
//! run ends as `policy_not_possible` before the first prompt, with the modes that were seen.

use super::ear::Ear;
use super::mode_kind::{ModeKind, is_sandboxed, kind};
use super::state::{Ours, Setting, short};
use super::wire::{ConfigOption, Opened, Refusal};
use super::words;
use contract::{Code, Policy};
use serde_json::json;
use std::collections::VecDeque;

/// An agent that is made up for a run where agents are configured so; see `lane`.
pub(crate) const MADE_UP: &str = "ostler-asks";
/// Modes that are named when none of them fits.
const MODES_NAMED_MAX: usize = 16;
/// Options beside the mode that allow everything: what they are called, when they do, and when not.
const LOOSE_OPTIONS: [(&str, &str, &str); 1] = [("allow_all", "on", "off")];

/// Whether a policy is not kept in a mode of this id.
pub(super) fn is_loose(policy: Policy, mode: &str) -> bool {
    policy != Policy::AllowAll && kind(mode, "") == ModeKind::Loose
}

/// One mode of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OfferedMode {
    id: String,
    kind: ModeKind,
}

/// The modes of a session: the current one, all of them, and the option by which one is chosen;
/// without an option it is `session/set_mode`, the older way.
#[derive(Debug, Default)]
struct OfferedModes {
    current: Option<String>,
    offered: Vec<OfferedMode>,
    option: Option<String>,
}

impl OfferedModes {
    fn of(opened: &Opened) -> Self {
        let mode = |id: Option<&String>, words: [Option<&String>; 2]| {
            let id = short(id.cloned())?;
            let said = words.into_iter().flatten().map(String::as_str).collect::<Vec<_>>();
            Some(OfferedMode { kind: kind(&id, &said.join(". ")), id })
        };
        if let Some(modes) = &opened.modes {
            let offered = modes.available_modes.iter().filter_map(|offered| {
                mode(offered.id.as_ref(), [offered.name.as_ref(), offered.description.as_ref()])
            });
            let current = short(modes.current_mode_id.clone());
            return Self { current, offered: offered.collect(), option: None };
        }
        let option = opened.config_options.iter().find(|option| option.is_mode());
        let Some(option) = option else { return Self::default() };
        let current = option.current_value.as_ref().and_then(|value| value.as_str());
        let offered = option.options.iter().filter_map(|choice| {
            mode(choice.value.as_ref(), [choice.name.as_ref(), choice.description.as_ref()])
        });
        Self {
            current: short(current.map(str::to_owned)),
            offered: offered.collect(),
            option: short(option.id.clone()),
        }
    }

    fn current_kind(&self) -> ModeKind {
        self.current.as_deref().map_or(ModeKind::Unknown, |current| self.kind_of(current))
    }

    fn kind_of(&self, id: &str) -> ModeKind {
        let offered = self.offered.iter().find(|mode| mode.id == id);
        offered.map_or_else(|| kind(id, ""), |mode| mode.kind)
    }

    /// The mode that fits a policy: one that asks, or one that changes nothing where every question
    /// would be denied anyway. The current mode is preferred among its kind.
    fn fitting(&self, policy: Policy) -> Option<&str> {
        let of_kind = |kind: ModeKind| {
            let mut modes = self.offered.iter().filter(move |mode| mode.kind == kind);
            let current = self.current.as_deref().filter(|_| self.current_kind() == kind);
            current.or_else(|| modes.next().map(|mode| mode.id.as_str()))
        };
        let holds = || of_kind(ModeKind::Holds).filter(|_| policy != Policy::Ask);
        let made_up = self.offered.iter().find(|mode| mode.id == MADE_UP);
        let made_up = made_up.map(|mode| mode.id.as_str());
        made_up.or_else(|| of_kind(ModeKind::Asks)).or_else(holds)
    }

    /// The ids of all modes, for a person.
    fn names(&self) -> String {
        let ids = self.offered.iter().map(|mode| format!("'{}'", mode.id));
        ids.take(MODES_NAMED_MAX).collect::<Vec<_>>().join(", ")
    }
}

/// What is to be set before the first turn.
#[derive(Debug, Default)]
pub(super) struct ModeSettings {
    pub settings: VecDeque<Setting>,
    /// The agent then runs commands in a read-only sandbox of its own.
    pub sandboxed: bool,
}

/// Whether a session offers modes at all.
pub(super) fn are_offered(opened: &Opened) -> bool {
    !OfferedModes::of(opened).offered.is_empty()
}

/// What is to be set before the first turn, or why the policy cannot be kept.
pub(super) fn settings(policy: Policy, opened: &Opened) -> Result<ModeSettings, String> {
    if policy == Policy::AllowAll {
        return Ok(ModeSettings::default());
    }
    let mut settings = VecDeque::new();
    let modes = OfferedModes::of(opened);
    let fitting = modes.fitting(policy);
    let sandboxed = fitting.is_some_and(is_sandboxed);
    let unsafe_now = matches!(modes.current_kind(), ModeKind::Loose | ModeKind::Unknown);
    match (fitting, &modes.current) {
        (Some(fits), Some(current)) if fits == current => {}
        (Some(fits), _) => {
            let (option, value) = (modes.option.clone(), fits.to_owned());
            settings.push_back(Setting { option, value, loose: unsafe_now });
        }
        (None, None) if modes.offered.is_empty() => {}
        (None, current) => {
            let current = current.as_deref().unwrap_or("(not told)");
            return Err(format!(
                "it is in the mode '{current}', which is not known to ask before it acts, and \
                 offers no mode that is; seen: {}; {} cannot be kept",
                modes.names(),
                policy.word()
            ));
        }
    }
    for (id, on, off) in LOOSE_OPTIONS {
        let of = |option: &&ConfigOption| option.id.as_deref() == Some(id);
        if opened.config_options.iter().find(of).is_some_and(|option| option.is(on)) {
            let (option, value) = (Some(id.to_owned()), off.to_owned());
            settings.push_back(Setting { option, value, loose: true });
        }
    }
    Ok(ModeSettings { settings, sandboxed })
}

impl Ear<'_> {
    /// Sets the next of what is to be set, or goes on to the model.
    pub(super) fn next_setting(&mut self) {
        let Some(setting) = self.state.settings.front() else { return self.next_wish() };
        let (session, value) = (&self.state.session, &setting.value);
        let (method, params) = match &setting.option {
            Some(option) => (
                "session/set_config_option",
                json!({ "sessionId": session, "configId": option, "value": value }),
            ),
            None => ("session/set_mode", json!({ "sessionId": session, "modeId": value })),
        };
        let request = self.state.request(Ours::Setting, method, &params);
        self.out.frames.push(request);
    }

    /// The agent took it.
    pub(super) fn setting_taken(&mut self) {
        if let Some(setting) = self.state.settings.pop_front() {
            let what = setting.option.as_deref().unwrap_or("mode");
            self.note(format!("its {what} was set to '{}'", setting.value), None);
        }
        self.next_setting();
    }

    /// The agent did not take it. Where it asks anyway that is survived.
    pub(super) fn setting_refused(&mut self, refusal: &Refusal) {
        let Some(setting) = self.state.settings.pop_front() else { return self.next_setting() };
        let said = words::said(refusal);
        let text = format!("it did not take the mode '{}': {said}", setting.value);
        match (words::code(refusal), setting.loose) {
            (code @ (Code::AuthRequired | Code::AuthFailed), _) => self.give_up(code, said),
            (_, true) => self.give_up(Code::PolicyNotPossible, text),
            (_, false) => {
                self.warn(&text);
                self.next_setting();
            }
        }
    }
}
