//! Events that are a few lines of their own: tool calls and their results, questions and their
//! answers, plans, log lines. Each begins with its sign in the gutter and is cut to the terminal's
//! width; running text is in `render.rs`.

use super::clean::{clean, one_line};
use super::measure::{fit, pad, width};
use super::tone::Tone;
use super::{CALLS_MAX, Detail, GUTTER, Group, Piece, Renderer, figures, tools};
use contract::event::{
    DecidedBy, Decision, Log, Permission, Plan, Stream, ToolResult, ToolStatus, ToolUse,
};

impl Renderer {
    pub(super) fn tail(&mut self, detail: &str, out: &mut Vec<Piece>) {
        const LINES_MAX: usize = 6;
        let detail = clean(detail);
        let lines: Vec<&str> = detail.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
        self.gray(&last.join("\n"), out);
    }

    pub(super) fn call(&mut self, call: &ToolUse, out: &mut Vec<Piece>) {
        let name = one_line(&call.name);
        let indent = if call.parent.is_some() { "  " } else { "" };
        let line = format!("{indent}→ {name} {}", tools::about(call));
        self.line(Group::Tools, Tone::Tool, line.trim_end(), out);
        if self.calls.len() < CALLS_MAX {
            self.calls.insert(call.tool_call_id.clone(), name);
        }
        self.last_call = Some(call.tool_call_id.clone());
    }

    pub(super) fn answer(
        &mut self,
        result: &ToolResult,
        truncated: Option<bool>,
        out: &mut Vec<Piece>,
    ) {
        let follows = self.last_call.as_ref() == Some(&result.tool_call_id);
        let name = self.calls.remove(&result.tool_call_id);
        self.begin(Group::Tools, out);
        let (mark, tone) = match (result.status, result.denied) {
            (ToolStatus::Ok, _) => ("✓", Tone::Good),
            (ToolStatus::Error, Some(true)) => ("✗ denied", Tone::Bad),
            (ToolStatus::Error, _) => ("✗", Tone::Bad),
        };
        let folded = tools::folded(result);
        let mut more = String::new();
        if folded.more_lines > 0 {
            let noun = if folded.more_lines == 1 { "line" } else { "lines" };
            let more_than = if truncated == Some(true) { " and more" } else { "" };
            more = format!("  +{} {noun}{more_than}", folded.more_lines);
        }
        if let Some(ms) = result.duration_ms.filter(|ms| *ms >= 1000) {
            more.push_str(&format!("  {}", figures::duration(ms)));
        }
        // The answer to a call further up says which one it answers.
        let name = name.filter(|_| !follows).map(|name| format!("{name}: ")).unwrap_or_default();
        let room = self.columns.saturating_sub(GUTTER + width(mark) + 1 + width(&more));
        let text = fit(&format!("{name}{}", folded.first), room);
        self.text(tone, &format!("  {mark}"), out);
        let rest = format!(" {text}{more}");
        self.text(Tone::Gray, rest.trim_end(), out);
        out.push(Piece::End);
    }

    pub(super) fn permission(&mut self, asked: &Permission, out: &mut Vec<Piece>) {
        let title = one_line(&asked.title);
        let Some(decision) = asked.decision else {
            self.paragraph(Group::Tools, Tone::Tool, &format!("? {title}"), out);
            let ids: Vec<String> =
                asked.options.iter().map(|option| one_line(&option.id)).collect();
            let longest = ids.iter().map(|id| width(id)).max().unwrap_or_default();
            for (id, option) in ids.iter().zip(&asked.options) {
                let text = format!("  {}  {}", pad(id, longest), one_line(&option.name));
                self.text(Tone::Gray, &fit(&text, self.columns), out);
                out.push(Piece::End);
            }
            let answer = format!("  ostler answer {} CHOICE", asked.ask_id);
            self.text(Tone::Gray, &answer, out);
            self.last_call = Some(asked.ask_id.to_string());
            return out.push(Piece::End);
        };
        let follows = self.last_call == Some(asked.ask_id.to_string());
        let by = match asked.decided_by {
            Some(DecidedBy::Policy) => " by the policy".to_owned(),
            Some(DecidedBy::Person) => match asked.by.as_deref() {
                None | Some("owner") => " by you".to_owned(),
                Some(by) => format!(" by {}", one_line(by)),
            },
            Some(DecidedBy::Timeout) => ": nobody answered in time".to_owned(),
            None => String::new(),
        };
        let (mark, tone, word) = match decision {
            Decision::Allow => ("✓", Tone::Good, "allowed"),
            Decision::Deny => ("✗", Tone::Bad, "denied"),
            Decision::Cancelled => ("✗", Tone::Bad, "withdrawn"),
        };
        let title = if follows { String::new() } else { format!("{title} – ") };
        self.line(Group::Tools, tone, &format!("  {mark} {title}{word}{by}"), out);
    }

    pub(super) fn plan(&mut self, plan: &Plan, out: &mut Vec<Piece>) {
        self.line(Group::System, Tone::System, "≡ plan", out);
        for entry in &plan.entries {
            let (mark, tone) = match entry.status.as_str() {
                "completed" | "done" => ("✓", Tone::Gray),
                "in_progress" | "running" => ("▸", Tone::Strong),
                _ => ("·", Tone::System),
            };
            let text = format!("  {mark} {}", one_line(&entry.text));
            self.text(tone, &fit(&text, self.columns), out);
            out.push(Piece::End);
        }
    }

    pub(super) fn log(&mut self, log: &Log, out: &mut Vec<Piece>) {
        let debug = self.detail == Detail::Debug;
        let grave = matches!(log.level.as_deref(), Some("warn" | "warning" | "error"));
        match log.stream {
            Stream::Stderr => self.gray(&clean(&log.text), out),
            Stream::Ostler if grave && !debug => {
                let text = format!("! {}", one_line(&log.text));
                self.paragraph(Group::System, Tone::System, &text, out);
            }
            Stream::Stdout | Stream::Ostler => {
                if debug {
                    self.gray(&clean(&log.text), out);
                }
            }
        }
    }
}
