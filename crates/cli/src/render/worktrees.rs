//! `ostler worktrees` as a table: newest first as given, the directory taking what room is left. A
//! directory that does not fit is cut in its middle, because its end says which one it is.

use super::clean::one_line;
use super::figures;
use super::measure::{pad, width};
use super::table::tail;
use super::tone::{Colour, Tone};
use contract::Timestamp;
use host::ops::worktrees::{WorktreeState, WorktreeView};

const HEADS: [&str; 6] = ["RUN", "STATE", "CHANGES", "AGE", "BRANCH", "DIRECTORY"];
const GAP: &str = "  ";
const DIRECTORY: usize = 5;
const DIRECTORY_COLUMNS_MIN: usize = 16;

/// The whole table, without a newline at its end.
pub fn worktrees(rows: &[WorktreeView], now: Timestamp, columns: usize, colour: Colour) -> String {
    let cells: Vec<[String; 6]> = rows.iter().map(|row| cells(row, now)).collect();
    let mut widths = HEADS.map(width);
    for row in &cells {
        for (known, cell) in widths.iter_mut().zip(row) {
            *known = (*known).max(width(cell));
        }
    }
    let before: usize = widths[..DIRECTORY].iter().map(|width| width + GAP.len()).sum();
    let room = columns.saturating_sub(before).max(DIRECTORY_COLUMNS_MIN);
    let line = |cells: &[String; 6]| {
        let padded: Vec<String> =
            cells[..DIRECTORY].iter().zip(widths).map(|(cell, width)| pad(cell, width)).collect();
        format!("{}{GAP}{}", padded.join(GAP), cut_in_middle(&cells[DIRECTORY], room))
    };
    let mut lines = vec![colour.paint(Tone::Gray, &line(&HEADS.map(str::to_owned)))];
    for (row, cells) in rows.iter().zip(&cells) {
        let plain = line(cells);
        let state = cells[1].as_str();
        lines.push(match plain.split_once(state) {
            Some((before, after)) => {
                format!("{before}{}{after}", colour.paint(tone(row.state), state))
            }
            None => plain,
        });
    }
    lines.join("\n")
}

fn cells(row: &WorktreeView, now: Timestamp) -> [String; 6] {
    let state = match row.state {
        WorktreeState::Live => "● live",
        WorktreeState::Unapplied => "unapplied work",
        WorktreeState::Unchanged => "unchanged",
        WorktreeState::Orphaned => "orphaned",
        WorktreeState::Unknown => "? unknown",
    };
    let files = match row.files {
        0 => None,
        1 => Some("1 file".to_owned()),
        files => Some(format!("{files} files")),
    };
    let commits = match row.commits {
        0 => None,
        1 => Some("1 commit".to_owned()),
        commits => Some(format!("{commits} commits")),
    };
    let changes: Vec<String> = files.into_iter().chain(commits).collect();
    [
        tail(&row.run_id.to_string()).to_owned(),
        state.to_owned(),
        if changes.is_empty() { "–".to_owned() } else { changes.join(", ") },
        row.created_at.map_or_else(|| "–".to_owned(), |at| figures::ago(at, now)),
        row.branch.as_deref().map_or_else(|| "–".to_owned(), one_line),
        one_line(&row.directory.display().to_string()),
    ]
}

fn tone(state: WorktreeState) -> Tone {
    match state {
        WorktreeState::Live => Tone::System,
        WorktreeState::Unapplied => Tone::Strong,
        WorktreeState::Unchanged | WorktreeState::Orphaned => Tone::Gray,
        WorktreeState::Unknown => Tone::Bad,
    }
}

fn cut_in_middle(text: &str, room: usize) -> String {
    let count = text.chars().count();
    if count <= room {
        return text.to_owned();
    }
    let tail = (room - 1) * 2 / 3;
    let head: String = text.chars().take(room - 1 - tail).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{head}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::RunId;

    #[test]
    fn worktrees_show_state_changes_and_the_end_of_their_path() {
        let row = |n: u8, state, files, commits| WorktreeView {
            run_id: RunId::new(uuid::Uuid::from_bytes([n; 16])),
            state,
            branch: Some(format!("ostler/0{n}0{n}")),
            directory: format!("/srv/users/.local/share/ostler/trees/0{n}0{n}/project").into(),
            source: "/srv/users/project".into(),
            files,
            commits,
            created_at: Some(Timestamp(0)),
            live_run: None,
            note: None,
        };
        let rows = [
            row(1, WorktreeState::Live, 0, 0),
            row(2, WorktreeState::Unapplied, 2, 1),
            row(3, WorktreeState::Unchanged, 0, 0),
        ];
        let shown = worktrees(&rows, Timestamp(120_000), 100, Colour::Off);
        insta::assert_snapshot!(shown, @"
        RUN       STATE           CHANGES            AGE        BRANCH       DIRECTORY
        01010101  ● live          –                  2 min ago  ostler/0101  /srv/users…r/trees/0101/project
        02020202  unapplied work  2 files, 1 commit  2 min ago  ostler/0202  /srv/users…r/trees/0202/project
        03030303  unchanged       –                  2 min ago  ostler/0303  /srv/users…r/trees/0303/project
        ");
    }
}
