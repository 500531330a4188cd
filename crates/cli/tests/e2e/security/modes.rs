//! Who may open what is kept: its owner and nobody else, whatever the umask was, and a directory that
//! someone else prepared is not used. As root a second user tries to open everything; otherwise the
//! modes are looked at alone, and that is said.

use super::Tally;
use crate::door::Door;
use crate::mcp::Guest;
use crate::ostler::{Ostler, Running, Said, keepers, program, signal};
use crate::remote_caller::TOKEN;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The one who owns nothing.
const NOBODY: u32 = 65534;

/// Whether a second user can be had.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: not root, so no second user tries anything; modes are checked alone");
    }
    root
}

/// Everything beneath these directories, sockets and directories too.
fn everything(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = dirs.to_vec();
    while let Some(path) = waiting.pop() {
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        }
        found.push(path);
    }
    found
}

/// Becomes nobody, opens every path it is told, or connects to it, and prints those where that works.
const TRY: &str = r#"
import os, socket, stat, sys
paths = sys.stdin.read().split('\0')
# Whatever is imported is there by now: an interpreter may lie where only root can go.
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for path in paths:
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(path)
        else:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        print(path)
    except OSError:
        pass
"#;

/// Those of the paths that another user can open.
fn opened_by_nobody(paths: &[PathBuf]) -> Vec<String> {
    use std::io::Write as _;
    let python = testkit::python().expect("python3 is there");
    let mut child = Command::new(python)
        .args(["-c", TRY])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    child.stdin.take().unwrap().write_all(names.join("\0").as_bytes()).unwrap();
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!(said.code, 0, "{}", said.stderr);
    said.stdout.lines().map(str::to_owned).collect()
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_kept_is_its_owners_alone_whatever_the_umask() {
    let ostler = Ostler::new();
    let root = ostler.instance.root();
    // The instance lies in private directories; the way to ours is opened, so that ours must hold.
    for dir in [root, &ostler.instance.runtime()] {
        open_to_all(dir);
    }
    let words = format!("umask 000; exec '{}' run demo big --quiet", program().display());
    let status = ostler.instance.command("sh").args(["-c", &words]).status().unwrap();
    assert!(status.success());
    open_to_all(&root.join("data"));
    // A live run as well: its spool, its lock and its socket are there only while it lives.
    let guest = Guest::with_umask(&ostler, "000");
    let kept = [ostler.instance.data(), ostler.instance.runtime().join("ostler")];
    let paths = everything(&kept);
    let mut tally = Tally::new("modes");
    let mut sockets = 0;
    for path in &paths {
        // What a living host has just taken away is nobody's any more.
        let Ok(found) = std::fs::symlink_metadata(path) else { continue };
        let mode = found.mode() & 0o777;
        // Of a socket the kernel makes, only the owner's bits are left by our mask.
        let whole = found.is_dir() || found.file_type().is_socket();
        let most = if whole { 0o700 } else { 0o600 };
        sockets += usize::from(found.file_type().is_socket());
        tally.row(mode & !most == 0, || format!("{} is {mode:o}", path.display()));
    }
    for name in ["token", "address", "lock", "ostler.db", "blobs", "traces", "sock", "seg"] {
        let there = paths.iter().any(|path| path.display().to_string().contains(name));
        assert!(there, "no {name} among {paths:?}");
    }
    assert!(sockets > 0, "{paths:?}");
    if is_root() {
        // The instrument sees what is open to all.
        let canary = root.join("canary");
        std::fs::write(&canary, "").unwrap();
        std::fs::set_permissions(&canary, std::fs::Permissions::from_mode(0o644)).unwrap();
        let opened = opened_by_nobody(&[&paths[..], std::slice::from_ref(&canary)].concat());
        tally.row(opened == [canary.display().to_string()], || format!("{opened:?}"));
    }
    guest.finish();
    tally.close(20);
}

/// The product with these arguments, where everything is open to all unless it is shut on purpose.
fn careless(ostler: &Ostler, args: &[&str]) -> Command {
    let mut command = ostler.instance.command("sh");
    command.args(["-c", "umask 000; exec \"$@\"", "sh"]).arg(program()).args(args);
    command.env("REMOTE_TOKEN", TOKEN).stdin(Stdio::null());
    command
}

#[test]
fn worktrees_sessions_skills_and_prices_are_their_owners_alone_whatever_the_umask() {
    let ostler = Ostler::new();
    let root = ostler.instance.root().to_owned();
    for dir in [&root, &ostler.instance.runtime()] {
        open_to_all(dir);
    }
    crate::trees::repository(&ostler);
    let script = |name: &str, does: &str| {
        let path = root.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{does}\n")).unwrap();
        open_to_all(&path);
        path.display().to_string()
    };
    // A skill of the person's own that others may read, with something to run in it.
    let skill = root.join("config/ostler/skills/weighing");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    let text = "---\nname: weighing\ndescription: Use when a thing is weighed.\n---\nWeigh it.";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    std::fs::write(skill.join("scripts/weigh"), "#!/bin/sh\n").unwrap();
    open_to_all(&skill.join("scripts/weigh"));
    std::fs::create_dir_all(root.join("codex/skills")).unwrap();
    let config = serde_json::json!({
        "adapters": { "b": {
            "type": "cli", "runtime": "codex", "binary": script("holds.sh", "exec sleep 600"),
            "env": { "CODEX_HOME": root.join("codex") }, "graceSec": 1,
        } },
        "agents": { "holds": { "adapter": "b", "skills": ["weighing"], "permission": "allow-all" } },
    });
    ostler.instance.write_config(&config.to_string());

    // The host, which is a remote, with an open session.
    let args = ["remote", "--agent", "demo", "--listen", "127.0.0.1:0", "--token-env"];
    let args = [&args[..], &["REMOTE_TOKEN"]].concat();
    let mut serve = Running::of(&mut careless(&ostler, &args));
    let address = serve.line().trim().rsplit('/').next().unwrap().to_owned();
    let door = Door { ostler, serve, address, token: TOKEN.to_owned() };
    let ostler = &door.ostler;
    let opened = door.owner("POST", "/v1/sessions", r#"{"runId":"far","prompt":"slow"}"#);
    assert_eq!(opened.status, 201, "{}", opened.body);
    // A worktree with work in it, prices, and a run that holds a copy of its skill.
    let works =
        script("works.sh", "echo new > new.txt; echo '{\"type\":\"complete\",\"text\":\"done\"}'");
    let table = format!("{}/../host/src/prices/fixtures/litellm.json", env!("CARGO_MANIFEST_DIR"));
    for args in [
        &["run", "--worktree", "--process", &works, "x", "--quiet"][..],
        &["prices", "import", &table],
    ] {
        let said = Said::from(careless(ostler, args).output().unwrap());
        assert_eq!(said.code, 0, "{args:?}: {}", said.stderr);
    }
    let mut holds = Running::of(&mut careless(ostler, &["run", "holds", "weigh this", "--json"]));
    holds.event("the agent to run", |event| event["phase"] == "running");
    open_to_all(&root.join("data"));

    let data = ostler.instance.data();
    let paths = everything(&[data.clone(), ostler.instance.runtime().join("ostler")]);
    let mut tally = Tally::new("modes of what runs leave");
    let mut of_agents = 0;
    for path in &paths {
        // What a living host has just taken away is nobody's any more.
        let Ok(found) = std::fs::symlink_metadata(path) else { continue };
        // What lies in a worktree is git's and its agent's; the directory around it is shut.
        let below = path.strip_prefix(data.join("trees")).map_or(0, |below| below.iter().count());
        let in_worktree = below > 2 && !path.components().any(|part| part.as_os_str() == "runs");
        of_agents += usize::from(in_worktree);
        let mode = if in_worktree || found.is_symlink() { 0 } else { found.mode() & 0o777 };
        tally.row(mode & 0o077 == 0, || format!("{} is {mode:o}", path.display()));
    }
    for name in ["trees/", "skills/copies/", "weigh", "sessions/", "prices.json", "new.txt"] {
        let there = paths.iter().any(|path| path.display().to_string().contains(name));
        assert!(there, "no {name} among {paths:#?}");
    }
    assert!(of_agents > 0, "{paths:#?}");
    if is_root() {
        let reached = opened_by_nobody(&paths);
        tally.row(reached.is_empty(), || format!("{reached:?}"));
    }
    signal(holds.child.id() as i32, rustix::process::Signal::INT);
    holds.finish();
    let id = opened.body.split('"').find(|word| word.starts_with("run_")).unwrap();
    assert_eq!(door.owner("DELETE", &format!("/v1/sessions/{id}"), "").status, 204);
    tally.close(30);
}

#[test]
fn a_directory_that_someone_else_prepared_is_not_used() {
    let mut tally = Tally::new("prepared directories");
    let mut refused = |ostler: &Ostler, args: &[&str], what: &str| {
        let said = ostler.says(args);
        tally.row(said.code == 14 && said.stderr.starts_with("error: store_unreadable"), || {
            format!("{what}: {} {}", said.code, said.stderr)
        });
    };
    // Without a runtime directory the spools go to the temporary one, where anyone may be first.
    let in_tmp = |ostler: &Ostler| {
        let uid = rustix::process::getuid().as_raw();
        let _ = std::fs::remove_dir(ostler.instance.runtime());
        ostler.instance.runtime().with_file_name("tmp").join(format!("ostler-{uid}"))
    };
    let tmp_only = |ostler: &Ostler, what: &str, tally: &mut Tally| {
        let mut command = ostler.command(&["runs"]);
        let said = Said::from(command.env_remove("XDG_RUNTIME_DIR").output().unwrap());
        tally.row(said.code == 14 && said.stderr.contains("XDG_RUNTIME_DIR"), || {
            format!("{what}: {} {}", said.code, said.stderr)
        });
    };
    let ostler = Ostler::new();
    let elsewhere = ostler.instance.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let file = ostler.instance.root().join("file");
    std::fs::write(&file, "").unwrap();
    let root = is_root();
    let nobody = rustix::fs::Uid::from_raw(NOBODY);
    if root {
        // A directory, a link and a token of someone else.
        let theirs = Ostler::new();
        let data = theirs.instance.data();
        std::fs::create_dir_all(&data).unwrap();
        rustix::fs::chown(&data, Some(nobody), None).unwrap();
        refused(&theirs, &["runs"], "a data directory of another user");

        let linked = Ostler::new();
        std::fs::create_dir_all(linked.instance.data().parent().unwrap()).unwrap();
        symlink(&elsewhere, linked.instance.data()).unwrap();
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let path = linked.instance.data();
        rustix::fs::chownat(rustix::fs::CWD, &path, Some(nobody), None, flags).unwrap();
        refused(&linked, &["runs"], "a link of another user");

        let known = Ostler::new();
        std::fs::create_dir_all(known.instance.data()).unwrap();
        let token = known.instance.data().join("token");
        std::fs::write(&token, "0".repeat(64)).unwrap();
        rustix::fs::chown(&token, Some(nobody), None).unwrap();
        refused(&known, &["runs"], "a token of another user");
    }
    let missing = Ostler::new();
    let path = file.join("data").display().to_string();
    refused(&missing, &["runs", "--data", &path], "a file in the way");

    let spools = in_tmp(&ostler);
    symlink(&elsewhere, &spools).unwrap();
    tmp_only(&ostler, "a link in the temporary directory", &mut tally);
    std::fs::remove_file(&spools).unwrap();
    std::fs::write(&spools, "").unwrap();
    tmp_only(&ostler, "a file in the temporary directory", &mut tally);
    std::fs::remove_file(&spools).unwrap();
    if root {
        std::fs::create_dir(&spools).unwrap();
        rustix::fs::chown(&spools, Some(nobody), None).unwrap();
        tmp_only(&ostler, "a directory of another user", &mut tally);
        std::fs::remove_dir(&spools).unwrap();
    }
    tally
        .row(std::fs::read_dir(&elsewhere).unwrap().count() == 0, || "files went there".to_owned());
    // With nothing in the way it works.
    let mut command = ostler.command(&["run", "demo", "hello", "--quiet"]);
    let said = Said::from(command.env_remove("XDG_RUNTIME_DIR").output().unwrap());
    tally.row(said.code == 0, || said.stderr);
    tally.close(5);
}

/// The product as a user without privileges has it: itself, in a directory that is theirs. For root
/// the difference cannot be seen, since root may read everyone.
fn unprivileged(dir: &Path, args: &[&str]) -> Command {
    let own = dir.join("ostler");
    std::fs::copy(program(), &own).unwrap();
    open_to_all(dir);
    let mut command = match is_root() {
        true => {
            let nobody = Some(rustix::fs::Uid::from_raw(NOBODY));
            rustix::fs::chown(dir, nobody, None).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(own);
            command
        }
        false => Command::new(own),
    };
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    command.args(args).env_clear().env("PATH", path).current_dir(dir).stdin(Stdio::null());
    for name in ["HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "TMPDIR"] {
        command.env(name, dir.join(name.to_lowercase()));
    }
    command
}

#[test]
fn who_holds_secrets_leaves_no_core_and_is_read_by_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["run", "--process", "sleep 60", "x", "--json"];
    let mut run = Running::of(&mut unprivileged(dir.path(), &args));
    let started = run.event("the agent's start", |event| event["pid"].is_u64());
    let id = started["run_id"].as_str().unwrap().to_owned();
    let owner = |pid: i64| std::fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid();
    let mut tally = Tally::new("core files");
    // The kernel gives the files of a process that may be dumped to its user, others to root.
    let host = owner(run.child.id().into());
    tally.row(host == 0, || format!("the host's belong to {host}"));
    let keepers = keepers(&id);
    assert!(!keepers.is_empty(), "{started}");
    for keeper in keepers {
        let keeper = owner(keeper.into());
        tally.row(keeper == 0, || format!("the keeper's belong to {keeper}"));
    }
    // The agent is like any other process; so the instrument sees the difference.
    let agent = owner(started["pid"].as_i64().unwrap());
    let user = if is_root() { NOBODY } else { rustix::process::geteuid().as_raw() };
    tally.row(agent == user, || format!("the agent's belong to {agent}"));
    signal(run.child.id() as i32, rustix::process::Signal::INT);
    let said = run.finish();
    assert_eq!(said.code, 130, "{}", said.stderr);
    tally.close(3);
}
