//! What doctor finds: checks with stable codes, and one status made from them. An error is a set-up
//! that cannot work, a warning one that may surprise, and the rest is what was seen.

use crate::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything found about one agent, adapter or runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// The name that `ostler run` takes.
    pub name: String,
    /// The runtime that drives it.
    pub adapter_type: String,
    pub status: Status,
    /// The version that the program prints; absent when it prints none, or is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub checks: Vec<Check>,
    pub tested_at: Timestamp,
}

impl Diagnosis {
    pub fn new(name: &str, adapter_type: &str, checks: Vec<Check>, tested_at: Timestamp) -> Self {
        Self {
            name: name.to_owned(),
            adapter_type: adapter_type.to_owned(),
            status: Status::of(&checks),
            version: None,
            checks,
            tested_at,
        }
    }

    /// The same with the version that the program printed.
    pub fn with_version(mut self, version: Option<String>) -> Self {
        self.version = version;
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pass,
    Warn,
    Fail,
}

impl Status {
    /// An error fails, a warning warns, and everything else passes.
    pub fn of(checks: &[Check]) -> Self {
        let worst = checks.iter().map(|check| check.level()).max();
        match worst {
            Some(CheckLevel::Error) => Self::Fail,
            Some(CheckLevel::Warn) => Self::Warn,
            Some(CheckLevel::Info) | None => Self::Pass,
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    pub code: CheckCode,
    pub level: CheckLevel,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Check {
    pub fn new(code: CheckCode, message: impl Into<String>) -> Self {
        Self { code, level: code.level(), message: message.into(), detail: None, hint: None }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    fn level(&self) -> CheckLevel {
        self.level
    }
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CheckLevel {
    Info,
    Warn,
    Error,
}

/// What can be found. The words are stable, and each has one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckCode {
    BinaryFound,
    BinaryMissing,
    VersionRecorded,
    VersionNotRecorded,
    VersionUnknown,
    OnlyDocumented,
    LoginSeen,
    LoginNotSeen,
    KeySwitchesBilling,
    HandshakeAnswered,
    HandshakeFailed,
    /// The program answered none of the probes before their deadline.
    ProgramHangs,
    /// The agent or adapter that a configured name stands for.
    StandsFor,
    /// The program is an agent that does not speak what its adapter says.
    WrongProtocol,
    /// The names of the caller's variables that the agent gets.
    EnvironmentPassed,
    /// Names that the agent may need and does not get.
    EnvironmentNotPassed,
    /// A variable that the configuration uses as `${NAME}`, and that is not set.
    VariableNotSet,
    DirectoryUsable,
    DirectoryUnusable,
    ConfigurationInvalid,
    SecretInArguments,
    PolicyPossible,
    PolicyDangerous,
    PolicyNotPossible,
}

impl CheckCode {
    pub const fn level(self) -> CheckLevel {
        match self {
            Self::BinaryMissing
            | Self::ProgramHangs
            | Self::DirectoryUnusable
            | Self::ConfigurationInvalid
            | Self::VariableNotSet
            | Self::PolicyNotPossible => CheckLevel::Error,
            Self::VersionUnknown
            | Self::LoginNotSeen
            | Self::WrongProtocol
            | Self::HandshakeFailed
            | Self::SecretInArguments => CheckLevel::Warn,
            Self::BinaryFound
            | Self::VersionRecorded
            | Self::VersionNotRecorded
            | Self::OnlyDocumented
            | Self::LoginSeen
            | Self::KeySwitchesBilling
            | Self::StandsFor
            | Self::EnvironmentPassed
            | Self::EnvironmentNotPassed
            | Self::HandshakeAnswered
            | Self::DirectoryUsable
            | Self::PolicyPossible
            | Self::PolicyDangerous => CheckLevel::Info,
        }
    }
}
