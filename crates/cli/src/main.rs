//! The one binary. Before anything else it may be a keeper or the demo agent, which need no runtime,
//! no configuration and no memory to speak of; otherwise it does what was typed (`commands/`).

mod args;
mod client;
mod commands;
mod config;
mod demo;
mod doors;
mod hosting;
mod reload;
mod render;
mod terminal;
mod way;

use clap::Parser as _;
use commands::Stopped;
use contract::{Code, Fault};
use std::process::ExitCode;

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
    let arguments = match args::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    match perform(arguments) {
        Ok(code) => code,
        Err(Stopped::Gone(gone)) => gone.exit_code(),
        Err(Stopped::Fault(fault)) => {
            terminal::complain(&fault);
            ExitCode::from(fault.code.row().exit)
        }
    }
}

fn perform(arguments: args::Arguments) -> Result<ExitCode, Stopped> {
    let surroundings = config::Surroundings::gather()?;
    // A courier hands bytes from one end to the other: a second thread would only have to be woken.
    let mut builder = match &arguments.command {
        args::Command::Courier(_) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(2).enable_all().build().map_err(|error| {
        Fault::new(Code::InternalError, format!("starting the runtime: {error}"))
    })?;
    runtime.block_on(commands::perform(arguments, surroundings))
}

/// Help and version are answers; everything else is a fault of usage in clap's own words.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match terminal::print(error.render().to_string().trim_end()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(gone) => gone.exit_code(),
        };
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = rest
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("tip:") || line.starts_with("Usage:"));
    let fault = Fault::new(Code::Usage, message);
    let fault = match hint {
        Some(hint) => fault.with_hint(format!("{}; see --help", hint.trim_start_matches("tip: "))),
        None => fault,
    };
    terminal::complain(&fault);
    ExitCode::from(Code::Usage.row().exit)
}
