//! One call of git: what it is told, what it is kept from, and how much and how long it may answer.
//! Knows nothing of what is asked. Whatever a repository could decide that no configuration of ours
//! decides already is fixed here on the command line, which counts more than any file.

use super::Git;
use super::repository::Repository;
use crate::supervise;
use contract::limits;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// What nobody but us decides.
const FIXED: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.sshCommand=false",
    "core.gitProxy=false",
    "core.askPass=false",
    "core.pager=cat",
    "core.editor=false",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    "protocol.allow=never",
    "submodule.recurse=false",
    "diff.ignoreSubmodules=all",
    "commit.gpgSign=false",
    "gpg.program=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
];

/// Of our environment: where the person keeps patterns of ignored files, and where programs are.
pub(super) const KEPT: &[&str] = &["HOME", "XDG_CONFIG_HOME", "PATH"];

/// The variable by which a call is found again whose host was killed.
pub const MARK: &str = "OSTLER_GIT";

/// How much of its complaints is kept.
const COMPLAINT_BYTES_MAX: u64 = 4 * 1024;

/// What a call came to.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Whether git says that it was done.
    pub done: bool,
    pub out: Vec<u8>,
    /// Whether there was more than was wanted.
    pub cut: bool,
    /// The beginning of its complaints.
    pub complaint: String,
}

impl Answer {
    /// What it says in one line, when it was done.
    pub fn line(self, what: &str) -> io::Result<String> {
        let out = self.good(what)?.out;
        Ok(String::from_utf8_lossy(&out).trim_end().to_owned())
    }

    /// Itself when it was done; what git complains of otherwise.
    pub fn good(self, what: &str) -> io::Result<Self> {
        if self.done {
            return Ok(self);
        }
        Err(io::Error::other(format!("{what}: {}", reason(&self.complaint))))
    }
}

/// The line that says why git failed: before it git may tell what it is doing.
fn reason(complaint: &str) -> &str {
    let is_reason = |line: &&str| line.starts_with("fatal: ") || line.starts_with("error: ");
    let found = complaint.lines().find(is_reason).or_else(|| complaint.lines().next());
    found.map_or("git gives no reason", str::trim)
}

/// How an answer that is too long ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TooLong {
    Refused,
    Cut,
}

/// A call that is being put together.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    git: &'a Git,
    words: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    dir: PathBuf,
    input: Vec<u8>,
    ms_max: u64,
    bytes_max: usize,
    too_long: TooLong,
    paths: Paths,
}

/// How paths that are given are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paths {
    AsTheyAre,
    AsPatterns,
    /// As the command reads them; some take no other way.
    ByCommand,
}

impl<'a> Call<'a> {
    /// A call that belongs to no repository.
    pub(super) fn alone(git: &'a Git, words: &[&str]) -> Self {
        Self {
            git,
            words: words.iter().map(OsString::from).collect(),
            env: vec![("GIT_DIR", "/dev/null".into())],
            dir: "/".into(),
            input: Vec::new(),
            ms_max: limits::GIT_MS_MAX,
            bytes_max: limits::GIT_ANSWER_BYTES_MAX,
            too_long: TooLong::Refused,
            paths: Paths::AsTheyAre,
        }
    }

    /// A call in the checkout that the repository was found by.
    pub(super) fn of(repository: &'a Repository, words: &[&str]) -> Self {
        let at = Self { env: Vec::new(), ..Self::alone(repository.git(), words) };
        at.with("GIT_COMMON_DIR", repository.shadow()).at(repository.git_dir(), repository.top())
    }

    fn with(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.env.retain(|(given, _)| *given != name);
        self.env.push((name, value.as_ref().to_owned()));
        self
    }

    /// In another checkout of the same repository: what git keeps of it, and its files.
    pub fn at(self, git_dir: &Path, work: &Path) -> Self {
        self.with("GIT_DIR", git_dir).with("GIT_WORK_TREE", work).from(work)
    }

    /// From a directory inside the checkout.
    pub fn from(mut self, dir: &Path) -> Self {
        self.dir = dir.to_owned();
        self
    }

    /// With an index of our own.
    pub fn index(self, file: &Path) -> Self {
        self.with("GIT_INDEX_FILE", file)
    }

    /// With what it writes kept apart from the repository.
    pub fn apart(self, objects: &Path) -> Self {
        self.with("GIT_OBJECT_DIRECTORY", objects)
    }

    /// In someone's name.
    pub fn by(self, name: &str, email: &str) -> Self {
        let author = self.with("GIT_AUTHOR_NAME", name).with("GIT_AUTHOR_EMAIL", email);
        author.with("GIT_COMMITTER_NAME", name).with("GIT_COMMITTER_EMAIL", email)
    }

    /// To be found by this mark, should we die before it has ended.
    pub fn marked(self, mark: &str) -> Self {
        self.with(MARK, mark)
    }

    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().to_owned());
        self
    }

    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = bytes;
        self
    }

    /// With paths on its input, as patterns: whoever writes them says what is meant.
    pub fn patterns(mut self, patterns: &[String]) -> Self {
        self.paths = Paths::AsPatterns;
        let text: String = patterns.iter().map(|pattern| format!("{pattern}\0")).collect();
        self.arg("--pathspec-from-file=-").arg("--pathspec-file-nul").input(text.into_bytes())
    }

    /// With paths on its input, for a command that refuses to be told how to read them. Each must
    /// begin with `./`, so that none is read as anything but a path.
    pub fn paths(mut self, paths: Vec<u8>) -> Self {
        self.paths = Paths::ByCommand;
        self.input(paths)
    }

    /// For what may take long, because it touches all files.
    pub fn long(mut self) -> Self {
        self.ms_max = limits::GIT_TREE_MS_MAX;
        self
    }

    /// For an answer of which the beginning is good too.
    pub fn cut_at(mut self, bytes_max: usize) -> Self {
        (self.bytes_max, self.too_long) = (bytes_max, TooLong::Cut);
        self
    }

    /// Blocking.
    pub fn run(self) -> io::Result<Answer> {
        let mut child = self.start()?;
        let input = self.input;
        if let Some(mut stdin) = child.stdin.take() {
            supervise::thread("write to git", move || {
                // A git that does not read all of it answers all the same.
                let _ = stdin.write_all(&input);
            })?;
        }
        let complaint = gather(child.stderr.take(), COMPLAINT_BYTES_MAX)?;
        let out = gather(child.stdout.take(), self.bytes_max as u64 + 1)?;
        let told = out.recv_timeout(Duration::from_millis(self.ms_max));
        let (failure, cut) = match told {
            Ok(Ok(out)) if out.len() <= self.bytes_max => {
                let done = child.wait()?.success();
                let complaint = complaint.recv_timeout(Duration::from_millis(self.ms_max));
                let complaint = complaint.ok().and_then(Result::ok).unwrap_or_default();
                let complaint = String::from_utf8_lossy(&complaint).into_owned();
                return Ok(Answer { done, out, cut: false, complaint });
            }
            Ok(Ok(mut out)) if self.too_long == TooLong::Cut => {
                out.truncate(self.bytes_max);
                (Ok(()), out)
            }
            Ok(Ok(_)) => {
                (Err(io::Error::other("the output of git is larger than the limit")), Vec::new())
            }
            Ok(Err(error)) => (Err(error), Vec::new()),
            // The thread that reads sends nothing until git closes its output.
            Err(_) => {
                let late = io::Error::new(io::ErrorKind::TimedOut, "git takes too long");
                (Err(late), Vec::new())
            }
        };
        end(&mut child);
        failure.map(|()| Answer { done: true, out: cut, cut: true, complaint: String::new() })
    }

    #[expect(clippy::disallowed_methods, reason = "git is run here and nowhere else")]
    fn start(&self) -> io::Result<Child> {
        let environment = &self.git.environment;
        let path = environment.get("PATH").map_or("/usr/bin:/bin", String::as_str);
        let git = program(path).ok_or_else(|| io::Error::other("git is not on PATH"))?;
        let mut command = Command::new(git);
        command.args(["--no-optional-locks", "--no-replace-objects"]);
        match self.paths {
            Paths::AsTheyAre => command.arg("--literal-pathspecs"),
            Paths::AsPatterns => command.arg("--noglob-pathspecs"),
            Paths::ByCommand => &mut command,
        };
        for fixed in FIXED {
            command.args(["-c", fixed]);
        }
        command
            .args(&self.words)
            .env_clear()
            .envs(environment)
            .env("PATH", path)
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", "")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.dir)
            .process_group(0)
            .stdin(if self.input.is_empty() { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

/// Ends a call and whatever it started.
fn end(child: &mut Child) {
    // A group that has ended already needs no signal.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    crate::cleanup::wait(child);
}

/// The first of these directories that has it. One that is not absolute is skipped: it would be
/// looked for in the repository.
pub(super) fn program(path: &str) -> Option<PathBuf> {
    let dirs = path.split(':').map(Path::new).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join("git")).find(|git| {
        let mode = git.metadata().map(|metadata| metadata.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o111 != 0)
    })
}

/// Reads so many bytes beside us: whoever waits has a limit of time.
fn gather(
    from: Option<impl Read + Send + 'static>,
    most: u64,
) -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (send, received) = mpsc::sync_channel(1);
    supervise::thread("read from git", move || {
        let mut bytes = Vec::new();
        let read = from.map_or(Ok(0), |from| from.take(most).read_to_end(&mut bytes));
        // Whoever waited too long is gone.
        let _ = send.send(read.map(|_| bytes));
    })?;
    Ok(received)
}
