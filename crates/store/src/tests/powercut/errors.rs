//! A disk that refuses: every call by which files come to last fails in turn, SQLite's and our own,
//! once and from there on. Whatever it was, nothing panics or hangs; what was answered as done is
//! there when the store is opened again on a disk that is well, also if the power was cut in between
//! and what a failed sync left behind is gone; and what was refused is not there by half.
//!
//! A bounded number by seed (`IO_ERRORS_SEED`) in every test run; `IO_ERRORS=all` is every call with
//! every error.

use super::faults::{Deaf, Plan, Site, Trouble, Whose};
use super::image::{Dice, Disk};
use super::log::{Op, Recording};
use super::work::{self, Told, Worker};
use super::{HOME, in_memory, number, spare_reserve, vfs};
use crate::Error;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Cases in every test run.
const CASES: usize = 100;
/// Longer than any of them takes on a machine that is busy with others.
const HANGS: Duration = Duration::from_secs(60);
/// The threads on which the store reads and writes files here.
const WORKERS: &str = "io-errors";

/// How a store stood after its disk had failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stood {
    /// Nobody was refused anything: it was tried again, or can wait.
    Unnoticed,
    /// Some things were refused, and others done afterwards or all the same.
    Refused,
    /// A sync failed, and nothing was answered from then on.
    Stopped,
}

/// One disk that failed, and what came of it.
struct Case {
    stood: Stood,
    /// What is wrong, on the disk as it is and after a power cut.
    wrong: Vec<String>,
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics of the store's own threads, of which nobody would hear otherwise.
fn count_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            if thread.name().is_some_and(|name| name == WORKERS || name == "store-writer") {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            before(panic);
        }));
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().thread_name(WORKERS).enable_all().build().unwrap()
}

/// What was done and said on a disk with this plan.
struct Lived {
    root: TempDir,
    ops: Vec<Op>,
    told: Told,
    refused: Vec<Error>,
    calls: BTreeMap<(Site, Whose), usize>,
    failed: usize,
}

fn live(plan: Option<Plan>, deaf: Option<Deaf>) -> Lived {
    vfs::install();
    let root = in_memory();
    let root_path = root.path().canonicalize().unwrap();
    let home = root_path.join(HOME);
    let recording = Recording::start(&root_path);
    recording.faults().plan = plan;
    recording.faults().deaf = deaf;
    let mut worker = Worker { recording: &recording, told: Told::default() };
    let refused = runtime().block_on(async {
        let persisted = tokio::time::timeout(HANGS, worker.persist(&home)).await;
        persisted.unwrap_or_else(|_| panic!("it hangs: {plan:?}"))
    });
    let told = worker.told;
    let (calls, failed) = {
        let faults = recording.faults();
        (faults.calls.clone(), faults.failed)
    };
    let (ops, _) = recording.stop();
    Lived { root, ops, told, refused, calls, failed }
}

/// Lets the disk fail by this plan, and looks at what is left of the store when it is well again.
fn suffer(plan: Plan, deaf: Option<Deaf>) -> Option<Case> {
    let lived = live(Some(plan), deaf);
    if lived.failed == 0 {
        // It took another way, and came to an end before.
        return None;
    }
    let stopped = lived.refused.iter().any(|error| matches!(error, Error::Unsynced { .. }));
    let stood = match (stopped, lived.refused.is_empty()) {
        (true, _) => Stood::Stopped,
        (false, true) => Stood::Unnoticed,
        (false, false) => Stood::Refused,
    };
    let told = &lived.told;
    let look = |home: &Path| {
        spare_reserve(home);
        runtime().block_on(work::complaints(home, told, told.answers.len()))
    };
    let mut wrong = look(&lived.root.path().join(HOME));
    let mut disk = Disk::default();
    lived.ops.iter().for_each(|op| disk.follow(op));
    let image = in_memory();
    disk.cut(&mut Dice(plan.nth as u64), image.path());
    let home = image.path().join(HOME);
    // Before anything was answered there may be nothing.
    if !told.answers.is_empty() || home.is_dir() {
        wrong.extend(look(&home).into_iter().map(|wrong| format!("after a power cut: {wrong}")));
    }
    let panics = PANICS.load(Ordering::Relaxed);
    if panics > 0 {
        wrong.push(format!("{panics} panics"));
    }
    Some(Case { stood, wrong })
}

fn every(calls: &BTreeMap<(Site, Whose), usize>) -> Vec<Plan> {
    let mut plans = Vec::new();
    for ((site, whose), count) in calls {
        for nth in 0..*count {
            for trouble in Trouble::ALL {
                for for_ever in [false, true] {
                    plans.push(Plan { site: *site, whose: *whose, nth, trouble, for_ever });
                }
            }
        }
    }
    plans
}

/// Some of them, of each kind of call about as many: there are few renames and many writes.
fn some(calls: &BTreeMap<(Site, Whose), usize>, count: usize) -> Vec<Plan> {
    let mut dice = Dice(number("IO_ERRORS_SEED", 1) as u64);
    let kinds = calls.iter().cycle().take(count);
    kinds
        .map(|((site, whose), count)| {
            let (nth, for_ever) = (dice.below(*count), dice.below(2) == 0);
            let trouble = Trouble::ALL[dice.below(Trouble::ALL.len())];
            Plan { site: *site, whose: *whose, nth, trouble, for_ever }
        })
        .collect()
}

/// All of these on two threads; ends with the first that is wrong, if that is what is wanted.
fn all(plans: &[Plan], deaf: Option<Deaf>, until_wrong: bool) -> Vec<(Plan, Case)> {
    let cases = Mutex::new(Vec::new());
    let enough = AtomicBool::new(false);
    let every_second = |half: usize| {
        for plan in plans.iter().skip(half).step_by(2) {
            if enough.load(Ordering::Relaxed) {
                break;
            }
            let Some(case) = suffer(*plan, deaf) else { continue };
            enough.fetch_or(until_wrong && !case.wrong.is_empty(), Ordering::Relaxed);
            cases.lock().unwrap_or_else(PoisonError::into_inner).push((*plan, case));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| every_second(0));
        every_second(1);
    });
    cases.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::print_stdout, reason = "the figures are what the test is run for")]
fn say(calls: &BTreeMap<(Site, Whose), usize>, cases: &[(Plan, Case)]) {
    let mut table: BTreeMap<(Whose, Site, Trouble), [usize; 4]> = BTreeMap::new();
    for (plan, case) in cases {
        let row = table.entry((plan.whose, plan.site, plan.trouble)).or_default();
        row[case.stood as usize] += 1;
        row[3] += usize::from(!case.wrong.is_empty());
    }
    println!("I/O errors: {} calls, {} cases", calls.values().sum::<usize>(), cases.len());
    for ((whose, site, trouble), [unnoticed, refused, stopped, wrong]) in table {
        println!(
            "I/O errors, {whose:?} {site:?} {trouble:?}: unnoticed {unnoticed}, refused {refused}, stopped {stopped}, wrong {wrong}"
        );
    }
}

fn wrong(cases: &[(Plan, Case)]) -> Vec<String> {
    let wrong = cases.iter().filter(|(_, case)| !case.wrong.is_empty());
    wrong.map(|(plan, case)| format!("{plan:?}: {:?}", case.wrong)).collect()
}

#[test]
fn whatever_call_fails_what_was_answered_is_there_and_nothing_else_by_half() {
    count_panics();
    let well = live(None, None);
    assert!(well.refused.is_empty(), "{:?}", well.refused);
    let asked = number("IO_ERRORS_CASES", CASES);
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests asks for more")]
    let plans = match std::env::var("IO_ERRORS").as_deref() {
        Ok("all") => every(&well.calls),
        _ => some(&well.calls, asked),
    };
    let cases = all(&plans, None, false);
    say(&well.calls, &cases);
    let wrong = wrong(&cases);
    assert!(
        wrong.is_empty(),
        "{} of {}: {:#?}",
        wrong.len(),
        cases.len(),
        &wrong[..wrong.len().min(5)]
    );
}

/// A seed found both: a kept blob whose store went on, and a full disk whose names were asked for again.
#[test]
fn names_whose_sync_failed_are_never_asked_for_again_and_believed() {
    count_panics();
    let well = live(None, None);
    let (site, whose, for_ever) = (Site::SyncFolder, Whose::Ours, false);
    let plans: Vec<Plan> = (0..well.calls[&(site, whose)])
        .flat_map(|nth| {
            [Trouble::Io, Trouble::Full].map(|trouble| Plan { site, whose, nth, trouble, for_ever })
        })
        .collect();
    let wrong = wrong(&all(&plans, None, false));
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), plans.len());
}

#[test]
fn a_store_that_did_not_hear_an_error_would_be_found() {
    count_panics();
    let well = live(None, None);
    let deafness = [
        (Deaf::Rename, Site::Rename, Whose::Ours),
        (Deaf::Sync, Site::Sync, Whose::Ours),
        (Deaf::SyncFolder, Site::SyncFolder, Whose::Ours),
        (Deaf::SqliteSync, Site::Sync, Whose::Sqlite),
        (Deaf::SqliteWrite, Site::Write, Whose::Sqlite),
    ];
    for (deaf, site, whose) in deafness {
        let all_of_kind = 0..well.calls[&(site, whose)];
        let (trouble, for_ever) = (Trouble::Io, false);
        let mut plans: Vec<Plan> =
            all_of_kind.map(|nth| Plan { site, whose, nth, trouble, for_ever }).collect();
        let mut dice = Dice(1);
        plans.sort_by_cached_key(|_| dice.next());
        let cases = all(&plans, Some(deaf), true);
        assert!(!wrong(&cases).is_empty(), "nobody finds a store that is deaf: {deaf:?}");
    }
}
