//! What one event of 300 bytes costs when its agent is on another machine: the same events through
//! the same `ostler serve`, from a remote by HTTP and from a process, which is the floor. A remote here
//! is a thread of this process that has its stream ready, in writes of one event and of 64 KiB; its own
//! work is not counted, as an agent's is not. A remote run is timed from its request on, its session
//! included; a process from its first line on.

use super::agent::{self, LINE_BYTES, Writes};
use super::figures::{Bound, Pairs};
use super::report::Report;
use super::serve::Serve;
use super::usage::{self, Cost};
use super::{Programs, adapter, pipeline, said};
use contract::plan::{Adapter, Remote};
use runtimes::Runtime as _;
use testkit::remote::{self, Script, Step};

const ROUNDS: usize = 7;
const EVENTS: u64 = 100_000;

pub fn run(programs: &Programs, report: &mut Report) -> Result<(), String> {
    let how = format!("{EVENTS} events of 300 B, {ROUNDS} rounds of process, remote");
    report.begin("remote", &how);
    for writes in Writes::ALL {
        let mut pairs = <[Pairs; 2]>::default();
        let mut serve = Serve::start(programs)?;
        let far = remote::Remote::play(script(writes)?);
        for _ in 0..ROUNDS {
            let floor = pipeline::product(programs, &mut serve, writes, EVENTS)?;
            pipeline::push(&mut pairs, floor, elsewhere(&mut serve, &far)?);
        }
        let [cpu, wall] = &pairs;
        let bound = Bound::AtMost { gate: 1.5, goal: 1.2 };
        let name = |what: &str| format!("remote {what} an event, writes of {}", writes.word());
        report.ratio(&name("wall time"), "ns", wall, bound);
        report.ratio(&name("CPU"), "ns", cpu, Bound::None);
    }
    Ok(())
}

/// One run of the remote through the server. The server waits for the keeper and the keeper for its
/// courier, so the server's books hold all three.
fn elsewhere(serve: &mut Serve, far: &remote::Remote) -> Result<Cost, String> {
    let remote = Remote { base_url: far.url(), ..Remote::default() };
    let adapter = Adapter {
        name: "far".to_owned(),
        runtime: runtimes::remote::ByHttp.card().id,
        remote: Some(remote),
        env: adapter::secrets(),
        trace: true,
        mcp: true,
        ..Adapter::default()
    };
    let (before_ns, began_ns) = (usage::family_cpu_ns(serve.pid())?, usage::now_ns());
    let run = serve.run_by(&adapter)?;
    let row = serve.settled(&run)?;
    let (ended_ns, after_ns) = (usage::now_ns(), usage::family_cpu_ns(serve.pid())?);
    let head = row["head_seq"].as_u64().unwrap_or(0);
    if row["outcome"] != "succeeded" || head < EVENTS {
        return Err(format!("the run has {head} events: {row}"));
    }
    Ok(Cost::per(EVENTS, after_ns - before_ns, 0, ended_ns - began_ns))
}

/// The agent's lines as the stream of a session.
fn script(writes: Writes) -> Result<Script, String> {
    let mut lines = Vec::new();
    agent::say(&mut lines, Writes::Blocks, EVENTS).map_err(said("making events"))?;
    lines.extend_from_slice(agent::DONE);
    let events = lines.split_inclusive(|byte| *byte == b'\n').zip(1..);
    let mut steps = Vec::new();
    let mut block = Vec::new();
    for (line, id) in events {
        block.extend_from_slice(format!("id: {id}\ndata: ").as_bytes());
        block.extend_from_slice(line);
        block.push(b'\n');
        if block.len() >= writes.lines_at_once() * LINE_BYTES {
            steps.push(Step::Raw(std::mem::take(&mut block)));
        }
    }
    steps.extend([Step::Raw(block), Step::Hold]);
    Ok(Script::streams(vec![steps]))
}
