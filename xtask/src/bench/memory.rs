//! What the server holds in memory when idle and per live run, and what a keeper costs, all with
//! agents that wait and say nothing. Private dirty is what a process costs beyond the pages it
//! shares with others; RSS counts those too, several times over.

use super::figures::{Bound, high, median};
use super::report::Report;
use super::serve::Serve;
use super::usage::{Memory, children_named};
use super::{Programs, said};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::until;

const RUNS: usize = 50;
/// Started before the measured ones, so that what is paid once is not counted per run.
const WARM_UP: usize = 10;
/// Time for the last lines and commits after the agents are up.
const CALM: Duration = Duration::from_millis(1_500);
const PATIENCE_MS: u64 = 60_000;
/// What a keeper without a plan is called.
const SPARE: &str = "spare keeper";

pub fn run(programs: &Programs, report: &mut Report) -> Result<(), String> {
    report.begin("memory", &format!("idle, then {WARM_UP} and {RUNS} more agents that wait"));
    // Pages of a program that was just linked count as dirty until they are written back.
    let program = std::fs::File::open(&programs.ostler).map_err(said("opening the program"))?;
    program.sync_all().map_err(said("writing the program back"))?;
    let mut serve = Serve::start(programs)?;
    std::thread::sleep(CALM);
    let idle = Memory::of(serve.pid())?;
    let spare = spare(serve.pid())?;
    serve.ask("GET", "/api/v1/prices?model=none", "")?;
    std::thread::sleep(CALM);
    let priced = Memory::of(serve.pid())?;
    let warm = grow(programs, &mut serve, WARM_UP)?;
    let full = grow(programs, &mut serve, WARM_UP + RUNS)?;
    let keepers = children_named(serve.pid(), "keep");
    let keepers: Vec<f64> = keepers.into_iter().map(keeper_kb).collect::<Result<_, _>>()?;

    let idle_bound = Bound::AtMost { gate: 25.0, goal: 12.0 };
    report.figure("idle server, RSS", "MB", idle.resident_kb / 1024.0, idle_bound);
    report.figure("idle server, private dirty", "MB", idle.private_dirty_kb / 1024.0, Bound::None);
    for (what, kb) in ["dirty", "all its pages"].iter().zip(spare) {
        let name = format!("its spare keeper with its guard, {what}, shared ones by their part");
        report.figure(&name, "kB", kb, Bound::None);
    }

    // Held from the first usage on that nothing else gives a price for.
    let table = (priced.private_dirty_kb - idle.private_dirty_kb) / 1024.0;
    report.figure("the built-in prices, once they are needed", "MB", table, Bound::None);

    let growth = |from: Memory, to: Memory, runs: usize| {
        (to.private_dirty_kb - from.private_dirty_kb) / runs as f64
    };
    let run_bound = Bound::AtMost { gate: 64.0, goal: 24.0 };
    report.figure("server growth per live run", "kB", growth(warm, full, RUNS), run_bound);
    let all = growth(priced, full, WARM_UP + RUNS);
    report.figure("the same, the first ones counted too", "kB", all, Bound::None);

    let keeper_bound = Bound::AtMost { gate: 512.0, goal: 160.0 };
    let middle = median(&keepers);
    report.figure("private dirty of a keeper, median of 60", "kB", middle, keeper_bound);
    report.figure("private dirty of a keeper, largest", "kB", high(&keepers), Bound::None);
    Ok(())
}

/// What the keeper holds that waits for a plan, with its guard: dirty pages, and all of them.
fn spare(server: u32) -> Result<[f64; 2], String> {
    let outer = children_named(server, SPARE);
    let inner = outer.iter().flat_map(|pid| children_named(*pid, SPARE));
    let all: Vec<u32> = outer.iter().copied().chain(inner).collect();
    if all.is_empty() {
        return Err("an idle server has no spare keeper".to_owned());
    }
    let held: Vec<Memory> = all.into_iter().map(Memory::of).collect::<Result<_, _>>()?;
    let sum = |of: fn(&Memory) -> f64| held.iter().map(of).sum();
    Ok([sum(|held| held.own_dirty_kb), sum(|held| held.proportional_kb)])
}

/// What a keeper holds dirty, with its guard where it has one: pages that only these two share are
/// nobody's private ones, so each is given its part of them.
fn keeper_kb(pid: u32) -> Result<f64, String> {
    let mut sum = Memory::of(pid)?.own_dirty_kb;
    for inner in children_named(pid, "keep") {
        sum += Memory::of(inner)?.own_dirty_kb;
    }
    Ok(sum)
}

/// Starts agents until `total` live, and measures the server when all is calm.
fn grow(programs: &Programs, serve: &mut Serve, total: usize) -> Result<Memory, String> {
    let live = children_named(serve.pid(), "keep").len();
    for _ in live..total {
        serve.run(&programs.fake_agent, vec!["--wait-shutdown".to_owned()], BTreeMap::new())?;
    }
    until("all keepers", PATIENCE_MS, || {
        (children_named(serve.pid(), "keep").len() == total).then_some(())
    });
    std::thread::sleep(CALM);
    Memory::of(serve.pid())
}
