//! Many short runs, one after the other and several at once: whatever a host takes for a run it gives
//! back. Two hundred every day, five thousand with `MANNERS=all`.

use super::stage::{Stage, children, holdings, memory_kb};
use super::{Row, SUCCESS, all, nothing_else};
use crate::ostler::BOUND_MS;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::until;

const RUNS: usize = 200;
const RUNS_MANY: usize = 5_000;
/// Enough that whatever is made once is made.
const WARM_UP: usize = 20;
const AT_ONCE: usize = 4;
/// Threads beside those of the warm-up: what blocks is done by as many as were needed at once, and one
/// more than before was seen a minute later. One thread left by each run would be far more.
const THREADS_MORE_MAX: usize = 16;
/// Files that a host may have open beside those of the warm-up: the store opens its readers as they
/// are needed, two files each, and keeps a few. One file left by each run would be far more.
const FILES_MORE_MAX: usize = 16;

const ROWS: &[Row] = &[Row::fake("short", &[], SUCCESS, nothing_else)];

fn run_many(stage: &Stage, count: usize) {
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while done.fetch_add(1, Ordering::Relaxed) < count {
                    let said = stage.run("row-0", "x");
                    assert_eq!(said.code, 0, "{said:?}");
                }
            });
        }
    });
}

#[test]
fn after_many_short_runs_the_host_holds_what_it_held_before() {
    let stage = Stage::of(ROWS);
    let pid = stage.host_pid();
    run_many(&stage, WARM_UP);
    until("the first keepers to be gone", BOUND_MS, || children(pid).is_empty().then_some(()));
    let ((fds, threads), before_kb) = (holdings(pid), memory_kb(pid, "VmRSS"));
    let runs = if all() { RUNS_MANY } else { RUNS };
    run_many(&stage, runs);
    let began = Instant::now();
    let after = loop {
        let (now, kids) = (holdings(pid), children(pid));
        if now.0 <= fds + FILES_MORE_MAX && now.1 <= threads + THREADS_MORE_MAX && kids.is_empty() {
            break now;
        }
        let patient = began.elapsed() < Duration::from_millis(BOUND_MS);
        assert!(patient, "{fds} files, {threads} threads before, {now:?} after, {kids:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    eprintln!(
        "{runs} runs: {fds} files and {threads} threads before, {} and {} after; {before_kb} kB before, {} kB after",
        after.0,
        after.1,
        memory_kb(pid, "VmRSS")
    );
    stage.close();
}
