//! Tasks for a terminal: `ostler task list` as a table, one line per task, its title taking what room
//! is left; and `ostler task show` as lines. Pure, like all of the renderer.

use super::clean::one_line;
use super::figures;
use super::limits;
use super::measure::{fit, pad, width};
use super::page::Page;
use super::table::tail;
use super::tone::{Colour, Tone};
use super::totals::mark;
use contract::event::BudgetLevel;
use contract::state::WaitingFor;
use contract::view::RunView;
use contract::{Outcome, TaskId, TaskState, Timestamp};
use host::ops::ask::OpenAsk;
use host::ops::task::{TaskSheet, TaskView};
use std::collections::BTreeMap;

const HEADS: [&str; 5] = ["TASK", "WHEN", "AGENT", "STATE", "TITLE"];
const GAP: &str = "  ";
const STATE: usize = 3;
const TITLE: usize = 4;
const AGENT_COLUMNS_MAX: usize = 16;
const STATE_COLUMNS_MAX: usize = 30;

/// The whole table, without a newline at its end.
/// `waits` says in words what a task waits for, where its own row does not say enough.
pub fn tasks_table(
    rows: &[TaskView],
    waits: &BTreeMap<TaskId, String>,
    now: Timestamp,
    (columns, colour): (usize, Colour),
) -> String {
    let cells: Vec<[String; 5]> =
        rows.iter().map(|row| cells(row, waits.get(&row.id), now)).collect();
    let mut widths = HEADS.map(width);
    for row in &cells {
        for (known, cell) in widths.iter_mut().zip(row) {
            *known = (*known).max(width(cell));
        }
    }
    let before: usize = widths[..TITLE].iter().map(|width| width + GAP.len()).sum();
    widths[TITLE] = columns.saturating_sub(before).max(HEADS[TITLE].len());
    let line = |cells: &[String; 5]| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| pad(cell, *width)).collect();
        fit(padded.join(GAP).trim_end(), columns)
    };
    let head = line(&HEADS.map(str::to_owned));
    let mut lines = vec![colour.paint(Tone::Gray, &head)];
    for (row, cells) in rows.iter().zip(&cells) {
        let plain = line(cells);
        let state = cells[STATE].as_str();
        lines.push(match plain.split_once(state) {
            Some((before, after)) => {
                format!("{before}{}{after}", colour.paint(tone(row.state), state))
            }
            None => plain,
        });
    }
    lines.join("\n")
}

fn cells(row: &TaskView, waits: Option<&String>, now: Timestamp) -> [String; 5] {
    [
        tail(&row.id.to_string()).to_owned(),
        figures::ago(row.created_at, now),
        fit(&one_line(agent(row)), AGENT_COLUMNS_MAX),
        match waits {
            Some(why) => format!("… {}", fit(why, STATE_COLUMNS_MAX)),
            None => state(row, now),
        },
        title(row),
    ]
}

/// Who does it, as far as that is known.
fn agent(row: &TaskView) -> &str {
    row.agent.as_deref().unwrap_or("any")
}

/// Where it stands, and for what it waits.
fn state(row: &TaskView, now: Timestamp) -> String {
    let mark = match row.state {
        TaskState::Queued | TaskState::Waiting => "…",
        TaskState::Running => "●",
        TaskState::Review => "?",
        TaskState::Done => "✓",
        TaskState::Failed => "✗",
        TaskState::Cancelled => "–",
        TaskState::Unknown => "·",
    };
    let word = row.state.word();
    let why = row.waiting_for.map_or("waits", in_words);
    match (row.state, row.until, row.code) {
        (TaskState::Waiting, Some(until), _) if until > now => {
            format!("{mark} {why}, {}", figures::elapsed(until.since(now)))
        }
        (TaskState::Waiting, _, _) => format!("{mark} {why}"),
        (TaskState::Running, _, _) if row.recalled => format!("{mark} being stopped"),
        (TaskState::Failed, _, Some(code)) => format!("{mark} {}", code.word().replace('_', " ")),
        _ => format!("{mark} {word}"),
    }
}

fn in_words(waiting: WaitingFor) -> &'static str {
    match waiting {
        WaitingFor::NotBefore => "starts later",
        WaitingFor::Quota => "waits for quota",
        WaitingFor::Pool => "waits for a slot",
        WaitingFor::Dependency => "waits for another task",
        WaitingFor::Workspace => "waits for its workspace",
        WaitingFor::Agent => "waits for its agent",
        WaitingFor::Approval => "waits for approval",
        WaitingFor::Answer => "waits for your answer",
        WaitingFor::Budget => "waits for budget",
        WaitingFor::Unknown => "waits (a newer version says for what)",
    }
}

fn tone(state: TaskState) -> Tone {
    match state {
        TaskState::Done => Tone::Good,
        TaskState::Failed => Tone::Bad,
        TaskState::Queued
        | TaskState::Waiting
        | TaskState::Running
        | TaskState::Review
        | TaskState::Cancelled
        | TaskState::Unknown => Tone::System,
    }
}

/// One task with all that belongs to it, its open questions, and what can be done about it now,
/// without a newline at its end.
pub fn task_sheet(
    sheet: &TaskSheet,
    asks: &[OpenAsk],
    paused: bool,
    now: Timestamp,
    (columns, colour): (usize, Colour),
) -> String {
    let task = &sheet.task;
    let mut page = Page::titled(&title(task), columns, colour);
    if sheet.body != task.title {
        page.text(&sheet.body);
    }
    page.gap();
    page.say("task", &task.id.to_string());
    page.say("agent", &one_line(agent(task)));
    page.painted("state", tone(task.state), &state(task, now));
    if let Some(note) = task.note.as_deref().filter(|note| !note.is_empty()) {
        page.say("", &one_line(note));
    }
    if let Some(cwd) = &sheet.cwd {
        page.say("cwd", &one_line(cwd));
    }
    if task.priority != 0 {
        page.say("priority", &task.priority.to_string());
    }
    if !task.labels.is_empty() {
        page.say("labels", &one_line(&task.labels.join(", ")));
    }
    if let Some(parent) = task.parent {
        page.say("below", tail(&parent.to_string()));
    }
    if let Some(budget) = &sheet.budget {
        page.say("budget", &limits::spent(budget));
    }
    for after in &sheet.after {
        page.say("after", tail(&after.to_string()));
    }
    if task.tries > 0 || task.generation > 1 {
        let opened = task.generation - 1;
        page.say("tries", &format!("{} again, reopened {opened} times", task.tries));
    }
    for run in &sheet.runs {
        page.painted("run", tone_of(run.outcome), &one_run(run, now));
    }
    if let Some(next) = &sheet.next_prompt {
        page.say("asked", &one_line(next));
    }
    if let Some(progress) = &sheet.last_progress {
        page.say("progress", &one_line(&progress.summary));
    }
    for said in &sheet.comments {
        let author = match said.author.parse::<contract::RunId>() {
            Ok(_) => tail(&said.author).to_owned(),
            // No run, so a person.
            Err(_) => one_line(&said.author),
        };
        page.say("comment", &format!("{author}: {}", one_line(&said.text)));
    }
    for ask in asks {
        let id = ask.ask_id.to_string();
        page.say("asks", &format!("{}: {}", tail(&id), one_line(&ask.title)));
    }
    if let Some(answer) = &sheet.answer {
        page.answer(answer);
    }
    page.next(&steps(sheet, asks, paused));
    page.finish()
}

/// The title of a task. Its words are deleted with its run.
fn title(task: &TaskView) -> String {
    match one_line(&task.title) {
        title if title.is_empty() => "(prompt deleted with its run)".to_owned(),
        title => title,
    }
}

fn one_run(run: &RunView, now: Timestamp) -> String {
    let id = run.id.to_string();
    let outcome = match run.outcome {
        Some(outcome) => format!("{} {}", mark(outcome).0, outcome.word().replace('_', " ")),
        None => "● live".to_owned(),
    };
    let code = run.code.map(|code| format!(" ({})", code.word())).unwrap_or_default();
    let spent = run.totals.and_then(|totals| {
        figures::paid(totals.effective_nanousd, totals.tokens.total(), run.billing)
    });
    let spent = spent.map(|spent| format!("  {spent}")).unwrap_or_default();
    let time = figures::duration(run.ended_at.unwrap_or(now).since(run.started_at));
    let instead = run.fallback.as_deref().map(|who| format!("  {}", one_line(who)));
    let (when, instead) = (figures::ago(run.started_at, now), instead.unwrap_or_default());
    format!("{}  {when}  {outcome}{code}  {time}{spent}{instead}", tail(&id))
}

fn tone_of(outcome: Option<Outcome>) -> Tone {
    outcome.map_or(Tone::System, |outcome| mark(outcome).1)
}

/// What a person can do about a task that stands so, and whose agent may be paused.
fn steps(sheet: &TaskSheet, asks: &[OpenAsk], paused: bool) -> Vec<String> {
    let task = &sheet.task;
    let id = task.id.to_string();
    let id = tail(&id);
    let mut steps: Vec<String> = Vec::new();
    for ask in asks {
        let ask = ask.ask_id.to_string();
        steps.push(format!("ostler answer {} allow   or: deny", tail(&ask)));
    }
    if sheet.worktree_of.is_some() {
        steps.push(format!("ostler diff {id}   then: ostler apply {id}"));
    }
    match (task.state, task.waiting_for) {
        (TaskState::Review, _) => {
            steps.push(format!("ostler task approve {id}   or: reject {id} \"WHY\""));
        }
        (TaskState::Running, _) => steps.push(format!("ostler watch {id}")),
        (TaskState::Failed, _) => {
            if !sheet.runs.is_empty() {
                steps.push(format!("ostler show {id}"));
            }
            steps.push(format!("ostler task reopen {id}"));
        }
        (TaskState::Waiting, Some(WaitingFor::Answer)) => {
            steps.push(format!("ostler task comment {id} \"YOUR ANSWER\""));
        }
        (TaskState::Waiting, Some(WaitingFor::Agent)) => {
            if let Some(agent) = task.agent.as_ref().filter(|_| paused) {
                steps.push(format!("ostler agents resume {}", one_line(agent)));
            }
        }
        (TaskState::Waiting, Some(WaitingFor::Budget)) if used_up(sheet) => {
            steps.push(format!("ostler task budget {id} --usd N   or: --tokens N, --minutes N"));
        }
        // A slot cannot be had by asking for it.
        (TaskState::Waiting, Some(WaitingFor::Pool)) => {}
        (TaskState::Waiting, _) => steps.push(format!("ostler task retry {id}   to try it now")),
        (TaskState::Queued | TaskState::Done | TaskState::Cancelled | TaskState::Unknown, _) => {}
    }
    steps
}

/// Whether a task's own budget lets it do nothing more.
fn used_up(sheet: &TaskSheet) -> bool {
    sheet.budget.as_ref().is_some_and(|budget| budget.level == BudgetLevel::Hard)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Code;
    use contract::state::Review;

    const NOW: Timestamp = Timestamp(1_800_000_600_000);

    fn task(n: u8, state: TaskState, title: &str) -> TaskView {
        TaskView {
            id: format!("task_000000000000000000000000000000{n:02}").parse().unwrap(),
            run_id: None,
            agent: Some("worker".to_owned()),
            title: title.to_owned(),
            state,
            waiting_for: None,
            until: None,
            note: None,
            code: None,
            pool: None,
            place: None,
            priority: 0,
            labels: Vec::new(),
            parent: None,
            review: Review::Person,
            generation: 1,
            tries: 0,
            recalled: false,
            created_at: NOW.plus_ms(-60_000),
        }
    }

    #[test]
    fn a_table_of_tasks_says_where_each_stands() {
        let waits = TaskView {
            waiting_for: Some(WaitingFor::Quota),
            until: Some(NOW.plus_ms(120_000)),
            ..task(2, TaskState::Waiting, "later")
        };
        let after = TaskView {
            waiting_for: Some(WaitingFor::Dependency),
            ..task(3, TaskState::Waiting, "then")
        };
        let failed =
            TaskView { code: Some(Code::NotInstalled), ..task(4, TaskState::Failed, "no") };
        let waits_for = BTreeMap::from([(after.id, "waits for 'say hello'".to_owned())]);
        let long = "a title that is longer than there is room for it on this line";
        let rows = [
            task(1, TaskState::Queued, "now"),
            waits,
            after,
            failed,
            task(5, TaskState::Review, long),
            TaskView { recalled: true, ..task(6, TaskState::Running, "enough") },
            task(7, TaskState::Done, "\u{1b}[31mred\nand more"),
        ];
        let table = tasks_table(&rows, &waits_for, NOW, (72, Colour::Off));
        let said = [
            "STATE",
            "… queued",
            "… waits for quota, 2 min 00 s",
            "… waits for 'say hello'",
            "✗ not installed",
            "? review",
            "● being stopped",
            "✓ done",
        ];
        assert_eq!(table.lines().count(), said.len(), "{table}");
        for (line, said) in table.lines().zip(said) {
            assert!(line.contains(said), "{said}: {table}");
            assert!(width(line) <= 72 && !line.contains('\u{1b}'), "{line:?}");
        }
    }
}
