//! Workspaces in temporary directories, in and outside of repositories that git itself makes: which
//! changes are found, and how they are told.

#![allow(clippy::disallowed_methods, reason = "tests make repositories with git itself")]

use super::*;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

fn beginning(dir: &Path) -> Beginning {
    let place = dir.ancestors().find(|dir| dir.join("work").is_dir()).unwrap();
    let place = place.join("git-place");
    fs::create_dir_all(&place).unwrap();
    let mut vars: BTreeMap<String, String> = std::env::vars().collect();
    vars.remove("XDG_CONFIG_HOME");
    vars.insert("HOME".to_owned(), place.display().to_string());
    let workspace = Arc::new(Workspace::open(dir).unwrap());
    Beginning::take(workspace, Git::new(place, &vars), Policy::Deny).unwrap()
}

/// What an act in a workspace is told as; empty when nothing is.
fn told(work: &Path, act: impl FnOnce()) -> String {
    let before = beginning(work);
    assert_eq!(before.changed().unwrap(), None, "nothing has changed yet");
    act();
    before.changed().unwrap().unwrap_or_default()
}

fn work() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    (dir, work)
}

#[test]
fn a_new_a_changed_and_a_removed_file_are_named() {
    let (_dir, work) = work();
    for name in ["a", "b", "c"] {
        fs::write(work.join(name), "one").unwrap();
    }
    let before = beginning(&work);
    assert_eq!(before.changed().unwrap(), None);
    fs::write(work.join("a"), "other").unwrap();
    fs::remove_file(work.join("b")).unwrap();
    fs::create_dir(work.join("sub")).unwrap();
    fs::write(work.join("sub/d"), "new").unwrap();
    let told = before.changed().unwrap().unwrap();
    let names = "under deny: sub/d (new), a (changed), b (removed)";
    assert!(told.starts_with("3 files changed") && told.contains(names), "{told}");
}

#[test]
fn of_many_files_some_are_named() {
    let (_dir, work) = work();
    let before = beginning(&work);
    for n in 0..12 {
        fs::write(work.join(format!("{n:02}")), "x").unwrap();
    }
    let told = before.changed().unwrap().unwrap();
    assert!(told.contains("09 (new) and 2 more"), "{told}");
}

#[test]
fn in_a_repository_ignored_files_do_not_count() {
    let (_dir, work) = work();
    let made = Command::new("git").args(["init", "-q"]).current_dir(&work).status().unwrap();
    assert!(made.success());
    fs::write(work.join(".gitignore"), "target\n").unwrap();
    let before = beginning(&work);
    fs::create_dir(work.join("target")).unwrap();
    fs::write(work.join("target/built"), "x").unwrap();
    assert_eq!(before.changed().unwrap(), None);
    fs::create_dir(work.join(".agent")).unwrap();
    fs::write(work.join(".agent/state"), "x").unwrap();
    let told = before.changed().unwrap().unwrap();
    assert!(told.contains("own files are not compared where git ignores them"), "{told}");
    fs::write(work.join("untracked"), "x").unwrap();
    assert!(before.changed().unwrap().unwrap().contains("untracked (new)"));
}

fn git(dir: &Path, words: &[&str]) {
    let who = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
    let allow = ["-c", "protocol.file.allow=always"];
    let mut git = Command::new("git");
    git.args(who).args(allow).args(words).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null");
    assert!(git.output().unwrap().status.success(), "{words:?}");
}

fn repository(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "-q"]);
    fs::write(dir.join("tracked"), "x").unwrap();
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", "one"]);
}

#[test]
fn changes_in_repositories_within_are_named() {
    let (dir, work) = work();
    repository(&work);
    repository(&dir.path().join("origin"));
    let origin = dir.path().join("origin").display().to_string();
    git(&work, &["submodule", "add", "-q", &origin, "module"]);
    repository(&work.join("deps/clone"));
    for path in ["module/tracked", "deps/clone/tracked"] {
        let before = beginning(&work);
        assert_eq!(before.changed().unwrap(), None);
        fs::write(work.join(path), "longer").unwrap();
        let told = before.changed().unwrap().unwrap();
        assert!(told.contains(&format!(": {path} (changed)")), "{told}");
    }
    let before = beginning(&work);
    fs::write(work.join("deps/clone/new"), "x").unwrap();
    assert!(before.changed().unwrap().unwrap().contains("deps/clone/new (new)"));
}

#[test]
fn commands_that_git_runs_later_are_compared() {
    let (_dir, work) = work();
    repository(&work);
    let before = beginning(&work);
    git(&work, &["commit", "-q", "--allow-empty", "-m", "two"]);
    assert_eq!(before.changed().unwrap(), None, "commits are not compared");
    fs::create_dir_all(work.join(".git/hooks")).unwrap();
    fs::write(work.join(".git/hooks/pre-commit"), "x").unwrap();
    git(&work, &["config", "core.pager", "x"]);
    let told = before.changed().unwrap().unwrap();
    assert!(told.contains(".git/hooks/pre-commit (new), .git/config (changed)"), "{told}");
}

#[test]
fn hooks_of_a_submodule_are_compared() {
    let (dir, work) = work();
    repository(&work);
    repository(&dir.path().join("origin"));
    let origin = dir.path().join("origin").display().to_string();
    git(&work, &["submodule", "add", "-q", &origin, "module"]);
    let before = beginning(&work);
    let hooks = work.join(".git/modules/module/hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::write(hooks.join("pre-commit"), "x").unwrap();
    let told = before.changed().unwrap().unwrap();
    assert!(told.contains(".git/modules/module/hooks/pre-commit (new)"), "{told}");
}

#[test]
fn a_repository_that_git_cannot_read_any_more_hides_no_change() {
    for path in [".", "deps/clone"] {
        let (_dir, work) = work();
        repository(&work);
        repository(&work.join("deps/clone"));
        let before = beginning(&work);
        fs::write(work.join("tracked"), "longer").unwrap();
        git(&work.join(path), &["config", "extensions.unknown", "1"]);
        git(&work.join(path), &["config", "core.repositoryFormatVersion", "1"]);
        let told = before.changed().unwrap();
        assert!(told.is_some(), "{path}");
        // One that cannot be read from the beginning takes nothing from the others.
        if path != "." {
            let before = beginning(&work);
            assert_eq!(before.changed().unwrap(), None);
            fs::write(work.join("tracked"), "longer again").unwrap();
            let told = before.changed().unwrap().unwrap();
            assert!(told.contains("tracked (changed)"), "{told}");
        }
    }
}

#[test]
fn a_time_that_was_set_back_does_not_hide_a_change() {
    let (_dir, work) = work();
    let path = work.join("a");
    fs::write(&path, "one").unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let before = beginning(&work);
    // Longer than the clock of a file system takes for one step.
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&path, "two").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert!(before.changed().unwrap().unwrap().contains("a (changed)"));
}

#[test]
fn the_policy_of_process_agents_is_about_relayed_tools() {
    let rows = [
        (Policy::Deny, Lane::Acp, true),
        (Policy::AllowReads, Lane::Native, true),
        (Policy::Ask, Lane::Acp, false),
        (Policy::AllowAll, Lane::Native, false),
        (Policy::Deny, Lane::Process, false),
        (Policy::AllowReads, Lane::Http, false),
    ];
    for (policy, lane, expected) in rows {
        assert_eq!(applies(policy, lane), expected, "{policy:?} {lane:?}");
    }
}

/// A file that every act of these tests makes where the rules of the agent would hide it.
fn hidden(work: &Path) {
    fs::write(work.join("evil.txt"), "x").unwrap();
}

fn append(path: &Path, line: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, format!("{before}{line}\n")).unwrap();
}

#[test]
fn ignore_rules_of_the_agent_hide_nothing() {
    // The rule, where it is written, and the workspace in the repository.
    let rows = [
        (".git/info/exclude", "", ".git/info/exclude"),
        (".git/info/exclude", "sub", "work/.git/info/exclude"),
        (".gitignore", "sub", "work/.gitignore"),
        ("sub/.gitignore", "sub", ".gitignore (new)"),
        ("../git-place/.config/git/ignore", "", "/git-place/.config/git/ignore (new)"),
    ];
    for (rule, within, named) in rows {
        let (_dir, work) = work();
        repository(&work);
        fs::create_dir(work.join("sub")).unwrap();
        fs::write(work.join("sub/a"), "x").unwrap();
        let told = told(&work.join(within), || {
            append(&work.join(rule), "evil.txt\n.gitignore");
            hidden(&work.join(within));
        });
        assert!(told.contains(named), "{rule} in '{within}': {told}");
    }
}

#[test]
fn an_ignore_file_that_ignores_itself_is_named() {
    for dir in ["src", "new", "new/deep"] {
        let (_dir, work) = work();
        repository(&work);
        fs::create_dir(work.join("src")).unwrap();
        fs::write(work.join("src/a"), "x").unwrap();
        let told = told(&work, || {
            append(&work.join(dir).join(".gitignore"), "*");
            hidden(&work.join(dir));
        });
        assert!(told.contains(&format!("{dir}/.gitignore (new)")), "{told}");
    }
}

#[test]
fn ignore_files_in_ignored_directories_do_not_count() {
    let (_dir, work) = work();
    repository(&work);
    fs::write(work.join(".gitignore"), "target\n*.o\n").unwrap();
    let told = told(&work, || {
        append(&work.join("target/deep/.gitignore"), "*");
        fs::create_dir(work.join("objects")).unwrap();
        fs::write(work.join("objects/a.o"), "x").unwrap();
    });
    assert_eq!(told, "");
}

#[test]
fn ignore_rules_of_a_submodule_and_a_worktree_are_compared() {
    let (dir, work) = work();
    repository(&work);
    repository(&dir.path().join("origin"));
    let origin = dir.path().join("origin").display().to_string();
    git(&work, &["submodule", "add", "-q", &origin, "module"]);
    let said = told(&work, || {
        append(&work.join(".git/modules/module/info/exclude"), "evil.txt");
        hidden(&work.join("module"));
    });
    assert!(said.contains(".git/modules/module/info/exclude (changed)"), "{said}");

    let tree = dir.path().join("tree");
    git(&work, &["worktree", "add", "-q", "../tree"]);
    for (path, how) in [("info/exclude", "changed"), ("hooks/pre-commit", "new")] {
        let said = told(&tree, || append(&work.join(".git").join(path), "evil.txt"));
        assert!(said.contains(&format!("work/.git/{path} ({how})")), "{said}");
    }
    let said = told(&tree, || git(&work, &["config", "core.pager", "x"]));
    assert!(said.contains("work/.git/config (changed)"), "{said}");
}

#[test]
fn hooks_and_settings_around_a_subdirectory_are_compared() {
    let (_dir, work) = work();
    repository(&work);
    fs::create_dir(work.join("sub")).unwrap();
    fs::write(work.join("sub/a"), "x").unwrap();
    let said = told(&work.join("sub"), || {
        append(&work.join(".git/hooks/pre-commit"), "x");
        git(&work, &["config", "core.pager", "x"]);
    });
    let hook = said.find("work/.git/hooks/pre-commit (new)");
    assert!(hook.is_some() && said.contains("work/.git/config (changed)"), "{said}");
}

#[test]
fn settings_of_branches_are_not_compared() {
    let (_dir, work) = work();
    repository(&work);
    assert_eq!(told(&work, || git(&work, &["config", "branch.main.remote", "origin"])), "");
}

#[test]
fn a_submodule_without_its_files_is_compared() {
    let (dir, work) = work();
    repository(&work);
    repository(&dir.path().join("origin"));
    let origin = dir.path().join("origin").display().to_string();
    git(&work, &["submodule", "add", "-q", &origin, "module"]);
    git(&work, &["commit", "-q", "-m", "two"]);
    git(&work, &["submodule", "deinit", "-q", "-f", "module"]);
    let said = told(&work, || hidden(&work.join("module")));
    assert!(said.contains("module/evil.txt (new)"), "{said}");
}

#[test]
fn deep_directories_hide_nothing() {
    let (_dir, work) = work();
    let deep = work.join(vec!["d"; 70].join("/"));
    fs::create_dir_all(&deep).unwrap();
    assert!(told(&work, || hidden(&deep)).contains("d/evil.txt (new)"));
}

#[test]
fn paths_beyond_the_limit_of_the_system_are_no_success() {
    let (_dir, work) = work();
    let before = beginning(&work);
    // Each part is made from the one before, as a shell with `cd` would.
    let name = "d".repeat(250);
    let mut dir = fs::File::open(&work).unwrap();
    for _ in 0..18 {
        rustix::fs::mkdirat(&dir, &name, rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        dir = rustix::fs::openat(&dir, &name, flags, rustix::fs::Mode::empty()).unwrap().into();
    }
    let said = before.changed().unwrap().unwrap();
    assert!(said.contains("cannot be compared now: it has paths that are longer"), "{said}");
}

#[test]
fn directories_are_compared() {
    for in_repository in [false, true] {
        let (_dir, work) = work();
        if in_repository {
            repository(&work);
        }
        fs::create_dir(work.join("sub")).unwrap();
        fs::write(work.join("sub/a"), "x").unwrap();
        let said = told(&work, || fs::create_dir_all(work.join("new/deep")).unwrap());
        assert!(said.starts_with("1 directory changed") && said.contains(": new/deep/ (new)"));
        for (dir, named) in [("sub", "sub/"), ("", "./")] {
            let mode = fs::Permissions::from_mode(0o777);
            let said = told(&work, || fs::set_permissions(work.join(dir), mode).unwrap());
            assert!(said.contains(&format!(": {named} (changed)")), "{said}");
        }
        let said = told(&work, || fs::remove_dir_all(work.join("sub")).unwrap());
        assert!(said.starts_with("1 file changed") && said.contains(": sub/a (removed)"), "{said}");
    }
}

#[test]
fn a_repository_made_in_an_empty_directory_is_named() {
    let (_dir, work) = work();
    let said = told(&work, || git(&work, &["init", "-q"]));
    assert!(said.contains(".git/config (new)"), "{said}");
}

#[test]
fn names_that_are_no_text_are_compared() {
    for in_repository in [false, true] {
        let (_dir, work) = work();
        if in_repository {
            repository(&work);
        }
        let said = told(&work, || {
            fs::write(work.join(OsStr::from_bytes(b"od\xffd")), "x").unwrap();
        });
        assert!(said.contains("od\u{fffd}d (new)"), "{said}");
    }
}

#[test]
fn directories_of_ostler_are_not_compared() {
    for in_repository in [false, true] {
        let (dir, work) = work();
        if in_repository {
            repository(&work);
        }
        let data = work.join("data");
        fs::create_dir(&data).unwrap();
        let workspace = Workspace::open(&work).unwrap();
        let data = data.canonicalize().unwrap();
        let workspace = Arc::new(workspace.without(&[&data]));
        let git = Git::new(dir.path().join("git-place"), &BTreeMap::new());
        let before = Beginning::take(workspace, git, Policy::Deny).unwrap();
        fs::write(data.join("store"), "x").unwrap();
        fs::create_dir(data.join("trees")).unwrap();
        assert_eq!(before.changed().unwrap(), None);
    }
}

#[test]
fn a_host_that_takes_over_compares_too() {
    let (dir, work) = work();
    let (spool, other) = (dir.path().join("spool"), dir.path().join("other"));
    fs::create_dir(&spool).unwrap();
    fs::create_dir(&other).unwrap();
    let before = Comparison::With(Arc::new(beginning(&work).beside(true)));
    before.leave(&spool, "mine").unwrap();
    let mode = fs::metadata(spool.join(NAME)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    hidden(&work);
    let found = |spool: &Path, secret| {
        let workspace = Arc::new(Workspace::again(&work.canonicalize().unwrap()));
        let git = Git::new(dir.path().join("git-place"), &BTreeMap::new());
        Comparison::find(spool, secret, workspace, git, Policy::Deny)
    };
    let Comparison::With(after) = found(&spool, "mine") else { panic!("it was left") };
    assert!(after.shared && after.changed().unwrap().unwrap().contains("evil.txt (new)"));

    assert!(matches!(found(&other, "mine"), Comparison::NotPossible(_)), "nothing was left");
    assert!(matches!(found(&spool, "theirs"), Comparison::NotPossible(_)));
    let mut changed = fs::read(spool.join(NAME)).unwrap();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(spool.join(NAME), changed).unwrap();
    assert!(matches!(found(&spool, "mine"), Comparison::NotPossible(_)), "it was changed");
    for left in [Comparison::NotNeeded, Comparison::NotPossible("why".to_owned())] {
        let _ = fs::remove_file(spool.join(NAME));
        left.leave(&spool, "mine").unwrap();
        assert_eq!(format!("{:?}", found(&spool, "mine")), format!("{left:?}"));
    }
}

#[test]
fn the_sentence_on_ignored_files_is_about_repositories() {
    let (_dir, work) = work();
    let said = told(&work, || fs::write(work.join(".env"), "x").unwrap());
    assert!(!said.contains("git ignores"), "{said}");
    repository(&work);
    let said = told(&work, || fs::write(work.join(".env"), "longer").unwrap());
    assert!(!said.contains("git ignores"), "{said}");
    let said = told(&work, || append(&work.join(".agent/state"), "x"));
    assert!(said.contains("git ignores"), "{said}");
}
