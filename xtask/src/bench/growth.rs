//! Whether an event costs more the more there are: the CPU time of a commit and of reading a page,
//! at a thousand to a million stored events, in one run and over a thousand interleaved ones. The
//! figure is the slope of the logarithms, and 0 is flat. Each point is the mean over the last half
//! decade before it, so that a checkpoint now and then is in all of them.

use super::figures::{Bound, median, slope};
use super::report::Report;
use super::stored::{self, Maker, run_number, wait_for};
use super::{said, usage};
use store::Store;

/// Each is sixteen thousand syncs for each shape; there is no floor to be paired with.
const ROUNDS: usize = 3;
const POINTS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Events of one commit. Half a decade before the first point still holds ten of them.
const BATCH_EVENTS: u64 = 64;
/// Between which many-run histories are spread.
const RUNS: u64 = 1_000;
/// Reads at each point.
const PAGES: u64 = 40;
/// As many as every run has that has any, so that a page is the same work at every point.
const PAGE_EVENTS: u64 = BATCH_EVENTS;

/// Nanoseconds per event at each point.
#[derive(Default)]
struct Costs {
    commit: Vec<(f64, f64)>,
    page: Vec<(f64, f64)>,
}

pub fn run(report: &mut Report) -> Result<(), String> {
    report.begin("growth", &format!("{ROUNDS} rounds, 10³ to 10⁶ events"));
    let bound = Bound::AtMost { gate: 0.15, goal: 0.05 };
    for (runs, what) in [(1, "one run"), (RUNS, "1,000 runs")] {
        let (mut commits, mut pages) = (Vec::new(), Vec::new());
        let mut last = Costs::default();
        for _ in 0..ROUNDS {
            last = grow(runs)?;
            commits.push(slope(&last.commit));
            pages.push(slope(&last.page));
        }
        for (n, ns) in &last.commit {
            println!("  {what}: commit {ns:.0} ns an event up to {n}");
        }
        report.figure(&format!("slope of a commit, {what}"), "", median(&commits), bound);
        report.figure(&format!("slope of reading a page, {what}"), "", median(&pages), bound);
    }
    Ok(())
}

fn grow(runs: u64) -> Result<Costs, String> {
    let dir = tempfile::tempdir().map_err(said("making a directory"))?;
    let store = stored::open(dir.path())?;
    let makers: Vec<Maker> = (0..runs).map(|n| Maker::new(run_number(n))).collect();
    for n in 0..runs {
        stored::admit(&store, run_number(n))?;
    }
    let mut costs = Costs::default();
    let mut heads = vec![0; makers.len()];
    let mut stored = 0;
    for point in POINTS {
        let from = (point as f64 / 10f64.sqrt()) as u64;
        let (mut counted, mut ns) = (0, 0);
        while stored < point {
            let turn = (stored / BATCH_EVENTS) as usize % makers.len();
            let batch = makers[turn].batch(heads[turn] + 1, BATCH_EVENTS);
            let before_ns = usage::own_cpu_ns();
            wait_for(store.commit(batch)).map_err(said("committing"))?;
            let took_ns = usage::own_cpu_ns() - before_ns;
            heads[turn] += BATCH_EVENTS;
            stored += BATCH_EVENTS;
            if stored > from {
                counted += BATCH_EVENTS;
                ns += took_ns;
            }
        }
        costs.commit.push((point as f64, ns as f64 / counted as f64));
        costs.page.push((point as f64, read(&store, &heads)?));
    }
    Ok(costs)
}

/// Nanoseconds per event of reading what came last in each of some runs.
fn read(store: &Store, heads: &[u64]) -> Result<f64, String> {
    let written = heads.iter().filter(|head| **head > 0).count();
    let mut events = 0;
    let before_ns = usage::own_cpu_ns();
    for n in 0..PAGES as usize {
        // Runs are written to in order.
        let turn = (n * 7) % written.max(1);
        let mut after = heads[turn].saturating_sub(PAGE_EVENTS);
        // A page is bounded by its bytes too.
        while after < heads[turn] {
            let page = wait_for(store.events(run_number(turn as u64), after, PAGE_EVENTS as usize));
            let read = page.map_err(said("reading a page"))?.len() as u64;
            if read == 0 {
                break;
            }
            (after, events) = (after + read, events + read);
        }
    }
    let took_ns = usage::own_cpu_ns() - before_ns;
    match events == PAGES * PAGE_EVENTS {
        true => Ok(took_ns as f64 / events as f64),
        false => Err(format!("{PAGES} pages of {PAGE_EVENTS} held {events} events")),
    }
}
