//! The few colours there are, and who wears them: the system blue, the assistant green, tools
//! yellow, thoughts dim and slanted, everything unimportant gray. Without colour a tone is nothing
//! at all, so plain output has no escape sequences.

use owo_colors::{OwoColorize as _, Style};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    System,
    Assistant,
    Tool,
    Thought,
    Person,
    Gray,
    Good,
    Bad,
    Strong,
}

impl Tone {
    fn style(self) -> Style {
        let style = Style::new();
        match self {
            Self::System => style.blue(),
            Self::Assistant | Self::Good => style.green(),
            Self::Tool => style.yellow(),
            Self::Thought => style.dimmed().italic(),
            Self::Person | Self::Strong => style.bold(),
            Self::Gray => style.bright_black(),
            Self::Bad => style.red(),
        }
    }
}

/// Whether tones are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    On,
    Off,
}

impl Colour {
    /// The text in its tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        match self {
            Self::On if !text.is_empty() => text.style(tone.style()).to_string(),
            Self::On | Self::Off => text.to_owned(),
        }
    }
}
