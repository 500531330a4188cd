//! Families that fork in a place that allows few processes, as a container does, with the host in the
//! same place: a bomb takes every process there is, and one that forks on takes those again that its
//! own dead leave while it is killed; their runs end all the same. Only where a group
//! that bounds processes can be made; elsewhere the test says so and checks nothing.

use super::stage::Stage;
use super::{Row, SUCCESS, nothing_else};
use std::fs;
use std::path::PathBuf;

/// Processes and threads in the place, those of the host included.
const PIDS: u32 = 120;

const ROWS: &[Row] = &[
    Row::fake(
        "a bomb that takes every process there is",
        &["--fork-bomb", "512", "--sleep-ms", "10000"],
        SUCCESS,
        nothing_else,
    ),
    Row::fake(
        "a family that forks on while it is killed, and finds no process left",
        &["--fork-on", "512", "--sleep-ms", "10000"],
        SUCCESS,
        nothing_else,
    ),
    Row::fake("the next run", &[], SUCCESS, nothing_else),
];

/// A control group that bounds processes, removed at the end.
struct Place(PathBuf);

impl Place {
    fn make() -> Option<Self> {
        let roots = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];
        let name = format!("ostler-manners-{}", std::process::id());
        let paths = roots.iter().map(|root| PathBuf::from(root).join(&name));
        paths.into_iter().find_map(|path| {
            fs::create_dir(&path).ok()?;
            let place = Self(path);
            fs::write(place.0.join("pids.max"), PIDS.to_string()).is_ok().then_some(place)
        })
    }

    fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("a process can be moved");
    }

    /// How often someone wanted a process and there was none.
    fn refusals(&self) -> u64 {
        let events = fs::read_to_string(self.0.join("pids.events")).unwrap_or_default();
        let count = events.lines().find_map(|line| line.strip_prefix("max "));
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_family_that_takes_every_process_there_is_ends_with_its_run() {
    let Some(place) = Place::make() else {
        eprintln!("no group that bounds processes can be made here, so nothing was checked");
        return;
    };
    let stage = Stage::of(ROWS);
    place.take(stage.host_pid());
    let mut before = 0;
    for (n, row) in ROWS.iter().enumerate() {
        let said = stage.run(&format!("row-{n}"), "x");
        assert_eq!(said.code, 0, "{}: {said:?}", row.name);
        let events = said.events();
        let id = events[0]["run_id"].as_str().unwrap();
        assert!(testkit::find_marked(id).is_empty());
        let refusals = place.refusals() - before;
        before += refusals;
        eprintln!("{}: {refusals} times there was no process to be had, of {PIDS}", row.name);
        assert_eq!(refusals > 0, n + 1 < ROWS.len(), "{}", row.name);
    }
    stage.close();
}
