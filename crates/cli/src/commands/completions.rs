//! `ostler completions SHELL`: what makes a shell complete commands, flags and the words that a flag
//! takes. It is made from the same description that reads the command line, so it cannot lag behind.

use super::{Context, Stopped};
use crate::args::help;
use clap_complete::Shell;
use std::process::ExitCode;

pub fn completions(context: &Context, shell: Shell) -> Result<ExitCode, Stopped> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "ostler", &mut script);
    let script = String::from_utf8_lossy(&script);
    match context.global.json {
        true => {
            let shell = shell.to_string();
            context.print_json(&serde_json::json!({ "shell": shell, "script": script }))?;
        }
        // Our own words, with the tabs and escapes of the shell in them.
        false => context.print_rendered(script.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}
