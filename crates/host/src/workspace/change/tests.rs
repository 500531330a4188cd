//! What may be written where, and that a change that fails leaves no trace.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn place() -> (tempfile::TempDir, Workspace) {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir_all(work.join("src")).unwrap();
    std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
    std::fs::create_dir_all(dir.path().join("outside")).unwrap();
    std::fs::write(dir.path().join("secret"), "outside").unwrap();
    std::fs::write(work.join("src/a"), "a\n").unwrap();
    symlink("../secret", work.join("out")).unwrap();
    symlink("../outside", work.join("outdir")).unwrap();
    symlink("src", work.join("indir")).unwrap();
    symlink("src/a", work.join("inside")).unwrap();
    symlink("nowhere/at/all", work.join("dangling")).unwrap();
    symlink(".git", work.join("git")).unwrap();
    (dir, Workspace::open(&work).unwrap())
}

fn write(path: &str, text: &str) -> Change {
    Change {
        path: path.to_owned(),
        was: Was::Anything,
        becomes: Some(text.as_bytes().to_vec()),
        executable: false,
    }
}

/// Every path below a directory with what it holds, links as links.
fn everything(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let kind = entry.file_type().unwrap();
            let holds = match kind.is_file() {
                true => std::fs::read_to_string(&path).unwrap(),
                false => format!("{:?}", std::fs::read_link(&path).ok()),
            };
            found.push(format!("{} {holds}", path.strip_prefix(dir).unwrap().display()));
            if kind.is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_path_that_leads_out_is_refused_however_it_is_written_and_nothing_is_changed() {
    let (dir, workspace) = place();
    let before = everything(dir.path());
    let absolute = dir.path().join("work/src/new").display().to_string();
    let tricks = [
        "../secret",
        "../new",
        "src/../../new",
        "new/../../../new",
        "out",
        "outdir/new",
        "outdir/made/new",
        "indir/../../new",
        "inside",
        "dangling",
        "dangling/new",
        "src",
        "src/",
        "src/a/b",
        "",
        ".",
        "..",
        "/",
        "/etc/ostler-new",
        &absolute,
        "/proc/self/cwd/new",
        "a\0b",
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        "git/hooks/pre-commit",
        "src/../.git/config",
        "src/.git/config",
    ];
    for trick in tricks {
        let fault = workspace.change(&[write(trick, "x")]).unwrap_err();
        assert!(matches!(fault.code, Code::Forbidden | Code::NotFound), "{trick:?}: {fault}");
        let both = [write("src/good", "good"), write("deep/er/good", "good"), write(trick, "x")];
        assert!(workspace.change(&both).is_err(), "{trick:?}");
        assert_eq!(everything(dir.path()), before, "{trick:?}");
    }
}

#[test]
fn a_file_is_written_where_it_says_with_the_mode_it_had() {
    let (dir, workspace) = place();
    let work = dir.path().join("work");
    std::fs::set_permissions(work.join("src/a"), PermissionsExt::from_mode(0o750)).unwrap();
    for path in ["src/a", "indir/b", "./src/./c", "new/deep/d", "src/../e"] {
        workspace.change(&[write(path, path)]).unwrap();
        assert_eq!(std::fs::read_to_string(work.join(path)).unwrap(), path);
    }
    let mode = |path: &str| std::fs::metadata(work.join(path)).unwrap().permissions().mode();
    assert_eq!(mode("src/a") & 0o777, 0o750);
    assert_eq!(mode("src/c") & 0o111, 0);
    let script = Change { executable: true, ..write("run.sh", "") };
    workspace.change(&[script]).unwrap();
    assert_eq!(mode("run.sh") & 0o100, 0o100);
    let left: Vec<_> =
        everything(&work).into_iter().filter(|path| path.contains(".ostler-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_file_that_is_not_what_it_was_is_left_alone_with_all_the_others() {
    let (dir, workspace) = place();
    let before = everything(dir.path());
    let exactly = |path: &str, was: &str, becomes: Option<&str>| Change {
        was: Was::Exactly(was.as_bytes().to_vec()),
        becomes: becomes.map(|text| text.as_bytes().to_vec()),
        ..write(path, "")
    };
    let absent = Change { was: Was::Absent, ..write("src/a", "b") };
    let rows = [
        (exactly("src/a", "other", Some("b")), Code::Conflict),
        (exactly("src/a", "a\nmore", None), Code::Conflict),
        (exactly("nothing", "a", None), Code::NotFound),
        (absent, Code::Conflict),
    ];
    for (change, code) in rows {
        let all = [write("first", "1"), write("src/a2", "2"), change];
        assert_eq!(workspace.change(&all).unwrap_err().code, code, "{:?}", all[2]);
        assert_eq!(everything(dir.path()), before);
    }
    let all = [exactly("src/a", "a\n", None), write("src/b", "b")];
    workspace.change(&all).unwrap();
    assert!(!dir.path().join("work/src/a").exists() && dir.path().join("work/src/b").exists());
}
