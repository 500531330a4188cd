//! One data directory and the process that hosts it, which is started, killed and started again.
//! The binary lies in the instance under a name of its own, so that every process of this house,
//! keepers included, can be told from all others by its program.

use super::case::Programs;
use super::clients::Role;
use super::{errands, said};
use failpoint::Point;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use testkit::Instance;

/// How long a server may take to leave when it is asked to.
const LEAVE_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);

pub struct House {
    pub instance: Instance,
    program: PathBuf,
    child: Option<Child>,
    lives: usize,
}

impl House {
    /// A fresh data directory; its leases last so many seconds.
    pub fn new(programs: &Programs, lease_secs: u64) -> Result<Self, String> {
        let instance = Instance::new();
        // Not below the directory of runs that are asked for: tasks would wait for those.
        let work = instance.root().join("places");
        for role in Role::ALL {
            fs::create_dir_all(work.join(role.word())).map_err(said("making directories"))?;
        }
        let config = errands::config(&programs.fake_agent, &work, lease_secs);
        instance.write_config(&config.to_string());
        let program = instance.root().join("bin/ostler");
        fs::hard_link(&programs.ostler, &program).map_err(said("placing the binary"))?;
        Ok(Self { instance, program, child: None, lives: 0 })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.instance.command(&self.program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts a host that will die at a point, or a healthy one.
    pub fn start(&mut self, args: &[&str], order: Option<(Point, u64)>) -> Result<(), String> {
        self.lives += 1;
        let mut command = self.command(args);
        if let Some((point, hit)) = order {
            let order = format!("{}:{hit}:{}", point.name(), self.fired_path().display());
            command.env(failpoint::VARIABLE, order);
        }
        let log = fs::File::create(self.instance.root().join(format!("stderr-{}", self.lives)))
            .map_err(said("keeping what a host complains of"))?;
        self.child = Some(command.stderr(log).spawn().map_err(said("starting a host"))?);
        Ok(())
    }

    pub fn serve(&mut self, order: Option<(Point, u64)>) -> Result<(), String> {
        self.start(&["serve", "--listen", "127.0.0.1:0"], order)
    }

    /// Starts a host beside the one that is there, which becomes someone else's to wait for.
    pub fn hand_over(&mut self) -> Result<Option<Child>, String> {
        let before = self.child.take();
        self.serve(None)?;
        Ok(before)
    }

    fn fired_path(&self) -> PathBuf {
        self.instance.root().join(format!("fired-{}", self.lives))
    }

    /// Who died at the point of this life, if anyone has.
    pub fn fired(&self) -> Option<String> {
        fs::read_to_string(self.fired_path()).ok()
    }

    /// Nobody dies at the point of this life any more. False when someone has.
    pub fn disarm(&self) -> bool {
        fs::OpenOptions::new().write(true).create_new(true).open(self.fired_path()).is_ok()
    }

    /// How the host ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn signal(&self, to: Signal) {
        if let Some(pid) = self.pid() {
            signal(i32::try_from(pid).unwrap_or(0), to);
        }
    }

    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Asks the host to leave and waits for it.
    pub fn leave(&mut self) -> Result<(), String> {
        self.signal(Signal::TERM);
        let until = Instant::now() + LEAVE_MAX;
        while Instant::now() < until {
            if let Some(status) = self.ended() {
                self.child = None;
                return match status.success() {
                    true => Ok(()),
                    false => Err(format!("a server that was asked to leave ended with {status}")),
                };
            }
            std::thread::sleep(PAUSE);
        }
        self.kill();
        Err("a server that was asked to leave did not".to_owned())
    }

    pub fn descriptors(&self) -> usize {
        let pid = self.pid().unwrap_or(0);
        fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
    }

    /// How many threads the host has, and how many bytes of memory.
    pub fn weight(&self) -> (u64, u64) {
        let pid = self.pid().unwrap_or(0);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        (field("Threads:").unwrap_or(0), field("VmRSS:").unwrap_or(0) * 1024)
    }

    /// Children of the host that have ended and that it has not waited for.
    pub fn zombies(&self) -> Vec<String> {
        let own = self.pid().unwrap_or(0).to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // The name is in brackets and may hold anything.
            let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            let mut fields = rest.split(' ');
            if (fields.next(), fields.next()) == (Some("Z"), Some(own.as_str())) {
                found.push(stat.split(" (").next().unwrap_or_default().to_owned());
            }
        }
        found
    }

    /// Agents that live, and whatever they have started: who carries the mark and is not of our
    /// program.
    pub fn agents(&self) -> Vec<String> {
        let is_ours = |pid: &i64| {
            fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|program| program.starts_with(self.instance.root()))
        };
        testkit::find_marked(&self.instance.mark())
            .into_iter()
            .filter(|left| !is_ours(&i64::from(left.pid)))
            .map(|left| format!("{} {}", left.pid, left.command))
            .collect()
    }

    /// What the hosts of this house complained of, by file.
    pub fn complaints(&self) -> Vec<PathBuf> {
        (1..=self.lives).map(|life| self.instance.root().join(format!("stderr-{life}"))).collect()
    }

    /// Every living process of this house: by its program, or by the mark that agents carry.
    pub fn processes(&self) -> Vec<String> {
        let mut found: Vec<String> = testkit::find_marked(&self.instance.mark())
            .into_iter()
            .map(|left| format!("{} {}", left.pid, left.command))
            .collect();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let is_ours = fs::read_link(entry.path().join("exe"))
                .is_ok_and(|program| program.starts_with(self.instance.root()));
            if is_ours {
                found.push(format!("{} of our program", entry.file_name().display()));
            }
        }
        found
    }

    /// Folders of attempts that are still there.
    pub fn spools(&self) -> Vec<PathBuf> {
        let below = |dir: &Path| -> Vec<PathBuf> {
            fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        };
        below(&self.instance.runtime().join("ostler")).iter().flat_map(|dir| below(dir)).collect()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.kill();
        // Keepers carry no mark: they are known by their program.
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let is_ours = fs::read_link(entry.path().join("exe"))
                .is_ok_and(|program| program.starts_with(self.instance.root()));
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = pid.filter(|_| is_ours) {
                signal(pid, Signal::KILL);
            }
        }
    }
}

/// Sends a signal to a process of a house; one that is gone has what it was to have.
pub fn signal(pid: i32, to: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, to);
    }
}
