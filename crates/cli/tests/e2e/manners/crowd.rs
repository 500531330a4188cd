//! Many short runs, one after the other and several at once: whatever a host takes for a run it gives
//! back. Two hundred every day, five thousand with `MANNERS=all`.

use super::stage::{Stage, children, holdings, memory_kb};
use super::{Row, SUCCESS, all, nothing_else};
use crate::ostler::BOUND_MS;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::until;

const RUNS: usize = 200;
const RUNS_MANY: usize = 5_000;
/// Enough that whatever is made once is made.
const WARM_UP: usize = 20;
const AT_ONCE: usize = 4;

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
    until("files, threads and children to be given back", BOUND_MS, || {
        let (fds_now, threads_now) = holdings(pid);
        (fds_now <= fds && threads_now <= threads && children(pid).is_empty()).then_some(())
    });
    let after = holdings(pid);
    eprintln!(
        "{runs} runs: {fds} files and {threads} threads before, {} and {} after; {before_kb} kB before, {} kB after",
        after.0,
        after.1,
        memory_kb(pid, "VmRSS")
    );
    stage.close();
}
