//! The level of the operator log as a person writes it: one level for every component, or a list such
//! as `info,store=debug`. Pure: the flag, the environment and the configuration are read by one parser.

use contract::{Code, Fault};

/// The components whose records are logged: our crates that act.
pub const COMPONENTS: [&str; 6] = ["host", "server", "store", "remote", "keeper", "ostler"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "off" => Some(Self::Off),
            "error" => Some(Self::Error),
            "warn" => Some(Self::Warn),
            "info" => Some(Self::Info),
            "debug" => Some(Self::Debug),
            "trace" => Some(Self::Trace),
            _ => None,
        }
    }
}

/// The level of each component that has one of its own, and of all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLevels {
    pub all: LogLevel,
    pub components: Vec<(&'static str, LogLevel)>,
}

/// Reads a level or a list of levels. `source` is the flag, variable or key that it comes from.
pub fn parse(source: &str, text: &str) -> Result<LogLevels, Fault> {
    let refused = |what: &str| {
        let message = format!("invalid level in {source}: {text:?} ({what})");
        Fault::new(Code::Usage, message).with_hint(
            "expected off, error, warn, info, debug or trace, or a list such as info,store=debug",
        )
    };
    let mut levels = LogLevels { all: LogLevel::Off, components: Vec::new() };
    for part in text.split(',').map(str::trim) {
        let (name, word) = match part.split_once('=') {
            Some((name, word)) => (Some(name.trim()), word.trim()),
            None => (None, part),
        };
        let Some(level) = LogLevel::parse(word) else {
            return Err(refused(&format!("unknown level {word:?}")));
        };
        let Some(name) = name else {
            levels.all = level;
            continue;
        };
        let Some(component) = COMPONENTS.into_iter().find(|component| *component == name) else {
            let known = COMPONENTS.join(", ");
            return Err(refused(&format!("unknown component {name:?}, known: {known}")));
        };
        levels.components.push((component, level));
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_or_refused() {
        for text in ["off", "info", "debug,store=off", "warn, host=trace"] {
            assert!(parse("--log-level", text).is_ok(), "{text}");
        }
        for (text, told) in [
            ("", "unknown level \"\""),
            ("verbose", "unknown level \"verbose\""),
            ("3", "unknown level \"3\""),
            ("info,rmcp=debug", "unknown component \"rmcp\""),
            ("store=", "unknown level \"\""),
        ] {
            let fault = parse("OSTLER_LOG", text).expect_err(text);
            assert_eq!(fault.code, Code::Usage);
            assert!(fault.message.contains(told), "{}", fault.message);
            assert!(fault.message.contains("OSTLER_LOG"), "{}", fault.message);
        }
    }
}
