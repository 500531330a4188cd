//! That the simulation finds what is broken, finds nothing where nothing is, and is the same each
//! time. Each row of `FOUND` breaks one thing on purpose and names the promise that turns red.

use super::*;
use options::Sharing::{self, OneHost, SharedStore};
use oracle::Promise;
use std::collections::BTreeSet;
use store::model::Flaw;

/// Seeds in which each break must be found.
const SEEDS_MAX: u64 = 1_500;
/// Seeds of one test run without a break; the stage `simulate` of the gate has many more.
const SEEDS_SOUND: u64 = 200;
const SEEDS_SOUND_ON_DISK: u64 = 10;

/// What is broken, how the nodes share the store and which faults are on when it is looked for, and
/// the promises that may turn red.
type Row = (Break, Sharing, &'static [Fault], &'static [Promise]);

const FENCED: &[Fault] =
    &[Fault::Pause, Fault::Freeze, Fault::LostAnswer, Fault::LateRequest, Fault::Crash];
const LOST: &[Fault] = &[Fault::KeeperDeath, Fault::AgentDeath];
const RETRIED: &[Fault] =
    &[Fault::KeeperDeath, Fault::LateRequest, Fault::Pause, Fault::LostAnswer];
const CLOCKS: &[Fault] = &[Fault::Pause, Fault::WallJump, Fault::WallRate];
const DEATHS: &[Fault] = &[Fault::Crash, Fault::HandOver];

const FOUND: &[Row] = &[
    (Break::Store(Flaw::CommitUnfenced), SharedStore, FENCED, &[Promise::NoStaleWrite]),
    (Break::Store(Flaw::SettleUnfenced), SharedStore, FENCED, &[Promise::NoStaleWrite]),
    (Break::Store(Flaw::RenewUnfenced), SharedStore, FENCED, &[Promise::NoStaleWrite]),
    (Break::Store(Flaw::ReapUnfenced), SharedStore, FENCED, &[Promise::FencesRise]),
    (Break::Store(Flaw::ReapUnseen), SharedStore, FENCED, &[Promise::ReapedInTime]),
    (Break::Store(Flaw::HeadUnchecked), SharedStore, FENCED, &[Promise::Gapless]),
    (Break::Store(Flaw::EndUnchecked), SharedStore, FENCED, &[Promise::EndsOnce]),
    (Break::Store(Flaw::ClaimUnchecked), SharedStore, FENCED, &[Promise::OneAtATime]),
    (Break::Store(Flaw::MoveUnfenced), SharedStore, RETRIED, &[Promise::NoStaleWrite]),
    (Break::Store(Flaw::MoveUnchecked), SharedStore, FENCED, &[Promise::NotTriedAgain]),
    (Break::Store(Flaw::RecallIgnored), SharedStore, LOST, &[Promise::NotTriedAgain]),
    (Break::Store(Flaw::DueForgotten), SharedStore, FENCED, &[Promise::Ends]),
    (Break::Store(Flaw::DoneAgain), SharedStore, FENCED, &[Promise::DoneOnce]),
    (Break::Store(Flaw::EventLost), SharedStore, FENCED, &[Promise::Kept]),
    (Break::Store(Flaw::WishKept), OneHost, DEATHS, &[Promise::WishesOnce]),
    (Break::Store(Flaw::ReserveUnfenced), SharedStore, FENCED, &[Promise::NoStaleWrite]),
    (Break::Store(Flaw::ReserveUncounted), SharedStore, FENCED, &[Promise::WithinLimit]),
    (Break::Store(Flaw::ReservationKept), SharedStore, LOST, &[Promise::ComesBack]),
    (Break::LateRenewal, SharedStore, FENCED, &[Promise::Leased]),
    (Break::LeaseFromAnswer, SharedStore, FENCED, &[Promise::Leased]),
    (Break::WallLease, SharedStore, CLOCKS, &[Promise::Leased]),
    (Break::EffectFirst, SharedStore, FENCED, &[Promise::DurableFirst]),
    (Break::DoneUnleased, SharedStore, FENCED, &[Promise::Leased]),
    (Break::LatePlan, SharedStore, FENCED, &[Promise::Leased]),
    (Break::WishesLeft, OneHost, DEATHS, &[Promise::SaidOnce, Promise::WishesOnce]),
    (Break::WishesUnread, OneHost, DEATHS, &[Promise::WishesOnce]),
    (Break::LaunchAgain, OneHost, DEATHS, &[Promise::LaunchedOnce]),
    (Break::SayAgain, OneHost, DEATHS, &[Promise::SaidOnce]),
    (Break::CallAgain, OneHost, DEATHS, &[Promise::SaidOnce]),
    (Break::HearAgain, OneHost, DEATHS, &[Promise::Heard]),
    (Break::FenceFromRow, SharedStore, FENCED, &[Promise::ReapedInTime, Promise::Leased]),
    (Break::SentAgain, SharedStore, FENCED, &[Promise::Heard, Promise::DurableFirst]),
    (Break::EffectsRenumbered, OneHost, DEATHS, &[Promise::Taken]),
    (Break::AgentLeft, OneHost, LOST, &[Promise::NoneOutlives]),
];

/// The first seed in which this break shows, with faults that bring it out.
fn first(flaw: Break, sharing: Sharing, faults: &[Fault]) -> Option<(Options, Violation)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let options = Options { sharing, faults: faults.to_vec(), ..Options::of(seed) };
        let ground = InMemory::new(Break::flaw(Some(flaw)));
        let violation = simulate(&ground, &options, Some(flaw), false).violation?;
        Some((options, violation))
    })
}

#[test]
fn every_break_is_found() {
    let mut wrong = Vec::new();
    let mut shown = BTreeSet::new();
    for (flaw, sharing, faults, promises) in FOUND {
        match first(*flaw, *sharing, faults) {
            Some((options, violation)) if promises.contains(&violation.promise) => {
                println!("{flaw:?}: seed {}, {violation}", options.seed);
                shown.insert(violation.promise);
            }
            Some((options, violation)) => {
                wrong.push(format!("{flaw:?}: seed {}, {violation}", options.seed));
            }
            None => wrong.push(format!("{flaw:?}: not found")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(FOUND.len(), Break::ALL.len(), "every break has its row");
    assert_eq!(Promise::ALL.len(), Promise::Ends as usize + 1, "no promise is left out");
    let hidden: Vec<_> = Promise::ALL.iter().filter(|promise| !shown.contains(promise)).collect();
    assert!(hidden.is_empty(), "no break shows {hidden:?}");
}

#[test]
fn nothing_is_found_where_nothing_is_broken() {
    for seed in 0..SEEDS_SOUND {
        let options = Options::of(seed);
        let outcome = simulate(&InMemory::new(None), &options, None, false);
        assert_eq!(outcome.violation, None, "{options}");
    }
}

#[test]
fn the_store_on_disk_holds_what_the_model_holds() {
    for seed in 0..SEEDS_SOUND_ON_DISK {
        let options = Options::of(seed);
        let on_disk = play(Over::Disk, &options, None, true).unwrap();
        assert_eq!(on_disk.violation, None, "{options}");
        let in_memory = play(Over::Memory, &options, None, true).unwrap();
        assert_eq!(on_disk.script, in_memory.script, "{options}");
    }
}

#[test]
fn a_seed_gives_the_same_script_each_time() {
    for seed in 0..20 {
        let options = Options::of(seed);
        let [one, two] =
            [(); 2].map(|()| simulate(&InMemory::new(None), &options, None, true).script);
        assert_eq!(one, two, "{options}");
    }
}

#[test]
fn a_failing_seed_is_made_smaller_and_breaks_the_same_promise() {
    let flaw = Break::Store(Flaw::CommitUnfenced);
    let found = (0..SEEDS_MAX).find_map(|seed| {
        let ground = InMemory::new(Break::flaw(Some(flaw)));
        let violation = simulate(&ground, &Options::of(seed), Some(flaw), false).violation?;
        Some((seed, violation))
    });
    let (seed, violation) = found.unwrap();
    let options = Options::of(seed);
    let shrunk = shrink(Over::Memory, options.clone(), violation.clone(), Some(flaw));
    let (smaller, still) = shrunk.unwrap();
    assert_eq!(still.promise, violation.promise);
    assert!(smaller.steps <= options.steps && smaller.faults.len() <= options.faults.len());
    for over in [Over::Memory, Over::Disk] {
        let words = command(over, &smaller, Some(flaw));
        let words: Vec<&str> = words.split(' ').skip(3).collect();
        let again = wanted(&words).unwrap();
        assert_eq!(again.options(seed), smaller, "the printed command repeats it");
        assert_eq!((again.one, again.flaw), (Some((seed, over)), Some(flaw)));
    }
}

#[test]
fn a_seed_that_fails_over_sqlite_fails_again_alone_with_its_script() {
    let flaw = Some(Break::WishesUnread);
    let found = (0..SEEDS_MAX).find_map(|seed| {
        let options = Options::of(seed);
        let outcome = play(Over::Disk, &options, flaw, false).unwrap();
        outcome.violation.map(|violation| (options, violation))
    });
    let (options, violation) = found.unwrap();
    let again = play(Over::Disk, &options, flaw, true).unwrap();
    assert_eq!(again.violation, Some(violation), "{options}");
    let in_memory = play(Over::Memory, &options, flaw, true).unwrap();
    assert!(!again.script.is_empty());
    assert_eq!(again.script, in_memory.script, "{options}");
}
