//! Giving the work of a run back to the checkout that it came from: as a merge of its branch, or as
//! changes that are not committed. All of it or nothing: what the person changed in the same files,
//! and what conflicts with what is there now, is found before anything is touched, and refused. No
//! merge driver, no hook and no filter of the repository has a part in it.

use super::changes::{Changed, Objects, Seen, Status, parsed};
use super::clean::Branch;
use super::{Tree, Trees, Worktree, make, unusable};
use crate::git::{Answer, Repository};
use contract::{Code, Fault, Timestamp, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::PoisonError;

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A commit of the checkout's branch, with the agent's own commits behind it.
    #[default]
    Merge,
    /// Changes that are not committed.
    Patch,
}

/// What was given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GivenBack {
    pub how: How,
    /// The checkout.
    pub into: PathBuf,
    /// How many files are different by it.
    pub files: usize,
    /// What the checkout is at now, after a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The branch, where it is kept because only it has the agent's commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The content of the worktree, as git names it.
    pub tree: String,
    pub at: Timestamp,
}

impl GivenBack {
    /// The result for a worktree that was removed because nothing was changed in it.
    fn nothing(worktree: &Worktree, how: How, at: Timestamp) -> Self {
        let (into, tree) = (worktree.top.clone(), worktree.base.clone());
        Self { how, into, files: 0, commit: None, branch: None, tree, at }
    }
}

/// In whose name commits are made where nobody is named.
const NOBODY: (&str, &str) = ("Ostler", "ostler@localhost");
/// How many files a fault names.
const NAMED_MAX: usize = 5;

/// What a commit that we make says.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    pub subject: String,
    pub at: Timestamp,
}

impl Trees {
    /// Gives the work of a worktree back, and removes the worktree. Blocking.
    pub fn give_back(&self, tree: &Tree, how: How, words: &Words) -> Result<GivenBack, Fault> {
        let _giving = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        // Someone may have been faster.
        let mut tree = self.tree(tree.id).ok_or_else(|| make::gone(tree))?;
        let worktree = tree.worktree()?.clone();
        if let Some(given) = &tree.record.given_back {
            let (into, id) = (given.into.display(), tree.id.to_string());
            // The digits that people type.
            let id = &id[id.len().saturating_sub(8)..];
            let message = format!("the work of {id} was already applied to {into}");
            let hint = format!("there is nothing left to do; `ostler diff {id}` shows it");
            return Err(Fault::new(Code::Conflict, message).with_hint(hint));
        }
        if tree.record.removed_unchanged {
            return Ok(GivenBack::nothing(&worktree, how, words.at));
        }
        if !tree.is_there() {
            return Err(make::gone(&tree));
        }
        let failed = |error: io::Error| unusable(&worktree.top, &error);
        let repository = self.repository(&worktree).map_err(failed)?;
        let seen = Seen::of(&repository, &tree, &worktree, Objects::Kept).map_err(failed)?;
        if seen.incomplete {
            let message = format!("some files of {} cannot be read", tree.record.work.display());
            return Err(Fault::new(Code::BadWorkspace, message));
        }
        let giving =
            Giving { repository: &repository, tree: &tree, worktree: &worktree, seen: &seen };
        let given = giving.give(how, words)?;
        tree.record.given_back = Some(given.clone());
        // The work is back by now: a record that cannot be written does not make this call fail.
        tree.write_or_log();
        let branch = match how {
            How::Merge => Branch::Drop,
            How::Patch => Branch::DropUnused,
        };
        self.clean(&tree, branch);
        Ok(given)
    }
}

/// One giving back.
struct Giving<'a> {
    repository: &'a Repository,
    tree: &'a Tree,
    worktree: &'a Worktree,
    seen: &'a Seen,
}

/// A patch that is all there: the beginning of one may be good by itself, and give back half the work.
pub(super) fn whole(patch: Answer) -> Result<Vec<u8>, Fault> {
    if patch.cut {
        let message = format!("the patch has more than {} bytes", limits::GIT_PATCH_BYTES_MAX);
        return Err(Fault::new(Code::TooLarge, message).with_hint("apply it with --merge"));
    }
    Ok(patch.out)
}

impl Giving<'_> {
    fn give(&self, how: How, words: &Words) -> Result<GivenBack, Fault> {
        let failed = |error: io::Error| unusable(&self.worktree.top, &error);
        let base = &self.worktree.base;
        let files = self.differences(base, &self.seen.tree).map_err(failed)?;
        self.untouched(&files)?;
        let (commit, branch) = match how {
            How::Merge => (Some(self.merge(words)?), None),
            How::Patch => {
                self.patch(&files)?;
                let head = self.agents_head().map_err(failed)?;
                (None, (head != *base).then(|| self.worktree.branch.clone()))
            }
        };
        Ok(GivenBack {
            how,
            into: self.worktree.top.clone(),
            files: files.len(),
            commit,
            branch,
            tree: self.seen.tree.clone(),
            at: words.at,
        })
    }

    fn line(&self, words: &[&str], what: &str) -> io::Result<String> {
        self.repository.call(words).run()?.line(what)
    }

    fn differences(&self, from: &str, to: &str) -> io::Result<Vec<Changed>> {
        let words = ["diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", from, to];
        Ok(parsed(&self.repository.call(&words).long().run()?.good("comparing")?.out))
    }

    /// The commit that the agent left its worktree at.
    fn agents_head(&self) -> io::Result<String> {
        let work = &self.tree.record.work;
        let entry = self.worktree.entry(work);
        let entry = entry.ok_or_else(|| io::Error::other("git no longer knows the worktree"))?;
        let call = self.repository.call(&["rev-parse", "--verify", "HEAD^{commit}"]);
        call.at(&entry, work).run()?.line("reading the worktree's HEAD")
    }

    /// Refuses when the person has changed one of these files, and not committed it.
    fn untouched(&self, files: &[Changed]) -> Result<(), Fault> {
        let failed = |error: io::Error| unusable(&self.worktree.top, &error);
        let words = ["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let call =
            self.repository.call(&words).arg("--ignore-submodules=all").arg("HEAD").arg("--");
        let changed = call.long().run().and_then(|answer| answer.good("looking at the checkout"));
        let changed = changed.map_err(failed)?.out;
        let changed: BTreeSet<String> = changed
            .split(|byte| *byte == 0)
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
        let touched = files.iter().map(|file| &file.path).filter(|path| changed.contains(*path));
        self.refuse_any(touched.cloned().collect(), "not committed in the checkout")
    }

    /// Refuses when something lies where a new file is to be: it may be ignored, and nobody's to lose.
    fn room_for(&self, files: &[Changed]) -> Result<(), Fault> {
        let new = files.iter().filter(|file| file.status == Status::Added);
        let taken =
            new.filter(|file| self.worktree.top.join(&file.path).symlink_metadata().is_ok());
        self.refuse_any(
            taken.map(|file| file.path.clone()).collect(),
            "there already, and not tracked",
        )
    }

    fn refuse_any(&self, paths: Vec<String>, what: &str) -> Result<(), Fault> {
        if paths.is_empty() {
            return Ok(());
        }
        let named = named(&paths);
        let is = if paths.len() == 1 { "is" } else { "are" };
        let message = format!("{}: {named} {is} {what}", self.worktree.top.display());
        Err(Fault::new(Code::Conflict, message)
            .with_hint("commit, move or undo that first; nothing was changed"))
    }

    fn patch(&self, files: &[Changed]) -> Result<(), Fault> {
        let failed = |error: io::Error| unusable(&self.worktree.top, &error);
        if files.is_empty() {
            return Ok(());
        }
        let words = ["diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-color"];
        let call = self.repository.call(&words).arg("--no-ext-diff").arg("--no-textconv");
        let call = call.arg(&self.worktree.base).arg(&self.seen.tree).long();
        let patch = call.cut_at(limits::GIT_PATCH_BYTES_MAX).run();
        let patch = patch.and_then(|patch| patch.good("making the patch")).map_err(failed)?;
        let patch = whole(patch)?;
        let apply = |check: bool| -> Result<Answer, Fault> {
            let call = self.repository.call(&["apply", "--whitespace=nowarn"]);
            let call = if check { call.arg("--check") } else { call };
            call.input(patch.clone()).long().run().map_err(failed)
        };
        let checked = apply(true)?;
        if !checked.done {
            return Err(self.conflict(&complaint(&checked.complaint)));
        }
        apply(false)?.good("applying the patch").map(drop).map_err(failed)
    }

    /// Merges what the worktree holds into the checkout, and gives the commit that this is at then.
    fn merge(&self, words: &Words) -> Result<String, Fault> {
        let failed = |error: io::Error| unusable(&self.worktree.top, &error);
        let head = self.line(&["rev-parse", "--verify", "HEAD^{commit}"], "reading HEAD");
        let head = head.map_err(failed)?;
        let work = self.work_commit(words).map_err(failed)?;
        let ahead = self.repository.call(&["merge-base", "--is-ancestor", &head, &work]).run();
        let ahead = ahead.map_err(failed)?.done;
        let merged = self.merged(&head, &work)?;
        let differences = self.differences(&head, &merged).map_err(failed)?;
        self.untouched(&differences)?;
        self.room_for(&differences)?;
        let commit = match ahead {
            true => work,
            false => {
                let message = format!("Merge: {}", words.subject);
                self.commit(&merged, &[&head, &work], &message).map_err(failed)?
            }
        };
        // Git looks at everything before it touches anything.
        let step = |from: &str, to: &str| {
            self.repository.call(&["read-tree", "-m", "-u", from, to]).long().run()
        };
        let stepped = step(&head, &merged).map_err(failed)?;
        if !stepped.done {
            return Err(self.conflict(&complaint(&stepped.complaint)));
        }
        let note = format!("ostler: apply {}", self.tree.id);
        let moved = self.line(&["update-ref", "-m", &note, "HEAD", &commit, &head], "moving HEAD");
        if let Err(error) = moved {
            // Another program moved it meanwhile: the files go back to what they were.
            let back = step(&merged, &head).and_then(|answer| answer.good("undoing the merge"));
            return Err(match back {
                Ok(_) => failed(error),
                Err(undo) => failed(error)
                    .with_detail(format!("the files of the merge are still there: {undo}")),
            });
        }
        Ok(commit)
    }

    /// What the worktree holds as a commit: the agent's own when it committed everything.
    fn work_commit(&self, words: &Words) -> io::Result<String> {
        let head = self.agents_head()?;
        let committed =
            self.line(&["rev-parse", &format!("{head}^{{tree}}")], "reading its commit")?;
        match committed == self.seen.tree {
            true => Ok(head),
            false => self.commit(&self.seen.tree, &[&head], &words.subject),
        }
    }

    fn commit(&self, tree: &str, parents: &[&str], message: &str) -> io::Result<String> {
        let person = self.repository.person();
        let (name, email) = match &person {
            Some((name, email)) => (name.as_str(), email.as_str()),
            None => NOBODY,
        };
        let message = format!("{message}\n\nOstler-Run: {}\n", self.tree.id);
        let call = self.repository.call(&["commit-tree", tree]).by(name, email);
        let call = parents.iter().fold(call, |call, parent| call.arg("-p").arg(parent));
        call.input(message.into_bytes()).run()?.line("making a commit")
    }

    /// The tree that a merge comes to.
    fn merged(&self, head: &str, work: &str) -> Result<String, Fault> {
        let words =
            ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", head, work];
        let answer = self.repository.call(&words).long().run();
        let answer = answer.map_err(|error| unusable(&self.worktree.top, &error))?;
        let mut parts = answer.out.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let tree = parts.next().unwrap_or_default().trim().to_owned();
        if answer.done {
            return Ok(tree);
        }
        let paths: BTreeSet<String> =
            parts.filter(|path| !path.is_empty()).map(Into::into).collect();
        let paths: Vec<String> = paths.into_iter().collect();
        Err(match paths.is_empty() {
            true => self.conflict(&complaint(&answer.complaint)),
            false => self.conflict(&format!("{} changed on both sides", named(&paths))),
        })
    }

    fn conflict(&self, why: &str) -> Fault {
        let message =
            format!("{}: the changes cannot be merged: {why}", self.worktree.top.display());
        let branch = &self.worktree.branch;
        let work = self.tree.record.work.display();
        Fault::new(Code::Conflict, message)
            .with_hint(format!("nothing was changed; commit in {work} and merge {branch} yourself"))
    }
}

/// The first of these, and how many more there are.
fn named(paths: &[String]) -> String {
    let mut text = paths.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if let more @ 1.. = paths.len().saturating_sub(NAMED_MAX) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn complaint(text: &str) -> String {
    let line = text.lines().next().unwrap_or("git gives no reason");
    line.trim_start_matches("error: ").trim_start_matches("fatal: ").to_owned()
}
