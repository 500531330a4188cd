//! Disks change what they hold. Here single bits are flipped, and sectors lost, in copies of a filled
//! store: in its database, its log, its blobs and its traces. Whatever was hit, nothing panics, and
//! what comes of it is counted: the store refuses, says an error, the checker complains, everything
//! read is right all the same, or it is wrong and nobody says so. `docs/corruption.md` has the counts.
//!
//! `CORRUPT_FLIPS` asks for more of them, `CORRUPT_SEED` for others.

use super::envelope;
use super::powercut::{Dice, in_memory, number, spare_reserve};
use crate::conformance::{Holder, NOW, claim_of, new_task, next_uuid, wish};
use crate::*;
use contract::event::{Body, Log, Stream, Totals};
use contract::limits::TEXT_BYTES_MAX;
use contract::{CommandId, NanoUsd, TaskState, Tokens, Wish};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

const FLIPS: usize = 320;
/// More rows than there are.
const ALL: usize = 500;
const SECTOR_BYTES: usize = 512;
/// The threads on which the store is read here.
const READERS: &str = "corrupted";

/// What became of one flip, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It does not open.
    Refused,
    /// Something that was asked for is answered with an error.
    Said,
    /// All that was read is right, and the checker found the place.
    Found,
    /// Nothing that anyone reads was hit.
    Right,
    /// Something that was read is wrong, and only the checker knows.
    FoundLate,
    /// Something that was read is wrong, and nobody knows.
    Silent,
}

/// Files of one kind, so that each is hit as often as it is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Database,
    Log,
    Blob,
    Trace,
}

const KINDS: [(Kind, usize); 4] =
    [(Kind::Database, 60), (Kind::Log, 20), (Kind::Blob, 10), (Kind::Trace, 10)];

/// Runs that said much, some ended; tasks, wishes, comments, books.
async fn fill(store: &Store) {
    let seal = Seal::default();
    for n in 0..8_u64 {
        let task = NewTask { key: Some(format!("key {n}")), ..new_task() };
        let claim = claim_of(task.id, "one");
        let mut held = Holder { task: task.id, run: claim.run, fence: 1, head_seq: 0 };
        store.begin(task, claim, held.batch(&["the first words"])).await.unwrap();
        held.head_seq = 1;
        for round in 0..6 {
            let texts = [0, 1, 2].map(|line| format!("{n} {round} {line} ").repeat(20));
            let mut batch = held.batch(&texts.each_ref().map(String::as_str));
            if round == 3 {
                let text = format!("{n} long ").repeat(TEXT_BYTES_MAX / 6);
                let body = Body::Log(Log { stream: Stream::Stdout, text, level: None });
                batch.events.push(seal.event(&envelope(&held, held.head_seq + 4), &body, None));
            }
            held.head_seq = store.commit(batch).await.unwrap().head_seq;
        }
        store.command(wish(held.run, Wish::Say { text: format!("go on, {n}") })).await.unwrap();
        let text = seal.given(&format!("comment {n}"));
        let id = CommandId::new(next_uuid());
        let comment = NewComment {
            id,
            task: held.task,
            at: NOW,
            author: "someone".to_owned(),
            text,
            mentions: Vec::new(),
        };
        store.comment(comment).await.unwrap();
        let mut trace = store.new_trace(held.run, 100_000);
        for line in 1..20 {
            let text = seal.line(format!("a line that was heard {line}").as_bytes());
            assert!(trace.hear(Stream::Stdout, line, &text, false));
        }
        trace.write().unwrap();
        trace.sync().unwrap();
        if n % 2 == 0 {
            let tokens = Tokens { input_uncached: 10 + n, output: n, ..Tokens::default() };
            let totals = Totals { tokens, effective_nanousd: Some(NanoUsd(7)) };
            let mut batch = held.settling(TaskState::Done, totals);
            batch.ledger = vec![LedgerRow {
                at: NOW,
                provider: seal.given("provider"),
                model: seal.given("model"),
                tokens,
                nanousd: Some(NanoUsd(7)),
                unpriced: false,
                covers: Covers::Nothing,
                approximate: false,
                replaces: Covers::Nothing,
            }];
            store.commit(batch).await.unwrap();
        }
        store.enqueue(new_task()).await.unwrap();
    }
}

/// Everything that can be read, in words.
async fn read_all(store: &Store) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let tasks = store.tasks(TasksPage { limit: ALL, ..TasksPage::default() }).await?;
    for task in &tasks {
        found.push(format!("{:?}", store.comments_of(task.id).await?));
        found.push(format!("{:?}", store.dependencies(task.id).await?));
        found.push(format!("{:?}", store.runs_of(task.id, ALL).await?));
    }
    found.extend(tasks.iter().map(|task| format!("{task:?}")));
    let runs = RunsPage { before: None, limit: ALL, unsettled_only: false };
    for run in store.runs(runs).await? {
        let mut events = store.events(run.id, 0, ALL).await?;
        while let Some(last) = events.last() {
            let more = store.events(run.id, last.seq, ALL).await?;
            if more.is_empty() {
                break;
            }
            events.extend(more);
        }
        for event in &events {
            let words = String::from_utf8_lossy(&event.bytes).into_owned();
            found.push(format!("{} {words}", event.seq));
            if words.contains("_blob") {
                let whole = store.whole(&event.bytes)?;
                let blob = whole["text_blob"]["hash"].as_str().map(|hash| store.blob(hash));
                // One that is not whole was asked for by its name, as whoever wants it does.
                found.push(format!("{:?} {whole}", blob.transpose()?.is_some()));
            }
        }
        found.push(format!("{:?}", store.inbox(run.id).await?));
        found.push(format!("{:?}", store.plan(run.id).await?));
        found.push(format!("{:?}", store.resume_point(run.id).await?));
        let mut lines = Vec::new();
        if let Some(mut trace) = store.read_trace(run.id)? {
            trace.copy(&mut lines)?;
        }
        found.push(String::from_utf8_lossy(&lines).into_owned());
        found.push(format!("{run:?}"));
    }
    let by = vec![By::Day, By::Agent, By::Model];
    let costs = CostsQuery { by, limit: ALL, ..CostsQuery::default() };
    found.push(format!("{:?}", store.costs(costs).await?));
    found.push(format!("{:?} {:?}", store.heads().await?, store.lines(ALL).await?));
    found.push(format!("{:?} {:?}", store.half_deleted(ALL).await?, store.agents("", ALL).await?));
    found.push(format!("{:?} {:?}", store.quotas("", ALL).await?, store.next_due().await?));
    found.push(format!("{:?}", store.tokens(NOW, None, ALL).await?));
    Ok(found)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn kind(path: &Path) -> Option<Kind> {
    let name = path.to_string_lossy();
    match () {
        () if name.ends_with("ostler.db") => Some(Kind::Database),
        () if name.ends_with("ostler.db-wal") => Some(Kind::Log),
        () if name.contains("/blobs/") => Some(Kind::Blob),
        () if name.contains("/traces/") => Some(Kind::Trace),
        () => None,
    }
}

/// The files of a store as a dead process would leave them, by their names below its folder.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn taken(home: &Path) -> Files {
    let files = files(home).into_iter().filter(|path| kind(path).is_some());
    files
        .map(|path| (path.strip_prefix(home).unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect()
}

fn laid(files: &Files, home: &Path) {
    for (name, bytes) in files {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    spare_reserve(home);
}

/// Hits one place of a file of this kind: a bit, and now and then a sector.
fn hit(files: &mut Files, of: Kind, dice: &mut Dice) -> String {
    let names: Vec<PathBuf> = files
        .iter()
        .filter(|(name, bytes)| kind(&Path::new("/").join(name)) == Some(of) && !bytes.is_empty())
        .map(|(name, _)| name.clone())
        .collect();
    let name = &names[dice.below(names.len())];
    let bytes = files.get_mut(name).unwrap();
    let at = dice.below(bytes.len());
    if dice.below(5) == 0 {
        let from = at / SECTOR_BYTES * SECTOR_BYTES;
        let end = (from + SECTOR_BYTES).min(bytes.len());
        bytes[from..end].fill(0);
        return format!("the sector at {from} of {}", name.display());
    }
    let bit = dice.below(8);
    bytes[at] ^= 1 << bit;
    format!("bit {bit} of byte {at} of {}", name.display())
}

async fn outcome(home: &Path, right: &[String]) -> (Outcome, String) {
    let store = match Store::open(home) {
        Ok(store) => store,
        Err(error) => return (Outcome::Refused, error.to_string()),
    };
    let checked = check(home).unwrap_or_else(|error| vec![error.to_string()]);
    let read = read_all(&store).await;
    store.close().await;
    match (read, checked.first()) {
        (Err(error), _) => (Outcome::Said, error.to_string()),
        (Ok(read), Some(found)) if read == right => (Outcome::Found, found.clone()),
        (Ok(read), None) if read == right => (Outcome::Right, String::new()),
        (Ok(_), Some(found)) => (Outcome::FoundLate, found.clone()),
        (Ok(read), None) => {
            let other = right.iter().zip(&read).find(|(right, read)| right != read);
            let end = |words: &str| words.chars().take(300).collect::<String>();
            let other =
                other.map(|(right, read)| format!("{}\n  became {}", end(right), end(read)));
            (Outcome::Silent, other.unwrap_or_else(|| "rows are missing".to_owned()))
        }
    }
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics of the store's own threads, of which nobody would hear otherwise.
fn count_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        if thread.name().is_some_and(|name| name == READERS || name == "store-writer") {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        before(panic);
    }));
}

#[expect(clippy::print_stdout, reason = "the figures are what the test is run for")]
fn say(tally: &BTreeMap<(Kind, Outcome), usize>) {
    for (kind, _) in KINDS {
        let of = |outcome| tally.get(&(kind, outcome)).copied().unwrap_or(0);
        println!(
            "corruption, {kind:?}: refused {}, said {}, found {}, right {}, found by the checker alone {}, silent {}",
            of(Outcome::Refused),
            of(Outcome::Said),
            of(Outcome::Found),
            of(Outcome::Right),
            of(Outcome::FoundLate),
            of(Outcome::Silent)
        );
    }
}

#[test]
fn a_bit_that_flips_makes_nothing_panic_and_is_noticed_where_it_can_be() {
    count_panics();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .thread_name(READERS)
        .enable_all()
        .build()
        .unwrap();
    let home = in_memory();
    // With its log as it is while someone works, and with everything moved into the database.
    let (with_log, closed, right) = runtime.block_on(async {
        let store = Store::open(home.path()).unwrap();
        fill(&store).await;
        let with_log = taken(home.path());
        let right = read_all(&store).await.unwrap();
        store.close().await;
        (with_log, taken(home.path()), right)
    });
    assert!(with_log[Path::new("ostler.db-wal")].len() > 100_000);
    let mut dice = Dice(number("CORRUPT_SEED", 1) as u64);
    let mut tally = BTreeMap::new();
    for n in 0..number("CORRUPT_FLIPS", FLIPS) {
        let mut draw = dice.below(100);
        let drawn = KINDS.iter().find(|(_, share)| {
            let found = draw < *share;
            draw = draw.saturating_sub(*share);
            found
        });
        let of = drawn.map_or(Kind::Database, |(kind, _)| *kind);
        let mut files = if of == Kind::Log { with_log.clone() } else { closed.clone() };
        let place = hit(&mut files, of, &mut dice);
        let image = in_memory();
        laid(&files, image.path());
        let (outcome, why) = runtime.block_on(outcome(image.path(), &right));
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "flip {n}, {place}: {why}");
        if outcome == Outcome::Silent && number("CORRUPT_TELL", 0) > 0 {
            tell(&format!("silent, {place}: {why}"));
        }
        // A blob is known by its name: not one of them may go wrong unheard.
        assert!(of != Kind::Blob || outcome == Outcome::Said, "{place}: {outcome:?} {why}");
        *tally.entry((of, outcome)).or_default() += 1;
    }
    say(&tally);
}

#[expect(clippy::print_stdout, reason = "someone asked to be told")]
fn tell(what: &str) {
    println!("{what}");
}
