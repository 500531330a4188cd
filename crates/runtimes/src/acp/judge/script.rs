//! The conversation as data: scenes, and the steps of each. A scene is one launch of the agent; which
//! are worth playing is decided by what the scenes before it came to. What is asked of the agent is
//! harmless and short; it works in a temporary directory.

use super::Recording;
use super::message::{self, Seen};
use serde_json::Value;

/// One launch of the agent, and how it is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scene {
    Plain,
    Strangers,
    Large,
    Cancelled,
    Allowed,
    Denied,
    Withdrawn,
    Loaded,
    Draft,
    Future,
    Eof,
}

/// What is said next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `initialize` with this version.
    Greet(u64),
    /// A request by a name that no agent has.
    UnknownMethod,
    /// A notification by a name that no agent has.
    UnknownNotification,
    /// A line that is not JSON.
    BrokenLine,
    /// `session/new` without any of its parameters.
    NewWithout,
    /// `session/new` in a directory that is not there.
    NewNowhere,
    New,
    /// `session/load` of the session that the first scene had, in its directory.
    Load,
    /// `session/load` of a session that nobody had.
    LoadUnknown,
    Prompt(Ask, Then),
    /// `session/prompt` in a session that nobody opened.
    PromptUnknown,
}

/// What a prompt asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// One word.
    Word,
    /// One word, with much that may be passed over.
    Large,
    /// Something that takes a while.
    Count,
    /// A file, which an agent with manners asks about first.
    File,
}

/// What is done when the turn shows its first sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Wait,
    Cancel,
    CloseStdin,
}

/// How questions for permission are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// With the narrowest option that allows it.
    Allow,
    /// With the narrowest option that does not.
    Deny,
    /// Not at all: the turn is cancelled, and the question with it.
    Withdraw,
}

/// The version that is spoken here.
pub(super) const VERSION: u64 = 1;
/// A version that is being written.
const DRAFT: u64 = 2;
/// A version that nobody has. Versions are numbers of 16 bits.
const FUTURE: u64 = 60_000;
/// The file that the agent is asked to make.
pub const FILE: &str = "conformance.txt";
/// The words of a large prompt that may be passed over.
const LARGE_BYTES: usize = 512 * 1024;

impl Scene {
    pub const ALL: [Self; 11] = [
        Self::Plain,
        Self::Strangers,
        Self::Large,
        Self::Cancelled,
        Self::Allowed,
        Self::Denied,
        Self::Withdrawn,
        Self::Loaded,
        Self::Draft,
        Self::Future,
        Self::Eof,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Strangers => "strangers",
            Self::Large => "large",
            Self::Cancelled => "cancelled",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Withdrawn => "withdrawn",
            Self::Loaded => "loaded",
            Self::Draft => "draft",
            Self::Future => "future",
            Self::Eof => "eof",
        }
    }

    pub(super) const fn steps(self) -> &'static [Step] {
        use Step::*;
        const WORD: Step = Prompt(Ask::Word, Then::Wait);
        const FILE: Step = Prompt(Ask::File, Then::Wait);
        match self {
            Self::Plain => &[Greet(VERSION), New, WORD, WORD],
            Self::Strangers => &[
                Greet(VERSION),
                UnknownMethod,
                UnknownNotification,
                // Asked again, so that who dies of the notification is told from who dies later.
                UnknownMethod,
                NewWithout,
                NewNowhere,
                PromptUnknown,
                LoadUnknown,
                New,
                WORD,
                BrokenLine,
                WORD,
            ],
            Self::Large => &[Greet(VERSION), New, Prompt(Ask::Large, Then::Wait)],
            Self::Cancelled => &[Greet(VERSION), New, Prompt(Ask::Count, Then::Cancel), WORD],
            Self::Allowed | Self::Denied | Self::Withdrawn => &[Greet(VERSION), New, FILE],
            Self::Loaded => &[Greet(VERSION), Load, WORD],
            Self::Draft => &[Greet(DRAFT)],
            Self::Future => &[Greet(FUTURE)],
            Self::Eof => &[Greet(VERSION), New, Prompt(Ask::Count, Then::CloseStdin)],
        }
    }

    pub(super) const fn answer(self) -> Answer {
        match self {
            Self::Denied => Answer::Deny,
            Self::Withdrawn => Answer::Withdraw,
            Self::Plain
            | Self::Strangers
            | Self::Large
            | Self::Cancelled
            | Self::Allowed
            | Self::Loaded
            | Self::Draft
            | Self::Future
            | Self::Eof => Answer::Allow,
        }
    }

    /// The scene in whose directory this one is played.
    pub const fn room(self) -> Self {
        match self {
            // A session is taken up again where it was.
            Self::Loaded => Self::Plain,
            Self::Plain
            | Self::Strangers
            | Self::Large
            | Self::Cancelled
            | Self::Allowed
            | Self::Denied
            | Self::Withdrawn
            | Self::Draft
            | Self::Future
            | Self::Eof => self,
        }
    }

    /// Whether there is anything to learn from this scene after those that were played.
    pub fn is_worth_playing(self, played: &[Recording]) -> bool {
        if played.iter().any(|played| played.exit.spawn_error.is_some()) {
            return false;
        }
        let plain = played.iter().find(|played| played.scene == Self::Plain);
        let turned = plain.is_none_or(|plain| {
            let prompt = |step: Step| matches!(step, Step::Prompt(..));
            plain.exchanges.iter().any(|done| prompt(done.step) && done.reply.is_some())
        });
        match self {
            Self::Plain | Self::Strangers | Self::Draft | Self::Future => true,
            // Who does not end a turn when nothing disturbs it will not do better here.
            Self::Large | Self::Cancelled | Self::Allowed | Self::Eof => turned,
            Self::Denied | Self::Withdrawn => played.iter().any(|played| played.done.allowed > 0),
            Self::Loaded => turned && plain.is_some_and(offers_load) && session(played).is_some(),
        }
    }
}

impl Step {
    /// Whether the conversation ends when this is not answered, or refused.
    pub(super) const fn is_vital(self) -> bool {
        match self {
            Self::Greet(_) | Self::New | Self::Load | Self::Prompt(..) => true,
            Self::UnknownMethod
            | Self::UnknownNotification
            | Self::BrokenLine
            | Self::NewWithout
            | Self::NewNowhere
            | Self::LoadUnknown
            | Self::PromptUnknown => false,
        }
    }
}

impl Ask {
    /// What is said to the agent; a person's own wish goes before all but the size.
    pub(super) fn text(self, wish: Option<&str>) -> String {
        const WORD: &str = "This tests how you speak, not what you can do: answer with the one word \
                            hello, and use no tools.";
        match (self, wish) {
            (Self::Large, wish) => {
                let line = "pass over this line, it is only here to be long\n";
                let much = line.repeat(LARGE_BYTES / line.len() + 1);
                format!("{much}\n{}", wish.unwrap_or(WORD))
            }
            (Self::Word | Self::Count | Self::File, Some(wish)) => wish.to_owned(),
            (Self::Word, None) => WORD.to_owned(),
            (Self::Count, None) => "Count from 1 to 500 in words, one number a line, and leave \
                                    none out. Use no tools."
                .to_owned(),
            (Self::File, None) => format!(
                "Create the file {FILE} with the one word hello in it, in the current directory, \
                 and do nothing else."
            ),
        }
    }
}

/// The session of the first scene, which the scene of `session/load` takes up again.
pub(super) fn session(played: &[Recording]) -> Option<String> {
    let plain = played.iter().find(|played| played.scene == Scene::Plain)?;
    plain.exchanges.iter().find_map(|exchange| exchange.session.clone())
}

/// Whether its greeting offers `session/load`.
pub(super) fn offers_load(played: &Recording) -> bool {
    let greeting = played.exchanges.iter().find(|done| matches!(done.step, Step::Greet(_)));
    let reply = greeting.and_then(|greeting| played.lines.get(greeting.reply?));
    let Some(Seen::Message(reply)) = reply.map(|line| message::look(&line.bytes)) else {
        return false;
    };
    reply
        .fields
        .get("result")
        .is_some_and(|result| result["agentCapabilities"]["loadSession"] == Value::Bool(true))
}
