//! Making a workspace, step by step. The record comes first and says so when all is done, so that
//! whatever was made before a host died is found and removed. What the person has not committed is
//! not taken along, and that is told. Nothing here knows whether the run will come to be.

use super::{Record, Tree, Trees, Worktree, unusable};
use crate::git::Repository;
use contract::{Code, Fault, RunId};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// What is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub run: RunId,
    /// Where it was asked for.
    pub source: &'a Path,
    pub kind: Kind,
    /// Whether it stays when the run has ended; a worktree does in any case.
    pub keep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Worktree,
    Temporary,
}

/// A workspace to work in.
#[derive(Debug)]
pub(crate) struct Made {
    /// The directory to work in: in the worktree what `source` is in its checkout.
    pub cwd: PathBuf,
    /// Whether it was made just now.
    pub fresh: bool,
    /// What the person should know.
    pub notes: Vec<String>,
}

/// The last digits of an id are what lists show of it.
const SHORT: usize = 8;
/// What is read of a file of attributes to see whether it names filters.
const ATTRIBUTES_BYTES_MAX: u64 = 256 * 1024;

impl Trees {
    /// Makes a workspace, or finds the one that was made for this run. Blocking.
    pub fn make(&self, wanted: Wanted<'_>) -> Result<Made, Fault> {
        self.ours().insert(wanted.run);
        if let Some(tree) = self.tree(wanted.run).filter(Tree::is_there) {
            let cwd = tree.cwd();
            return Ok(Made { cwd, fresh: false, notes: Vec::new() });
        }
        self.remove(wanted.run);
        let made = self.begin(wanted).and_then(|mut making| {
            STEPS.iter().try_for_each(|step| step(&mut making))?;
            Ok(Made { cwd: making.tree.cwd(), fresh: true, notes: making.notes() })
        });
        made.map_err(|error| {
            self.remove(wanted.run);
            let fault = unusable(wanted.source, &error);
            match error.kind() {
                io::ErrorKind::NotFound if wanted.kind == Kind::Worktree => fault
                    .with_hint("give a directory of a git repository, or work without a worktree"),
                _ => fault,
            }
        })
    }

    /// Makes a worktree again that was removed because nothing was changed in it, at the same path and
    /// from the present HEAD. One that is there is left as it is. Blocking.
    pub fn remake(&self, tree: &Tree) -> Result<(), Fault> {
        let mut left = match self.tree(tree.id) {
            Some(now) if now.record.removed_unchanged => now,
            _ => return Ok(()),
        };
        let (run, source) = (left.id, left.record.source.clone());
        let made = self.make(Wanted { run, source: &source, kind: Kind::Worktree, keep: true });
        made.map(drop).inspect_err(|_| {
            // Another try may succeed, so that the conversation held here must stay known.
            left.record.made = true;
            let kept = fs::DirBuilder::new().recursive(true).mode(0o700).create(&left.dir);
            // The failure that is returned is that of `make`.
            match kept {
                Ok(()) => {
                    left.write_or_log();
                }
                Err(error) => {
                    let path = left.dir.display();
                    tracing::warn!(%path, %error, "the record of a worktree cannot be written");
                }
            }
        })
    }

    /// That a worktree could be made here. Blocking.
    pub fn check(&self, source: &Path) -> Result<(), Fault> {
        let base = Repository::open(&self.git, source).and_then(|repository| base(&repository));
        base.map(drop).map_err(|error| unusable(source, &error))
    }

    /// Everything that can be found out before anything is made.
    pub(super) fn begin(&self, wanted: Wanted<'_>) -> io::Result<Making> {
        let source = wanted.source.canonicalize()?;
        let dir = self.dir(wanted.run);
        let (repository, worktree, name) = match wanted.kind {
            Kind::Temporary => (None, None, "work".to_owned()),
            Kind::Worktree => {
                let repository = Repository::open(&self.git, &source)?;
                let base = base(&repository)?;
                let worktree = Worktree {
                    top: repository.top().to_owned(),
                    common: repository.common().to_owned(),
                    base,
                    branch: free_branch(&repository, wanted.run)?,
                };
                let name = name_of(repository.top());
                (Some(repository), Some(worktree), name)
            }
        };
        let work = dir.join(name);
        let (keep, given_back) = (wanted.keep, None);
        let removed_unchanged = false;
        let record =
            Record { source, work, made: false, keep, worktree, given_back, removed_unchanged };
        Ok(Making { tree: Tree { id: wanted.run, dir, record }, repository })
    }
}

/// A workspace that is being made.
pub(super) struct Making {
    tree: Tree,
    repository: Option<Repository>,
}

/// In this order, and each of them may be the last that a host does.
pub(super) const STEPS: &[fn(&mut Making) -> io::Result<()>] =
    &[Making::write_down, Making::add, Making::point, Making::fill, Making::finish];

impl Making {
    fn write_down(&mut self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.tree.dir)?;
        self.tree.write()
    }

    /// The directory itself; of a worktree git's entry and the branch too.
    fn add(&mut self) -> io::Result<()> {
        let work = &self.tree.record.work;
        // Ours alone, whatever git would make of the umask.
        fs::DirBuilder::new().mode(0o700).create(work)?;
        let (Some(repository), Some(worktree)) = (&self.repository, &self.tree.record.worktree)
        else {
            return Ok(());
        };
        let _lock = worktree.lock()?;
        match fs::create_dir(worktree.common.join("worktrees")) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let words = ["worktree", "add", "--no-checkout", "--no-track", "-b", &worktree.branch];
        let call = repository.call(&words).arg(work).arg(&worktree.base);
        call.long().marked(&self.tree.mark()).run()?.good("making a worktree").map(drop)
    }

    /// Git was shown a directory that goes with this value; the worktree leads to the real one.
    fn point(&mut self) -> io::Result<()> {
        let Some(worktree) = &self.tree.record.worktree else { return Ok(()) };
        let work = &self.tree.record.work;
        let entry = worktree.entry(work).ok_or_else(|| {
            io::Error::other(
                "git created a worktree but does not list it: is another process \
             removing it?",
            )
        })?;
        fs::write(work.join(".git"), format!("gitdir: {}\n", entry.display()))
    }

    fn fill(&mut self) -> io::Result<()> {
        let (Some(repository), Some(worktree)) = (&self.repository, &self.tree.record.worktree)
        else {
            return Ok(());
        };
        let work = &self.tree.record.work;
        let entry = worktree.entry(work).ok_or_else(|| io::Error::other("its entry is gone"))?;
        let words = ["read-tree", "-m", "-u", &worktree.base];
        let call = repository.call(&words).at(&entry, work).long().marked(&self.tree.mark());
        call.run()?.good("filling the worktree").map(drop)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.tree.record.made = true;
        self.tree.write()
    }

    /// What is not in the worktree although the person may think so.
    fn notes(&self) -> Vec<String> {
        let (Some(repository), Some(worktree)) = (&self.repository, &self.tree.record.worktree)
        else {
            return Vec::new();
        };
        let mut notes = Vec::new();
        match uncommitted(repository) {
            Some(0) | None => {}
            Some(paths) => notes.push(format!(
                "{paths} {} of {} {} changes that are not committed: the worktree is made from HEAD \
                 and does not have them",
                if paths == 1 { "path" } else { "paths" },
                worktree.top.display(),
                if paths == 1 { "has" } else { "have" },
            )),
        }
        let filters = filters(&self.tree.record.work);
        if !filters.is_empty() {
            notes.push(format!(
                "files with the filter {} are in the worktree as they are stored, because filters \
                 of a repository are not run",
                filters.join(", ")
            ));
        }
        notes
    }
}

impl Tree {
    /// What calls of git that make it are known by. Another data directory may have the same run.
    pub(super) fn mark(&self) -> String {
        self.dir.display().to_string()
    }

    /// What the directory it was asked for in is here.
    pub fn cwd(&self) -> PathBuf {
        let work = &self.record.work;
        let inside = self.record.worktree.as_ref().and_then(|worktree| {
            let inside = self.record.source.strip_prefix(&worktree.top).ok()?;
            if self.record.removed_unchanged {
                // Component by component: joining an empty path would add a slash at the end.
                return Some(work.components().chain(inside.components()).collect());
            }
            let dir = work.join(inside).canonicalize().ok()?;
            (dir.is_dir() && dir.starts_with(work.canonicalize().ok()?)).then_some(dir)
        });
        inside.unwrap_or_else(|| work.clone())
    }
}

/// The commit that a worktree begins with.
fn base(repository: &Repository) -> io::Result<String> {
    let answer = repository.call(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).run()?;
    match answer.done {
        true => answer.line("reading HEAD"),
        false => Err(io::Error::other("the repository has no commit yet to make a worktree from")),
    }
}

fn free_branch(repository: &Repository, run: RunId) -> io::Result<String> {
    let digits = run.uuid().simple().to_string();
    let short = format!("ostler/{}", &digits[digits.len() - SHORT..]);
    let full = format!("refs/heads/{short}");
    let taken = repository.call(&["rev-parse", "--verify", "--quiet", &full]).run()?.done;
    Ok(if taken { format!("ostler/{digits}") } else { short })
}

/// The name of the checkout, if it makes a good name.
fn name_of(top: &Path) -> String {
    let name = top.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !name.is_empty() && name.chars().all(plain) && !name.starts_with(['.', '-']) {
        true => name.to_owned(),
        false => "work".to_owned(),
    }
}

/// How many paths of the checkout are not as they were committed; not told when git cannot say.
fn uncommitted(repository: &Repository) -> Option<usize> {
    let words = ["status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all"];
    let answer = repository.call(&words).run().ok()?;
    let paths = answer.out.split(|byte| *byte == 0).filter(|path| !path.is_empty()).count();
    answer.done.then_some(paths)
}

/// The filters that the attributes at the top name.
fn filters(work: &Path) -> Vec<String> {
    let mut text = String::new();
    let file = work.join(".gitattributes");
    if !file.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Vec::new();
    }
    let Ok(opened) = fs::File::open(file) else { return Vec::new() };
    if opened.take(ATTRIBUTES_BYTES_MAX).read_to_string(&mut text).is_err() {
        return Vec::new();
    }
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(str::split_whitespace);
    let mut filters: Vec<String> =
        words.filter_map(|word| word.strip_prefix("filter=")).map(str::to_owned).collect();
    filters.sort_unstable();
    filters.dedup();
    filters
}

/// The fault of a run that has no repository to give its work back to.
pub(super) fn gone(tree: &Tree) -> Fault {
    let message = format!("the worktree of {} does not exist any more", tree.id);
    Fault::new(Code::NotFound, message)
}
