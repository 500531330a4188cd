//! Events that are a few lines of their own: tool calls and their results, plans, log lines. Each begins with its sign in the gutter and is cut to the terminal's
//! width; running text is in `render.rs`.

use super::clean::{clean, one_line};
use super::measure::{fit, fit_middle, width};
use super::tone::Tone;
use super::{CALLS_MAX, Detail, GUTTER, Group, Piece, Renderer, figures, paths, tools};
use contract::event::{Log, Plan, Stream, ToolResult, ToolStatus, ToolUse};

/// Calls that are compared with the next ones.
const RECENT_CALLS_MAX: usize = 8;

impl Renderer {
    pub(super) fn call(&mut self, call: &ToolUse, out: &mut Vec<Piece>) {
        if self.detail == Detail::Usual && self.is_told_already(call) {
            self.doubles.insert(call.tool_call_id.clone());
            return;
        }
        let name = one_line(&call.name);
        let indent = if call.parent.is_some() { "  " } else { "" };
        let about = paths::relative(&tools::about(call), self.root.as_deref());
        let about = if about == name { String::new() } else { about };
        let line = format!("{indent}→ {name} {about}");
        self.begin(Group::Tools, out);
        self.text(Tone::Tool, &fit_middle(line.trim_end(), self.columns), out);
        out.push(Piece::End);
        if self.calls.len() < CALLS_MAX {
            self.calls.insert(call.tool_call_id.clone(), name);
        }
        self.last_call = Some(call.tool_call_id.clone());
    }

    /// Whether the same call was told by the other side: a call of one of our own tools is told by the
    /// agent under a longer name, and by us when it comes in.
    fn is_told_already(&mut self, call: &ToolUse) -> bool {
        let is_same = |earlier: &ToolUse| {
            earlier.via != call.via
                && earlier.input == call.input
                && (earlier.name.ends_with(&call.name) || call.name.ends_with(&earlier.name))
        };
        if let Some(at) = self.recent_calls.iter().position(is_same) {
            self.recent_calls.remove(at);
            return self.doubles.len() < CALLS_MAX;
        }
        if self.recent_calls.len() == RECENT_CALLS_MAX {
            self.recent_calls.pop_front();
        }
        self.recent_calls.push_back(call.clone());
        false
    }

    pub(super) fn answer(
        &mut self,
        result: &ToolResult,
        truncated: Option<bool>,
        out: &mut Vec<Piece>,
    ) {
        if self.doubles.remove(&result.tool_call_id) {
            return;
        }
        let follows = self.last_call.as_ref() == Some(&result.tool_call_id);
        let name = self.calls.remove(&result.tool_call_id);
        // Its denial was shown already.
        if self.denied.remove(&result.tool_call_id) && self.detail == Detail::Usual {
            return;
        }
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
        let first = paths::relative(&folded.first, self.root.as_deref());
        let text = fit(&format!("{name}{first}"), room);
        let colon = if result.denied == Some(true) && !text.is_empty() { ":" } else { "" };
        self.text(tone, &format!("  {mark}{colon}"), out);
        let rest = format!(" {text}{more}");
        self.text(Tone::Gray, rest.trim_end(), out);
        out.push(Piece::End);
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
        let grave = is_grave(log);
        match log.stream {
            // The chatter of a run that goes well is of no interest; of one that fails, its end is
            // shown with the reason.
            Stream::Stderr if debug => self.gray(&clean(&log.text), out),
            Stream::Stderr => self.totals.keep_stderr(&log.text),
            Stream::Ostler if grave && !debug => {
                let text = format!("! {}", one_line(&log.text));
                self.paragraph(Group::System, Tone::System, &text, out);
            }
            Stream::Stdout | Stream::Ostler | Stream::Unknown => {
                if debug {
                    self.gray(&clean(&log.text), out);
                }
            }
        }
    }
}

/// Whether a line of bookkeeping is of interest to everyone.
pub(super) fn is_grave(log: &Log) -> bool {
    matches!(log.level.as_deref(), Some("warn" | "warning" | "error"))
}
