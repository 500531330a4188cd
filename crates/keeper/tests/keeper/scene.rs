//! One keeper and what a server would hold of it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use keeper::door::{self, Spawned};
use keeper::plan::{LeaseClock, Level, Plan, StdinMode};
use keeper::record::{Begin, Kind, Note, Testimony};
use keeper::spool::Reader;
use keeper::wire::{Assembler, HelloReply, Order, Report, VERSION};
use keeper::{limits, mark, packet};

/// The bound of every wait.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const SECRET: &str = "00112233445566778899aabbccddeeff";
pub const FENCE: u64 = 7;
const MARK: &str = "KEEPER_TEST_MARK";

/// A record that outlives the reader's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub kind: Kind,
    pub number: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
}

pub struct Scene {
    home: tempfile::TempDir,
    pub plan: Plan,
    pub keeper: Child,
    pub control: Option<OwnedFd>,
    pub hello: HelloReply,
    mark: String,
    assembler: Assembler,
    reports: VecDeque<Report>,
    reader: Reader,
    pub heard: Vec<Heard>,
}

impl Scene {
    /// A shell that runs `script`.
    pub fn sh(script: &str) -> Self {
        Self::with(script, |_| {})
    }

    /// The same with changes to the plan.
    pub fn with(script: &str, change: impl FnOnce(&mut Plan)) -> Self {
        Self::kept_by(|_, level| spawn(level), script, change)
    }

    /// The same with a keeper of another kind, started in the scene's own directory.
    pub fn kept_by(
        start: impl FnOnce(&Path, Level) -> Spawned,
        script: &str,
        change: impl FnOnce(&mut Plan),
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{count}", std::process::id());
        let home = tempfile::tempdir().unwrap();
        let mut plan = Plan {
            version: VERSION,
            run_id: format!("run-{mark}"),
            attempt: 1,
            fence: FENCE,
            hello_secret: SECRET.into(),
            spool_dir: spool_dir(home.path()),
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: home.path().into(),
            env: vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                (MARK.into(), mark.clone()),
            ],
            secrets: vec![("API_KEY".into(), "hunter2".into())],
            luggage: None,
            stdin: StdinMode::Open,
            first_frame: None,
            deadline_ms: LeaseClock::Monotonic.now_ms() + 60_000,
            clock: LeaseClock::Monotonic,
            farewell: None,
            farewell_ms: 0,
            term_ms: 0,
            lease_farewell_ms: 0,
            lease_term_ms: 0,
            lease_overrun_ms: 0,
            drain_ms: limits::DRAIN_MS,
            output_bytes_max: 1 << 30,
            segment_bytes: limits::SEGMENT_BYTES,
            mark: (MARK.into(), mark.clone()),
            level: Level::Basic,
        };
        change(&mut plan);
        std::fs::create_dir_all(plan.spool_dir.parent().unwrap()).unwrap();
        door::prepare_spool(&plan.spool_dir).unwrap();
        let reader = Reader::open(&plan.spool_dir, 0).unwrap();
        let Spawned { control, child } = start(home.path(), plan.level);
        door::launch(&control, &plan).unwrap();
        let mut scene = Self {
            home,
            plan,
            keeper: child,
            control: Some(control),
            hello: HelloReply {
                version: 0,
                fence: 0,
                agent_pid: None,
                keeper_pid: 0,
                last_said: 0,
                held: None,
                spool_len: 0,
                deadline_ms: 0,
                stage: keeper::wire::Stage::Running,
                isolation: Default::default(),
                isolation_note: None,
                secrets: Vec::new(),
                luggage: None,
                answers_pings: false,
            },
            mark,
            assembler: Assembler::default(),
            reports: VecDeque::new(),
            reader,
            heard: Vec::new(),
        };
        match scene.await_report(|report| matches!(report, Report::Hello(_))) {
            Report::Hello(reply) => scene.hello = *reply,
            _ => unreachable!(),
        }
        scene
    }

    pub fn dir(&self) -> PathBuf {
        spool_dir(self.home.path())
    }

    pub fn send(&self, order: Order) {
        for packet in order.packets() {
            let deadline = Instant::now() + PATIENCE;
            while let Err(error) = packet::send(self.control.as_ref().unwrap(), &packet) {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                assert!(Instant::now() < deadline, "the keeper does not read");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    pub fn say(&self, n: u32, frame: &str) {
        self.send(Order::Say { n, bytes: frame.as_bytes().to_vec() });
    }

    pub fn stop(&self, farewell_ms: u64, term_ms: u64) {
        self.send(Order::Stop { reason: "cancelled".into(), farewell_ms, term_ms });
    }

    /// The server dies.
    pub fn hang_up(&mut self) {
        self.control = None;
        self.reports.clear();
    }

    /// Another server comes.
    pub fn dial(&mut self, fence: u64) -> HelloReply {
        let (control, reply) = door::dial(&self.dir(), SECRET, fence).unwrap();
        self.control = Some(control);
        self.assembler = Assembler::default();
        reply
    }

    /// The next report that is wanted; others are passed over.
    pub fn await_report(&mut self, wanted: impl Fn(&Report) -> bool) -> Report {
        let deadline = Instant::now() + PATIENCE;
        loop {
            while let Some(report) = self.reports.pop_front() {
                if wanted(&report) {
                    return report;
                }
            }
            assert!(Instant::now() < deadline, "no such report");
            assert!(self.take_reports(), "the keeper hung up");
        }
    }

    /// Takes what has come. False at the end of the connection.
    pub fn take_reports(&mut self) -> bool {
        let mut buffer = packet::buffer();
        match packet::receive(self.control.as_ref().unwrap(), &mut buffer) {
            Ok(Some(packet)) => {
                let message = self.assembler.push(packet).unwrap();
                self.reports.extend(message.map(|m| Report::from_message(m).unwrap()));
                true
            }
            Ok(None) => false,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                std::thread::sleep(Duration::from_millis(1));
                true
            }
        }
    }

    /// Reads the spool until it satisfies `enough`.
    pub fn read_until(&mut self, enough: impl Fn(&[Heard]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !enough(&self.heard) {
            assert!(Instant::now() < deadline, "not heard: {:?}", self.heard);
            self.read_on();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads until stdout holds `text`.
    pub fn read_until_out(&mut self, text: &str) {
        self.read_until(|heard| {
            bytes(heard, Kind::Out).windows(text.len()).any(|w| w == text.as_bytes())
        });
    }

    fn read_on(&mut self) {
        while let Some(record) = self.reader.next().unwrap() {
            self.heard.push(Heard {
                kind: record.kind,
                number: record.number,
                flags: record.flags,
                payload: record.payload.to_vec(),
            });
        }
    }

    /// Waits for the keeper to leave and reads the spool to its end.
    pub fn end(&mut self) -> Testimony {
        let deadline = Instant::now() + PATIENCE;
        while self.keeper.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the keeper stays");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.read_on();
        assert!(!door::is_alive(&self.dir()));
        let exits = self.heard.iter().filter(|record| record.kind == Kind::Exit).count();
        let last = self.heard.last().unwrap();
        assert_eq!((exits, last.kind), (1, Kind::Exit), "the testimony comes once and last");
        serde_json::from_slice(&last.payload).unwrap()
    }

    pub fn out(&self) -> String {
        String::from_utf8(bytes(&self.heard, Kind::Out)).unwrap()
    }

    pub fn err(&self) -> String {
        String::from_utf8(bytes(&self.heard, Kind::Err)).unwrap()
    }

    pub fn begin(&self) -> Begin {
        assert_eq!(self.heard[0].kind, Kind::Begin);
        serde_json::from_slice(&self.heard[0].payload).unwrap()
    }

    pub fn notes(&self) -> Vec<Note> {
        let notes = self.heard.iter().filter(|record| record.kind == Kind::Note);
        notes.map(|record| serde_json::from_slice(&record.payload).unwrap()).collect()
    }

    /// Kind and number of everything about stdin.
    pub fn settled(&self) -> Vec<(Kind, u32)> {
        let kinds = [Kind::Said, Kind::Dropped, Kind::StdinBroken];
        let records = self.heard.iter().filter(|record| kinds.contains(&record.kind));
        records.map(|record| (record.kind, record.number)).collect()
    }

    /// Living processes of this attempt.
    pub fn family(&self) -> Vec<i32> {
        mark::bearers(MARK, &self.mark).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Only after a failed assertion is there anything left to do.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        let _ = mark::sweep(MARK, &self.mark, 20);
    }
}

pub fn spawn(level: Level) -> Spawned {
    door::spawn(Path::new(env!("CARGO_BIN_EXE_keep-alone")), level, None).unwrap()
}

/// Deep enough that the socket's path is longer than an address may be.
fn spool_dir(home: &Path) -> PathBuf {
    home.join("x".repeat(120)).join("run-1.1")
}

fn bytes(heard: &[Heard], kind: Kind) -> Vec<u8> {
    let records = heard.iter().filter(|record| record.kind == kind);
    records.flat_map(|record| record.payload.clone()).collect()
}
