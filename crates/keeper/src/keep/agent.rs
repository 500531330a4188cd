//! Starting the agent: its pipes, its environment, its process group, and why it did not start. What can
//! be made before it is to be started is.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getpid};

use super::raw;
use super::score::{Score, offer_first};
use crate::limits::SHEBANG_BYTES_MAX;
use crate::plan::{Plan, StdinMode};

/// The agent's process and our ends of its pipes, all non-blocking.
pub struct Agent {
    pub pid: Pid,
    pub stdin: Option<OwnedFd>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// What an agent has of its keeper's beginnings, and not of what the keeper has become.
pub struct Born<'a> {
    /// The umask that it would have had.
    pub mask: Mode,
    /// Whether the keeper has stepped back for the processor.
    pub stepped_back: bool,
    pub score: Option<&'a Score>,
}

/// The program could not be started.
pub struct NotStarted {
    pub words: String,
    pub errno: Option<i32>,
}

/// Everything that an agent needs, before it is started: nothing of it is seen by anyone yet.
pub struct Readied {
    image: raw::Image,
    cwd: CString,
    /// The agent's ends of its pipes.
    theirs: [OwnedFd; 3],
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Makes the program of the plan ready to be started in a group of its own, with nothing inherited.
pub fn ready(plan: &Plan) -> Result<Readied, NotStarted> {
    Readied::of(plan).map_err(|error| NotStarted::explain(plan, &error))
}

impl Readied {
    fn of(plan: &Plan) -> io::Result<Self> {
        let (hears, stdin) = match plan.stdin {
            StdinMode::Open | StdinMode::Once => {
                let (reads, writes) = pipe_with(PipeFlags::CLOEXEC)?;
                rustix::io::ioctl_fionbio(&writes, true)?;
                (reads, Some(writes))
            }
            StdinMode::Null => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                (rustix::fs::open(c"/dev/null", flags, Mode::empty())?, None)
            }
        };
        let (stdout, says) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, complains) = pipe_with(PipeFlags::CLOEXEC)?;
        for fd in [&stdout, &stderr] {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        let (image, cwd) = (image(plan)?, CString::new(plan.cwd.as_os_str().as_bytes())?);
        Ok(Self { image, cwd, theirs: [hears, says, complains], stdin, stdout, stderr })
    }

    /// Starts it.
    pub fn launch(
        self,
        plan: &Plan,
        Born { mask, stepped_back, score }: Born<'_>,
        group: Option<BorrowedFd<'_>>,
    ) -> Result<Agent, NotStarted> {
        let Self { image, cwd, theirs: [hears, says, complains], stdin, stdout, stderr } = self;
        let (hears, says, complains) = (hears.as_fd(), says.as_fd(), complains.as_fd());
        let keeper = getpid();
        let unborn = raw::Unborn {
            image,
            cwd,
            stdin: hears,
            stdout: says,
            stderr: complains,
            keeper,
            mask,
            stepped_back,
            group,
        };
        match offer_first(score, || unborn.start()) {
            Ok(pid) => Ok(Agent { pid, stdin, stdout, stderr }),
            Err(error) => Err(NotStarted::explain(plan, &error)),
        }
    }
}

/// Where a program is looked for when its environment says nothing about it.
const PATH_DEFAULT: &str = "/bin:/usr/bin";

/// The program of the plan as the kernel takes it.
pub fn image(plan: &Plan) -> io::Result<raw::Image> {
    let word = |text: &str| CString::new(text).map_err(io::Error::from);
    let args = std::iter::once(&plan.program).chain(&plan.args).map(|arg| word(arg));
    let env: BTreeMap<_, _> = plan.env.iter().map(|(name, value)| (name, value)).collect();
    let env = env.into_iter().map(|(name, value)| word(&format!("{name}={value}")));
    let places = places(plan).into_iter().map(|place| word(&place));
    Ok(raw::Image::new(
        places.collect::<io::Result<_>>()?,
        args.collect::<io::Result<_>>()?,
        env.collect::<io::Result<_>>()?,
    ))
}

/// Where the program may be: as it is named, or in each directory of the plan's PATH.
fn places(plan: &Plan) -> Vec<String> {
    if plan.program.contains('/') {
        return vec![plan.program.clone()];
    }
    let path = plan.env.iter().rfind(|(name, _)| name == "PATH");
    let path = path.map_or(PATH_DEFAULT, |(_, value)| value);
    let dirs = path.split(':').map(|dir| if dir.is_empty() { "." } else { dir });
    dirs.map(|dir| format!("{dir}/{}", plan.program)).collect()
}

impl NotStarted {
    /// The kernel gives one number for a missing program and a missing directory; a person needs
    /// to know which.
    fn explain(plan: &Plan, error: &io::Error) -> Self {
        let what = if plan.cwd.is_dir() {
            format!("program {}", plan.program)
        } else {
            format!("working directory {}", plan.cwd.display())
        };
        // A directory of PATH that may not be entered answers "not permitted" for a program that is
        // nowhere.
        let nowhere = error.kind() == io::ErrorKind::PermissionDenied && is_nowhere(plan);
        let error = match nowhere {
            true => &io::Error::from(rustix::io::Errno::NOENT),
            false => error,
        };
        if error.kind() == io::ErrorKind::NotFound
            && let Some((script, interpreter)) = orphaned(plan)
        {
            // Installing the agent again would not help: to the kernel the script is there.
            let words = format!("{what}: {interpreter}, which {script} begins with, is not found");
            return Self { words, errno: Some(NO_PROGRAM) };
        }
        let errno = error.raw_os_error();
        let words = match error.kind() {
            io::ErrorKind::NotFound => "not found".to_owned(),
            io::ErrorKind::PermissionDenied => "not permitted or not executable".to_owned(),
            _ if errno == Some(NO_PROGRAM) => NO_PROGRAM_WORDS.to_owned(),
            _ => error.to_string(),
        };
        Self { words: format!("{what}: {words}"), errno }
    }
}

const NO_PROGRAM: i32 = rustix::io::Errno::NOEXEC.raw_os_error();
const NO_PROGRAM_WORDS: &str =
    "not a program: if it is a script, start it with #! and its interpreter";

/// Whether a program given by its name alone is in no directory of the plan's PATH that can be looked
/// into.
fn is_nowhere(plan: &Plan) -> bool {
    if plan.program.contains('/') {
        return false;
    }
    let path = plan.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
    !std::env::split_paths(path).any(|dir| dir.join(&plan.program).exists())
}

/// A script that is there, and its interpreter, which is not.
fn orphaned(plan: &Plan) -> Option<(String, String)> {
    places(plan).into_iter().find_map(|place| {
        let path = plan.cwd.join(&place);
        let mut head = Vec::new();
        let file = path.is_file().then(|| std::fs::File::open(path).ok()).flatten()?;
        file.take(SHEBANG_BYTES_MAX).read_to_end(&mut head).ok()?;
        let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = String::from_utf8_lossy(line);
        let interpreter = line.split_whitespace().next()?;
        let gone = !plan.cwd.join(interpreter).exists();
        gone.then(|| (place, interpreter.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_without_its_interpreter_is_not_said_to_be_absent() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("script"), "#! /gone/python3 -u\nprint()\n").unwrap();
        let mut plan = crate::plan::tests::plan();
        plan.cwd = dir.path().to_owned();
        plan.env = vec![("PATH".to_owned(), dir.path().display().to_string())];
        let missing = io::Error::from(rustix::io::Errno::NOENT);
        let mut explained = |program: &str| {
            plan.program = program.to_owned();
            let NotStarted { words, errno } = NotStarted::explain(&plan, &missing);
            (words, errno == Some(NO_PROGRAM))
        };
        let script = dir.path().join("script").display().to_string();
        let words = |named: &str, script: &str| {
            format!("program {named}: /gone/python3, which {script} begins with, is not found")
        };
        assert_eq!(explained("script"), (words("script", &script), true));
        assert_eq!(explained("./script"), (words("./script", "./script"), true));
        assert_eq!(explained("absent"), ("program absent: not found".to_owned(), false));
    }

    #[test]
    fn a_program_that_is_nowhere_is_not_found_whatever_path_says() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("there"), "").unwrap();
        let denied = io::Error::from(rustix::io::Errno::ACCESS);
        let explained = |program: &str| {
            let mut plan = crate::plan::tests::plan();
            plan.program = program.to_owned();
            plan.cwd = dir.path().to_owned();
            plan.env = vec![("PATH".to_owned(), dir.path().display().to_string())];
            NotStarted::explain(&plan, &denied).words
        };
        assert_eq!(explained("gone"), "program gone: not found");
        assert_eq!(explained("there"), "program there: not permitted or not executable");
        assert_eq!(explained("./gone"), "program ./gone: not permitted or not executable");
    }
}
