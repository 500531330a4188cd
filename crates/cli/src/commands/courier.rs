//! `ostler courier`: the process that a keeper holds when an agent is on another machine. Here are its
//! standard input and output, its signal and its environment; what it does with them is in
//! `crates/remote/src/courier`. Nobody types this: `crates/runtimes/src/remote` plans it.

use super::{Context, Stopped};
use crate::args;
use contract::limits::LINE_BYTES_MAX;
use contract::plan::{RemoteAuth, RemoteProtocol};
use contract::{Code, Fault};
use host::supervise;
use remote::courier::{Config, Ends, Limits, Line, carry, greet};
use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// For networks that are slower, or tests that are quicker, than most: milliseconds.
const IDLE: &str = "OSTLER_REMOTE_IDLE_MS";
const LOST: &str = "OSTLER_REMOTE_LOST_MS";
const START: &str = "OSTLER_REMOTE_START_MS";

pub async fn courier(context: &Context, args: args::Courier) -> Result<ExitCode, Stopped> {
    let only_greet = args.greet;
    let config = config(args, &context.surroundings.vars)?;
    if only_greet {
        let line = greet(&config).await?;
        let written = std::io::stdout().lock().write_all(&line);
        return Ok(written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS));
    }
    let failed =
        |error| Fault::new(Code::InternalError, format!("listening for a signal: {error}"));
    let mut asked = signal(SignalKind::terminate()).map_err(failed)?;
    let term = Box::pin(async move {
        asked.recv().await;
    });
    let (out, written) = mpsc::channel(1);
    let writer = supervise::spawn("write output", write(written));
    let ends = Ends { lines: read(), out, term };
    let carried = carry(&config, ends).await;
    // Only a panic is left to be dropped here, and `supervise` has logged it.
    let _ = writer.await;
    Ok(match carried {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => ExitCode::from(fault.code.row().exit),
    })
}

fn config(args: args::Courier, vars: &BTreeMap<String, String>) -> Result<Config, Fault> {
    let unknown = || {
        let message = format!("a courier does not support '{}'", args.protocol);
        Fault::new(Code::Usage, message)
    };
    let protocol = RemoteProtocol::from_word(&args.protocol).ok_or_else(unknown)?;
    let auth = match (args.token_env, args.cert, args.key) {
        (Some(token_env), _, _) => RemoteAuth::Bearer { token_env, token_file: None },
        (None, Some(cert_path), Some(key_path)) => RemoteAuth::Mtls { cert_path, key_path },
        (None, _, _) => RemoteAuth::None,
    };
    let token = auth.token_env().map(|name| vars.get(name).cloned().unwrap_or_default());
    let usual = Limits::default();
    let given = |name: &str, usual: Duration| {
        let ms = vars.get(name).and_then(|ms| ms.parse().ok());
        ms.map_or(usual, Duration::from_millis)
    };
    let limits = Limits {
        start: given(START, usual.start),
        lost: given(LOST, usual.lost),
        idle: given(IDLE, usual.idle),
    };
    Ok(Config {
        base_url: args.base_url,
        protocol,
        auth,
        token,
        ca_path: args.ca,
        allow_insecure: args.allow_insecure,
        limits,
    })
}

/// Lines of standard input, in a thread of its own: reading it cannot be given up.
fn read() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(1);
    let reading = supervise::thread("read standard input", move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = input.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) || sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    if let Err(error) = reading {
        // Without the thread the channel is closed, as at the end of the input.
        tracing::error!(%error, "standard input cannot be read: no thread can be started");
    }
    lines
}

/// A keeper that does not read holds us up, and so the remote.
async fn write(mut lines: mpsc::Receiver<Line>) {
    let mut output = output();
    while let Some(Line { bytes, weight }) = lines.recv().await {
        let written = output.write_all(&bytes).await;
        if written.is_err() || output.flush().await.is_err() {
            return;
        }
        // Written, they weigh nothing any more.
        drop(weight);
    }
}

/// Standard output, written from where we are if it is a pipe, as a keeper's is: every other way takes
/// a thread that has to be woken for it.
fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let own = rustix::io::dup(rustix::stdio::stdout()).map_err(std::io::Error::from);
    match own.and_then(pipe::Sender::from_owned_fd) {
        Ok(pipe) => Box::new(pipe),
        // No pipe, such as a terminal or a file.
        Err(_) => Box::new(tokio::io::stdout()),
    }
}
