//! The queue's part of the model: the same answers as `sqlite/queue.rs`, found by looking at every
//! row. Tests only.

use super::tables::{Flaw, Tables};
use crate::batch::Settle;
use crate::error::Error;
use crate::limits::AGAIN_ROWS_MAX;
use crate::queue::*;
use crate::row::TaskRow;
use contract::state::WaitingFor;
use contract::{TaskId, TaskState, Timestamp};

/// Writes into a task what comes with its next state, but for its code.
pub(super) fn follow(task: &mut TaskRow, follow: &Follow) {
    task.until = follow.until;
    task.note = follow.note.as_ref().map(|note| note.text());
    task.tries = follow.tries.unwrap_or(task.tries);
    task.next_prompt =
        follow.prompt.as_ref().map(|prompt| prompt.text()).or(task.next_prompt.take());
    task.resumes = follow.resumes.or(task.resumes);
    task.wake = follow.wake.clone().or(task.wake.take());
}

impl Tables {
    pub(super) fn place(&mut self, row: &mut TaskRow, errand: &Errand) -> Result<(), Error> {
        if let Some(Parent { task, children_max, depth_max }) = errand.parent {
            let above = self.tasks.get(&task).ok_or_else(|| Error::not_found(task))?;
            let children = self.tasks.values().filter(|row| row.parent == Some(task)).count();
            if children >= children_max as usize || above.depth + 1 > depth_max {
                return Err(Error::conflict(format!("{} cannot be put below {task}", row.id)));
            }
            (row.parent, row.depth) = (Some(task), above.depth + 1);
        }
        let mut open = false;
        for other in &errand.after {
            if *other == row.id {
                return Err(Error::conflict(format!("{other} cannot come after itself")));
            }
            let other = self.tasks.get(other).ok_or_else(|| Error::not_found(*other))?;
            open |= other.state != TaskState::Done;
        }
        let later = errand.not_before.filter(|at| *at > row.created_at);
        row.waiting_for = match (open, later) {
            (true, _) => Some(WaitingFor::Dependency),
            (false, Some(_)) => Some(WaitingFor::NotBefore),
            (false, None) => None,
        };
        if row.waiting_for.is_some() {
            row.state = TaskState::Waiting;
        }
        row.by_queue = true;
        row.until = later.filter(|_| !open);
        row.not_before = errand.not_before;
        row.cwd.clone_from(&errand.cwd);
        row.labels.clone_from(&errand.labels);
        row.budget.clone_from(&errand.budget);
        row.wake.clone_from(&errand.wake);
        row.context = errand.context.as_ref().map(crate::seal::Sealed::text);
        self.after.insert(row.id, errand.after.clone());
        Ok(())
    }

    pub(super) fn end_task(&mut self, id: TaskId, end: &Settle) {
        let heeds = !self.lacks(Flaw::RecallIgnored);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let state = end.becomes(task.recalled && heeds);
        let waits = state == TaskState::Waiting;
        task.state = state;
        task.waiting_for = end.waiting_for.filter(|_| waits);
        follow(task, &end.follow);
        task.until = task.until.filter(|_| waits);
        task.code = end.code;
        self.tell_dependents(id);
    }

    pub(super) fn tell_dependents(&mut self, id: TaskId) {
        match self.tasks.get(&id).map(|task| task.state) {
            Some(TaskState::Done) => self.release_dependents(id),
            Some(TaskState::Failed | TaskState::Cancelled | TaskState::Queued) => {
                self.note_dependents(id);
            }
            Some(
                TaskState::Waiting | TaskState::Running | TaskState::Review | TaskState::Unknown,
            )
            | None => {}
        }
    }

    /// Those that wait for this one.
    fn dependents(&self, id: TaskId) -> Vec<TaskId> {
        let waits = |task: &TaskId| {
            self.tasks.get(task).is_some_and(|row| {
                row.state == TaskState::Waiting && row.waiting_for == Some(WaitingFor::Dependency)
            })
        };
        let after = self.after.iter().filter(|(_, after)| after.contains(&id));
        after.map(|(task, _)| *task).filter(waits).collect()
    }

    fn release_dependents(&mut self, id: TaskId) {
        for dependent in self.dependents(id) {
            let done = |task: &TaskId| {
                self.tasks.get(task).is_some_and(|row| row.state == TaskState::Done)
            };
            let all = self.after.get(&dependent).is_some_and(|after| after.iter().all(done));
            if !all && !self.lacks(Flaw::DependencyUncounted) {
                continue;
            }
            let Some(row) = self.tasks.get_mut(&dependent) else { continue };
            let later = row.not_before;
            row.state = if later.is_some() { TaskState::Waiting } else { TaskState::Queued };
            row.waiting_for = later.map(|_| WaitingFor::NotBefore);
            (row.until, row.note) = (later, None);
        }
    }

    pub(super) fn note_dependents(&mut self, id: TaskId) {
        let stuck = self
            .tasks
            .get(&id)
            .map(|row| row.state)
            .filter(|state| matches!(state, TaskState::Failed | TaskState::Cancelled));
        let note = stuck.map(|state| format!("{id} is {}", state.word()));
        for dependent in self.dependents(id) {
            if let Some(row) = self.tasks.get_mut(&dependent) {
                row.note.clone_from(&note);
            }
        }
    }

    pub fn recall(&mut self, id: TaskId, fence: u64) -> Result<(), Error> {
        let runs = |row: &&mut TaskRow| row.state == TaskState::Running && row.fence == fence;
        match self.tasks.get_mut(&id).filter(runs) {
            Some(row) => {
                row.recalled = true;
                Ok(())
            }
            None => Err(Error::conflict(format!("{id} does not run any more as it was seen"))),
        }
    }

    pub fn change_budget(&mut self, step: &BudgetStep) -> Result<(), Error> {
        let as_seen = |row: &&mut TaskRow| row.budget == step.from;
        match self.tasks.get_mut(&step.task).filter(as_seen) {
            Some(row) => {
                row.budget.clone_from(&step.to);
                Ok(())
            }
            None => Err(Error::conflict(format!("the budget of {} is not what it was", step.task))),
        }
    }

    pub fn again(&mut self, which: Again) -> u64 {
        if self.lacks(Flaw::DueForgotten) {
            return 0;
        }
        let early = self.lacks(Flaw::DueUnchecked);
        let repeats = self.lacks(Flaw::DoneAgain);
        let fits = |row: &&mut TaskRow| {
            let done = repeats && row.state == TaskState::Done;
            let may = (row.state == TaskState::Waiting || done) && row.run.is_none();
            may && match which {
                Again::Due(now) => done || row.until.is_some_and(|until| early || until <= now),
                Again::Whenever(why) => row.waiting_for == Some(why),
            }
        };
        let mut count = 0;
        for row in self.tasks.values_mut().filter(fits).take(AGAIN_ROWS_MAX as usize) {
            row.state = TaskState::Queued;
            (row.waiting_for, row.until, row.note) = (None, None, None);
            count += 1;
        }
        count
    }

    pub fn comment(&mut self, comment: &NewComment) -> Result<(), Error> {
        if !self.tasks.contains_key(&comment.task) {
            return Err(Error::not_found(comment.task));
        }
        if !self.comments.iter().any(|there| there.id == comment.id) {
            self.comments.push(comment.clone());
        }
        Ok(())
    }

    pub fn comments_of(&self, task: TaskId) -> Vec<CommentRow> {
        let of = self.comments.iter().filter(|comment| comment.task == task);
        of.map(|comment| CommentRow {
            id: comment.id,
            at: comment.at,
            author: comment.author.clone(),
            text: comment.text.text(),
            mentions: comment.mentions.clone(),
        })
        .collect()
    }

    pub fn heads(&self) -> Vec<Head> {
        let ready = |row: &&TaskRow| {
            row.run.is_none()
                && (row.state == TaskState::Queued || row.waiting_for == Some(WaitingFor::Pool))
        };
        let mut heads: Vec<Head> = Vec::new();
        for row in self.ranked(ready, |row| row.agent.clone()) {
            if heads.last().is_none_or(|head| head.task.agent != row.agent) {
                heads.push(self.head(row));
            }
        }
        heads
    }

    pub fn crowds(&self, page: &CrowdsPage) -> Vec<Head> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let place = |row: &TaskRow| (row.agent.clone(), text(&row.cwd), text(&row.pool));
        let after = page
            .after
            .as_ref()
            .map(|crowd| (crowd.agent.clone(), text(&crowd.cwd), text(&crowd.of)));
        let waits = |row: &&TaskRow| {
            row.state == TaskState::Waiting
                && row.run.is_none()
                && row.waiting_for == Some(page.why)
                && row.until.is_none()
                && after.as_ref().is_none_or(|after| place(row) > *after)
        };
        let mut heads: Vec<Head> = Vec::new();
        for row in self.ranked(waits, place) {
            let next = heads.last().is_none_or(|head| place(&head.task) != place(row));
            if next && heads.len() < page.limit {
                heads.push(self.head(row));
            }
        }
        heads
    }

    fn num(&self, id: TaskId) -> u64 {
        self.arrivals.iter().position(|there| *there == id).map_or(0, |at| at as u64 + 1)
    }

    fn head(&self, row: &TaskRow) -> Head {
        Head { task: row.clone(), num: self.num(row.id), busy: self.busy(&row.agent) }
    }

    /// Those rows by something, and of those that have it in common the first before the others.
    fn ranked<K: Ord>(
        &self,
        which: impl Fn(&&TaskRow) -> bool,
        by: impl Fn(&TaskRow) -> K,
    ) -> Vec<&TaskRow> {
        let ranks = i64::from(!self.lacks(Flaw::PriorityIgnored));
        let mut rows: Vec<_> = self.tasks.values().filter(which).collect();
        rows.sort_by_key(|row| (by(row), -ranks * i64::from(row.priority), self.num(row.id)));
        rows
    }

    pub fn next_due(&self) -> Option<Timestamp> {
        let waits = |row: &&TaskRow| row.state == TaskState::Waiting;
        self.tasks.values().filter(waits).filter_map(|row| row.until).min()
    }
}
