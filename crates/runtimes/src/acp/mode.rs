//! Sets the session mode that fits the permission policy, before the first turn: what an agent does
//! without asking is its own setting. `mode_kind` says what a mode means. An agent that offers modes
//! and stays in one that is not known to ask, or to change nothing, cannot be held to a policy: its
//! run ends as `policy_not_possible` before the first prompt, with the modes that were seen. A mode
//! that the agent changes by itself later is set back once; a refusal, no answer before the turn ends,
//! or a second change ends the run as `policy_broken`.

use super::ear::Ear;
use super::mode_kind::{ModeKind, is_sandboxed, kind};
use super::state::{Ours, Setting, State, number, short};
use super::wire::{ConfigOption, Opened, Refusal};
use super::words;
use contract::{Code, Policy};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// An agent that is made up for a run where agents are configured so; see `lane`.
pub(crate) const MADE_UP: &str = "ostler-asks";
/// Modes of a session that are kept.
const MODES_MAX: usize = 64;
/// Modes that are named when none of them fits.
const MODES_NAMED_MAX: usize = 16;
/// Options beside the mode that allow everything: what they are called, when they do, and when not.
const LOOSE_OPTIONS: [(&str, &str, &str); 1] = [("allow_all", "on", "off")];

/// A mode, or an option beside it, that the agent changed by itself and that was set back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ModeReset {
    /// What it is set back to.
    setting: Setting,
    /// What the agent had changed it to.
    strayed: String,
    /// The request that waits for its reply.
    waiting: Option<u64>,
}

/// One mode of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OfferedMode {
    id: String,
    kind: ModeKind,
}

/// The modes of a session: the current one, all of them, and the option by which one is chosen;
/// without an option it is `session/set_mode`, the older way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct OfferedModes {
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
            return Self { current, offered: offered.take(MODES_MAX).collect(), option: None };
        }
        let option = opened.config_options.iter().find(|option| option.is_mode());
        let Some(option) = option else { return Self::default() };
        let current = option.current_value.as_ref().and_then(|value| value.as_str());
        let offered = option.options.iter().filter_map(|choice| {
            mode(choice.value.as_ref(), [choice.name.as_ref(), choice.description.as_ref()])
        });
        Self {
            current: short(current.map(str::to_owned)),
            offered: offered.take(MODES_MAX).collect(),
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

    /// What sets the mode that fits a policy.
    fn setting(&self, policy: Policy) -> Option<Setting> {
        let loose = matches!(self.current_kind(), ModeKind::Loose | ModeKind::Unknown);
        let (option, value) = (self.option.clone(), self.fitting(policy)?.to_owned());
        Some(Setting { option, value, loose })
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
    pub modes: OfferedModes,
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
    match (fitting, &modes.current) {
        (Some(fits), Some(current)) if fits == current => {}
        (Some(_), _) => settings.extend(modes.setting(policy)),
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
    settings.extend(loose_options(&opened.config_options).map(|(setting, _)| setting));
    Ok(ModeSettings { modes, settings, sandboxed })
}

/// Options beside the mode that allow everything now: what turns each off, and its present value.
fn loose_options(options: &[ConfigOption]) -> impl Iterator<Item = (Setting, &'static str)> {
    LOOSE_OPTIONS.into_iter().filter_map(|(id, on, off)| {
        let of = |option: &&ConfigOption| option.id.as_deref() == Some(id);
        let is_on = options.iter().find(of).is_some_and(|option| option.is(on));
        let (option, value) = (Some(id.to_owned()), off.to_owned());
        is_on.then_some((Setting { option, value, loose: true }, on))
    })
}

/// The request that sets something.
pub(super) fn set(session: Option<&str>, setting: &Setting) -> (&'static str, Value) {
    let value = &setting.value;
    match &setting.option {
        Some(option) => (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": option, "value": value }),
        ),
        None => ("session/set_mode", json!({ "sessionId": session, "modeId": value })),
    }
}

impl Ear<'_> {
    /// Sets the next of what is to be set, or goes on to the model.
    pub(super) fn next_setting(&mut self) {
        let Some(setting) = self.state.settings.front() else { return self.next_wish() };
        let (method, params) = set(self.state.session.as_deref(), setting);
        let request = self.state.request(Ours::Setting, method, &params);
        self.out.frames.push(request);
    }

    /// The agent took it.
    pub(super) fn setting_taken(&mut self) {
        if let Some(setting) = self.state.settings.pop_front() {
            let what = setting.option.as_deref().unwrap_or("mode");
            self.note(format!("its {what} was set to '{}'", setting.value), None);
            self.state.modes.was_set(&setting);
        }
        self.next_setting();
    }

    /// The agent did not take it. Where it asks anyway that is survived.
    pub(super) fn setting_refused(&mut self, refusal: &Refusal) {
        let Some(setting) = self.state.settings.pop_front() else { return self.next_setting() };
        let said = words::said(refusal);
        let text = not_taken(&setting, &said);
        if setting.option == self.state.modes.option {
            self.state.sandboxed = self.state.modes.current.as_deref().is_some_and(is_sandboxed);
        }
        match (words::code(refusal), setting.loose) {
            (code @ (Code::AuthRequired | Code::AuthFailed), _) => self.give_up(code, said),
            (_, true) => self.give_up(Code::PolicyNotPossible, text),
            (_, false) => {
                self.warn(&text);
                self.next_setting();
            }
        }
    }

    /// The agent told that its session is in another mode now.
    pub(super) fn mode_told(&mut self, mode: &str) {
        self.state.modes.current = Some(mode.to_owned());
        if self.state.is_opening() || self.state.wanted.policy == Policy::AllowAll {
            return;
        }
        self.state.sandboxed = is_sandboxed(mode);
        let conduct = match self.state.modes.kind_of(mode) {
            ModeKind::Asks | ModeKind::Holds => return,
            ModeKind::Loose => "does not ask before it acts",
            ModeKind::Unknown => "is not known to ask before it acts",
        };
        let policy = self.state.wanted.policy;
        let what = format!("the agent changed its mode to '{mode}', which {conduct}");
        match self.state.modes.setting(policy) {
            Some(setting) => self.set_back(setting, mode, what),
            None if self.state.modes.kind_of(mode) == ModeKind::Unknown => {
                self.warn(&format!("{what}: whether {} is kept is not known", policy.word()));
            }
            None => self.break_policy(format!("under {} {what}", policy.word())),
        }
    }

    /// The agent told its options: one of them may be the mode, or allow everything.
    pub(super) fn options_told(&mut self, options: &[ConfigOption]) {
        let mode = options.iter().find(|option| option.is_mode());
        let mode = mode.and_then(|option| option.current_value.as_ref()?.as_str());
        if let Some(mode) = mode.filter(|mode| self.state.modes.current.as_deref() != Some(*mode)) {
            self.mode_told(&short(Some(mode.to_owned())).unwrap_or_default());
        }
        if self.state.is_opening() || self.state.wanted.policy == Policy::AllowAll {
            return;
        }
        for (setting, on) in loose_options(options) {
            let option = setting.option.as_deref().unwrap_or_default();
            let what = format!("the agent set its option '{option}' to '{on}'");
            self.set_back(setting, on, what);
        }
    }

    /// Sets back what the agent changed: once, because an agent that changes it again does not keep to
    /// what is set.
    fn set_back(&mut self, setting: Setting, strayed: &str, what: String) {
        let policy = self.state.wanted.policy.word();
        let mut before = self.state.resets.iter();
        match before.find(|reset| reset.setting.option == setting.option) {
            // The same change, told twice.
            Some(reset) if reset.waiting.is_some() && reset.strayed == strayed => {}
            Some(_) => self.break_policy(format!("under {policy} {what}, a second time")),
            None => {
                self.warn(&format!("{what}; it is set back to '{}'", setting.value));
                let (method, params) = set(self.state.session.as_deref(), &setting);
                let (id, request) = self.state.request_beside(method, &params);
                let (strayed, waiting) = (strayed.to_owned(), Some(id));
                self.state.resets.push(ModeReset { setting, strayed, waiting });
                self.out.frames.push(request);
            }
        }
    }

    /// The reply to a request that set something back.
    pub(super) fn reset_answered(&mut self, reset: &ModeReset, refusal: Option<&Refusal>) {
        let ModeReset { setting, strayed, .. } = reset;
        match refusal {
            None => {
                let what = setting.option.as_deref().unwrap_or("mode");
                self.note(format!("its {what} was set back to '{}'", setting.value), None);
                self.state.modes.was_set(setting);
                if setting.option == self.state.modes.option {
                    self.state.sandboxed = is_sandboxed(&setting.value);
                }
            }
            Some(refusal) => {
                let policy = self.state.wanted.policy.word();
                let said = not_taken(setting, &words::said(refusal));
                self.break_policy(format!(
                    "under {policy} the agent changed its mode to '{strayed}', and when that was \
                     set back {said}"
                ));
            }
        }
    }

    /// Judges what was set back in this turn and not confirmed before it ended well: the agent did the
    /// rest of its work as it liked.
    pub(super) fn resets_unanswered(&mut self) {
        let is_kept = matches!(self.state.modes.current_kind(), ModeKind::Asks | ModeKind::Holds);
        let option = &self.state.modes.option;
        let open = |reset: &&ModeReset| {
            reset.waiting.is_some() && !(is_kept && reset.setting.option == *option)
        };
        let open: Vec<_> = self.state.resets.iter().filter(open).cloned().collect();
        for ModeReset { setting, strayed, .. } in open {
            let policy = self.state.wanted.policy.word();
            let what = format!(
                "the agent changed its mode to '{strayed}' and did not answer the request to set it \
                 back to '{}' before its turn ended",
                setting.value
            );
            let is_mode = setting.option == self.state.modes.option;
            match is_mode && self.state.modes.kind_of(&strayed) == ModeKind::Unknown {
                true => self.warn(&format!("{what}: whether {policy} is kept is not known")),
                false => self.break_policy(format!("under {policy} {what}")),
            }
        }
    }
}

impl OfferedModes {
    /// The agent took a setting.
    fn was_set(&mut self, setting: &Setting) {
        if setting.option == self.option {
            self.current = Some(setting.value.clone());
        }
    }
}

impl State {
    /// Takes the request to set something back that this id answers.
    pub(super) fn reset_of(&mut self, id: &Value) -> Option<ModeReset> {
        let id = number(id)?;
        let reset = self.resets.iter_mut().find(|reset| reset.waiting == Some(id))?;
        reset.waiting = None;
        Some(reset.clone())
    }
}

/// What a refusal of a setting means.
pub(super) fn not_taken(setting: &Setting, said: &str) -> String {
    format!("it did not take the mode '{}': {said}", setting.value)
}
