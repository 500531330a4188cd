//! Which files of a repository are its own, and that looking runs nothing of what a hostile one
//! names. Repositories are made by git itself, in temporary directories.

#![allow(clippy::disallowed_methods, reason = "tests make repositories with git itself")]

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// Keys whose value is a command, or could become one.
const COMMANDS: &[&str] = &[
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.sshCommand",
    "core.gitProxy",
    "core.askPass",
    "core.alternateRefsCommand",
    "sequence.editor",
    "credential.helper",
    "credential.https://example.invalid.helper",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "merge.evil.driver",
    "mergetool.evil.cmd",
    "difftool.evil.cmd",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "filter.lfs.process",
    "gpg.program",
    "gpg.ssh.program",
    "gpg.x509.program",
    "gpg.ssh.defaultKeyCommand",
    "interactive.diffFilter",
    "pager.ls-files",
    "pager.status",
    "pager.log",
    "alias.ls-files",
    "alias.status",
    "browser.evil.cmd",
    "man.evil.cmd",
    "web.browser",
    "help.browser",
    "instaweb.httpd",
    "trailer.evil.command",
    "trailer.evil.cmd",
    "uploadpack.packObjectsHook",
    "uploadarchive.blockUnreachable",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "remote.origin.vcs",
    "remote.origin.proxy",
    "receive.procReceiveRefs",
    "sendemail.sendmailCmd",
    "sendemail.toCmd",
    "sendemail.ccCmd",
    "sendemail.headerCmd",
    "imap.tunnel",
    "guitool.evil.cmd",
    "submodule.evil.update",
    "ssh.variant",
    "tar.evil.command",
    "tar.tar.command",
    "init.templateDir",
    "hook.evil.command",
    "maintenance.strategy",
    "rebase.instructionFormat",
    "log.showSignature",
    "bisect.run",
];

const HOOKS: &[&str] = &[
    "post-index-change",
    "fsmonitor-watchman",
    "post-checkout",
    "pre-auto-gc",
    "reference-transaction",
    "pre-commit",
];

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-C"])
        .arg(dir)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git runs");
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q"]);
    for (name, text) in [
        ("a.txt", "a"),
        (".gitignore", "ignored\n*.key\n"),
        ("ignored", "i"),
        ("my.key", "secret"),
        ("src/b.rs", "b"),
        ("src/own.key", "secret"),
        ("new.txt", "untracked"),
        ("café/ü", "u"),
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    git(dir.path(), &["add", "a.txt", ".gitignore", "src", "café"]);
    git(dir.path(), &["commit", "-qm", "first"]);
    dir
}

/// With a place for its own files where no listing finds it.
fn ours(dir: &Path) -> Git {
    let path = std::env::var("PATH").unwrap_or_default();
    Git::new(dir.join(".git/ours"), &BTreeMap::from([("PATH".to_owned(), path)]))
}

#[test]
fn git_sees_of_our_environment_only_what_it_needs() {
    let given =
        ["PATH", "GIT_DIR", "GIT_SSH_COMMAND", "LD_PRELOAD", "SHIP_TOKEN", "XDG_CACHE_HOME"];
    let given = given.map(|name| (name.to_owned(), "/x".to_owned())).into();
    let git = Git::new(PathBuf::from("/nowhere"), &given);
    assert_eq!(git.environment, [("PATH".to_owned(), "/x".to_owned())].into());
}

#[test]
fn git_is_not_looked_for_below_where_we_stand() {
    let dir = tempfile::tempdir().unwrap();
    let there = dir.path().join("git");
    fs::write(&there, "").unwrap();
    fs::set_permissions(&there, fs::Permissions::from_mode(0o755)).unwrap();
    // The same directory, by a path from here.
    let up = "../".repeat(std::env::current_dir().unwrap().components().count() - 1);
    let relative = format!("{up}{}", dir.path().strip_prefix("/").unwrap().display());
    assert!(Path::new(&relative).join("git").is_file());
    assert_eq!(call::program(&relative), None);
    let both = format!("{relative}:{}", dir.path().display());
    assert_eq!(call::program(&both), Some(there));
}

#[test]
fn a_repository_has_what_is_tracked_and_what_is_not_ignored() {
    let dir = repository();
    let own = [".gitignore", "a.txt", "café/ü", "new.txt", "src/b.rs"];
    assert_eq!(ours(dir.path()).files(dir.path()).unwrap(), own);
    // A directory of it, seen from there; and what is tracked although it is ignored.
    git(dir.path(), &["add", "-f", "src/own.key"]);
    let src = dir.path().join("src");
    assert_eq!(top(&src), Some(dir.path()));
    assert_eq!(ours(dir.path()).files(&src).unwrap(), ["b.rs", "own.key"]);
    assert_eq!(top(Path::new("/")), None);
}

#[test]
fn what_cannot_be_listed_is_an_error_and_not_an_empty_list() {
    let dir = repository();
    let nowhere = BTreeMap::from([("PATH".to_owned(), ".::relative/bin".to_owned())]);
    fs::write(dir.path().join("git"), "#!/bin/sh\ntouch ran\n").unwrap();
    let error = Git::new(dir.path().join(".git/ours"), &nowhere).files(dir.path()).unwrap_err();
    assert_eq!(error.to_string(), "git is not on PATH");
    fs::write(dir.path().join(".git/index"), "no index").unwrap();
    let error = ours(dir.path()).files(dir.path()).unwrap_err();
    assert_eq!(error.to_string(), "git does not list its files");
    assert!(!dir.path().join("ran").exists());
}

/// A repository that names a command wherever one can be named. Whichever runs leaves a mark.
fn hostile() -> (tempfile::TempDir, PathBuf) {
    let dir = repository();
    let mark = dir.path().join(".git/ran");
    let script = dir.path().join(".git/evil.sh");
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $@\" >> {}\nexit 1\n", mark.display()))
        .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = script.display().to_string();
    for key in COMMANDS {
        let value = if key.starts_with("alias.") { format!("!{evil}") } else { evil.clone() };
        // Some keys may only have words of their own; git then refuses the key and not the list.
        let _ = Command::new("git")
            .arg("-C")
            .arg(dir.path())
            .args(["config", key, &value])
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output();
    }
    fs::create_dir_all(dir.path().join(".git/hooks")).unwrap();
    for hook in HOOKS {
        let path = dir.path().join(".git/hooks").join(hook);
        fs::copy(&script, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let attributes = "* filter=evil diff=evil merge=evil\n*.txt filter=lfs\n";
    fs::write(dir.path().join(".gitattributes"), attributes).unwrap();
    fs::write(
        dir.path().join(".gitmodules"),
        "[submodule \"evil\"]\n\tpath = evil\n\turl = ext::sh -c evil\n",
    )
    .unwrap();
    // Changed behind its back, so that whoever refreshes the index looks at the content.
    fs::write(dir.path().join("a.txt"), "changed").unwrap();
    (dir, mark)
}

#[test]
fn nothing_that_a_repository_names_is_run() {
    assert!(COMMANDS.len() >= 60, "{}", COMMANDS.len());
    let (dir, mark) = hostile();
    let listed = ours(dir.path()).files(dir.path()).unwrap();
    assert!(listed.contains(&"a.txt".to_owned()), "{listed:?}");
    let ran = fs::read_to_string(&mark).unwrap_or_default();
    assert_eq!(ran, "");
    // The trap works: git as anyone calls it walks into it.
    let _ = Command::new("git").arg("-C").arg(dir.path()).arg("status").output();
    assert!(mark.exists(), "nobody was caught");
}
