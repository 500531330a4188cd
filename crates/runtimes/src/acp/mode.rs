//! Modes: what an agent does unasked is its own setting, so the one that fits the policy is asked for
//! when the session is opened. By their ids, which few agents share: a table of those that ask before
//! they change anything, of those that change nothing, and of those that do as they like. An agent that
//! stays in one of the last cannot be held to a policy, and then its run ends before its first turn.

use super::ear::Ear;
use super::state::{Ours, Setting, short};
use super::wire::{ConfigOption, Opened, Refusal};
use super::words;
use contract::{Code, Policy};
use serde_json::json;
use std::collections::VecDeque;

/// An agent that is made up for a run where agents are configured so; see `lane`.
pub(crate) const MADE_UP: &str = "ostler-asks";

/// Modes that ask before anything is changed. Ids may be addresses.
const ASKING: [&str; 4] =
    [MADE_UP, "default", "normal", "https://agentclientprotocol.com/protocol/session-modes#agent"];
/// Modes that change nothing, for policies that would say no to every question.
const HOLDING: [&str; 1] = ["read-only"];
/// Modes that change something unasked.
const LOOSE: [&str; 14] = [
    "acceptEdits",
    "accept_edits",
    "agent-full-access",
    "auto",
    "auto-high",
    "auto-low",
    "auto-medium",
    "autoEdit",
    "bypassPermissions",
    "dontAsk",
    "dont_ask",
    "full-access",
    "https://agentclientprotocol.com/protocol/session-modes#autopilot",
    "yolo",
];
/// Options beside the mode that allow everything: what they are called, when they do, and when not.
const LOOSE_OPTIONS: [(&str, &str, &str); 1] = [("allow_all", "on", "off")];

/// Whether a policy is not kept in this mode.
pub(super) fn is_loose(policy: Policy, mode: &str) -> bool {
    policy != Policy::AllowAll && LOOSE.contains(&mode)
}

/// What is to be set before the first turn, and a mode that cannot be left.
pub(super) fn settings(policy: Policy, opened: &Opened) -> (VecDeque<Setting>, Option<String>) {
    if policy == Policy::AllowAll {
        return Default::default();
    }
    let mut settings = VecDeque::new();
    let mut stuck = None;
    let (current, offered, option) = modes(opened);
    let holding = HOLDING.iter().filter(|_| policy != Policy::Ask);
    let fits = |mode: &&&str| offered.iter().any(|offered| offered == **mode);
    let loose = current.as_deref().is_some_and(|mode| is_loose(policy, mode));
    match ASKING.iter().chain(holding).find(fits) {
        Some(mode) if current.as_deref() != Some(mode) => {
            settings.push_back(Setting { option, value: (*mode).to_owned(), loose });
        }
        Some(_) => {}
        None if loose => stuck = current,
        None => {}
    }
    for (id, on, off) in LOOSE_OPTIONS {
        let of = |option: &&ConfigOption| option.id.as_deref() == Some(id);
        if opened.config_options.iter().find(of).is_some_and(|option| option.is(on)) {
            let (option, value) = (Some(id.to_owned()), off.to_owned());
            settings.push_back(Setting { option, value, loose: true });
        }
    }
    (settings, stuck)
}

/// The mode there is, those there are, and the option by which they are chosen; without one it is
/// `session/set_mode`, the older way.
fn modes(opened: &Opened) -> (Option<String>, Vec<String>, Option<String>) {
    let ids = |ids: Vec<Option<String>>| ids.into_iter().filter_map(short).collect();
    if let Some(modes) = &opened.modes {
        let offered = ids(modes.available_modes.iter().map(|mode| mode.id.clone()).collect());
        return (short(modes.current_mode_id.clone()), offered, None);
    }
    let option = opened.config_options.iter().find(|option| option.is_mode());
    let Some(option) = option else { return Default::default() };
    let current = option.current_value.as_ref().and_then(|value| value.as_str());
    let offered = ids(option.options.iter().map(|choice| choice.value.clone()).collect());
    (short(current.map(str::to_owned)), offered, short(option.id.clone()))
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
