//! Storage trouble, with real disks that are really full and a C library that really fails: the agent
//! does not notice, nothing is lost, everyone is told, and service comes back by itself.

use crate::ostler::{BOUND_MS, Ostler, Running, Said, assert_gap_free, program, result};
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testkit::until;

/// An agent that lives until a file appears in its working directory, then completes.
const GATED: &str = r#"
echo '{"type":"hello","accepts":["message"]}'
echo '{"type":"progress","summary":"waiting"}'
while [ ! -e gate ]; do sleep 0.05; done
echo '{"type":"progress","summary":"the gate is open"}'
echo '{"type":"complete","output":{"text":"done"}}'
"#;

fn gated(ostler: &Ostler) -> String {
    let path = ostler.instance.work().join("gated.sh");
    fs::write(&path, GATED).unwrap();
    format!("sh {}", path.display())
}

fn open_gate(ostler: &Ostler) {
    fs::write(ostler.instance.work().join("gate"), "").unwrap();
}

/// Asks a host how its store is, given where its data directory can be seen.
fn store_of(data: &Path) -> Value {
    let read = |name: &str| fs::read_to_string(data.join(name)).unwrap_or_default();
    let (url, token) = (read("address"), read("token"));
    let address = url.trim().trim_start_matches("http://").to_owned();
    let Ok(mut stream) = TcpStream::connect(&address) else { return Value::Null };
    let request = format!(
        "GET /api/v1/host HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        token.trim()
    );
    let mut answer = String::new();
    if stream.write_all(request.as_bytes()).is_err() || stream.read_to_string(&mut answer).is_err()
    {
        return Value::Null;
    }
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str::<Value>(body).map(|host| host["store"].clone()).unwrap_or_default()
}

fn until_trouble(data: &Path, code: &str) -> Value {
    until(&format!("the trouble {code}"), BOUND_MS, || {
        Some(store_of(data)).filter(|store| store["code"] == code)
    })
}

fn until_well(data: &Path) {
    until("a store that is well", BOUND_MS, || (store_of(data)["state"] == "ok").then_some(()));
}

/// A small disk in a mount namespace of its own, over the data directory of an instance. It needs no
/// privileges where the kernel lets users have namespaces.
pub struct SmallDisk {
    pub ostler: Ostler,
    holder: Child,
}

const DISK_BYTES: u64 = 40 << 20;

impl SmallDisk {
    /// `None`, said loudly, where there are no namespaces for users.
    fn new() -> Option<Self> {
        let ostler = Ostler::new();
        fs::create_dir_all(ostler.instance.data()).unwrap();
        Self::mounted(ostler, &format!("mount -t tmpfs -o size={DISK_BYTES},mode=700 small \"$1\""))
    }

    /// An instance with something else mounted over its data directory, `$1` of the script.
    pub fn mounted(ostler: Ostler, mount: &str) -> Option<Self> {
        let script = format!("{mount} && echo ready && exec sleep 300");
        let started = ostler
            .instance
            .command("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"])
            .arg(ostler.instance.data())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut line = String::new();
        let holder = started.ok().and_then(|mut holder| {
            BufReader::new(holder.stdout.take()?).read_line(&mut line).ok()?;
            Some(holder)
        });
        match holder {
            Some(holder) if line.trim() == "ready" => Some(Self { ostler, holder }),
            Some(mut holder) => {
                let _ = holder.kill();
                let _ = holder.wait();
                eprintln!("SKIPPED: this system gives users no mount namespaces");
                None
            }
            None => {
                eprintln!("SKIPPED: unshare cannot be run");
                None
            }
        }
    }

    /// The data directory as seen from outside.
    fn data(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.ostler.instance.data().strip_prefix("/").unwrap())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.ostler.instance.command("nsenter");
        let holder = self.holder.id().to_string();
        command
            .args(["--preserve-credentials", "--user", "--mount", "--target", &holder])
            .args(["sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh"])
            .arg(self.ostler.instance.work())
            .arg(program())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    pub fn says(&self, args: &[&str]) -> Said {
        Said::from(self.command(args).output().expect("nsenter starts"))
    }

    fn starts(&self, args: &[&str]) -> Running {
        let mut child = self
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nsenter starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, stdout }
    }

    /// Fills the disk until only `left` bytes are free.
    fn fill(&self, left: u64) {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.data().join("ballast"))
            .unwrap();
        for part in [65_536, 4_096] {
            while file.write_all(&vec![0; part]).is_ok() {}
        }
        let full = file.metadata().unwrap().len();
        file.set_len(full.saturating_sub(left)).unwrap();
    }

    fn free(&self) {
        fs::remove_file(self.data().join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[test]
fn on_a_full_disk_runs_go_on_and_no_event_is_lost() {
    const EVENTS: usize = 10_000;
    let Some(disk) = SmallDisk::new() else { return };
    let mut serve = disk.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on"));
    disk.fill(1 << 20);

    let agent = disk.ostler.fake(&format!("--burst {EVENTS}"));
    let mut run = disk.starts(&["run", "--process", &agent, "go", "--json"]);
    let first = run.event("the first event", |event| event["seq"] == 1);
    let id = first["run_id"].as_str().unwrap().to_owned();
    let trouble = until_trouble(&disk.data(), "disk_full");
    assert_eq!(trouble["state"], "trouble");
    assert!(trouble["since"].is_string(), "{trouble}");

    // Nothing new is started, what is there can be read, and both say why.
    let refused = disk.says(&["run", "demo", "hello"]);
    assert_eq!(refused.code, 14, "{refused:?}");
    assert!(refused.complaint().contains("disk_full"), "{refused:?}");
    let listed = disk.says(&["runs", "--json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let rows: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(rows[0]["id"], id.as_str(), "{rows}");
    assert!(rows[0]["outcome"].is_null(), "{rows}");
    assert!(listed.complaint().contains("disk_full"), "{listed:?}");

    disk.free();
    let said = run.finish();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let events = disk.says(&["show", &id, "--json"]).events();
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded");
    let heard = events.iter().filter(|event| event["origin"] == "agent").count();
    assert!(heard >= EVENTS, "{heard} of {EVENTS} events were kept");

    until_well(&disk.data());
    let again = disk.says(&["run", "demo", "hello", "--quiet"]);
    assert_eq!(again.code, 0, "{again:?}");
    let _ = serve.child.kill();
    let _ = serve.child.wait();
}

#[test]
fn a_run_that_ends_on_a_full_disk_is_settled_from_the_reserve() {
    let Some(disk) = SmallDisk::new() else { return };
    let mut serve = disk.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on"));
    let reserve = disk.data().join("reserve");
    assert!(reserve.exists(), "room is set aside from the beginning");

    let mut run = disk.starts(&["run", "--process", &gated(&disk.ostler), "go", "--json"]);
    run.event("the agent at its gate", |event| event["summary"] == "waiting");
    disk.fill(0);
    open_gate(&disk.ostler);
    let said = run.finish();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(result(&said.events())["outcome"], "succeeded");
    assert_eq!(store_of(&disk.data())["code"], "disk_full");
    assert!(!reserve.exists(), "it was settled with the room set aside");

    disk.free();
    until_well(&disk.data());
    assert!(reserve.exists(), "the reserve is whole again");
    let _ = serve.child.kill();
    let _ = serve.child.wait();
}

#[test]
fn a_run_on_a_full_disk_can_be_stopped() {
    let Some(disk) = SmallDisk::new() else { return };
    let mut serve = disk.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on"));
    let script = disk.ostler.instance.work().join("chatty.sh");
    let line = r#"echo '{"type":"progress","summary":"and another thing"}'"#;
    fs::write(&script, format!("while :; do {line}; sleep 0.02; done\n")).unwrap();
    let agent = format!("sh {}", script.display());
    let mut run = disk.starts(&["run", "--process", &agent, "go", "--json"]);
    let first = run.event("its first word", |event| event["kind"] == "progress");
    let id = first["run_id"].as_str().unwrap().to_owned();
    disk.fill(0);
    until_trouble(&disk.data(), "disk_full");

    let stop = disk.starts(&["stop", &id, "--now"]);
    until("the end of the agent", BOUND_MS, || {
        let left = testkit::find_marked(&disk.ostler.instance.mark());
        let talks = left
            .iter()
            .any(|left| left.command.starts_with("sh") && left.command.contains("chatty.sh"));
        (!talks).then_some(())
    });
    disk.free();
    let stopped = stop.finish();
    assert_eq!(stopped.code, 0, "{stopped:?}");
    let said = run.finish();
    let events = disk.says(&["show", &id, "--json"]).events();
    assert_gap_free(&events);
    assert_eq!(
        (said.code, &result(&events)["outcome"]),
        (130, &"cancelled".into()),
        "{}",
        said.stderr
    );
    until_well(&disk.data());
    let _ = serve.child.kill();
    let _ = serve.child.wait();
}

#[test]
fn a_full_disk_can_be_looked_at_without_a_host() {
    let Some(disk) = SmallDisk::new() else { return };
    let said = disk.says(&["run", "demo", "hello", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let id = result(&said.events())["run_id"].as_str().unwrap().to_owned();
    disk.fill(0);
    let listed = disk.says(&["runs", "--json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stdout.contains(&id), "{listed:?}");
}

/// A disk that fails when told to.
pub struct BadDisk {
    pub ostler: Ostler,
    library: PathBuf,
    /// Why writes fail.
    errno: rustix::io::Errno,
}

impl BadDisk {
    /// `None`, said loudly, where there is no C compiler.
    pub fn new() -> Option<Self> {
        let ostler = Ostler::new();
        let library = ostler.instance.root().join("failing_disk.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/failing_disk.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, Path::new(source)])
            .status();
        match built {
            Ok(status) if status.success() => {
                Some(Self { ostler, library, errno: rustix::io::Errno::IO })
            }
            outcome => {
                eprintln!("SKIPPED: the failing disk could not be built: {outcome:?}");
                None
            }
        }
    }

    pub fn switch(&self, name: &str) -> PathBuf {
        self.ostler.instance.root().join(name)
    }

    /// Starts a command for which the disk fails when told to.
    fn starts(&self, args: &[&str]) -> Running {
        let mut child = self
            .ostler
            .command(args)
            .env("LD_PRELOAD", &self.library)
            .env("FAILING_SYNC", self.switch("failing_sync"))
            .env("FAILING_WRITE", self.switch("failing_write"))
            .env("FAILING_ERRNO", self.errno.raw_os_error().to_string())
            .env("KILLING_SYNC", self.switch("killing_sync"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ostler starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, stdout }
    }

    pub fn serve(&self) -> Running {
        let mut serve = self.starts(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(serve.line().starts_with("listening on"));
        serve
    }
}

#[test]
fn writes_that_fail_hold_events_back_until_they_work_again() {
    failing_writes(rustix::io::Errno::IO);
}

#[test]
fn a_disk_that_becomes_read_only_holds_events_back_until_it_can_be_written_to_again() {
    failing_writes(rustix::io::Errno::ROFS);
}

fn failing_writes(errno: rustix::io::Errno) {
    let Some(mut disk) = BadDisk::new() else { return };
    disk.errno = errno;
    let mut serve = disk.serve();
    let agent = gated(&disk.ostler);
    let mut run = disk.ostler.starts(&["run", "--process", &agent, "go", "--json"]);
    let first = run.event("the agent at its gate", |event| event["summary"] == "waiting");
    let id = first["run_id"].as_str().unwrap().to_owned();
    let data = disk.ostler.instance.data();

    fs::write(disk.switch("failing_write"), "").unwrap();
    open_gate(&disk.ostler);
    until_trouble(&data, "store_unreadable");
    let refused = disk.ostler.says(&["run", "demo", "hello"]);
    assert_eq!(refused.code, 14, "{refused:?}");
    assert_eq!(disk.ostler.says(&["runs"]).code, 0);

    fs::remove_file(disk.switch("failing_write")).unwrap();
    let said = run.finish();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let events = disk.ostler.events(&["show", &id, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded");
    until_well(&data);
    let _ = serve.child.kill();
    let _ = serve.child.wait();
}

#[test]
fn a_host_whose_sync_failed_ends_and_the_next_goes_on_with_its_runs() {
    let Some(disk) = BadDisk::new() else { return };
    let serve = disk.serve();
    let agent = gated(&disk.ostler);
    let mut run = disk.ostler.starts(&["run", "--process", &agent, "go", "--json"]);
    let first = run.event("the agent at its gate", |event| event["summary"] == "waiting");
    let id = first["run_id"].as_str().unwrap().to_owned();

    fs::write(disk.switch("failing_sync"), "").unwrap();
    // A wish must be durable before it is taken, so it finds out.
    let told = disk.ostler.says(&["say", &id, "anyone there?"]);
    assert_ne!(told.code, 0, "{told:?}");
    let ended = serve.finish();
    assert_eq!(ended.code, 14, "{ended:?}");
    let complaint = ended.stderr.lines().find(|line| line.starts_with("error: "));
    assert!(complaint.is_some_and(|line| line.contains("store_unreadable")), "{ended:?}");

    // The agent lived on; whoever watched its run is the next host.
    open_gate(&disk.ostler);
    let said = run.finish();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let events = disk.ostler.events(&["show", &id, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded");
    assert!(
        events.iter().any(|event| event["phase"] == "adopted"),
        "another process went on with it"
    );
}

#[test]
fn a_run_that_hosts_itself_ends_with_its_store_and_its_agent_is_taken_over() {
    let Some(disk) = BadDisk::new() else { return };
    let agent = gated(&disk.ostler);
    let mut run = disk.starts(&["run", "--process", &agent, "go", "--json"]);
    let first = run.event("the agent at its gate", |event| event["summary"] == "waiting");
    let id = first["run_id"].as_str().unwrap().to_owned();

    fs::write(disk.switch("failing_sync"), "").unwrap();
    let told = disk.ostler.says(&["say", &id, "anyone there?"]);
    assert_ne!(told.code, 0, "{told:?}");
    let ended = run.finish();
    assert_eq!(ended.code, 14, "{ended:?}");

    open_gate(&disk.ostler);
    let watched = disk.ostler.says(&["watch", &id, "--json"]);
    assert_eq!(watched.code, 0, "{watched:?}");
    let events = disk.ostler.events(&["show", &id, "--json"]);
    assert_gap_free(&events);
    assert_eq!(result(&events)["outcome"], "succeeded");
}
