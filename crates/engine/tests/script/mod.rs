//! Scripts of runs as text: `given` the terms, `when` this happens, `then` that follows.
//! `check` plays a file of scripts and compares what follows with what is written. Between any two
//! steps the machine is saved and loaded, so every script also shows that this changes nothing.

mod reader;
mod writer;

use contract::plan::Clocks;
use contract::{RunState, Timestamp};
use engine::{Input, Machine, Now, Terms};
use std::fmt::Write as _;
use std::path::Path;

/// Plays every script of a file under `tests/scripts`. To write a new one, leave out what follows:
/// the failing test prints the script as it was played, to be read and, if it is right, kept.
pub fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(file);
    let written = std::fs::read_to_string(&path).expect("the file of scripts");
    let scripts: Vec<_> = written.split("\n\n").map(str::trim).collect();
    assert!(scripts.len() > 1, "{file} has hardly a script");
    for script in scripts {
        let played = play(script);
        let played = played.trim();
        assert!(
            played == script,
            "in {file} this is written:\n{script}\n\nand this follows:\n{played}\n"
        );
    }
}

/// Plays one script and writes it down with what really follows.
fn play(script: &str) -> String {
    let mut text = String::new();
    let mut terms = Terms::from(&Clocks::default(), 7, 1);
    let mut machine: Option<Machine> = None;
    let mut mono_ms = 0;
    let mut state = RunState::Planned;
    for line in script.lines() {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        match word {
            "#" => writeln!(text, "{line}").unwrap(),
            "given" => {
                writeln!(text, "{line}").unwrap();
                if reader::terms(rest.trim(), &mut terms) == reader::Given::Live {
                    let begun = machine.insert(Machine::new(terms.clone(), now(0)));
                    begun.step(now(0), Input::Begin, &mut Vec::new());
                    state = begun.state();
                }
            }
            "when" => {
                writeln!(text, "{line}").unwrap();
                let machine = machine.get_or_insert_with(|| Machine::new(terms.clone(), now(0)));
                let (at_ms, input) = reader::input(rest.trim());
                mono_ms = at_ms.unwrap_or(mono_ms);
                let mut steps = Vec::new();
                *machine = reloaded(machine);
                machine.step(now(mono_ms), input, &mut steps);
                let mut follows: Vec<_> = steps.iter().map(writer::step).collect();
                if machine.state() != state {
                    state = machine.state();
                    follows.push(format!("state {}", state.word()));
                }
                if follows.is_empty() {
                    follows.push("nothing".to_owned());
                }
                writeln!(text, "then   {}", follows.join("\n     · ")).unwrap();
            }
            // What was expected is written anew.
            "then" | "·" => {}
            unknown => panic!("a script has no line that begins with {unknown:?}: {line}"),
        }
    }
    text
}

fn now(mono_ms: u64) -> Now {
    Now { wall: Timestamp(1_000_000_000).plus_ms(mono_ms as i64), mono_ms }
}

fn reloaded(machine: &Machine) -> Machine {
    let saved = serde_json::to_vec(machine).expect("a machine is data");
    let loaded: Machine = serde_json::from_slice(&saved).expect("its data is a machine");
    assert_eq!(&loaded, machine);
    loaded
}
