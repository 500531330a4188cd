//! The loop: input after input into one target until time or number is up. A panic is a break like
//! an answer that says what does not hold; each kind of break is kept once, with its input made
//! smaller. What ends the whole process (a stack that overflows) cannot be caught: the number of the
//! last inputs is then in `target/fuzz/NAME.at`.

use super::mutate::{self, Chance};
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is tried with an input. `Err` says what does not hold.
pub type Try = Box<dyn FnMut(&[u8], &mut Chance) -> Result<(), String>>;

/// Something that reads what others wrote.
pub trait Reader: Send {
    fn name(&self) -> &str;
    /// Inputs that are enough in the gate; those without a number get their whole minute there too.
    fn everyday(&self) -> Option<u64>;
    fn seeds(&self) -> Vec<Vec<u8>>;
    /// One input, which follows from its chance and the seeds alone.
    fn input(&self, chance: &mut Chance, seeds: &[Vec<u8>]) -> Vec<u8>;
    fn make(&self) -> Try;
}

/// A reader that is all constants; its inputs are bytes of its seeds, mutated.
pub struct Target {
    pub name: &'static str,
    pub everyday: Option<u64>,
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of its own that are put into inputs.
    pub words: &'static [&'static [u8]],
    pub make: fn() -> Try,
}

impl Reader for &Target {
    fn name(&self) -> &str {
        self.name
    }

    fn everyday(&self) -> Option<u64> {
        self.everyday
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    fn input(&self, chance: &mut Chance, seeds: &[Vec<u8>]) -> Vec<u8> {
        mutate::input(chance, seeds, self.words)
    }

    fn make(&self) -> Try {
        (self.make)()
    }
}

pub struct Limits {
    pub time: Duration,
    pub inputs: u64,
}

pub struct Found {
    pub seed: u64,
    pub inputs: u64,
    pub took: Duration,
    pub slowest: Duration,
    pub breaks: Vec<Break>,
}

/// An input for which something does not hold.
pub struct Break {
    pub number: u64,
    pub why: String,
    pub input: Vec<u8>,
}

/// More kinds of breaks than this help nobody.
const BREAKS_MAX: usize = 5;
/// How many inputs may pass between two looks at the clock and two notes of the number.
const STEP: u64 = 256;
/// How often a break is tried again while it is made smaller.
const SMALLER_TRIES_MAX: usize = 2_000;
/// And for how long: some breaks take seconds to be seen.
const SMALLER_TIME_MAX: Duration = Duration::from_secs(20);

pub fn search(target: &dyn Reader, seed: u64, limits: &Limits, dir: &Path) -> Found {
    let seeds = target.seeds();
    let mut run = target.make();
    let began = Instant::now();
    let note = dir.join(format!("{}.at", target.name()));
    let _ = std::fs::create_dir_all(dir);
    let mut found = Found {
        seed,
        inputs: 0,
        took: Duration::ZERO,
        slowest: Duration::ZERO,
        breaks: Vec::new(),
    };
    while found.inputs < limits.inputs && found.breaks.len() < BREAKS_MAX {
        if found.inputs.is_multiple_of(STEP) {
            if began.elapsed() >= limits.time {
                break;
            }
            let _ = std::fs::write(&note, format!("seed {seed} input {}\n", found.inputs));
        }
        let mut chance = Chance::of(seed, target.name(), found.inputs);
        let input = target.input(&mut chance, &seeds);
        let started = Instant::now();
        let tried = attempt(&mut run, &input, &chance);
        found.slowest = found.slowest.max(started.elapsed());
        if let Err(why) = tried {
            run = target.make();
            if !found.breaks.iter().any(|known| kind(&known.why) == kind(&why)) {
                let input = smaller(target, input, &chance, &why);
                found.breaks.push(Break { number: found.inputs, why, input });
            }
        }
        found.inputs += 1;
    }
    let _ = std::fs::remove_file(&note);
    found.took = began.elapsed();
    found
}

/// An input of the engine that sees coverage, without and with its last bytes: they are the number
/// from which its chance follows, so that one can be changed and the other stay.
pub fn with_number(input: &[u8]) -> (&[u8], &[u8]) {
    input.split_at(input.len().saturating_sub(size_of::<u16>()))
}

/// Such an input as a target takes it.
pub fn brought<'a>(name: &str, input: &'a [u8]) -> (&'a [u8], Chance) {
    let (bytes, number) = with_number(input);
    let number = number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    (bytes, Chance::of(0, name, number))
}

/// Tries such an input once more: what does not hold, and a smaller one for which it does not either.
pub fn again(target: &dyn Reader, input: &[u8]) -> Option<(String, Vec<u8>)> {
    let (bytes, chance) = brought(target.name(), input);
    let why = attempt(&mut target.make(), bytes, &chance).err()?;
    let mut less = smaller(target, bytes.to_vec(), &chance, &why);
    less.extend(with_number(input).1);
    Some((why, less))
}

/// What breaks have in common that differ only in their input: the words before the first colon.
fn kind(why: &str) -> &str {
    why.split(": ").next().unwrap_or(why)
}

fn attempt(run: &mut Try, input: &[u8], chance: &Chance) -> Result<(), String> {
    let mut chance = chance.clone();
    TRYING.set(true);
    let answer = catch_unwind(AssertUnwindSafe(|| run(input, &mut chance)));
    TRYING.set(false);
    match answer {
        Ok(answer) => answer,
        Err(_) => Err(LAST_PANIC.with_borrow_mut(std::mem::take)),
    }
}

/// Takes pieces out as long as the same kind of break stays.
fn smaller(target: &dyn Reader, mut input: Vec<u8>, chance: &Chance, why: &str) -> Vec<u8> {
    let mut run = target.make();
    let mut piece = input.len() / 2;
    let (mut tries, began) = (0, Instant::now());
    while piece > 0 {
        let mut at = 0;
        let more = |tries| tries < SMALLER_TRIES_MAX && began.elapsed() < SMALLER_TIME_MAX;
        while at < input.len() && more(tries) {
            let mut less = input.clone();
            less.drain(at..(at + piece).min(input.len()));
            tries += 1;
            match attempt(&mut run, &less, chance) {
                Err(other) if kind(&other) == kind(why) => {
                    input = less;
                    run = target.make();
                }
                Err(_) => {
                    run = target.make();
                    at += piece;
                }
                Ok(()) => at += piece,
            }
        }
        piece /= 2;
    }
    input
}

thread_local! {
    static TRYING: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics of targets are kept for the report instead of being printed where they happen.
pub fn keep_panics_quiet() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !TRYING.get() {
            return others(panic);
        }
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let said = panic.payload_as_str().unwrap_or("it did not say why");
        LAST_PANIC.with_borrow_mut(|last| *last = format!("panicked at {place}: {said}"));
    }));
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Break {
    pub fn write(&self, dir: &Path, name: &str) -> io::Result<PathBuf> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join(format!("{name}-{}.input", self.number));
        std::fs::write(&path, &self.input)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Broken on purpose, in both ways in which a target can be.
    const BROKEN: Target = Target {
        name: "broken",
        everyday: None,
        seeds: || vec![b"{\"type\":\"hello\"}".to_vec()],
        words: &[b"magic", b"wrong"],
        make: || {
            Box::new(|input, _| {
                let text = String::from_utf8_lossy(input);
                assert!(!text.contains("magic"), "the word was said");
                match text.contains("wrong") {
                    true => Err(format!("it is wrong: {text}")),
                    false => Ok(()),
                }
            })
        },
    };

    fn found(target: &dyn Reader) -> Found {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { time: Duration::from_secs(600), inputs: 2_000 };
        search(target, 1, &limits, dir.path())
    }

    #[test]
    fn a_target_broken_on_purpose_is_found_broken_each_way_once_and_its_input_is_made_small() {
        keep_panics_quiet();
        let mut breaks = found(&&BROKEN).breaks;
        breaks.sort_by(|one, other| one.input.cmp(&other.input));
        let inputs: Vec<_> = breaks.iter().map(|broken| broken.input.as_slice()).collect();
        assert_eq!(inputs, [b"magic", b"wrong"]);
        assert!(breaks[0].why.contains("search.rs") && breaks[0].why.contains("the word was said"));
        assert_eq!(hex(&breaks[0].input), "6d61676963");
        let dir = tempfile::tempdir().unwrap();
        let path = breaks[0].write(dir.path(), "broken").unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"magic");
    }

    #[test]
    fn an_input_that_brings_its_number_is_tried_again_and_made_smaller_with_it() {
        keep_panics_quiet();
        let (why, less) = again(&&BROKEN, b"so wrong!\x01\x02").unwrap();
        assert_eq!(
            (why.as_str(), less.as_slice()),
            ("it is wrong: so wrong!", &b"wrong\x01\x02"[..])
        );
        assert_eq!(again(&&BROKEN, b"right\x01\x02"), None);
        assert_eq!(again(&&BROKEN, b""), None);
        let number = |input| brought("broken", input).1.number();
        assert_eq!(number(b"one\x01\x02"), number(b"two\x01\x02"));
        assert_ne!(number(b"one\x01\x02"), number(b"one\x02\x01"));
    }

    /// Holds a target to every so many of its seeds that are not too long, and to some inputs.
    fn assert_it_holds(target: &dyn Reader, step: usize, seed_bytes_max: usize, inputs: u64) {
        let name = target.name();
        let seeds = target.seeds();
        let short = seeds.iter().filter(|seed| seed.len() <= seed_bytes_max);
        for (number, seed) in short.enumerate().step_by(step) {
            let tried = attempt(&mut target.make(), seed, &Chance::of(1, name, 0));
            assert_eq!(tried, Ok(()), "{name} with seed {number}");
        }
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { time: Duration::from_secs(600), inputs };
        let found = search(target, 7, &limits, dir.path());
        let said: Vec<_> = found.breaks.iter().map(|broken| &broken.why).collect();
        assert!(said.is_empty(), "{name}: {said:?}");
        assert_eq!(found.inputs, inputs);
    }

    #[test]
    fn every_target_holds_for_its_seeds_and_for_some_inputs() {
        keep_panics_quiet();
        for target in super::super::targets::ALL {
            assert_it_holds(&target, 1, usize::MAX, 300);
        }
    }

    #[test]
    fn every_dialect_holds_for_some_of_its_recordings_and_for_some_inputs() {
        keep_panics_quiet();
        // All recordings, whole, are heard by the tests of the runtimes themselves.
        for target in super::super::targets::dialects::all() {
            assert_it_holds(&*target, 8, mutate::INPUT_BYTES_MAX, 20);
        }
    }
}
