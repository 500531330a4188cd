//! What one event of 300 bytes costs: the adapter (keeper, spool, dialect, seal) and the whole
//! product (`ostler serve` with its store, nobody watching), each beside the floor, with writes of
//! one line and of 64 KiB. CPU of keeper and server is counted together; the agent's own is not.

use super::agent::{self, Note, Writes};
use super::figures::{Bound, Pairs, median};
use super::report::Report;
use super::serve::Serve;
use super::usage::{self, Cost};
use super::{Programs, adapter, floor};

const ROUNDS: usize = 7;
const EVENTS: u64 = 300_000;

pub fn run(programs: &Programs, report: &mut Report) -> Result<(), String> {
    let how =
        format!("{EVENTS} events of 300 B, {ROUNDS} rounds of floor, adapter, floor, product");
    report.begin("pipeline", &how);
    for writes in Writes::ALL {
        let (mut adapter_pairs, mut product_pairs) = <([Pairs; 2], [Pairs; 2])>::default();
        let mut keepers = Vec::new();
        let mut serve = Serve::start(programs)?;
        for _ in 0..ROUNDS {
            let floor = floor::run(programs, writes, EVENTS)?;
            let ours = adapter::run(programs, writes, EVENTS)?;
            keepers.push(ours.keeper_ns);
            push(&mut adapter_pairs, floor, ours);
            let floor = floor::run(programs, writes, EVENTS)?;
            push(&mut product_pairs, floor, product(programs, &mut serve, writes, EVENTS)?);
        }
        let name = |what: &str| format!("{what}, writes of {}", writes.word());
        let [cpu, wall] = &adapter_pairs;
        let bound = Bound::AtMost { gate: 3.0, goal: 1.5 };
        report.ratio(&name("adapter CPU an event"), "ns", cpu, bound);
        report.figure(&name("of it the keeper"), "ns", median(&keepers), Bound::None);
        report.ratio(&name("adapter wall time"), "ns", wall, Bound::None);
        let [cpu, wall] = &product_pairs;
        report.ratio(&name("product CPU an event, durable"), "ns", cpu, Bound::None);
        report.ratio(&name("product wall time, durable"), "ns", wall, Bound::None);
    }
    Ok(())
}

pub fn push([cpu, wall]: &mut [Pairs; 2], floor: Cost, ours: Cost) {
    cpu.push(floor.cpu_ns, ours.cpu_ns);
    wall.push(floor.wall_ns, ours.wall_ns);
}

/// One run through the server, by a process. The server waits for its keeper and the keeper for its agent, so
/// the server's books hold all three; the agent says what was its own.
pub fn product(
    programs: &Programs,
    serve: &mut Serve,
    writes: Writes,
    events: u64,
) -> Result<Cost, String> {
    let note = serve.instance.root().join("note");
    let before_ns = usage::family_cpu_ns(serve.pid())?;
    let run = serve.run(&programs.xtask, agent::args(writes, events, &note), adapter::secrets())?;
    let row = serve.settled(&run)?;
    let (ended_ns, after_ns) = (usage::now_ns(), usage::family_cpu_ns(serve.pid())?);
    let head = row["head_seq"].as_u64().unwrap_or(0);
    if row["outcome"] != "succeeded" || head < events {
        return Err(format!("the run has {head} events: {row}"));
    }
    let Note { began_ns, cpu_ns } = Note::read(&note)?;
    let cpu_ns = (after_ns - before_ns).saturating_sub(cpu_ns);
    Ok(Cost::per(events, cpu_ns, 0, ended_ns - began_ns))
}
