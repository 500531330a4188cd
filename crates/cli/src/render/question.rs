//! A permission question and its decision as lines: the title, what would be done (a command, the
//! change to a file, or the input of a tool) cut to a screenful, where and by which rule it is asked,
//! and how to answer. A question that the policy decides at once is shown as its decision alone.

use super::clean::{clean, one_line};
use super::measure::{fit_middle, pieces, width};
use super::tone::Tone;
use super::{Detail, GUTTER, Group, Piece, Renderer, figures, flow, paths, table};
use contract::event::{DecidedBy, Decision, Diff, Permission, PermissionOption, PermissionRequest};

/// Lines of content that are shown with a question at once, on a screen that is high enough.
const CONTENT_LINES_MAX: usize = 20;
/// Lines of content that are shown on any screen.
const CONTENT_LINES_MIN: usize = 3;
/// Lines of a screen that the rest of a question needs: title, place, keys, the status line.
const QUESTION_LINES: usize = 9;

/// A line of content and how it is painted.
struct ContentLine {
    tone: Tone,
    text: String,
}

impl Renderer {
    pub(super) fn permission(&mut self, asked: &Permission, out: &mut Vec<Piece>) {
        match asked.decision {
            // The decision follows at once, and says it all.
            None if asked.until.is_none() && asked.rule.is_some() => {}
            None => self.question(asked, out),
            Some(decision) => self.decision(asked, decision, out),
        }
    }

    fn question(&mut self, asked: &Permission, out: &mut Vec<Piece>) {
        let root = self.root.clone();
        let root = root.as_deref();
        let head = fit_middle(&format!("? {}", title_of(asked, root)), self.columns);
        self.begin(Group::Tools, out);
        self.text(Tone::Strong, &head, out);
        out.push(Piece::End);
        let room = self.columns.saturating_sub(GUTTER);
        let lines_max = self.rows.map_or(CONTENT_LINES_MAX, |rows| {
            rows.saturating_sub(QUESTION_LINES).clamp(CONTENT_LINES_MIN, CONTENT_LINES_MAX)
        });
        let mut lines = asked.request.as_ref().map(|it| content(it, root)).unwrap_or_default();
        // A command that the title shows whole is not shown again.
        if let [only] = lines.as_slice()
            && head.contains(only.text.trim_start_matches("$ "))
        {
            lines.clear();
        }
        let mut lines = wrapped(lines, room);
        let more = lines.len().saturating_sub(lines_max);
        lines.truncate(lines_max);
        self.content_lines(lines, out);
        let cut = asked.request.as_ref().is_some_and(|request| request.cut == Some(true));
        let note = match (more, cut) {
            (0, false) => None,
            (0, true) => Some("… the rest is too long to be shown".to_owned()),
            (1, false) => Some("… +1 line".to_owned()),
            (more, false) => Some(format!("… +{more} lines")),
            (more, true) => Some(format!("… +{more} lines and more")),
        };
        let context = context(asked, root, self.totals.intro.place.as_deref());
        for text in note.into_iter().chain(context) {
            self.text(Tone::Gray, &format!("  {}", fit_middle(&text, room)), out);
            out.push(Piece::End);
        }
        self.question = Some(asked.clone());
        self.is_question_cut = more > 0;
        self.owes_choices = true;
        self.last_call = Some(asked.ask_id.to_string());
    }

    /// Shows how to answer the open question. It is shown only after a moment without another event,
    /// because the questions of a past run are followed by their decisions at once.
    pub(super) fn show_choices(&mut self, out: &mut Vec<Piece>) {
        let Some(asked) = self.question.clone().filter(|_| self.owes_choices) else { return };
        self.owes_choices = false;
        let id = Some(asked.ask_id.to_string());
        // Something else was printed meanwhile.
        if self.last_call != id {
            let title = title_of(&asked, self.root.as_deref());
            self.line(Group::Tools, Tone::Strong, &format!("? {title}"), out);
        }
        let choices = match self.takes_keys {
            true => keys(&asked, self.is_question_cut),
            false => vec![commands(&asked)],
        };
        for line in in_lines(&choices, self.columns.saturating_sub(GUTTER)) {
            self.text(Tone::Tool, &format!("  {line}"), out);
            out.push(Piece::End);
        }
        self.last_call = id;
    }

    /// All of what the open question is about, for a person who wants to see more of it.
    pub fn whole_question(&mut self) -> Vec<Piece> {
        let mut out = Vec::new();
        let Some(asked) = self.question.clone() else { return out };
        let root = self.root.clone();
        let lines = asked.request.as_ref().map(|it| content(it, root.as_deref()));
        let head = format!("? {}", title_of(&asked, root.as_deref()));
        self.line(Group::Tools, Tone::Strong, &head, &mut out);
        let room = self.columns.saturating_sub(GUTTER);
        self.content_lines(wrapped(lines.unwrap_or_default(), room), &mut out);
        for line in in_lines(&keys(&asked, false), room) {
            self.text(Tone::Tool, &format!("  {line}"), &mut out);
            out.push(Piece::End);
        }
        self.last_call = Some(asked.ask_id.to_string());
        out
    }

    fn content_lines(&self, lines: Vec<ContentLine>, out: &mut Vec<Piece>) {
        for line in lines {
            self.text(line.tone, format!("  {}", line.text).trim_end(), out);
            out.push(Piece::End);
        }
    }

    fn decision(&mut self, asked: &Permission, decision: Decision, out: &mut Vec<Piece>) {
        // What the agent is told instead of a result repeats the decision, or calls a question that was
        // withdrawn a denial.
        if let (Decision::Deny | Decision::Cancelled, Some(id)) = (decision, &asked.tool_call_id)
            && self.denied.len() < super::CALLS_MAX
        {
            self.denied.insert(id.clone());
        }
        let rule = asked.rule.as_deref().map(one_line);
        let by_policy = asked.decided_by == Some(DecidedBy::Policy);
        let usual = rule.as_deref().is_none_or(|rule| rule.starts_with("--permission"));
        let is_allowed = decision == Decision::Allow;
        if by_policy && usual && is_allowed && self.detail == Detail::Usual {
            return;
        }
        let rule = rule.map(|rule| format!(" ({rule})")).unwrap_or_default();
        let reason = asked.reason.as_deref().map(|why| format!(": {}", one_line(why)));
        let by = match asked.decided_by {
            Some(DecidedBy::Policy) if usual => format!(" by policy{rule}"),
            Some(DecidedBy::Policy) => rule,
            Some(DecidedBy::Person) => {
                let by = match asked.by.as_deref() {
                    None | Some("owner") => " by you".to_owned(),
                    Some(by) => format!(" by {}", one_line(by)),
                };
                format!("{by}{rule}{}", reason.unwrap_or_default())
            }
            Some(DecidedBy::Timeout) => ": no answer in time".to_owned(),
            None => String::new(),
        };
        let (mark, tone, word) = match decision {
            Decision::Allow => ("✓", Tone::Good, "allowed"),
            Decision::Deny => ("✗", Tone::Bad, "denied"),
            Decision::Cancelled => ("✗", Tone::Bad, "withdrawn"),
        };
        let follows = [Some(asked.ask_id.to_string()), asked.tool_call_id.clone()];
        let follows = self.last_call.is_some() && follows.contains(&self.last_call);
        let title = match follows {
            true => String::new(),
            false => {
                format!(": {}", paths::relative(&one_line(&asked.title), self.root.as_deref()))
            }
        };
        self.begin(Group::Tools, out);
        let line = fit_middle(&format!("  {mark} {word}{by}{title}"), self.columns);
        self.text(tone, &line, out);
        out.push(Piece::End);
        // The result of the call that was asked for follows.
        self.last_call = asked.tool_call_id.clone();
        if self.question.take_if(|open| open.ask_id == asked.ask_id).is_some() {
            self.owes_choices = false;
        }
    }
}

/// What is asked for. Some agents give the file or the command alone: then it says what would be done.
fn title_of(asked: &Permission, root: Option<&str>) -> String {
    let title = paths::relative(&one_line(&asked.title), root);
    let Some(request) = &asked.request else { return title };
    let mut files = request.paths.iter().map(|path| paths::relative(&one_line(path), root));
    let is_bare = request.command.as_deref().map(one_line).as_ref() == Some(&title)
        || files.any(|path| path == title);
    match request.tool_kind.as_deref().or(request.tool.as_deref()).filter(|_| is_bare) {
        Some(kind) => format!("{}: {title}", one_line(kind)),
        None => title,
    }
}

/// The choices in lines of at most `columns`, none of them broken where it fits.
fn in_lines(choices: &[String], columns: usize) -> Vec<String> {
    let (mut lines, mut is_broken): (Vec<String>, bool) = (Vec::new(), true);
    for choice in choices {
        match lines.last_mut().filter(|_| !is_broken) {
            Some(line) if width(line) + CHOICE_GAP.len() + width(choice) <= columns => {
                line.push_str(CHOICE_GAP);
                line.push_str(choice);
            }
            _ => {
                let broken = flow::lines(choice, columns);
                // The end of a long choice is no place for another.
                is_broken = broken.len() > 1;
                lines.extend(broken);
            }
        }
    }
    lines
}

/// Between two choices.
const CHOICE_GAP: &str = "   ";

/// One line for a person who is not at this terminal: where a question can be answered, and until when.
pub fn waits_for_answer(ask: &str, left_ms: u64) -> String {
    format!(
        "an approval is requested and waits for {}: ostler answer {ask} allow|deny \
         (ostler approvals lists all)",
        figures::duration(left_ms)
    )
}

/// The options of a question that are not just allow and deny: they are chosen by number.
pub fn named_options(asked: &Permission) -> Vec<&PermissionOption> {
    let is_plain = |option: &&PermissionOption| {
        option.kind.starts_with("reject") || option.id == "allow" || option.kind == "allow_always"
    };
    match asked.request {
        // A request for a tool is allowed or denied, whatever its agent calls that.
        Some(_) => Vec::new(),
        None => asked.options.iter().filter(|option| !is_plain(option)).collect(),
    }
}

/// Long lines go on in the next, because a person who allows a command must have seen its end.
fn wrapped(lines: Vec<ContentLine>, columns: usize) -> Vec<ContentLine> {
    let wrap = |line: ContentLine| {
        let rows = pieces(&line.text, columns).into_iter();
        rows.map(|row| ContentLine { tone: line.tone, text: row.to_owned() }).collect::<Vec<_>>()
    };
    lines.into_iter().flat_map(wrap).collect()
}

/// What would be done, line by line.
fn content(request: &PermissionRequest, root: Option<&str>) -> Vec<ContentLine> {
    let mut lines = Vec::new();
    if let Some(command) = &request.command {
        for (i, line) in clean(command).lines().enumerate() {
            let sign = if i == 0 { "$" } else { " " };
            lines.push(ContentLine { tone: Tone::Plain, text: format!("{sign} {line}") });
        }
    }
    for diff in &request.diffs {
        if request.diffs.len() > 1 {
            let text = paths::relative(&one_line(&diff.path), root);
            lines.push(ContentLine { tone: Tone::Strong, text });
        }
        lines.extend(diff_lines(diff));
    }
    if let Some(input) = &request.input {
        let text = match input {
            serde_json::Value::Object(fields) if fields.len() == 1 => {
                fields.iter().map(|(key, value)| format!("{key}: {}", plain(value))).collect()
            }
            other => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
        let text = clean(&text);
        lines.extend(
            text.lines().map(|line| ContentLine { tone: Tone::Gray, text: line.to_owned() }),
        );
    }
    lines
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A change as lines with their signs. Of two whole texts only the part that differs is shown.
fn diff_lines(diff: &Diff) -> Vec<ContentLine> {
    let signed =
        |tone, sign: &str, text: &str| ContentLine { tone, text: format!("{sign} {text}") };
    if let Some(patch) = &diff.patch {
        let patch = clean(patch);
        let line = |line: &str| {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                _ => Tone::Gray,
            };
            ContentLine { tone, text: line.to_owned() }
        };
        return patch.lines().map(line).collect();
    }
    let text = |text: &Option<String>| clean(text.as_deref().unwrap_or_default());
    let (old, new) = (text(&diff.old_text), text(&diff.new_text));
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[before..], &new[before..]);
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let removed = old[..old.len() - after].iter().map(|line| signed(Tone::Bad, "-", line));
    let added = new[..new.len() - after].iter().map(|line| signed(Tone::Good, "+", line));
    removed.chain(added).collect()
}

/// The agent's reason, the directory and the rule. `place` is how people write the root.
fn context(asked: &Permission, root: Option<&str>, place: Option<&str>) -> Vec<String> {
    let request = asked.request.as_ref();
    let reason = request.and_then(|request| request.reason.as_deref()).map(one_line);
    let cwd = request.and_then(|request| request.cwd.as_deref()).map(one_line);
    let shown = |cwd: String| match place {
        Some(place) if root == Some(cwd.as_str()) => one_line(place),
        Some(_) | None => paths::tail_of(&cwd, root),
    };
    let place = cwd.map(|cwd| format!("in {}", shown(cwd)));
    let rule = asked.rule.as_deref().map(|rule| format!("asked by {}", one_line(rule)));
    let where_and_why: Vec<String> = place.into_iter().chain(rule).collect();
    // Some agents give the file itself as the reason.
    let title = one_line(&asked.title);
    let reason = reason.filter(|reason| !reason.is_empty() && !title.contains(reason.as_str()));
    let last = (!where_and_why.is_empty()).then(|| where_and_why.join(" · "));
    reason.into_iter().chain(last).collect()
}

/// The answers by key, and a key that shows what was left out.
fn keys(asked: &Permission, is_cut: bool) -> Vec<String> {
    let named = named_options(asked);
    let mut choices: Vec<String> = match named.is_empty() {
        true => vec!["[a] allow once".to_owned()],
        false => {
            let numbered = named.iter().enumerate().take(9);
            numbered.map(|(i, option)| format!("[{}] {}", i + 1, one_line(&option.name))).collect()
        }
    };
    choices.extend(asked.always.as_deref().map(|all| format!("[A] allow {}", one_line(all))));
    choices.push("[d] deny".to_owned());
    choices.push("[r] deny with a reason".to_owned());
    choices.extend(is_cut.then(|| "[v] view all".to_owned()));
    choices
}

/// The answers by command, from any terminal.
fn commands(asked: &Permission) -> String {
    let id = asked.ask_id.to_string();
    let always = asked.always.as_deref().map(|_| "always".to_owned());
    let named = named_options(asked);
    let named = named.iter().map(|option| format!("\"{}\"", one_line(&option.id)));
    let allow = named.len() == 0;
    let choices: Vec<String> = allow
        .then(|| "allow".to_owned())
        .into_iter()
        .chain(always)
        .chain(named)
        .chain(["deny".to_owned()])
        .collect();
    format!("ostler answer {} {}", table::tail(&id), choices.join("|"))
}
