//! The background host: a process of this binary, in a session of its own, that drives the runs of a
//! data directory when the command that started them has gone. It takes the lock by the usual handover,
//! makes room for a server, and exits a moment after its last run has ended. There is never more than
//! one: a second one finds the first and exits. What it drives is decided in `hosting.rs`.

use crate::client::{Client, HostRole};
use crate::hosting::{Hosting, OWN_PROGRAM, Place};
use contract::{Code, Fault};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The hidden command of a background host.
pub const COMMAND: &str = "background-host";
/// The file in the data directory to which it writes its errors.
const LOG: &str = "background-host.log";
/// A log that is larger is begun anew.
const LOG_BYTES_MAX: u64 = 1 << 20;
/// The part of the log that an error repeats.
const LOG_TAIL_BYTES: u64 = 2_000;
/// How long a new background host may take until it answers.
const START_MAX: Duration = Duration::from_secs(15);
const START_RETRY: Duration = Duration::from_millis(10);

/// Starts a background host and returns before it answers.
#[expect(
    clippy::disallowed_methods,
    reason = "it is this very program, which belongs to no run and outlives this process"
)]
pub fn spawn(place: &Place) -> Result<(), Fault> {
    let data = place.data.path();
    let failed = |error: io::Error| {
        Fault::new(Code::SpawnFailed, format!("starting a background host: {error}"))
    };
    let log = open_log(&data.join(LOG)).map_err(failed)?;
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0("ostler").arg(COMMAND).arg("--data").arg(data);
    if let Some(config) = &place.config.path {
        command.arg("--config").arg(absolute(config, &place.surroundings.cwd));
    }
    let other = log.try_clone().map_err(failed)?;
    let mut child = command
        // The user's directory may be removed or unmounted while it lives.
        .current_dir(data)
        .stdin(Stdio::null())
        .stdout(Stdio::from(other))
        .stderr(Stdio::from(log))
        // Out of the terminal's foreground group at once: a second SIGHUP must not reach it.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    // The first process only starts the second one (see `detach`).
    let status = child.wait().map_err(failed)?;
    match status.success() {
        true => Ok(()),
        false => Err(not_started(place, &format!("its process ended with {status}"))),
    }
}

/// Makes sure that a host drives the directory that outlives this process: a server, or a background
/// host, which is started if need be. A host that is this process hands over to it.
pub async fn ensure(place: &Place, mut hosting: Option<Hosting>) -> Result<Client, Fault> {
    let mut is_started = false;
    let deadline_ms = host::clock::now().mono_ms + START_MAX.as_millis() as u64;
    loop {
        if hosting.is_none()
            && let Some(client) = lasting(place).await?
        {
            return Ok(client);
        }
        if !is_started {
            spawn(place)?;
            is_started = true;
        }
        match hosting.take() {
            Some(ours) if ours.is_asked_for() => ours.leave().await,
            ours => hosting = ours,
        }
        if host::clock::now().mono_ms > deadline_ms {
            if let Some(ours) = hosting {
                ours.finish_unless_interrupted().await;
            }
            return Err(not_started(place, "it does not answer"));
        }
        tokio::time::sleep(START_RETRY).await;
    }
}

/// The host that answers now, if it outlives this process.
async fn lasting(place: &Place) -> Result<Option<Client>, Fault> {
    let Some(address) = place.data.address() else { return Ok(None) };
    let client = Client::new(&address, &place.data.token()?)?;
    Ok(match client.role().await {
        Some(HostRole::Server | HostRole::Background) => Some(client),
        Some(HostRole::Command) | None => None,
    })
}

/// Leaves the session and the terminal of the process that started this one. Gives an exit code when
/// this process is a group leader, which cannot do so: it has then started another one that can.
#[expect(
    clippy::disallowed_methods,
    reason = "a group leader cannot begin a session: its child can, with the same arguments"
)]
pub fn detach() -> Result<Option<ExitCode>, Fault> {
    let failed = |error: io::Error| {
        Fault::new(Code::SpawnFailed, format!("detaching from the terminal: {error}"))
    };
    match rustix::process::setsid() {
        Ok(_) => Ok(None),
        Err(Errno::PERM) => {
            let mut command = Command::new(OWN_PROGRAM);
            command.arg0("ostler").args(std::env::args_os().skip(1));
            command.spawn().map_err(failed)?;
            Ok(Some(ExitCode::SUCCESS))
        }
        Err(error) => Err(failed(error.into())),
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    let is_large = std::fs::metadata(path).is_ok_and(|file| file.len() > LOG_BYTES_MAX);
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    match is_large {
        true => options.write(true).truncate(true),
        false => options.append(true),
    };
    options.open(path)
}

fn absolute(path: &Path, cwd: &Path) -> PathBuf {
    cwd.join(path)
}

fn not_started(place: &Place, why: &str) -> Fault {
    let log = place.data.path().join(LOG);
    let fault = Fault::new(Code::SpawnFailed, format!("the background host did not start: {why}"));
    let fault = fault.with_hint(format!("see {}", log.display()));
    match log_tail(&log) {
        Ok(tail) if !tail.trim().is_empty() => fault.with_detail(tail.trim()),
        _ => fault,
    }
}

fn log_tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(LOG_TAIL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
