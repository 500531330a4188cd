//! `ostler record -- CMD`: a recording for a new runtime. The command runs as if it had been started
//! by hand, under a keeper; what it printed, line by line without secrets, how it was started and
//! how it ended become three files that the harness of `runtimes` plays. The fourth, the `.why`, is
//! a person's to write. No secret of the environment is written: names only.

use super::{Context, Stopped};
use crate::args;
use crate::hosting::OWN_PROGRAM;
use contract::plan::Limit;
use contract::{Code, Fault, limits};
use host::aside::{Aside, Launch};
use host::{chance, clock, environment};
use keeper::plan::StdinMode;
use runtimes::Stream;
use runtimes::launch::sounds_secret;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use store::Seal;

const LOOK: Duration = Duration::from_millis(5);

/// What was heard of one stream.
#[derive(Default)]
struct Heard {
    bytes: Vec<u8>,
    /// When each line ended, from the start.
    line_ms: Vec<u64>,
}

/// What came of the command.
struct Made {
    stdout: Heard,
    stderr: Heard,
    /// A signal is negative, as shells of other languages tell it.
    exit_code: Option<i32>,
    duration_ms: u64,
    ended_by_us: bool,
    left_children: bool,
}

pub async fn record(context: &Context, args: args::Record) -> Result<ExitCode, Stopped> {
    let surroundings = &context.surroundings;
    let out = args.out.clone().unwrap_or_else(|| surroundings.cwd.clone());
    let files = Files::reserve(&out, &args.name)?;
    let stdin = match surroundings.stdin_is_terminal {
        true => None,
        false => Some(handed_on()?),
    };
    let made = run(context, &args, stdin.clone()).await?;
    let secrets = surroundings.vars.iter().filter(|(name, _)| sounds_secret(name));
    let seal = Seal::new(secrets.map(|(name, value)| (name.clone(), value.clone())));
    let stdout_lines = files.write("ndjson", &sealed(&seal, &made.stdout.bytes))?;
    let stderr_lines = files.write("stderr", &sealed(&seal, &made.stderr.bytes))?;
    let env_names: Vec<_> = surroundings.vars.keys().collect();
    let meta = json!({
        "scenario": args.name,
        "argv": args.command,
        "env_names": env_names,
        "stdin": stdin.map(|stdin| String::from_utf8_lossy(&stdin).into_owned()),
        "exit_code": made.exit_code,
        "duration_ms": made.duration_ms,
        "timed_out": made.ended_by_us,
        "left_children": made.left_children,
        "stdout_lines": stdout_lines,
        "stderr_lines": stderr_lines,
        "line_ms": made.stdout.line_ms,
    });
    files.write("meta.json", seal.view(&meta).bytes())?;
    let ended = match made.exit_code {
        Some(code) if code < 0 => format!("signal {}", -code),
        Some(code) => format!("exit status {code}"),
        None => "an unknown end".to_owned(),
    };
    let path = |kind: &str| files.path(kind).display().to_string();
    context.print(&format!(
        "{} lines of stdout, {} of stderr, {ended}\n{}\n{}\n{}\n\
         read them before you share them: they may contain a secret that no variable held\n\
         next: write {} with the outcome it must come to, `succeeded: …` or `failed CODE: …`",
        stdout_lines,
        stderr_lines,
        path("ndjson"),
        path("stderr"),
        path("meta.json"),
        path("why"),
    ))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(
    context: &Context,
    args: &args::Record,
    stdin: Option<Vec<u8>>,
) -> Result<Made, Fault> {
    let surroundings = &context.surroundings;
    let temporary = surroundings.vars.get("TMPDIR").map_or(Path::new("/tmp"), Path::new);
    let root = Root::new(temporary)?;
    let wall_ms = match args.timeout {
        Limit::Ms(ms) => ms,
        Limit::Unlimited => u64::MAX / 2,
    };
    let mut words = args.command.iter().cloned();
    let launch = Launch {
        program: words.next().unwrap_or_default(),
        args: words.collect(),
        cwd: surroundings.cwd.clone(),
        env: environment::by_hand(&surroundings.vars),
        stdin: if stdin.is_some() { StdinMode::Once } else { StdinMode::Null },
        first_frame: stdin,
        spool: root.0.join("spool"),
        wall_ms,
        term_ms: limits::TERM_MS,
        output_bytes_max: limits::OUTPUT_BYTES_MAX,
        level: Default::default(),
    };
    let begun_ms = clock::now().mono_ms;
    let mut aside = Aside::start(Path::new(OWN_PROGRAM), launch)?;
    let (mut stdout, mut stderr) = (Heard::default(), Heard::default());
    let mut ended_by_us = false;
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let seen = aside.look().map_err(|error| cannot(&root.0, &error))?;
        let now_ms = clock::now().mono_ms.saturating_sub(begun_ms);
        for (stream, chunk) in seen.chunks {
            match stream {
                Stream::Stdout => stdout.take(&chunk, now_ms),
                Stream::Stderr => stderr.take(&chunk, now_ms),
            }
        }
        if seen.over {
            break;
        }
        tokio::select! {
            _ = &mut interrupted, if !ended_by_us => {
                ended_by_us = true;
                aside.stop();
            }
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    let testimony = aside.testimony().cloned().unwrap_or_default();
    aside.leave().await;
    if let Some(error) = testimony.spawn_error {
        let message = format!("{}: {error}", args.command[0]);
        return Err(Fault::new(Code::SpawnFailed, message));
    }
    Ok(Made {
        stdout,
        stderr,
        exit_code: testimony.exit_code.or(testimony.signal.map(|signal| -signal)),
        duration_ms: clock::now().mono_ms.saturating_sub(begun_ms),
        ended_by_us: ended_by_us || testimony.asked_by.is_some(),
        left_children: testimony.swept > 0,
    })
}

impl Heard {
    fn take(&mut self, chunk: &[u8], now_ms: u64) {
        let lines = chunk.iter().filter(|byte| **byte == b'\n').count();
        self.line_ms.extend(std::iter::repeat_n(now_ms, lines));
        self.bytes.extend_from_slice(chunk);
    }
}

/// Each line through the seal. A last line without its newline stays one.
fn sealed(seal: &Seal, bytes: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let (text, end) = match line.strip_suffix(b"\n") {
            Some(text) => (text, &b"\n"[..]),
            None => (line, &b""[..]),
        };
        clean.extend_from_slice(seal.line(text).bytes());
        clean.extend_from_slice(end);
    }
    clean
}

/// What is handed on to the command: all of our own standard input.
fn handed_on() -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let bound = limits::PROMPT_BYTES_MAX as u64 + 1;
    io::stdin()
        .lock()
        .take(bound)
        .read_to_end(&mut bytes)
        .map_err(|error| Fault::new(Code::Usage, format!("reading standard input: {error}")))?;
    if bytes.len() > limits::PROMPT_BYTES_MAX {
        let message = format!("standard input is longer than {} bytes", limits::PROMPT_BYTES_MAX);
        return Err(Fault::new(Code::TooLarge, message));
    }
    Ok(bytes)
}

/// The files of one recording. None of them is there before.
struct Files {
    out: PathBuf,
    name: String,
}

impl Files {
    fn reserve(out: &Path, name: &str) -> Result<Self, Fault> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            let message = format!("'{}' is not a valid name for a recording", name.escape_debug());
            return Err(Fault::new(Code::Usage, message));
        }
        fs::create_dir_all(out).map_err(|error| cannot(out, &error))?;
        let files = Self { out: out.to_owned(), name: name.to_owned() };
        for kind in ["ndjson", "stderr", "meta.json"] {
            let path = files.path(kind);
            if path.exists() {
                let message = format!("{} already exists", path.display());
                let hint = "choose another --name, or remove it first";
                return Err(Fault::new(Code::Conflict, message).with_hint(hint));
            }
        }
        Ok(files)
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.out.join(format!("{}.{kind}", self.name))
    }

    /// Writes one of them, readable by its owner alone, and counts its lines.
    fn write(&self, kind: &str, bytes: &[u8]) -> Result<usize, Fault> {
        let path = self.path(kind);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.and_then(|mut file| file.write_all(bytes)).map_err(|error| cannot(&path, &error))?;
        Ok(bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count())
    }
}

/// A directory for the spool, removed with it.
struct Root(PathBuf);

impl Root {
    fn new(temporary: &Path) -> Result<Self, Fault> {
        let root = temporary.join(format!("ostler-record-{}", chance::run_id().uuid().simple()));
        fs::DirBuilder::new().mode(0o700).create(&root).map_err(|error| cannot(&root, &error))?;
        Ok(Self(root))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // What cannot be removed is in the directory for temporary files, which others sweep.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn cannot(path: &Path, error: &io::Error) -> Fault {
    Fault::new(Code::BadWorkspace, format!("{}: {error}", path.display()))
}
