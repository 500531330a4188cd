//! Workspaces of ours with real repositories, made by git itself in temporary directories: what is
//! made and removed, what is seen of an agent's work, what is given back and what is refused, and that
//! a host may die after any step.

#![allow(clippy::disallowed_methods, reason = "tests make repositories with git itself")]

use super::make::STEPS;
use super::*;
use crate::git::Answer;
use crate::git::tests::git;
use contract::Timestamp;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

struct Stage {
    dir: tempfile::TempDir,
    trees: Trees,
}

fn run_id(n: u8) -> RunId {
    RunId::new(uuid::Uuid::from_bytes([n; 16]))
}

fn words() -> Words {
    Words { subject: "do the work".to_owned(), at: Timestamp(0) }
}

impl Stage {
    /// A repository with two commits, and a data directory beside it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("repo")).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = BTreeMap::from([("PATH".to_owned(), path)]);
        let stage = Self { dir, trees: Trees::new(&root.join("data"), &environment) };
        stage.git(&["init", "-q", "-b", "main"]);
        for (name, text) in [
            ("a.txt", "one\ntwo\nthree\n"),
            ("gone.txt", "x\n"),
            ("src/b.rs", "b\n"),
            (".gitignore", "*.log\n"),
        ] {
            stage.write(name, text);
        }
        stage.git(&["add", "."]);
        stage.git(&["commit", "-qm", "first"]);
        stage
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    /// Counts the worktrees that git knows besides the checkout.
    fn entries(&self) -> usize {
        fs::read_dir(self.repo().join(".git/worktrees")).map_or(0, Iterator::count)
    }

    fn repo(&self) -> PathBuf {
        self.root().join("repo")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.repo().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.repo().join(name)).ok()
    }

    fn git(&self, args: &[&str]) -> String {
        git(&self.repo(), args)
    }

    fn make(&self, n: u8) -> Tree {
        let source = &self.repo();
        let wanted = Wanted { run: run_id(n), source, kind: Kind::Worktree, keep: true };
        self.trees.make(wanted).unwrap();
        self.trees.tree(run_id(n)).unwrap()
    }

    /// Everything that the person can see of the repository.
    fn shown(&self) -> String {
        ["status --porcelain --ignored", "branch -a", "worktree list", "log --oneline --all"]
            .map(|words| self.git(&words.split(' ').collect::<Vec<_>>()))
            .join("---\n")
    }
}

fn put(tree: &Tree, name: &str, text: &str) {
    let path = tree.record.work.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_worktree_has_what_is_committed_on_a_branch_of_its_own_and_goes_without_a_trace() {
    let stage = Stage::new();
    stage.write("a.txt", "changed and not committed\n");
    stage.write("new.txt", "not tracked\n");
    let before = stage.shown();
    let source = &stage.repo().join("src");
    let wanted = Wanted { run: run_id(7), source, kind: Kind::Worktree, keep: true };
    let made = stage.trees.make(wanted).unwrap();
    assert!(made.fresh);
    let [note] = &made.notes[..] else { panic!("{:?}", made.notes) };
    assert!(note.starts_with("2 paths of ") && note.contains("not committed"), "{note}");
    let tree = stage.trees.tree(run_id(7)).unwrap();
    let work = &tree.record.work;
    assert!(work.starts_with(stage.root().join("data/trees")), "{}", work.display());
    assert_eq!(made.cwd, work.join("src"), "in the worktree what it is in the checkout");
    assert_eq!(fs::read_to_string(work.join("a.txt")).unwrap(), "one\ntwo\nthree\n");
    assert!(!work.join("new.txt").exists());
    assert_eq!(git(work, &["branch", "--show-current"]), "ostler/07070707\n");
    assert_eq!(git(work, &["status", "--porcelain"]), "", "git itself knows its way there");
    let again = stage.trees.make(wanted).unwrap();
    assert!(!again.fresh && again.cwd == made.cwd, "asked for again it is the same");
    assert_eq!(stage.trees.of(&made.cwd).map(|tree| tree.id), Some(run_id(7)));
    stage.trees.remove(run_id(7));
    assert_eq!(stage.shown(), before);
    assert!(stage.trees.all().is_empty());
    assert_eq!(stage.entries(), 0);
}

#[test]
fn workspace_with_an_unreadable_record_is_kept() {
    let stage = Stage::new();
    let tree = stage.make(3);
    put(&tree, "work.txt", "not applied\n");
    fs::write(tree.dir.join(RECORD), "{").unwrap();
    stage.trees.remove(run_id(3));
    assert!(tree.record.work.join("work.txt").exists());
}

#[test]
fn a_host_may_die_after_any_step_and_the_next_one_leaves_nothing() {
    for kind in [Kind::Worktree, Kind::Temporary] {
        for steps in 0..=STEPS.len() {
            let stage = Stage::new();
            let before = stage.shown();
            let wanted = Wanted { run: run_id(1), source: &stage.repo(), kind, keep: false };
            let mut making = stage.trees.begin(wanted).unwrap();
            STEPS[..steps].iter().for_each(|step| step(&mut making).unwrap());
            drop(making);
            let was_there = stage.trees.tree(run_id(1)).is_some_and(|tree| tree.is_there());
            assert_eq!(was_there, steps == STEPS.len(), "{kind:?} {steps}");
            stage.trees.remove(run_id(1));
            assert_eq!(stage.shown(), before, "{kind:?} after {steps} steps");
            assert!(stage.trees.all().is_empty(), "{kind:?} after {steps} steps");
            // And what was left does not keep it from being made.
            stage.trees.make(wanted).unwrap();
        }
    }
}

#[test]
fn what_was_left_half_made_is_made_anew_under_the_same_name() {
    let stage = Stage::new();
    let source = &stage.repo();
    let wanted = Wanted { run: run_id(1), source, kind: Kind::Worktree, keep: true };
    for steps in 0..STEPS.len() {
        let mut making = stage.trees.begin(wanted).unwrap();
        STEPS[..steps].iter().for_each(|step| step(&mut making).unwrap());
        drop(making);
        assert!(stage.trees.make(wanted).unwrap().fresh, "after {steps}");
        let tree = stage.trees.tree(run_id(1)).unwrap();
        assert_eq!(git(&tree.record.work, &["status", "--porcelain"]), "", "after {steps}");
        stage.trees.remove(run_id(1));
    }
}

#[test]
fn a_temporary_directory_is_empty_and_goes_with_its_run_unless_it_is_kept() {
    let stage = Stage::new();
    for (n, keep) in [(1, false), (2, true)] {
        let source = &stage.repo();
        let wanted = Wanted { run: run_id(n), source, kind: Kind::Temporary, keep };
        let made = stage.trees.make(wanted).unwrap();
        assert_eq!(fs::read_dir(&made.cwd).unwrap().count(), 0);
        // An agent may take away its own rights.
        fs::create_dir_all(made.cwd.join("deep/er")).unwrap();
        fs::write(made.cwd.join("deep/er/file"), "x").unwrap();
        fs::set_permissions(made.cwd.join("deep"), fs::Permissions::from_mode(0o500)).unwrap();
        stage.trees.ended(&made.cwd);
        assert_eq!(made.cwd.exists(), keep);
    }
    // A worktree with work stays.
    let tree = stage.make(3);
    put(&tree, "new.txt", "new\n");
    stage.trees.ended(&tree.record.work);
    assert!(tree.record.work.exists());
}

#[test]
fn a_workspace_without_a_known_run_goes_unless_someone_worked_in_it() {
    let stage = Stage::new();
    for n in 1..=5 {
        let kind = if n % 2 == 0 { Kind::Temporary } else { Kind::Worktree };
        let wanted = Wanted { run: run_id(n), source: &stage.repo(), kind, keep: false };
        stage.trees.make(wanted).unwrap();
    }
    let [worked_in, nobodys] = [3, 5].map(|n| stage.trees.tree(run_id(n)).unwrap());
    put(&worked_in, "new.txt", "new\n");
    put(&stage.trees.tree(run_id(2)).unwrap(), "new.txt", "new\n");
    // By this host they are all kept: their runs may be about to be.
    stage.trees.all().into_iter().for_each(|run| stage.trees.sweep(run));
    assert_eq!(stage.trees.all().len(), 5);
    let next = Trees { ours: Mutex::default(), ..stage.trees };
    next.all().into_iter().for_each(|run| next.sweep(run));
    assert_eq!(next.all(), [run_id(3), run_id(2)]);
    assert!(worked_in.is_there() && !nobodys.is_there());
}

#[test]
fn where_no_worktree_can_be_made_it_is_said_why() {
    let stage = Stage::new();
    let nowhere = stage.root().join("data");
    fs::create_dir_all(&nowhere).unwrap();
    let wanted = |source| Wanted { run: run_id(1), source, kind: Kind::Worktree, keep: true };
    let fault = stage.trees.make(wanted(&nowhere)).unwrap_err();
    assert_eq!(fault.code, Code::BadWorkspace);
    assert!(fault.message.contains("it is not in a git repository"), "{fault}");
    let empty = stage.root().join("empty");
    fs::create_dir(&empty).unwrap();
    git(&empty, &["init", "-q"]);
    let fault = stage.trees.make(wanted(&empty)).unwrap_err();
    assert!(fault.message.contains("no commit yet"), "{fault}");
    assert!(stage.trees.check(&empty).is_err() && stage.trees.check(&stage.repo()).is_ok());
    git(&empty, &["config", "core.repositoryformatversion", "1"]);
    git(&empty, &["config", "extensions.fromTheFuture", "yes"]);
    let fault = stage.trees.make(wanted(&empty)).unwrap_err();
    assert!(fault.message.contains("extensions.fromthefuture, which Ostler does not"), "{fault}");
    assert!(stage.trees.all().is_empty());
}

#[test]
fn everything_that_lies_in_a_worktree_is_seen_and_nothing_is_changed_by_looking() {
    let stage = Stage::new();
    let tree = stage.make(1);
    put(&tree, "a.txt", "one\n2\nthree\n");
    git(&tree.record.work, &["commit", "-qam", "by the agent"]);
    put(&tree, "src/new.rs", "new\n");
    put(&tree, "ignored.log", "noise\n");
    put(&tree, "bytes", "\0\x01\x02");
    fs::remove_file(tree.record.work.join("gone.txt")).unwrap();
    // Repositories that it made inside are named, and nothing of them is taken.
    for inner in ["inner", "inner:*"] {
        put(&tree, &format!("{inner}/f"), "f\n");
        git(&tree.record.work.join(inner), &["init", "-q"]);
    }
    git(&tree.record.work.join("inner"), &["add", "."]);
    git(&tree.record.work.join("inner"), &["commit", "-qm", "inner"]);
    // An agent cannot hide what it did from whoever looks.
    put(&tree, "src/b.rs", "hidden\n");
    git(&tree.record.work, &["update-index", "--assume-unchanged", "src/b.rs"]);
    let shown = stage.shown();
    let objects = stage.git(&["count-objects"]);
    let changes = stage.trees.changes(&tree).unwrap();
    let files: Vec<_> = changes
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.status.letter(), file.added, file.removed))
        .collect();
    assert_eq!(
        files,
        [
            ("a.txt", 'M', Some(1), Some(1)),
            ("bytes", 'A', None, None),
            ("gone.txt", 'D', Some(0), Some(1)),
            ("src/b.rs", 'M', Some(1), Some(1)),
            ("src/new.rs", 'A', Some(1), Some(0)),
        ]
    );
    let patch = String::from_utf8_lossy(&changes.patch);
    assert!(patch.contains("-two\n+2\n") && patch.contains("+hidden\n"), "{patch}");
    assert!(!changes.patch_cut && !changes.incomplete);
    assert_eq!(changes.nested, ["inner/", "inner:*/"]);
    assert_eq!((stage.shown(), stage.git(&["count-objects"])), (shown, objects));
    assert!(
        fs::read_dir(&tree.dir)
            .unwrap()
            .flatten()
            .all(|entry| { !entry.file_name().to_string_lossy().starts_with("scratch") })
    );
}

#[test]
fn a_merge_brings_everything_back_and_the_worktree_and_its_branch_are_gone() {
    let stage = Stage::new();
    stage.git(&["config", "user.name", "A Person"]);
    let tree = stage.make(1);
    put(&tree, "a.txt", "one\n2\nthree\n");
    git(&tree.record.work, &["commit", "-qam", "by the agent"]);
    put(&tree, "new.txt", "new\n");
    // The person goes on meanwhile, and has something open elsewhere.
    stage.write("src/b.rs", "b\nmine\n");
    stage.git(&["commit", "-qam", "by the person"]);
    stage.write("gone.txt", "open\n");
    let given = stage.trees.give_back(&tree, How::Merge, &words()).unwrap();
    assert_eq!((given.files, given.branch.as_deref()), (2, None));
    assert_eq!(stage.read("a.txt").unwrap(), "one\n2\nthree\n");
    assert_eq!(stage.read("new.txt").unwrap(), "new\n");
    assert_eq!(stage.read("gone.txt").unwrap(), "open\n");
    assert_eq!(stage.git(&["status", "--porcelain"]), " M gone.txt\n");
    assert_eq!(stage.git(&["rev-parse", "HEAD"]).trim(), given.commit.unwrap());
    // Side by side: commits of the same second have no order of their own.
    let log = |of: &str| stage.git(&["log", "--first-parent", "--format=%an: %s", of]);
    assert_eq!(log("HEAD"), "A Person: Merge: do the work\nt: by the person\nt: first\n");
    assert_eq!(log("HEAD^2"), "A Person: do the work\nt: by the agent\nt: first\n");
    assert_eq!(stage.git(&["branch", "--format=%(refname:short)"]), "main\n");
    assert!(!tree.record.work.exists());
    assert_eq!(stage.entries(), 0);
    // What was given back can still be looked at, and not be given back again.
    let tree = stage.trees.tree(run_id(1)).unwrap();
    assert_eq!(stage.trees.changes(&tree).unwrap().files.len(), 2);
    let fault = stage.trees.give_back(&tree, How::Merge, &words()).unwrap_err();
    assert_eq!(fault.code, Code::Conflict);
    assert!(fault.message.contains("applied to") && fault.hint().contains("nothing left to do"));
}

#[test]
fn where_the_person_did_nothing_a_merge_only_moves_the_branch_forward() {
    let stage = Stage::new();
    let tree = stage.make(1);
    put(&tree, "a.txt", "agent\n");
    git(&tree.record.work, &["commit", "-qam", "by the agent"]);
    stage.trees.give_back(&tree, How::Merge, &words()).unwrap();
    assert_eq!(stage.git(&["log", "--format=%s"]), "by the agent\nfirst\n");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    let tree = stage.make(2);
    let given = stage.trees.give_back(&tree, How::Merge, &words()).unwrap();
    assert_eq!((given.files, stage.git(&["log", "--format=%s"]).lines().count()), (0, 2));
}

#[test]
fn a_patch_leaves_changes_uncommitted_and_keeps_the_commits_of_an_agent_that_made_some() {
    let stage = Stage::new();
    for (n, commits) in [(1, false), (2, true)] {
        let tree = stage.make(n);
        put(&tree, "src/new.rs", "new\n");
        put(&tree, "bytes", "\0\x01\x02");
        fs::remove_file(tree.record.work.join("gone.txt")).unwrap();
        if commits {
            git(&tree.record.work, &["add", "."]);
            git(&tree.record.work, &["commit", "-qm", "by the agent"]);
        }
        let given = stage.trees.give_back(&tree, How::Patch, &words()).unwrap();
        assert_eq!(stage.git(&["status", "--porcelain"]), " D gone.txt\n?? bytes\n?? src/new.rs\n");
        assert_eq!(given.branch.is_some(), commits);
        let branches = stage.git(&["branch", "--format=%(refname:short)"]);
        assert_eq!(branches.lines().count(), if commits { 2 } else { 1 }, "{branches}");
        assert!(!tree.record.work.exists());
        stage.trees.remove(run_id(n));
        let left = stage.git(&["branch", "--format=%(refname:short)"]);
        assert_eq!(left, branches, "what was kept is the person's, also without the record");
        stage.git(&["clean", "-fdq"]);
        stage.git(&["checkout", "-q", "."]);
    }
}

/// What the person did meanwhile, what the agent did, and what is said then.
type Refused = (&'static str, fn(&Stage), fn(&Tree), &'static [(How, &'static str)]);

const REFUSED: &[Refused] = &[
    (
        "the same file is open",
        |stage| stage.write("a.txt", "open\n"),
        |tree| put(tree, "a.txt", "agent\n"),
        &[(How::Merge, "a.txt is not committed"), (How::Patch, "a.txt is not committed")],
    ),
    (
        "the same file is staged",
        |stage| {
            stage.write("a.txt", "open\n");
            stage.git(&["add", "a.txt"]);
        },
        |tree| put(tree, "a.txt", "agent\n"),
        &[(How::Merge, "a.txt is not committed"), (How::Patch, "a.txt is not committed")],
    ),
    (
        "both changed the same line",
        |stage| {
            stage.write("a.txt", "one\nmine\nthree\n");
            stage.git(&["commit", "-qam", "mine"]);
        },
        |tree| put(tree, "a.txt", "one\ntheirs\nthree\n"),
        &[(How::Merge, "a.txt changed on both sides"), (How::Patch, "a.txt")],
    ),
    (
        "a new file is there already",
        |stage| stage.write("new.txt", "mine\n"),
        |tree| put(tree, "new.txt", "agent\n"),
        &[(How::Merge, "new.txt is there already"), (How::Patch, "new.txt")],
    ),
    (
        "a new file is there already and ignored",
        |stage| stage.write("keys.log", "mine\n"),
        |tree| {
            put(tree, "keys.log", "agent\n");
            git(&tree.record.work, &["add", "-f", "keys.log"]);
            git(&tree.record.work, &["commit", "-qm", "forced"]);
        },
        &[(How::Merge, "keys.log is there already")],
    ),
    (
        "the person removed it",
        |stage| {
            stage.git(&["rm", "-q", "a.txt"]);
            stage.git(&["commit", "-qm", "gone"]);
        },
        |tree| put(tree, "a.txt", "agent\n"),
        &[(How::Merge, "a.txt changed on both sides"), (How::Patch, "a.txt")],
    ),
];

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_changed() {
    for (name, meanwhile, work, said) in REFUSED {
        let stage = Stage::new();
        let tree = stage.make(1);
        work(&tree);
        meanwhile(&stage);
        let files = |stage: &Stage| ["a.txt", "new.txt", "keys.log"].map(|file| stage.read(file));
        let before = (stage.shown(), files(&stage));
        for (how, expected) in *said {
            let fault = stage.trees.give_back(&tree, *how, &words()).unwrap_err();
            assert_eq!(fault.code, Code::Conflict, "{name}, {how:?}: {fault}");
            assert!(fault.message.contains(expected), "{name}, {how:?}: {fault}");
            assert_eq!((stage.shown(), files(&stage)), before, "{name}, {how:?}");
            assert!(tree.is_there(), "{name}: the work is still there");
        }
    }
}

#[test]
fn secrets_that_are_left_beside_a_workspace_come_back_to_who_has_the_key() {
    let stage = Stage::new();
    let tree = stage.make(1);
    let values = vec![("KEY".to_owned(), "a-long-secret".to_owned())];
    for n in [1, 2] {
        tree.leave_secrets(run_id(n), "mine", &values).unwrap();
        tree.leave_secrets(run_id(n), "mine", &[]).unwrap();
    }
    assert_eq!(tree.secrets_left(|_| "mine".to_owned()).len(), 2);
    assert_eq!(tree.secrets_left(|_| "theirs".to_owned()), []);
}

#[test]
fn of_a_worktree_that_somebody_removed_is_said_that_it_is_gone() {
    let stage = Stage::new();
    let tree = stage.make(1);
    fs::remove_dir_all(&tree.record.work).unwrap();
    let gone = super::make::gone(&tree);
    let told = |fault: Fault| (fault.code, fault.message);
    assert_eq!(told(stage.trees.changes(&tree).unwrap_err()), told(gone.clone()));
    let given = stage.trees.give_back(&tree, How::Merge, &words());
    assert_eq!(told(given.unwrap_err()), told(gone));
}

#[test]
fn a_merge_that_git_refuses_at_the_last_moves_nothing() {
    let stage = Stage::new();
    let tree = stage.make(1);
    put(&tree, "a.txt", "the agent's\n");
    let before = (stage.git(&["rev-parse", "HEAD"]), stage.read("a.txt"));
    // Whoever holds this is at work on the checkout; what only reads does without it.
    let held = stage.repo().join(".git/index.lock");
    fs::write(&held, "").unwrap();
    let fault = stage.trees.give_back(&tree, How::Merge, &words()).unwrap_err();
    assert_eq!(fault.code, Code::Conflict, "{fault}");
    fs::remove_file(&held).unwrap();
    assert_eq!((stage.git(&["rev-parse", "HEAD"]), stage.read("a.txt")), before);
    assert!(tree.is_there(), "the work is still there");
    stage.trees.give_back(&tree, How::Merge, &words()).unwrap();
    assert_eq!(stage.read("a.txt").as_deref(), Some("the agent's\n"));
}

#[test]
fn what_git_does_not_take_is_told_and_nothing_is_given_back_without_it() {
    let stage = Stage::new();
    let tree = stage.make(1);
    put(&tree, "new.txt", "the agent's\n");
    // Some file systems have their repositories under this name, so git takes it nowhere.
    put(&tree, "git~1", "the agent's too\n");
    assert!(stage.trees.changes(&tree).unwrap().incomplete);
    let before = (stage.shown(), stage.read("new.txt"));
    for how in [How::Merge, How::Patch] {
        let fault = stage.trees.give_back(&tree, how, &words()).unwrap_err();
        assert_eq!(fault.code, Code::BadWorkspace, "{how:?}: {fault}");
        assert_eq!((stage.shown(), stage.read("new.txt")), before, "{how:?}");
        assert!(tree.is_there(), "the work is still there");
    }
    fs::remove_file(tree.record.work.join("git~1")).unwrap();
    stage.trees.give_back(&tree, How::Patch, &words()).unwrap();
    assert_eq!(stage.read("new.txt").as_deref(), Some("the agent's\n"));
}

#[test]
fn of_a_patch_only_the_whole_is_given_back() {
    let patch = |cut| Answer { done: true, out: b"diff".to_vec(), cut, complaint: String::new() };
    assert_eq!(give_back::whole(patch(false)).unwrap(), b"diff");
    assert_eq!(give_back::whole(patch(true)).unwrap_err().code, Code::TooLarge);
}

#[test]
fn unchanged_worktree_is_removed_with_its_branch() {
    let stage = Stage::new();
    let before = stage.git(&["branch"]);
    let tree = stage.make(1);
    // Ignored files are not work.
    fs::write(tree.record.work.join("build.log"), "noise").unwrap();
    assert_eq!(stage.trees.holds(&tree), Holds::Nothing);
    stage.trees.ended(&tree.cwd());
    let left = stage.trees.tree(run_id(1)).unwrap();
    assert!(left.record.removed_unchanged && !left.record.work.exists());
    assert_eq!(stage.git(&["branch"]), before);
    assert_eq!(stage.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(stage.trees.changes(&left).unwrap().files, []);
    let given = stage.trees.give_back(&left, How::Merge, &words()).unwrap();
    assert_eq!((given.files, given.commit), (0, None));
}

#[test]
fn worktree_with_work_is_kept() {
    type Work = fn(&Path);
    let work: [(&str, Work); 5] = [
        ("a changed file", |dir| fs::write(dir.join("a.txt"), "x").unwrap()),
        ("a new file", |dir| fs::write(dir.join("new.txt"), "x").unwrap()),
        ("a deleted file", |dir| fs::remove_file(dir.join("a.txt")).unwrap()),
        ("an empty commit", |dir| {
            git(dir, &["commit", "-q", "--allow-empty", "-m", "empty"]);
        }),
        ("a detached commit", |dir| {
            git(dir, &["checkout", "-q", "--detach"]);
            git(dir, &["commit", "-q", "--allow-empty", "-m", "empty"]);
        }),
    ];
    for (name, does) in work {
        let stage = Stage::new();
        let tree = stage.make(1);
        does(&tree.record.work);
        assert!(matches!(stage.trees.holds(&tree), Holds::Work(_)), "{name}");
        stage.trees.ended(&tree.cwd());
        assert!(!stage.trees.remove_unchanged(run_id(1)), "{name}");
        assert!(stage.trees.tree(run_id(1)).unwrap().is_there(), "{name}");
    }
}

#[test]
fn removed_directory_without_commits_holds_nothing() {
    let stage = Stage::new();
    let tree = stage.make(1);
    fs::remove_dir_all(&tree.record.work).unwrap();
    assert_eq!(stage.trees.holds(&tree), Holds::Nothing);

    let tree = stage.make(2);
    git(&tree.record.work, &["checkout", "-q", "--detach"]);
    git(&tree.record.work, &["commit", "-q", "--allow-empty", "-m", "empty"]);
    fs::remove_dir_all(&tree.record.work).unwrap();
    assert!(matches!(stage.trees.holds(&tree), Holds::Work(_)));
}

#[test]
fn worktree_that_cannot_be_compared_is_kept() {
    let stage = Stage::new();
    let tree = stage.make(1);
    fs::rename(stage.repo(), stage.root().join("moved")).unwrap();
    assert!(matches!(stage.trees.holds(&tree), Holds::Unknown(_)));
    stage.trees.ended(&tree.cwd());
    assert!(stage.trees.tree(run_id(1)).unwrap().is_there());
}

#[test]
fn removal_of_unchanged_worktree_survives_crashes() {
    // The host died after it had written the record: the next one finishes.
    let stage = Stage::new();
    let mut tree = stage.make(1);
    tree.record.removed_unchanged = true;
    tree.write().unwrap();
    stage.trees.ended(&tree.cwd());
    assert!(!tree.record.work.exists());
    assert_eq!(stage.git(&["worktree", "list"]).lines().count(), 1);
    // The host died after it had removed what git knows of the worktree.
    let mut tree = stage.make(2);
    tree.record.removed_unchanged = true;
    tree.write().unwrap();
    let entry = tree.worktree().unwrap().entry(&tree.record.work).unwrap();
    fs::remove_dir_all(entry).unwrap();
    stage.trees.ended(&tree.cwd());
    assert!(!tree.record.work.exists());
    // A file was changed between the record and the next host: it is work again.
    let mut tree = stage.make(3);
    tree.record.removed_unchanged = true;
    tree.write().unwrap();
    fs::write(tree.record.work.join("a.txt"), "mine").unwrap();
    stage.trees.ended(&tree.cwd());
    assert!(stage.trees.tree(run_id(3)).unwrap().is_there());
}

#[test]
fn removed_worktree_is_made_again_at_the_same_path() {
    let stage = Stage::new();
    let tree = stage.make(1);
    stage.trees.ended(&tree.cwd());
    stage.write("later.txt", "later\n");
    stage.git(&["add", "."]);
    stage.git(&["commit", "-qm", "later"]);
    let left = stage.trees.tree(run_id(1)).unwrap();
    assert_eq!(left.cwd(), tree.cwd());
    stage.trees.remake(&left).unwrap();
    let again = stage.trees.tree(run_id(1)).unwrap();
    assert!(again.is_there() && again.record.work == tree.record.work);
    assert!(again.record.work.join("later.txt").exists(), "it is made from the present HEAD");
    // A failure leaves the record, so that the next try may succeed.
    stage.trees.ended(&again.cwd());
    fs::rename(stage.repo(), stage.root().join("moved")).unwrap();
    let left = stage.trees.tree(run_id(1)).unwrap();
    stage.trees.remake(&left).unwrap_err();
    fs::rename(stage.root().join("moved"), stage.repo()).unwrap();
    stage.trees.remake(&stage.trees.tree(run_id(1)).unwrap()).unwrap();
    assert!(stage.trees.tree(run_id(1)).unwrap().is_there());
}

#[test]
fn worktree_is_kept_while_a_run_enters_it() {
    let Stage { dir, trees } = Stage::new();
    let stage = Stage { dir, trees: Trees::new(Path::new("/nonexistent"), &BTreeMap::new()) };
    let trees = std::sync::Arc::new(trees);
    let wanted = Wanted { run: run_id(1), source: &stage.repo(), kind: Kind::Worktree, keep: true };
    trees.make(wanted).unwrap();
    let entering = trees.enter(run_id(1));
    assert!(!trees.remove_unchanged(run_id(1)));
    drop(entering);
    assert!(trees.remove_unchanged(run_id(1)));
}

#[test]
fn worktrees_are_made_while_others_are_removed() {
    let stage = Stage::new();
    let source = stage.repo();
    let make_and_remove = |ids: std::ops::Range<u8>| {
        for n in ids {
            let run = run_id(n);
            let wanted = Wanted { run, source: &source, kind: Kind::Worktree, keep: false };
            stage.trees.make(wanted).unwrap_or_else(|fault| panic!("{n}: {fault:?}"));
            stage.trees.remove(run);
        }
    };
    std::thread::scope(|scope| {
        for first in [1, 41, 81] {
            scope.spawn(move || make_and_remove(first..first + 40));
        }
    });
    assert_eq!(stage.git(&["branch", "--format=%(refname:short)"]), "main\n");
}
