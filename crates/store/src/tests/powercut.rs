//! A power cut takes nothing that was answered. A process that is killed leaves its writes in the
//! page cache, so killing cannot show a sync that is missing; this can. Everything the store does
//! to its disk is written into a log (`powercut/log.rs`), by SQLite through a VFS (`vfs.rs`) and by
//! the store's own files through `disk.rs`. From the log come images of what a disk may hold when
//! the power is cut (`image.rs`), and each is opened and compared with the answers (`work.rs`).
//!
//! `POWERCUT_IMAGES` asks for more of them, `POWERCUT_SEED` for others.

mod errors;
mod faults;
mod image;
mod log;
mod vfs;
mod work;

pub(super) use image::Dice;
pub(crate) use log::{asked, seen};

use contract::limits::STORE_RESERVE_BYTES;
use image::Disk;
use log::{Op, Recording};
use rusqlite::Connection;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use work::{Told, Worker};

const HOME: &str = "data";
const IMAGES: usize = 2_000;

thread_local! {
    static SYNCHRONOUS: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Lets a test show what the store would lose if its connection synced less.
pub(crate) fn weaken(connection: &Connection) -> Result<(), rusqlite::Error> {
    match SYNCHRONOUS.get() {
        Some(weaker) => connection.pragma_update(None, "synchronous", weaker),
        None => Ok(()),
    }
}

/// One piece of work, as it was seen and as it was answered.
struct Record {
    ops: Vec<Op>,
    names: BTreeMap<u32, PathBuf>,
    told: Told,
}

/// What is done while the power is cut.
enum Work {
    Runs,
    Deletion,
    Copying,
}

fn record(work: Work, synchronous: Option<&'static str>) -> Record {
    vfs::install();
    let root = in_memory();
    // SQLite tells its files by their real paths.
    let root_path = root.path().canonicalize().unwrap();
    let recording = Recording::start(&root_path);
    let mut worker = Worker { recording: &recording, told: Told::default() };
    SYNCHRONOUS.set(synchronous);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = root_path.join(HOME);
    let worked = runtime.block_on(async {
        match work {
            Work::Runs => worker.work(&home).await,
            Work::Deletion => worker.delete(&home).await,
            Work::Copying => worker.copy(&home).await,
        }
    });
    worked.unwrap();
    SYNCHRONOUS.set(None);
    let told = worker.told;
    let (ops, names) = recording.stop();
    Record { ops, names, told }
}

#[derive(Debug, Default)]
struct Tally {
    images: usize,
    /// Images that do not keep what was answered, or are not sound.
    lost: usize,
    first: Option<String>,
}

/// A memory file system, if there is one: the power is cut in the log, not on the disk.
pub(super) fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    TempDir::new_in(memory).or_else(|_| TempDir::new()).unwrap()
}

/// A reserve that takes no room: what it is for is shown elsewhere.
pub(super) fn spare_reserve(home: &Path) {
    if let Ok(reserve) = File::create(home.join("reserve")) {
        reserve.set_len(STORE_RESERVE_BYTES).unwrap();
    }
}

pub(super) fn number(name: &str, or: usize) -> usize {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests asks for more")]
    std::env::var(name).map_or(or, |given| given.parse().expect("a number"))
}

/// Where to cut: anywhere, and every second time right after an answer, which is the worst.
fn cuts(ops: &[Op], from: usize, images: usize, seed: u64) -> Vec<(usize, u64)> {
    let mut dice = Dice(seed);
    let answered = |(at, op): (usize, &Op)| matches!(op, Op::Answer).then_some(at + 1);
    let answers: Vec<usize> = ops.iter().enumerate().skip(from).filter_map(answered).collect();
    let mut cuts: Vec<(usize, u64)> = (0..images)
        .map(|n| match n % 2 {
            0 => (answers[dice.below(answers.len())], dice.next()),
            _ => (from + dice.below(ops.len() + 1 - from), dice.next()),
        })
        .collect();
    cuts.sort_unstable();
    cuts
}

/// Cuts the power at many moments from this step on, and counts the images that lost something.
fn torment(ops: &[Op], from: usize, told: &Told, images: usize, until_lost: bool) -> Tally {
    let seed = number("POWERCUT_SEED", 1) as u64;
    let cuts = cuts(ops, from, images, seed);
    let tally = Mutex::new(Tally::default());
    let enough = AtomicBool::new(false);
    let every_second = |half: usize| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut disk, mut at, mut answers) = (Disk::default(), 0, 0);
        for (cut, seed) in cuts.iter().skip(half).step_by(2) {
            if enough.load(Ordering::Relaxed) {
                break;
            }
            for op in &ops[at..*cut] {
                disk.follow(op);
                answers += usize::from(matches!(op, Op::Answer));
            }
            at = *cut;
            let image = in_memory();
            disk.cut(&mut Dice(*seed), image.path());
            let home = image.path().join(HOME);
            spare_reserve(&home);
            spare_reserve(&image.path().join(work::COPY));
            let complaints = runtime.block_on(work::complaints(&home, told, answers));
            let mut tally = tally.lock().unwrap();
            tally.images += 1;
            if let Some(first) = complaints.first() {
                tally.lost += 1;
                let of = complaints.len();
                tally.first.get_or_insert_with(|| {
                    format!("cut after step {cut}, {answers} answers, {of} complaints: {first}")
                });
                enough.store(until_lost, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| every_second(0));
        every_second(1);
    });
    tally.into_inner().unwrap()
}

#[expect(clippy::print_stdout, reason = "the figures are what the test is run for")]
fn say(what: &str, tally: &Tally) {
    println!("power cut, {what}: images {}, lost {}", tally.images, tally.lost);
}

#[test]
fn a_power_cut_takes_nothing_that_was_answered() {
    let Record { ops, told, .. } = record(Work::Runs, None);
    let tally = torment(&ops, told.prepared, &told, number("POWERCUT_IMAGES", IMAGES), false);
    say("as it is", &tally);
    assert_eq!(tally.lost, 0, "{:?}", tally.first);
}

#[test]
fn a_power_cut_brings_nothing_back_that_was_purged() {
    let Record { ops, told, .. } = record(Work::Deletion, None);
    let tally = torment(&ops, told.prepared, &told, number("POWERCUT_IMAGES", IMAGES) / 5, false);
    say("deleting", &tally);
    assert_eq!(tally.lost, 0, "{:?}", tally.first);
}

#[test]
fn a_power_cut_takes_nothing_of_a_copy_that_was_made() {
    let Record { ops, told, .. } = record(Work::Copying, None);
    let tally = torment(&ops, told.prepared, &told, number("POWERCUT_IMAGES", IMAGES) / 5, false);
    say("copying", &tally);
    assert_eq!(tally.lost, 0, "{:?}", tally.first);
}

#[test]
fn folders_on_the_way_to_a_new_one_have_names_that_last() {
    let root = in_memory();
    let root_path = root.path().canonicalize().unwrap();
    let recording = Recording::start(&root_path);
    crate::disk::make_folder(&root_path.join("a/b/c")).unwrap();
    let (ops, _) = recording.stop();
    let synced = |op: &Op| match op {
        Op::SyncFolder { path, .. } => Some(path.display().to_string()),
        _ => None,
    };
    // The name of the last one is for the caller to make durable.
    assert_eq!(ops.iter().filter_map(synced).collect::<Vec<_>>(), ["", "a"]);
}

#[test]
fn a_store_that_synced_less_would_lose_what_was_answered() {
    for weaker in ["NORMAL", "OFF"] {
        let Record { ops, told, .. } = record(Work::Runs, Some(weaker));
        let tally = torment(&ops, told.prepared, &told, 200, false);
        say(&format!("synchronous={weaker}"), &tally);
        assert!(tally.lost > 0, "the instrument is blind to synchronous={weaker}");
    }
}

/// Every kind of sync the store relies on, and how to know it in the log.
type Known = fn(&Op, &BTreeMap<u32, PathBuf>) -> bool;

fn of_file(op: &Op, names: &BTreeMap<u32, PathBuf>, is: impl Fn(&str) -> bool) -> bool {
    matches!(op, Op::Sync { file } if is(&names[file].to_string_lossy()))
}

fn of_folder(op: &Op, is: impl Fn(&Path) -> bool) -> bool {
    matches!(op, Op::SyncFolder { path, .. } if is(path))
}

const SYNCS: [(&str, Known); 9] = [
    ("the log", |op, names| of_file(op, names, |name| name.ends_with("-wal"))),
    ("the database", |op, names| of_file(op, names, |name| name.ends_with(".db"))),
    ("a blob", |op, names| of_file(op, names, |name| name.starts_with("data/blobs/"))),
    ("a shelf of blobs", |op, _| {
        of_folder(op, |path| path.parent() == Some("data/blobs".as_ref()))
    }),
    ("the folder of shelves", |op, _| of_folder(op, |path| path == Path::new("data/blobs"))),
    ("a trace", |op, names| of_file(op, names, |name| name.starts_with("data/traces/"))),
    ("the folder of traces", |op, _| of_folder(op, |path| path == Path::new("data/traces"))),
    ("the data directory", |op, _| of_folder(op, |path| path == Path::new(HOME))),
    ("the folder above it", |op, _| of_folder(op, |path| path == Path::new(""))),
];

/// The same of a copy while it grows.
const COPY_SYNCS: [(&str, Known); 7] = [
    ("its database", |op, names| of_file(op, names, |name| in_copy(name, "ostler.db"))),
    ("its blobs", |op, names| of_file(op, names, |name| in_copy(name, "blobs/"))),
    ("its traces", |op, names| of_file(op, names, |name| in_copy(name, "traces/"))),
    ("its shelves", |op, _| of_folder(op, |path| in_copy(&path.to_string_lossy(), "blobs/"))),
    ("its folder of shelves", |op, _| {
        of_folder(op, |path| path.ends_with("blobs") && in_copy(&path.to_string_lossy(), "blobs"))
    }),
    ("its folder of traces", |op, _| {
        of_folder(op, |path| in_copy(&path.to_string_lossy(), "traces"))
    }),
    ("its own folder", |op, _| of_folder(op, |path| path.extension() == Some("part".as_ref()))),
];

fn in_copy(name: &str, begins: &str) -> bool {
    name.split_once(".part/").is_some_and(|(_, inside)| inside.starts_with(begins))
}

#[test]
fn without_any_one_of_its_syncs_the_store_would_lose_what_was_answered() {
    depends_on_each(&record(Work::Runs, None), &SYNCS);
}

#[test]
fn without_any_one_of_its_syncs_a_copy_would_lose_a_part() {
    let copied = record(Work::Copying, None);
    depends_on_each(&copied, &COPY_SYNCS);
    // By which the name lasts that it gets in the end: the last one of that folder.
    let above = |op: &Op| of_folder(op, |path| path == Path::new(""));
    let last = copied.ops.iter().rposition(above).unwrap();
    assert!(last > copied.told.prepared);
    depends_on(&copied, "the folder above a copy", |at, _| at == last);
}

#[test]
fn without_any_one_of_its_syncs_what_was_purged_would_come_back() {
    let deleted = record(Work::Deletion, None);
    let removing = after_removals(&deleted.ops);
    for (what, within) in [("a shelf", "data/blobs"), ("the folder of traces", "data")] {
        let left_out = |at, op: &Op| {
            removing[at] && of_folder(op, |path| path.parent() == Some(within.as_ref()))
        };
        depends_on(&deleted, &format!("{what} after a removal"), left_out);
    }
    // What is left of the rest is in the database: that a run is hidden, and that it is wholly gone.
    let prepared = deleted.told.prepared;
    let log = |op: &Op| of_file(op, &deleted.names, |name| name.ends_with("-wal"));
    depends_on(&deleted, "the log while it deletes", |at, op| at >= prepared && log(op));
}

/// For each step, whether it syncs a folder in which something was removed last.
fn after_removals(ops: &[Op]) -> Vec<bool> {
    let mut removed = BTreeMap::new();
    ops.iter()
        .map(|op| match op {
            Op::Name { folder, .. } => {
                removed.insert(*folder, false);
                false
            }
            Op::Unname { folder, .. } => {
                removed.insert(*folder, true);
                false
            }
            Op::SyncFolder { folder, .. } => removed.remove(folder) == Some(true),
            _ => false,
        })
        .collect()
}

fn depends_on_each(record: &Record, syncs: &[(&str, Known)]) {
    for (what, known) in syncs {
        depends_on(record, what, |_, op| known(op, &record.names));
    }
}

/// Leaves out steps, by their places, and looks for what is lost then.
fn depends_on(record: &Record, what: &str, left_out: impl Fn(usize, &Op) -> bool) {
    let Record { ops, told, .. } = record;
    let kept = ops.iter().enumerate().filter(|(at, op)| !left_out(*at, op));
    let kept: Vec<(usize, Op)> = kept.map(|(at, op)| (at, op.clone())).collect();
    assert!(kept.len() < ops.len(), "{what} is never synced");
    let from = kept.iter().take_while(|(at, _)| *at < told.prepared).count();
    let without: Vec<Op> = kept.into_iter().map(|(_, op)| op).collect();
    let tally = torment(&without, from, told, IMAGES, true);
    say(&format!("without the sync of {what}"), &tally);
    assert!(tally.lost > 0, "nothing depends on the sync of {what}");
}
