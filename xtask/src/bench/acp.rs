//! `cargo xtask bench acp`: one run of the same scripted ACP agent through us and through others that
//! drive ACP agents, by turns, with the updates that got lost beside the time.
//!
//! The agent says its updates as fast as it can, each as a message of its own and with a number, so
//! that whatever comes out can be counted. `peers` drives the others, `ours` the product, `tally`
//! counts, `page` says what came of it. Peers are installed pinned, then everything runs where no
//! network but loopback exists. One that does not install or run is told with its own words.

pub mod agent;
mod http;
mod ours;
mod page;
mod peers;
mod tally;

use super::figures::Pairs;
use super::{Programs, own_path, said, succeed};
use crate::agents::install;
use page::Row;
use std::path::Path;
use std::process::Command;
use tally::Timed;
use testkit::agents::{NODE, home};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    rounds: usize,
    updates: u32,
}

/// What counts.
const WHOLE: Size = Size { rounds: 7, updates: 20_000 };
/// Whether everything runs, and nothing more.
const QUICK: Size = Size { rounds: 1, updates: 2_000 };
/// The longest one run of anybody may take.
const RUN_SEC: u64 = 300;

/// Installs the peers, then goes on without a network.
pub fn run(words: &[&str]) -> Result<(), String> {
    let pins: Vec<_> = [NODE].into_iter().chain(peers::PINS).collect();
    let failed = install::all(&home()?, &pins)?;
    let python = testkit::python().ok_or("no python3: it closes the network")?;
    let mut alone = Command::new(python);
    alone
        .arg(testkit::model::scripts().join("loopback_only.py"))
        .arg(own_path()?)
        .args(["bench-built", "acp-alone"])
        .args(words)
        .env(NOT_INSTALLED, failed.join(", "));
    succeed(&mut alone)
}

/// The peers that did not install, for the part of the bench that has no network.
const NOT_INSTALLED: &str = "OSTLER_PEERS_NOT_INSTALLED";

/// One way of driving the agent, ours or a peer's.
trait Driver {
    /// One run, from the wish to the last that comes out.
    fn run(&mut self) -> Result<Timed, String>;
}

/// A peer, and ours beside it in the same manner.
struct Pair {
    peer: &'static str,
    how: &'static str,
    theirs: Result<Box<dyn Driver>, String>,
    ours: Box<dyn Driver>,
}

/// Measures, with no network but loopback.
pub fn alone(root: &Path, programs: &Programs, words: &[&str]) -> Result<(), String> {
    let home = home()?;
    let size = if words.contains(&"--quick") { QUICK } else { WHOLE };
    let updates = size.updates;
    let missing = std::env::var(NOT_INSTALLED).unwrap_or_default();
    let agent = [programs.xtask.display().to_string(), agent::args(updates).join(" ")].join(" ");
    let peer = |id: &str, start: &dyn Fn() -> Result<Box<dyn Driver>, String>| match missing
        .split(", ")
        .find(|failed| failed.split(' ').next() == Some(id))
    {
        Some(failed) => Err(format!("did not install: {failed}")),
        None => start(),
    };
    let mut pairs = vec![
        Pair {
            peer: "acpx, one-shot",
            how: "`acpx exec` against `ostler run`, from start to exit",
            theirs: peer("acpx", &|| Ok(Box::new(peers::OneShot::new(&home, &agent, updates)?))),
            ours: Box::new(ours::OneShot::new(programs, &agent, updates)),
        },
        Pair {
            peer: "acpx, persistent",
            how: "`acpx prompt` in a session that is open against `ostler run` where a host is there",
            theirs: peer("acpx", &|| Ok(Box::new(peers::Persistent::new(&home, &agent, updates)?))),
            ours: Box::new(ours::Hosted::new(programs, &agent, updates)?),
        },
        Pair {
            peer: "sandbox-agent",
            how: "HTTP and server-sent events of a running server, from the first request to the \
                  last event, on both sides",
            theirs: peer("sandbox-agent", &|| {
                Ok(Box::new(peers::Sandbox::new(&home, &agent, updates)?))
            }),
            ours: Box::new(ours::Served::new(programs, &agent, updates)?),
        },
    ];
    println!("acp: {} rounds of {updates} updates, peers by turns", size.rounds);
    let mut rows: Vec<Row> = pairs.iter().map(|pair| Row::new(pair.peer, pair.how)).collect();
    for (pair, row) in pairs.iter_mut().zip(&mut rows) {
        // Once without a clock: nobody is measured with cold files.
        warm(pair, row);
    }
    for round in 1..=size.rounds {
        for (pair, row) in pairs.iter_mut().zip(&mut rows) {
            measured(pair, row)?;
            println!("  {round} {}", row.last());
        }
    }
    drop(pairs);
    let table = page::table(size, &rows);
    println!("\n{table}");
    if words.contains(&"--write") {
        page::write(root, &table)?;
    }
    // Times are never asserted; that nothing of ours is lost is.
    match rows.iter().map(|row| row.lost_by_us).sum::<usize>() {
        0 => Ok(()),
        lost => Err(format!("{lost} updates were lost by us")),
    }
}

fn warm(pair: &mut Pair, row: &mut Row) {
    let tried = match &mut pair.theirs {
        Ok(theirs) => theirs.run().map(|_| ()),
        Err(why) => Err(why.clone()),
    };
    row.trouble = tried.err();
}

fn measured(pair: &mut Pair, row: &mut Row) -> Result<(), String> {
    let ours = pair.ours.run().map_err(said(format!("ours beside {}", pair.peer)))?;
    row.lost_by_us += ours.tally.wrong();
    let theirs = match (&mut pair.theirs, &row.trouble) {
        (Ok(theirs), None) => theirs.run(),
        (Ok(_) | Err(_), _) => return Ok(()),
    };
    match theirs {
        Ok(theirs) => {
            row.lost_by_peer += theirs.tally.wrong();
            row.pairs.push(ours.wall_ms, theirs.wall_ms);
        }
        Err(why) => row.trouble = Some(why),
    }
    Ok(())
}

/// Ours first, then theirs: the ratio says how many times faster we are.
type Faster = Pairs;
