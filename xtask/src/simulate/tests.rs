//! That the simulation finds what is broken, finds nothing where nothing is, and is the same each
//! time. Each row of `FOUND` breaks one thing on purpose and names the promises that may turn red.

use super::*;
use oracle::Promise;
use store::model::Flaw;

/// Seeds in which each break must be found.
const SEEDS_MAX: u64 = 1_500;
/// Seeds of one test run without a break; the stage `simulate` of the gate has many more.
const SEEDS_SOUND: u64 = 200;
const SEEDS_SOUND_ON_DISK: u64 = 10;

const FOUND: &[(Break, &[Promise])] = &[
    (Break::Store(Flaw::CommitUnfenced), &[Promise::NoStaleWrite]),
    (Break::Store(Flaw::SettleUnfenced), &[Promise::NoStaleWrite]),
    (Break::Store(Flaw::RenewUnfenced), &[Promise::NoStaleWrite]),
    (Break::Store(Flaw::ReapUnfenced), &[Promise::FencesRise]),
    (Break::Store(Flaw::ReapUnseen), &[Promise::ReapedInTime]),
    (Break::Store(Flaw::HeadUnchecked), &[Promise::Gapless]),
    (Break::Store(Flaw::EndUnchecked), &[Promise::EndsOnce]),
    (Break::LateRenewal, &[Promise::Leased]),
    (Break::LeaseFromAnswer, &[Promise::Leased]),
    (Break::WallLease, &[Promise::Leased]),
    (Break::EffectFirst, &[Promise::DurableFirst]),
    (Break::DoneUnleased, &[Promise::Leased]),
    (Break::LatePlan, &[Promise::Leased]),
    (Break::WishesLeft, &[Promise::SaidOnce]),
    (Break::LaunchAgain, &[Promise::LaunchedOnce]),
    (Break::SayAgain, &[Promise::SaidOnce]),
    (Break::CallAgain, &[Promise::SaidOnce]),
    (Break::HearAgain, &[Promise::Heard]),
    (Break::FenceFromRow, &[Promise::ReapedInTime, Promise::Leased]),
    (Break::SentAgain, &[Promise::Heard]),
];

/// The first seed in which this break shows.
fn first(flaw: Break) -> Option<(u64, Violation)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let ground = InMemory::new(Break::flaw(Some(flaw)));
        let outcome = simulate(&ground, &Options::of(seed), Some(flaw), false);
        outcome.violation.map(|violation| (seed, violation))
    })
}

#[test]
fn every_break_is_found() {
    let mut wrong = Vec::new();
    for (flaw, promises) in FOUND {
        match first(*flaw) {
            Some((seed, violation)) if promises.contains(&violation.promise) => {
                println!("{flaw:?}: seed {seed}, {violation}");
            }
            Some((seed, violation)) => wrong.push(format!("{flaw:?}: seed {seed}, {violation}")),
            None => wrong.push(format!("{flaw:?}: not found")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
    let ground = OnDisk::new().unwrap();
    for seed in 0..SEEDS_SOUND_ON_DISK {
        let options = Options::of(seed);
        let on_disk = simulate(&ground, &options, None, true);
        assert_eq!(on_disk.violation, None, "{options}");
        let in_memory = simulate(&InMemory::new(None), &options, None, true);
        assert_eq!(on_disk.script, in_memory.script, "{options}");
    }
    assert_eq!(store::check(ground.dir.path()).unwrap(), [] as [String; 0]);
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
    let (seed, violation) = first(flaw).unwrap();
    let options = Options::of(seed);
    let (smaller, still) = shrink(options.clone(), violation.clone(), Some(flaw));
    assert_eq!(still.promise, violation.promise);
    assert!(smaller.steps <= options.steps && smaller.faults.len() <= options.faults.len());
    let words = smaller.command();
    let words: Vec<&str> = words.split(' ').skip(3).collect();
    assert_eq!(wanted(&words).unwrap().options(seed), smaller, "the printed command repeats it");
}
