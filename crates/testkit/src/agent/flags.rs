//! From flags to a script. Steps are done in the order of their flags; manners hold throughout.
//! A flag that is not known is an error, so that a test with a slip in it cannot pass.

use crate::agent::escape::{CHILDREN_MAX, Shape};
use crate::agent::garbage;
use crate::agent::swarm::{Growth, SWARM_MAX};
use serde_json::{Value, json};

pub const HELP: &str = "\
fake-agent: an agent with bad manners, for tests

Steps, done in the order given:
  --burst N            say N events as fast as it can
  --line-bytes B       how long each line of the bursts after it is, newline included (300);
                       one line of that size when no burst follows
  --deltas             the bursts after it are deltas of one block
  --tool NAME ARGS     call a relayed tool with a JSON object, wait for the answer, show it
  --unknown-tool       call a tool that does not exist
  --echo-env NAME      show a variable of the environment
  --leak NAME          show its value in every disguise, by every kind of event
  --garbage            say lines that are no events
  --garbage-aside      say everything odd on standard error, and a closing line that is none
  --odd NAME           say one of them, or another odd sequence, by its name (garbage.rs)
  --tiny N             say N lines of one character
  --endless BYTES      say so many bytes without a newline
  --split-char         say a character in two halves, with a pause between
  --interleave N       say N events and N lines on standard error, in turn
  --sleep-ms MS        let time pass
  --steps N            work N steps, each with its own cost
  --step-cost JSON     the cost of each of the steps after it (ten cents)
  --step-ms MS         how long each of them takes (0)
  --step-asks          ask for the budget after each of them, and wait for the answer
  --turns N            take N turns, each of which begins and ends
  --wait-budget        wait for a budget_update and show it
  --open-tool MS       use a tool of its own, and say nothing while it works
  --deaf-call          call read_task and do not wait for the answer
  --call-again         call read_task twice under one id, and again when it was answered
  --chatty-call BYTES  call read_task, say so many bytes before it reads at all, then read the answer
  --wait-shutdown      live until the adapter says shutdown
  --converse           say hello, echo messages until one says `end`
  --setsid-child       start a child in a session of its own
  --orphan             start a grandchild whose parent is gone
  --double-fork        start a grandchild in a session of its own, whose parent is gone
  --new-group          start a child in a process group of its own
  --deep               start three below each other, each out of reach in another way
  --escape SHAPE       start children of any other shape, in the words of escape.rs
  --hold-stdout        start a grandchild that keeps standard output open
  --fork-often N       start N children, one every millisecond
  --fork-on N          start a family that goes on forking by itself, N processes in all
  --fork-bomb N        start a family in which each starts two, N processes in all
  --close-stdout       close standard output and live on
  --stop-self          send itself SIGSTOP
  --kill-self          send itself SIGKILL, as a system without memory does

Manners:
  --exit CODE          exit with this code
  --exit-before-byte   exit before saying anything
  --no-complete        end without a closing line
  --failed REASON      end with a failed line
  --leak-end NAME      the closing line shows its value in every disguise
  --cost JSON          the cost on the closing line
  --no-final-newline   the closing line has no newline
  --linger             live on after the closing line, deaf
  --silent             say nothing, and end only by a shutdown
  --never-read-stdin   read nothing
  --close-stdin        close standard input before anything is said
  --byte-by-byte       write every byte by itself
  --ignore-term        ignore SIGTERM, SIGINT and SIGHUP
  --witness            hold a lock that every child inherits, and be a name for all of them
  --slow-term          after SIGTERM say a hundred lines, then exit
";

/// What is to be done, in order, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub steps: Vec<Step>,
    pub end: End,
    pub leak_end: Option<String>,
    pub exit: u8,
    pub exit_before_byte: bool,
    pub no_final_newline: bool,
    pub linger: bool,
    pub silent: bool,
    pub never_read_stdin: bool,
    pub close_stdin: bool,
    pub ignore_term: bool,
    pub slow_term: bool,
    pub byte_by_byte: bool,
    pub witness: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Burst { lines: u64, line_bytes: usize, deltas: bool },
    Tool { name: String, args: Value },
    EchoEnv { name: String },
    Leak { name: String },
    Garbage,
    GarbageAside,
    Odd { bytes: Vec<u8> },
    Tiny { lines: u64 },
    Endless { bytes: u64 },
    SplitChar,
    Interleave { lines: u32 },
    SleepMs(u64),
    Steps { count: u32, cost: Value, each_ms: u64, asks: bool },
    Turns { count: u32 },
    WaitBudget,
    OpenTool { ms: u64 },
    DeafCall,
    CallAgain,
    ChattyCall { bytes: usize },
    WaitShutdown,
    Converse,
    Escape(Shape),
    ForkOften { children: u32 },
    Swarm { growth: Growth, cap: u32 },
    CloseStdout,
    StopSelf,
    KillSelf,
}

/// The closing line.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    Complete { cost: Option<Value> },
    Failed { reason: String },
    Nothing,
}

const LINE_BYTES: usize = 300;

/// Reads the flags; `None` when help was asked for.
pub fn parse(args: impl Iterator<Item = String>) -> Result<Option<Script>, String> {
    let mut args = args;
    let mut script = Script {
        steps: Vec::new(),
        end: End::Complete { cost: None },
        leak_end: None,
        exit: 0,
        exit_before_byte: false,
        no_final_newline: false,
        linger: false,
        silent: false,
        never_read_stdin: false,
        close_stdin: false,
        ignore_term: false,
        slow_term: false,
        byte_by_byte: false,
        witness: false,
    };
    let (mut line_bytes, mut deltas, mut line_wanted) = (LINE_BYTES, false, false);
    let (mut step_cost, mut step_ms, mut step_asks) = (json!({ "usd": 0.1 }), 0, false);
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--burst" => {
                line_wanted = false;
                let lines = number(&flag, &value()?)?;
                script.steps.push(Step::Burst { lines, line_bytes, deltas });
            }
            "--line-bytes" => {
                line_bytes = number(&flag, &value()?)?;
                line_wanted = true;
            }
            "--deltas" => deltas = true,
            "--tool" => {
                let (name, args) = (value()?, json_of(&flag, &value()?)?);
                script.steps.push(Step::Tool { name, args });
            }
            "--unknown-tool" => {
                let name = "no_such_tool".to_owned();
                script.steps.push(Step::Tool { name, args: json!({}) });
            }
            "--echo-env" => script.steps.push(Step::EchoEnv { name: value()? }),
            "--leak" => script.steps.push(Step::Leak { name: value()? }),
            "--garbage" => script.steps.push(Step::Garbage),
            "--garbage-aside" => script.steps.push(Step::GarbageAside),
            "--odd" => {
                let name = value()?;
                let bytes = garbage::odd(&name)
                    .ok_or_else(|| format!("--odd: nothing odd is called '{name}'"))?;
                script.steps.push(Step::Odd { bytes });
            }
            "--tiny" => script.steps.push(Step::Tiny { lines: number(&flag, &value()?)? }),
            "--endless" => script.steps.push(Step::Endless { bytes: number(&flag, &value()?)? }),
            "--split-char" => script.steps.push(Step::SplitChar),
            "--interleave" => {
                script.steps.push(Step::Interleave { lines: number(&flag, &value()?)? });
            }
            "--sleep-ms" => script.steps.push(Step::SleepMs(number(&flag, &value()?)?)),
            "--steps" => {
                let (count, cost) = (number(&flag, &value()?)?, step_cost.clone());
                script.steps.push(Step::Steps { count, cost, each_ms: step_ms, asks: step_asks });
            }
            "--step-cost" => step_cost = json_of(&flag, &value()?)?,
            "--step-ms" => step_ms = number(&flag, &value()?)?,
            "--step-asks" => step_asks = true,
            "--turns" => script.steps.push(Step::Turns { count: number(&flag, &value()?)? }),
            "--wait-budget" => script.steps.push(Step::WaitBudget),
            "--open-tool" => {
                script.steps.push(Step::OpenTool { ms: number(&flag, &value()?)? });
            }
            "--deaf-call" => script.steps.push(Step::DeafCall),
            "--call-again" => script.steps.push(Step::CallAgain),
            "--chatty-call" => {
                script.steps.push(Step::ChattyCall { bytes: number(&flag, &value()?)? });
            }
            "--wait-shutdown" => script.steps.push(Step::WaitShutdown),
            "--converse" => script.steps.push(Step::Converse),
            "--setsid-child" => script.steps.push(shape("setsid")?),
            "--orphan" => script.steps.push(shape("gone/stay")?),
            "--new-group" => script.steps.push(shape("group")?),
            "--deep" => script.steps.push(shape("group/setsid/gone/setsid")?),
            "--double-fork" => script.steps.push(shape("gone/setsid")?),
            "--hold-stdout" => script.steps.push(shape("gone+voice/stay+voice")?),
            "--escape" => script.steps.push(shape(&value()?)?),
            "--fork-often" => {
                script.steps.push(Step::ForkOften { children: number(&flag, &value()?)? });
            }
            "--fork-on" => {
                let (growth, cap) = (Growth::WhileKilled, number(&flag, &value()?)?);
                script.steps.push(Step::Swarm { growth, cap });
            }
            "--fork-bomb" => {
                let (growth, cap) = (Growth::Bomb, number(&flag, &value()?)?);
                script.steps.push(Step::Swarm { growth, cap });
            }
            "--close-stdout" => script.steps.push(Step::CloseStdout),
            "--stop-self" => script.steps.push(Step::StopSelf),
            "--kill-self" => script.steps.push(Step::KillSelf),
            "--exit" => script.exit = number(&flag, &value()?)?,
            "--exit-before-byte" => script.exit_before_byte = true,
            "--no-complete" => script.end = End::Nothing,
            "--leak-end" => script.leak_end = Some(value()?),
            "--failed" => script.end = End::Failed { reason: value()? },
            "--cost" => script.end = End::Complete { cost: Some(json_of(&flag, &value()?)?) },
            "--no-final-newline" => script.no_final_newline = true,
            "--linger" => script.linger = true,
            "--silent" => script.silent = true,
            "--never-read-stdin" => script.never_read_stdin = true,
            "--close-stdin" => script.close_stdin = true,
            "--ignore-term" => script.ignore_term = true,
            "--slow-term" => script.slow_term = true,
            "--witness" => script.witness = true,
            "--byte-by-byte" => script.byte_by_byte = true,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown flag '{flag}'; see --help")),
        }
    }
    if line_wanted {
        script.steps.push(Step::Burst { lines: 1, line_bytes, deltas });
    }
    let children = script.steps.iter().map(children_of).fold(0, u32::saturating_add);
    if children > CHILDREN_MAX {
        return Err(format!("{children} processes are too many: at most {CHILDREN_MAX}"));
    }
    let swarm = script.steps.iter().map(swarm_of).fold(0, u32::saturating_add);
    if swarm > SWARM_MAX {
        return Err(format!("a swarm of {swarm} is too many: at most {SWARM_MAX}"));
    }
    Ok(Some(script))
}

/// Processes that the agent starts one by one.
fn children_of(step: &Step) -> u32 {
    if let Step::ForkOften { children } = step {
        return *children;
    }
    if let Step::Escape(shape) = step { shape.count() } else { 0 }
}

/// Processes that start each other.
fn swarm_of(step: &Step) -> u32 {
    if let Step::Swarm { cap, .. } = step { *cap } else { 0 }
}

fn shape(words: &str) -> Result<Step, String> {
    Shape::read(words).map(Step::Escape)
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{flag}: '{value}' is not a number it can take"))
}

fn json_of(flag: &str, value: &str) -> Result<Value, String> {
    serde_json::from_str(value).map_err(|error| format!("{flag}: '{value}' is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &str) -> Result<Option<Script>, String> {
        parse(flags.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn steps_keep_the_order_of_their_flags() {
        let script = read("--sleep-ms 5 --burst 2 --line-bytes 400 --deltas --burst 3 --exit 7");
        let script = script.expect("known flags").expect("no help");
        assert_eq!(
            script.steps,
            [
                Step::SleepMs(5),
                Step::Burst { lines: 2, line_bytes: 300, deltas: false },
                Step::Burst { lines: 3, line_bytes: 400, deltas: true },
            ]
        );
        assert_eq!(script.exit, 7);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (flags, why) in [
            ("--brust 3", "unknown flag '--brust'; see --help"),
            ("--burst", "--burst needs a value"),
            ("--exit 256", "--exit: '256' is not a number it can take"),
            ("--fork-often 65", "65 processes are too many: at most 64"),
            ("--fork-bomb 300 --fork-on 213", "a swarm of 513 is too many: at most 512"),
            ("--odd thing", "--odd: nothing odd is called 'thing'"),
        ] {
            assert_eq!(read(flags), Err(why.to_owned()));
        }
    }

    #[test]
    fn every_flag_of_the_help_is_known() {
        for line in HELP.lines().filter_map(|line| line.strip_prefix("  --")) {
            let name = line.split_whitespace().next().expect("a name");
            let error = read(&format!("--{name}")).err().unwrap_or_default();
            assert!(!error.contains("unknown flag"), "{error}");
        }
    }
}
