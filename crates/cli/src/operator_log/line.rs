//! The two formats of a log record. Text is for a person and for `journalctl`: time, level, component,
//! message, then `name=value` pairs. JSON has the same as one flat object per line. Values may hold any
//! bytes, such as a file name: control characters are escaped, so that none reaches a terminal and a
//! record is always one line.

use contract::Timestamp;
use serde_json::Value;
use std::fmt::{self, Write as _};
use tracing::Level;
use tracing::field::{Field, Visit};

/// The shape of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// The fields of a span or an event, in the order in which they were given.
#[derive(Debug, Default)]
pub struct Fields(Vec<(&'static str, Value)>);

const MESSAGE: &str = "message";
/// The field that `host::supervise` gives its tasks.
const TASK_NAME: &str = "task_name";

impl Fields {
    /// Adds the fields of an outer span.
    pub fn take(&mut self, outer: &Self) {
        for (name, value) in &outer.0 {
            self.set(name, value.clone());
        }
    }

    fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    fn message(&self) -> &str {
        let found = self.0.iter().find(|(name, _)| *name == MESSAGE);
        found.and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }

    fn others(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().filter(|(name, _)| *name != MESSAGE).map(|(name, value)| (*name, value))
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field.name(), Value::from(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), Value::from(value));
    }
}

/// One record, before it is a line.
pub struct Record<'a> {
    pub at: Timestamp,
    pub level: Level,
    pub target: &'a str,
    pub node: &'a str,
    pub fields: &'a Fields,
}

impl Record<'_> {
    /// `2026-11-19T10:00:00.000Z INFO  host run started run=run_… agent=scout`. A terminal gets the
    /// time of its own clock, and the level in colour.
    pub fn text(&self, is_terminal: bool) -> String {
        let mut line = match is_terminal {
            true => local_time(self.at),
            false => self.at.to_string(),
        };
        let level = match (is_terminal, self.level) {
            (true, Level::ERROR) => "\u{1b}[31mERROR\u{1b}[0m",
            (true, Level::WARN) => "\u{1b}[33mWARN \u{1b}[0m",
            (true, Level::INFO) => "\u{1b}[32mINFO \u{1b}[0m",
            (_, Level::ERROR) => "ERROR",
            (_, Level::WARN) => "WARN ",
            (_, Level::INFO) => "INFO ",
            (_, Level::DEBUG) => "DEBUG",
            (_, Level::TRACE) => "TRACE",
        };
        let component = self.target.split("::").next().unwrap_or(self.target);
        let _ = write!(line, " {level} {component} ");
        escape(self.fields.message(), &mut line);
        // The name of the internal task matters where something went wrong inside.
        let shown = |name: &str| name != TASK_NAME || self.level == Level::ERROR;
        for (name, value) in self.fields.others().filter(|(name, _)| shown(name)) {
            let _ = write!(line, " {name}=");
            match value {
                Value::String(text) => quoted(text, &mut line),
                other => line.push_str(&other.to_string()),
            }
        }
        line
    }

    /// The same as one flat JSON object.
    pub fn json(&self) -> String {
        let level = self.level.as_str().to_lowercase();
        let (at, message) = (self.at.to_string(), self.fields.message());
        let first = [
            ("ts", at.as_str()),
            ("level", &level),
            ("target", self.target),
            ("node", self.node),
            (MESSAGE, message),
        ];
        let mut line = String::from("{");
        for (name, value) in first {
            let _ = write!(line, "\"{name}\":{},", Value::from(value));
        }
        // A field never replaces what every line has.
        let others =
            self.fields.others().filter(|(name, _)| !first.iter().any(|(known, _)| known == name));
        for (name, value) in others {
            let _ = write!(line, "\"{name}\":{value},");
        }
        line.pop();
        line.push('}');
        line
    }
}

fn local_time(at: Timestamp) -> String {
    let local = jiff::Timestamp::from_millisecond(at.ms())
        .map(|at| at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S%.3f").to_string());
    local.unwrap_or_else(|_error| at.to_string())
}

/// A value as it stands when it is one plain word, else in quotes.
fn quoted(text: &str, line: &mut String) {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@+,%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        line.push_str(text);
        return;
    }
    line.push('"');
    escape(&text.replace('\\', "\\\\").replace('"', "\\\""), line);
    line.push('"');
}

/// Control characters and those that change the direction of text are escaped.
fn escape(text: &str, line: &mut String) {
    for c in text.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            c if c.is_control() || is_invisible(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, Value)]) -> Fields {
        Fields(pairs.to_vec())
    }

    fn record(fields: &Fields) -> Record<'_> {
        let (at, node) = (Timestamp(1_795_000_000_000), "host-1");
        Record { at, level: Level::WARN, target: "host::drive", node, fields }
    }

    #[test]
    fn a_text_line_has_the_message_and_its_fields() {
        let fields = fields(&[
            ("run", "run_01".into()),
            ("message", "lease not renewed".into()),
            ("attempt", 3.into()),
            ("error", "disk full while \"committing\"".into()),
        ]);
        insta::assert_snapshot!(
            record(&fields).text(false),
            @r#"2026-11-18T11:06:40.000Z WARN  host lease not renewed run=run_01 attempt=3 error="disk full while \"committing\"""#
        );
    }

    #[test]
    fn a_json_line_is_flat() {
        let fields = fields(&[
            ("message", "lease not renewed".into()),
            ("node", "another".into()),
            ("attempt", 3.into()),
        ]);
        insta::assert_snapshot!(
            record(&fields).json(),
            @r#"{"ts":"2026-11-18T11:06:40.000Z","level":"warn","target":"host::drive","node":"host-1","message":"lease not renewed","attempt":3}"#
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let fields =
            fields(&[("message", "a\u{1b}[31mb".into()), ("path", "x\ny\u{202e}z".into())]);
        for line in [record(&fields).text(false), record(&fields).json()] {
            assert!(!line.contains(['\u{1b}', '\n']), "{line:?}");
        }
        assert!(!record(&fields).text(false).contains('\u{202e}'));
    }

    #[test]
    fn an_inner_field_replaces_an_outer_one() {
        let mut inner = fields(&[("run", "run_01".into())]);
        inner.take(&fields(&[("run", "run_02".into()), ("fence", 2.into())]));
        insta::assert_snapshot!(format!("{inner:?}"), @r#"Fields([("run", String("run_02")), ("fence", Number(2))])"#);
    }
}
