//! Standard input as part of a prompt. Beside a prompt, piped input is appended to it in a fenced
//! block; without one it is the prompt. The rules for when to read (`Source`) and how to join
//! (`joined`) are pure.
//!
//! A terminal, a device such as /dev/null and a closed standard input add nothing. A file is read at
//! once. A pipe or socket may be inherited from a program that never writes to it nor closes it, as
//! under ssh or in CI, so beside a prompt the first byte is waited for without limit only if the
//! standard error is a terminal or a program of the same pipeline can write (`pipe_writers`); elsewhere
//! for `STDIN_IDLE_MS`, after which the run goes on without the input and says so. Once a byte has
//! come, everything is read. The reasons are in docs/decisions/0029.

mod pipe_writers;

use contract::{Code, Fault, limits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use std::io::{Read as _, Write as _};

/// Stands between a prompt and the input behind it.
pub const HEADING: &str = "\n\nStandard input:\n\n";

/// The kind of standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Nothing to be read: a device, or closed.
    None,
    Terminal,
    File {
        bytes: u64,
    },
    /// A pipe or a socket: its writer may be slow, or idle for ever.
    Pipe,
}

impl Source {
    fn find(is_terminal: bool) -> Self {
        let stdin = rustix::stdio::stdin();
        let Ok(stat) = rustix::fs::fstat(stdin) else { return Self::None };
        match FileType::from_raw_mode(stat.st_mode) {
            _ if is_terminal => Self::Terminal,
            FileType::RegularFile => {
                Self::File { bytes: u64::try_from(stat.st_size).unwrap_or_default() }
            }
            FileType::Fifo | FileType::Socket => Self::Pipe,
            _ => Self::None,
        }
    }
}

/// The prompt of a run: the given words, with piped input behind them, or the input alone. The words
/// `-` stand for the input. `is_watched` says that a person reads standard error.
pub fn prompt(given: Option<&str>, is_terminal: bool, is_watched: bool) -> Result<String, Fault> {
    let given = given.filter(|prompt| *prompt != "-");
    let source = Source::find(is_terminal);
    let Some(given) = given else { return alone(source) };
    let input = match source {
        Source::None | Source::Terminal => return Ok(given.to_owned()),
        Source::File { bytes } => read(Some(bytes))?,
        Source::Pipe if comes(is_watched) => read(None)?,
        Source::Pipe => return Ok(given.to_owned()),
    };
    let all = joined(given, &input);
    if all.len() > limits::PROMPT_BYTES_MAX {
        return Err(too_large(Some(all.len() as u64)));
    }
    Ok(all)
}

/// Whether a byte or the end of standard input comes while it is worth waiting. Says so when the wait
/// is long.
fn comes(is_watched: bool) -> bool {
    if first_byte_within(limits::STDIN_NOTICE_MS) {
        return true;
    }
    if is_watched || pipe_writers::is_fed_by_pipeline() {
        warn(
            "waiting for standard input, which is part of the prompt; Ctrl-C gives up\n\
             hint: `< /dev/null` starts without it",
        );
        return true;
    }
    let rest_ms = limits::STDIN_IDLE_MS - limits::STDIN_NOTICE_MS;
    warn(&format!(
        "no input on standard input yet; starting without it in {} s\n\
         hint: `< /dev/null` starts at once; for input that takes longer, write it to a file first",
        rest_ms / 1000
    ));
    let has_come = first_byte_within(rest_ms);
    if !has_come {
        let waited = limits::STDIN_IDLE_MS / 1000;
        warn(&format!("no input came on standard input within {waited} s; starting without it"));
    }
    has_come
}

/// Standard input to its end, as a text of its own.
pub fn alone_from(is_terminal: bool) -> Result<String, Fault> {
    alone(Source::find(is_terminal))
}

fn alone(source: Source) -> Result<String, Fault> {
    match source {
        Source::Terminal => warn("reading the prompt from the terminal; end it with Ctrl-D"),
        Source::Pipe if !first_byte_within(limits::STDIN_NOTICE_MS) => {
            warn("no prompt given; reading it from standard input");
        }
        Source::Pipe | Source::File { .. } | Source::None => {}
    }
    match source {
        Source::File { bytes } => read(Some(bytes)),
        Source::Terminal | Source::Pipe | Source::None => read(None),
    }
}

/// The prompt with the input in a fenced block behind it. The fence is longer than any run of
/// backquotes in the input, so that the input cannot close it.
fn joined(prompt: &str, input: &str) -> String {
    if input.trim().is_empty() {
        return prompt.to_owned();
    }
    let longest = input.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat((longest + 1).max(3));
    let end = if input.ends_with('\n') { "" } else { "\n" };
    format!("{prompt}{HEADING}{fence}\n{input}{end}{fence}\n")
}

/// Whether standard input has a byte, or its end, within this time.
fn first_byte_within(ms: u64) -> bool {
    let stdin = rustix::stdio::stdin();
    let timeout = Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000 * 1_000_000).unwrap_or_default(),
    };
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    // What cannot be waited for is read, and says itself what is wrong.
    poll(&mut fds, Some(&timeout)).map_or(true, |ready| ready > 0)
}

/// Bytes of standard input that are read at once.
const PART_BYTES: usize = 64 * 1024;

/// Everything on standard input, as text. `bytes` is the size where it is known before.
fn read(bytes: Option<u64>) -> Result<String, Fault> {
    if let Some(bytes) = bytes.filter(|bytes| *bytes > limits::PROMPT_BYTES_MAX as u64) {
        return Err(too_large(Some(bytes)));
    }
    // Who types knows that the end is missing.
    let (mut input, mut told) = (Vec::new(), rustix::termios::isatty(rustix::stdio::stdin()));
    loop {
        // A writer that keeps the pipe open without a word would otherwise look like a hang.
        if !told && !input.is_empty() && !first_byte_within(limits::STDIN_NOTICE_MS) {
            told = true;
            warn(&format!(
                "waiting for the end of standard input ({} bytes so far); Ctrl-C gives up",
                input.len()
            ));
        }
        let mut part = vec![0; PART_BYTES];
        let bytes = std::io::stdin()
            .lock()
            .read(&mut part)
            .map_err(|error| Fault::new(Code::Usage, format!("reading standard input: {error}")))?;
        input.extend_from_slice(&part[..bytes]);
        if bytes == 0 || input.len() > limits::PROMPT_BYTES_MAX {
            break;
        }
    }
    if input.len() > limits::PROMPT_BYTES_MAX {
        return Err(too_large(None));
    }
    String::from_utf8(input).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Fault::new(Code::Usage, format!("standard input is not UTF-8 text (at byte {at})"))
            .with_hint(
                "write it to a file in the working directory and name the file in the prompt",
            )
    })
}

fn too_large(bytes: Option<u64>) -> Fault {
    let limit = limits::PROMPT_BYTES_MAX;
    let size = bytes.map(|bytes| format!(" ({bytes} bytes)")).unwrap_or_default();
    let message = format!(
        "the prompt with standard input{size} is larger than {} MB (PROMPT_BYTES_MAX: {limit} bytes)",
        limit / (1024 * 1024)
    );
    Fault::new(Code::TooLarge, message)
        .with_hint("pipe less, or write it to a file in the working directory and name the file")
}

fn warn(text: &str) {
    // A run whose user cannot be told goes on all the same.
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn input_is_appended_in_a_fence() {
        assert_eq!(joined("review", "+a\n-b"), "review\n\nStandard input:\n\n```\n+a\n-b\n```\n");
        assert_eq!(joined("review", ""), "review");
        assert_eq!(joined("review", "\n \n"), "review");
        let quoting = joined("explain", "````\ncode\n````\n");
        assert!(quoting.contains("\n`````\n````\ncode\n````\n`````\n"), "{quoting}");
    }

    proptest! {
        #[test]
        fn input_cannot_close_its_fence(input in "[`a\n]{1,60}") {
            prop_assume!(!input.trim().is_empty());
            let all = joined("x", &input);
            let lines: Vec<&str> = all.lines().collect();
            let fence = lines[lines.len() - 1];
            prop_assert!(fence.len() >= 3 && fence.bytes().all(|byte| byte == b'`'));
            prop_assert_eq!(lines.iter().filter(|line| line.contains(fence)).count(), 2);
        }
    }
}
