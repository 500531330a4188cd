//! The operator log: records of what this process does, for the person who runs it, on standard error.
//! `ostler serve`, `remote` and the background host log at `info`; other commands log nothing unless
//! `OSTLER_LOG` or `--log-level` says so, because their standard error is the user's screen.
//!
//! Every line passes `host::log_secrets` before it is written. Text that an agent wrote is never logged:
//! records hold ids, names from the configuration, codes, numbers and errors of the system. Records of
//! dependencies are not taken, because those could hold message bodies.
//!
//! Lines are written by a thread of their own: a pipe that nobody reads must not block a thread that
//! renews leases. If its queue is full, lines are dropped and counted. `line.rs` has the two formats.

mod line;

use crate::config::Config;
use crate::config::log_level::{self, LogLevel};
use contract::limits::{LOG_FLUSH_MS, LOG_LINES_QUEUED_MAX};
use contract::{Code, Fault};
pub use line::Format;
use line::{Fields, Record};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::{Event, Level, Subscriber, span};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// The arguments that set up the log.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LogFlags {
    /// What is logged to standard error: off, error, warn, info, debug or trace, or by component such
    /// as info,store=debug [default: info] [env: OSTLER_LOG]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Format of the log: text, or one JSON object per line [default: text]
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true)]
    pub log_format: Option<Format>,
}

/// Starts the log of a process that serves. Precedence: flag, `OSTLER_LOG`, configuration, `info`.
pub fn start(
    flags: &LogFlags,
    vars: &BTreeMap<String, String>,
    config: &Config,
    is_terminal: bool,
) -> Result<(), Fault> {
    let (configured_level, configured_format) = config.log();
    let variable = vars.get("OSTLER_LOG").filter(|level| !level.is_empty());
    let (source, level) = match (&flags.log_level, variable, configured_level) {
        (Some(level), ..) => ("--log-level", level.as_str()),
        (None, Some(level), _) => ("OSTLER_LOG", level.as_str()),
        (None, None, Some(level)) => ("server.log.level", level),
        (None, None, None) => ("the default", "info"),
    };
    let format = flags.log_format.or(configured_format).unwrap_or_default();
    install(parse(source, level)?, format, is_terminal)
}

/// Starts the log of any other command, if `OSTLER_LOG` asks for one.
pub fn start_if_asked(vars: &BTreeMap<String, String>, is_terminal: bool) -> Result<(), Fault> {
    match vars.get("OSTLER_LOG").filter(|level| !level.is_empty()) {
        Some(level) => install(parse("OSTLER_LOG", level)?, Format::Text, is_terminal),
        None => Ok(()),
    }
}

/// The records that are taken: a level alone is for all of our crates, and none for other crates.
fn parse(source: &str, text: &str) -> Result<Targets, Fault> {
    let levels = log_level::parse(source, text)?;
    let all = log_level::COMPONENTS.map(|name| (name, filter(levels.all)));
    let single = levels.components.into_iter().map(|(name, level)| (name, filter(level)));
    Ok(Targets::new().with_targets(all).with_targets(single))
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

fn install(targets: Targets, format: Format, is_terminal: bool) -> Result<(), Fault> {
    let failed =
        |what: String| Fault::new(Code::InternalError, format!("starting the log: {what}"));
    let (lines, queue) = sync_channel(LOG_LINES_QUEUED_MAX);
    let (written, is_written) = sync_channel::<()>(1);
    let dropped = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&dropped);
    #[expect(clippy::disallowed_methods, reason = "the thread that writes the log cannot log")]
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || {
            write_lines(&queue, &counted);
            drop(written);
        })
        .map_err(|error| failed(error.to_string()))?;
    *writer() = Some(Writer { lines: lines.clone(), is_written });
    let layer = LogLayer { lines, dropped, format, is_terminal, node: node_name() };
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(targets));
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| failed(error.to_string()))?;
    log_panics();
    Ok(())
}

/// Writes what is queued, and returns when it is written or does not go away.
pub fn finish() {
    let Some(Writer { lines, is_written }) = writer().take() else { return };
    // The layer holds a sender for as long as the process lives, so the end is a line of its own.
    if lines.try_send(Line::End).is_ok() {
        // Either the thread has ended, or nobody reads standard error: there is nothing to do then.
        let _ = is_written.recv_timeout(Duration::from_millis(LOG_FLUSH_MS));
    }
}

/// The end of the queue that `finish` needs.
struct Writer {
    lines: SyncSender<Line>,
    is_written: Receiver<()>,
}

static WRITER: Mutex<Option<Writer>> = Mutex::new(None);

fn writer() -> std::sync::MutexGuard<'static, Option<Writer>> {
    WRITER.lock().unwrap_or_else(PoisonError::into_inner)
}

enum Line {
    Text(String),
    End,
}

fn write_lines(queue: &Receiver<Line>, dropped: &AtomicU64) {
    while let Ok(Line::Text(line)) = queue.recv() {
        let mut bytes = host::log_secrets::clean(line.as_bytes()).bytes().to_vec();
        bytes.push(b'\n');
        let missing = dropped.swap(0, Ordering::Relaxed);
        if missing > 0 {
            bytes.extend_from_slice(
                format!("{missing} lines of the log were dropped: standard error is not read fast enough\n")
                    .as_bytes(),
            );
        }
        // A log that cannot be written has nowhere to say so.
        let _ = std::io::stderr().lock().write_all(&bytes);
    }
}

/// The name of this machine.
fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Logs panics with the span they happened in. The message of a panic may quote text of an agent, so
/// only one that is fixed in the program is logged.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        match panic.payload().downcast_ref::<&'static str>() {
            Some(message) => tracing::error!(target: "ostler", at, "panic: {message}"),
            None => tracing::error!(target: "ostler", at, "panic"),
        }
    }));
}

struct LogLayer {
    lines: SyncSender<Line>,
    dropped: Arc<AtomicU64>,
    format: Format,
    is_terminal: bool,
    node: String,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in
            context.event_scope(event).into_iter().flatten().collect::<Vec<_>>().iter().rev()
        {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.take(outer);
            }
        }
        event.record(&mut fields);
        let record = Record {
            at: host::clock::now().wall,
            level: *event.metadata().level(),
            target: event.metadata().target(),
            node: &self.node,
            fields: &fields,
        };
        let line = match self.format {
            Format::Json => record.json(),
            Format::Text => record.text(self.is_terminal),
        };
        match self.lines.try_send(Line::Text(line)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(Level::TRACE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_for_our_crates_alone() {
        let targets = parse("--log-level", "info,store=debug").expect("levels");
        for (target, level, taken) in [
            ("host::drive", Level::INFO, true),
            ("host::drive", Level::DEBUG, false),
            ("store::sqlite", Level::DEBUG, true),
            ("rmcp::service", Level::ERROR, false),
            ("hyper", Level::ERROR, false),
        ] {
            assert_eq!(targets.would_enable(target, &level), taken, "{target} {level}");
        }
    }
}
