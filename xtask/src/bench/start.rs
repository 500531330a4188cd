//! From a request to the agent's first own act. Floor: one durable append of 4 kB, then a bare spawn
//! with three pipes. Ours: a request to a running server. The agent is a shell on both sides, and
//! its first act is to write into a named pipe, where one thread notes the time.

use super::figures::{Bound, Pairs, median, percentile};
use super::report::Report;
use super::serve::Serve;
use super::{Programs, said, usage};
use rustix::fs::{CWD, FileType, Mode};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// Medians are taken within a block, and pairs are made of blocks.
const BLOCKS: usize = 8;
const ROUNDS: usize = 12;
/// Not counted: files and code are read for the first time.
const WARM_UP: usize = 5;
/// Before each start, floor or ours: what the one before it left to be done is done by then, on either
/// side, a keeper for the next run among it.
const REST: Duration = Duration::from_millis(40);

const SHELL: &str = "/bin/sh";
const SCRIPT: &str =
    r#"echo >"$1"; echo '{"type":"progress","summary":"up"}'; echo '{"type":"complete"}'"#;

/// Where the agent's first act arrives.
struct Bell {
    path: String,
    rings: Receiver<u64>,
}

impl Bell {
    fn hang(dir: &Path) -> Result<Self, String> {
        let path = dir.join("bell");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .map_err(said("making a named pipe"))?;
        // Open for both, so that it never comes to its end between two agents.
        let mut pipe = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(said("opening the named pipe"))?;
        let (ring, rings) = sync_channel(1);
        std::thread::spawn(move || {
            let mut byte = [0];
            while pipe.read_exact(&mut byte).is_ok() && ring.send(usage::now_ns()).is_ok() {}
        });
        Ok(Self { path: path.display().to_string(), rings })
    }

    fn args(&self) -> Vec<String> {
        ["-c", SCRIPT, "agent", &self.path].map(str::to_owned).into()
    }

    /// Milliseconds from `from_ns` to the ring.
    fn ms_since(&self, from_ns: u64) -> Result<f64, String> {
        let rung = self.rings.recv_timeout(Duration::from_secs(30));
        Ok(ms(from_ns, rung.map_err(said("waiting for the agent's first act"))?))
    }
}

fn ms(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}

pub fn run(programs: &Programs, report: &mut Report) -> Result<(), String> {
    let how = format!(
        "{BLOCKS} blocks of {ROUNDS} rounds of floor, ours, ours right after that, ours watched"
    );
    report.begin("start", &how);
    let mut serve = Serve::start(programs)?;
    let bell = Bell::hang(serve.instance.root())?;
    for _ in 0..WARM_UP {
        round(&mut serve, &bell)?;
    }
    let mut pairs = Pairs::default();
    let mut all: [Vec<f64>; 4] = Default::default();
    for _ in 0..BLOCKS {
        let mut block: [Vec<f64>; 4] = Default::default();
        for _ in 0..ROUNDS {
            for (values, ms) in block.iter_mut().zip(round(&mut serve, &bell)?) {
                values.push(ms);
            }
        }
        pairs.push(median(&block[0]), median(&block[1]));
        all.iter_mut().zip(block).for_each(|(all, block)| all.extend(block));
    }
    let bound = Bound::AtMost { gate: 2.5, goal: 1.5 };
    report.ratio("run start: request → agent's first act", "ms", &pairs, bound);
    let names =
        ["floor", "ours", "ours, right after another", "ours, first line seen by a watcher"];
    for (name, values) in names.iter().zip(&all) {
        for (rank, value) in [("p50", median(values)), ("p99", percentile(values, 99.0))] {
            report.figure(&format!("run start, {name}, {rank}"), "ms", value, Bound::None);
        }
    }
    Ok(())
}

/// Floor, ours, ours right after another, for which no spare keeper is there yet, and ours with a
/// watcher, in milliseconds.
fn round(serve: &mut Serve, bell: &Bell) -> Result<[f64; 4], String> {
    std::thread::sleep(REST);
    let floor = bare(serve, bell)?;

    std::thread::sleep(REST);
    let body = serve.request_body(Path::new(SHELL), bell.args(), BTreeMap::new());
    let (ours, run) = started(serve, bell, &body)?;
    serve.settled(&run)?;
    let (again, run) = started(serve, bell, &body)?;
    serve.settled(&run)?;

    std::thread::sleep(REST);
    let from_ns = usage::now_ns();
    let started = serve.ask("POST", "/api/v1/runs", &body)?;
    let run = started["run_id"].as_str().unwrap_or_default();
    serve.follow_until(run, r#""kind":"progress""#)?;
    let seen = ms(from_ns, usage::now_ns());
    bell.ms_since(from_ns)?;
    serve.settled(run)?;
    Ok([floor, ours, again, seen])
}

/// How long one took, and its run.
fn started(serve: &mut Serve, bell: &Bell, body: &str) -> Result<(f64, String), String> {
    let from_ns = usage::now_ns();
    let started = serve.ask("POST", "/api/v1/runs", body)?;
    let took = bell.ms_since(from_ns)?;
    Ok((took, started["run_id"].as_str().unwrap_or_default().to_owned()))
}

fn bare(serve: &Serve, bell: &Bell) -> Result<f64, String> {
    let path = serve.instance.data().join("bench-floor");
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .map_err(said("opening the floor's file"))?;
    let mut command = serve.instance.command(SHELL);
    command.args(bell.args()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let from_ns = usage::now_ns();
    file.write_all(&[0; 4096]).and_then(|()| file.sync_data()).map_err(said("one commit"))?;
    let child = command.spawn().map_err(said("a bare spawn"))?;
    let floor = bell.ms_since(from_ns)?;
    child.wait_with_output().map_err(said("waiting for the bare agent"))?;
    Ok(floor)
}
