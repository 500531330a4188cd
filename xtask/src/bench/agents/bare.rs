//! An agent in a plain spawn: three pipes and nobody between. It is told what its dialect would say,
//! because agents that are talked to do nothing without it, and its lines are heard for that alone.
//! Nothing is kept, sealed or stored.

use super::super::said;
use contract::Signal;
use contract::plan::StdinMode;
use runtimes::{Dialect, Frame, Out, Stream};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

/// Runs it to its end and gives the text that it ended with, if that was a success.
pub fn run(
    command: &mut Command,
    mode: StdinMode,
    dialect: &mut dyn Dialect,
) -> Result<Option<String>, String> {
    let talks = match mode {
        StdinMode::Events | StdinMode::Jsonrpc | StdinMode::StreamJson => true,
        StdinMode::Prompt | StdinMode::None => false,
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(said("starting an agent by itself"))?;
    let mut stdin = child.stdin.take();
    if let (Some(words), Some(pipe)) = (dialect.open(), &mut stdin) {
        pipe.write_all(&words).map_err(said("telling an agent its prompt"))?;
    }
    stdin = stdin.filter(|_| talks);
    let (mut text, mut number) = (None, 0);
    let stdout = child.stdout.take().ok_or("an agent without a pipe")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let bytes = line.map_err(said("hearing an agent"))?;
        number += 1;
        let mut out = Out::default();
        let frame = Frame { stream: Stream::Stdout, line: number, bytes: &bytes, cut: false };
        dialect.hear(&frame, &mut out);
        if let Some(pipe) = &mut stdin {
            let told = out.frames.iter().try_for_each(|frame| pipe.write_all(frame));
            told.map_err(said("answering an agent"))?;
        }
        for signal in out.signals {
            if let Signal::Result(ending) | Signal::Ended(ending) = signal {
                text = ending.text.filter(|_| ending.code.is_none());
                // Whoever is talked to leaves when nobody talks any more.
                stdin = None;
            }
        }
    }
    child.wait().map_err(said("waiting for an agent"))?;
    Ok(text)
}
