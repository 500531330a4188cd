//! The one way in which git is run for a workspace: to say which files are its own. A repository is
//! not trusted, and its configuration can name commands; so nothing of the system's or the person's
//! configuration is read, everything that could run a command is switched off on the command line,
//! which counts more than the repository's, and what is asked for writes nothing and fetches nothing.

use contract::limits;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// What a repository may not decide. `ls-files` runs no filter and no hook; whatever it asked for
/// would be one of these.
const FIXED: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.sshCommand=false",
    "core.pager=cat",
    "core.editor=false",
    "credential.helper=",
    "protocol.allow=never",
    "submodule.recurse=false",
];

/// Of the caller's environment only what says where the person keeps patterns of ignored files.
const KEPT: &[&str] = &["HOME", "XDG_CONFIG_HOME"];

/// The directory that holds the repository a directory belongs to, if it belongs to one.
pub fn top(dir: &Path) -> Option<&Path> {
    dir.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())
}

/// The files below a directory of a repository that are tracked, or neither tracked nor ignored, by
/// their paths from there, sorted. Names that are no UTF-8 are left out.
pub fn files(dir: &Path, environment: &BTreeMap<String, String>) -> io::Result<Vec<String>> {
    let Some(top) = top(dir) else { return Ok(Vec::new()) };
    let mut child = start(dir, top, environment)?;
    let read = read(&mut child);
    let status = child.wait()?;
    let listed = read?;
    if !status.success() {
        return Err(io::Error::other("git does not list its files"));
    }
    let names = listed.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    // What ends with a slash is a repository of its own.
    let mut names: Vec<String> =
        names.filter(|name| !name.is_empty() && !name.ends_with('/')).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

#[expect(clippy::disallowed_methods, reason = "git is run here and nowhere else")]
fn start(dir: &Path, top: &Path, environment: &BTreeMap<String, String>) -> io::Result<Child> {
    let path = environment.get("PATH").map_or("/usr/bin:/bin", String::as_str);
    let git = program(path).ok_or_else(|| io::Error::other("git is not on PATH"))?;
    let mut safe = b"safe.directory=".to_vec();
    safe.extend_from_slice(top.as_os_str().as_bytes());
    let mut command = Command::new(git);
    command.args(["--no-optional-locks", "--no-replace-objects", "--literal-pathspecs", "-C"]);
    command.arg(dir);
    for fixed in FIXED {
        command.args(["-c", fixed]);
    }
    command
        .arg("-c")
        .arg(OsStr::from_bytes(&safe))
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .env_clear()
        .envs(environment.iter().filter(|(name, _)| KEPT.contains(&name.as_str())))
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// The first of these directories that has it. One that is not absolute is skipped: it would be
/// looked for in the repository.
fn program(path: &str) -> Option<PathBuf> {
    let dirs = path.split(':').map(Path::new).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join("git")).find(|git| {
        let mode = git.metadata().map(|metadata| metadata.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o111 != 0)
    })
}

/// All it says, within the limits of size and time.
fn read(child: &mut Child) -> io::Result<Vec<u8>> {
    let Some(stdout) = child.stdout.take() else { return Ok(Vec::new()) };
    let (send, received) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut listed = Vec::new();
        let most = limits::GIT_ANSWER_BYTES_MAX as u64;
        let read = stdout.take(most + 1).read_to_end(&mut listed);
        // Whoever waited too long is gone.
        let _ = send.send(read.map(|_| listed));
    });
    let listed = received.recv_timeout(Duration::from_millis(limits::GIT_MS_MAX));
    let failure = match listed {
        Ok(Ok(listed)) if listed.len() <= limits::GIT_ANSWER_BYTES_MAX => return Ok(listed),
        Ok(Ok(_)) => io::Error::other("git lists more than can be taken"),
        Ok(Err(error)) => error,
        Err(_) => io::Error::new(io::ErrorKind::TimedOut, "git takes too long"),
    };
    let _ = child.kill();
    Err(failure)
}

#[cfg(test)]
#[path = "git/tests.rs"]
mod tests;
