//! The one binary. Before anything else it may be a keeper or the demo agent, which need no runtime,
//! no configuration and no memory to speak of; otherwise it does what was typed (`commands/`).

mod args;
mod background;
mod client;
mod commands;
mod config;
mod demo;
mod doors;
mod hosting;
mod input;
mod operator_log;
mod reload;
mod render;
mod terminal;
mod version;
mod way;

use clap::FromArgMatches as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use commands::Stopped;
use contract::limits::{BLOCKING_END_MS, BLOCKING_THREADS_MAX, WORKER_THREADS_MAX};
use contract::{Code, Fault};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    // A keeper is one per agent and must stay small: it is decided in the first lines.
    match std::env::args_os().nth(1) {
        Some(word) if word == "keep" => return keeper::keep(),
        Some(word) if word == "demo-agent" => return demo::demo_agent(),
        _ => {}
    }
    // From here on this process may hold tokens and keys: no core file, and no other process of the
    // same user reads its memory. A kernel that refuses leaves it as it was.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let json = asks_for_json();
    let parsed = args::help::command()
        .try_get_matches()
        .and_then(|matches| args::Arguments::from_arg_matches(&matches));
    let done = match parsed {
        Ok(arguments) => perform(arguments),
        Err(error) => refuse(&error, json),
    };
    match done {
        Ok(code) => code,
        Err(Stopped::Gone(gone)) => gone.exit_code(),
        Err(Stopped::Fault(fault)) => {
            match json {
                true => terminal::complain_in_json(&fault),
                false => terminal::complain(&fault),
            }
            ExitCode::from(fault.code.row().exit)
        }
    }
}

/// Whether `--json` is among the arguments, also where they cannot be parsed. What follows `--`
/// belongs to another program.
fn asks_for_json() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

fn perform(arguments: args::Arguments) -> Result<ExitCode, Stopped> {
    // Before any thread exists, and before this process holds anything.
    if let Some(args::Command::BackgroundHost) = &arguments.command
        && let Some(code) = background::detach()?
    {
        return Ok(code);
    }
    let surroundings = config::Surroundings::gather()?;
    // A courier hands bytes from one end to the other: a second thread would only have to be woken.
    let mut builder = match &arguments.command {
        Some(args::Command::Courier(_)) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let is_server = arguments.command.as_ref().is_some_and(args::Command::serves);
    let threads = match is_server {
        true => {
            std::thread::available_parallelism().map_or(2, usize::from).clamp(2, WORKER_THREADS_MAX)
        }
        // A command waits for one host, or is host of one run.
        false => 2,
    };
    builder.worker_threads(threads).max_blocking_threads(BLOCKING_THREADS_MAX).enable_all();
    let runtime = builder.build().map_err(|error| {
        Fault::new(Code::InternalError, format!("starting the runtime: {error}"))
    })?;
    if !is_server {
        operator_log::start_if_asked(&surroundings.vars, surroundings.stderr_is_terminal)?;
    }
    let done = runtime.block_on(commands::perform(arguments, surroundings));
    // A thread that is stuck on a file system that hangs ends with the process.
    runtime.shutdown_timeout(Duration::from_millis(BLOCKING_END_MS));
    operator_log::finish();
    done
}

/// Help and version are answers; everything else is a fault of usage in clap's own words.
fn refuse(error: &clap::Error, json: bool) -> Result<ExitCode, Stopped> {
    if !error.use_stderr() {
        let text = match error.kind() {
            ErrorKind::DisplayVersion if json => version::as_json().to_string(),
            _ => error.render().to_string(),
        };
        terminal::print(text.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let path = args::help::path_in(words);
    let hint = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        // Clap suggests by spelling alone, such as 'token' for `open`.
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(given))) => {
            args::help::instead_of(&path, given)
        }
        _ => rest
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with("tip:") || line.starts_with("Usage:"))
            .map(|hint| format!("{}; see --help", hint.trim_start_matches("tip: ")))
            .unwrap_or_else(|| format!("see {}", args::help::help_of(&path))),
    };
    Err(Fault::new(Code::Usage, plain_numbers(message)).with_hint(hint).into())
}

/// Replaces what the standard library says of a text that is not a number.
fn plain_numbers(message: String) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("invalid float literal", "expected a number such as 2.5"),
        ("cannot parse float from empty string", "expected a number such as 2.5"),
        ("invalid digit found in string", "expected a whole number"),
        ("cannot parse integer from empty string", "expected a whole number"),
        ("number too large to fit in target type", "the number is too large"),
    ];
    let found = WORDS.iter().find_map(|(theirs, ours)| Some((message.strip_suffix(theirs)?, ours)));
    found.map(|(start, ours)| format!("{start}{ours}")).unwrap_or(message)
}
