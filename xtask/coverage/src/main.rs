//! One target of the fuzz under libFuzzer, which keeps every input that reaches something new and
//! goes on from there. `FUZZ_TARGET` names the target; the rest of the command line is libFuzzer's.
//! Half of the mutations are libFuzzer's own, half are ours, which know the words and the lines of the
//! target: of the input that libFuzzer chose, or of the seeds, as our own loop begins. With
//! `FUZZ_BLIND` the inputs are those of our own loop, one number after the other, so that its reach is
//! measured in the same way. It is started at the root of the tree by `cargo xtask fuzz --coverage` and
//! decides nothing: what does not hold is a panic.

#![no_main]
#![allow(clippy::disallowed_methods, reason = "a tool may read its environment")]

mod fuzz;

use fuzz::mutate::Chance;
use fuzz::search::{self, Reader, Try};
use fuzz::targets;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::cell::RefCell;
use std::path::PathBuf;

/// As the loop of our own begins.
const SEED: u64 = 1;

struct Tried {
    target: Box<dyn Reader>,
    seeds: Vec<Vec<u8>>,
    run: Try,
    blind: Option<Blind>,
}

/// Our own loop. Its inputs are made where libFuzzer mutates, so that making them is not counted.
#[derive(Default)]
struct Blind {
    number: u64,
    next: Option<(Vec<u8>, Chance)>,
}

thread_local! {
    static TRIED: RefCell<Tried> = RefCell::new(Tried::wanted());
}

// What is made ready first is not counted as reached.
fuzz_target!(init: TRIED.with_borrow(|_| ()), |input: &[u8]| {
    TRIED.with_borrow_mut(|tried| tried.once(input))
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    TRIED.with_borrow_mut(|tried| tried.mutate(data, size, max_size, seed))
});

impl Tried {
    fn wanted() -> Self {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let target = targets::all().into_iter().find(|target| target.name() == name);
        let target = target.unwrap_or_else(|| panic!("no target is called '{name}'"));
        let seeds = target.seeds();
        // Some targets learn their words from the first seeds they see.
        target.input(&mut Chance::of(SEED, &name, 0), &seeds);
        let blind = std::env::var_os("FUZZ_BLIND").map(|_| Blind::default());
        Self { run: target.make(), target, seeds, blind }
    }

    fn once(&mut self, input: &[u8]) {
        let own = self.blind.as_mut().and_then(|blind| blind.next.take());
        let tried = match own {
            Some((input, mut chance)) => (self.run)(&input, &mut chance),
            None => {
                let (input, mut chance) = search::brought(self.target.name(), input);
                (self.run)(input, &mut chance)
            }
        };
        if let Err(why) = tried {
            panic!("{why}");
        }
    }

    fn mutate(&mut self, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
        let mut chance = Chance::of(seed.into(), self.target.name(), 0);
        if let Some(blind) = &mut self.blind {
            let mut chance = Chance::of(SEED, self.target.name(), blind.number);
            blind.number += 1;
            blind.next = Some((self.target.input(&mut chance, &self.seeds), chance));
        }
        if self.blind.is_some() || chance.one_in(2) {
            return fuzzer_mutate(data, size, max_size);
        }
        let (bytes, number) = search::with_number(&data[..size]);
        let mut made = match chance.one_in(2) {
            true => self.target.input(&mut chance, &self.seeds),
            false => self.target.input(&mut chance, &[bytes.to_vec()]),
        };
        made.truncate(max_size.saturating_sub(number.len()));
        made.extend(number);
        made.truncate(max_size);
        data[..made.len()].copy_from_slice(&made);
        made.len()
    }
}

fn root() -> PathBuf {
    PathBuf::from(".")
}
