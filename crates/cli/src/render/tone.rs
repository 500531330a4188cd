//! The few colours there are: the agent's text as the terminal writes by itself, the system blue,
//! tools yellow, outcomes green or red, thoughts dim and slanted, everything unimportant gray. In
//! the agent's text headings and stressed words are bold, and code is cyan.
//! Without colour a tone is nothing at all, so plain output has no escape sequences.

use owo_colors::{OwoColorize as _, Style};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As the terminal writes by itself.
    Plain,
    System,
    Tool,
    Thought,
    Person,
    Gray,
    Good,
    Bad,
    Strong,
    Emphasis,
    Code,
}

impl Tone {
    fn style(self) -> Style {
        let style = Style::new();
        match self {
            Self::System => style.blue(),
            Self::Plain => style,
            Self::Good => style.green(),
            Self::Tool => style.yellow(),
            Self::Thought => style.dimmed().italic(),
            Self::Person | Self::Strong => style.bold(),
            Self::Gray => style.bright_black(),
            Self::Bad => style.red(),
            Self::Emphasis => style.italic(),
            Self::Code => style.cyan(),
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
            Self::On if !text.is_empty() && tone != Tone::Plain => {
                text.style(tone.style()).to_string()
            }
            Self::On | Self::Off => text.to_owned(),
        }
    }
}
