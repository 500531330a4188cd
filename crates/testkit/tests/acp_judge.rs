//! The judge of ACP agents on paper: a good agent passes every point, and each point turns red by
//! itself for an agent that breaks it. Time is made up, and no process is started.

use runtimes::acp::judge::{
    Act, Client, Exit, Finding, Heard, POINTS, Recording, Scene, Setting, Verdict, judge,
};
use testkit::agent::judged::{Agent, Deed};

const HERE: &str = "/srv/work";
const STEP_MS: u64 = 50;

/// Plays one scene with a fresh agent.
fn play(scene: Scene, fault: &str, played: &[Recording]) -> Recording {
    let setting = Setting {
        cwd: HERE.to_owned(),
        nowhere: "/srv/nowhere".to_owned(),
        wish: None,
        patience_ms: 2_000,
    };
    let mut client = Client::new(scene, setting, played);
    let mut paper = Paper { agent: Agent::new(fault), ..Paper::default() };
    if fault == "starts" {
        let (exchanges, done) = client.done();
        let exit = Exit { spawn_error: Some("no such file".to_owned()), ..Exit::default() };
        return Recording { scene, lines: Vec::new(), exchanges, done, exit };
    }
    let mut acts = client.begin(0);
    loop {
        while !acts.is_empty() && paper.exit.is_none() {
            let heard = paper.lines.len();
            paper.told(std::mem::take(&mut acts));
            for line in &paper.lines[heard..] {
                acts.extend(client.hear(line.at_ms, &line.bytes));
            }
        }
        if paper.exit.is_some() {
            break;
        }
        paper.now_ms += STEP_MS;
        acts = client.tick(paper.now_ms);
    }
    let (exchanges, mut done) = client.done();
    done.killed = paper.killed;
    done.wrote = paper.wrote;
    let exit = paper.exit.unwrap_or_default();
    Recording { scene, lines: paper.lines, exchanges, done, exit }
}

/// The agent's process, as far as there is one.
#[derive(Default)]
struct Paper {
    agent: Agent,
    now_ms: u64,
    lines: Vec<Heard>,
    exit: Option<Exit>,
    wrote: bool,
    killed: bool,
}

impl Paper {
    fn told(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Say(line) => {
                    let line = String::from_utf8(line).expect("what is said is text");
                    let deeds = self.agent.hear(line.trim_end(), &|path| path == HERE);
                    deeds.into_iter().for_each(|deed| self.does(deed));
                }
                Act::CloseStdin if self.agent.leaves() => self.leave(Some(0), None),
                Act::CloseStdin => {}
                Act::Stop => {
                    self.killed = !self.agent.obeys();
                    self.leave(None, Some(if self.killed { 9 } else { 15 }));
                }
            }
        }
    }

    fn does(&mut self, deed: Deed) {
        if self.exit.is_some() {
            return;
        }
        match deed {
            Deed::Say(line) => {
                let (at_ms, bytes) = (self.now_ms, line.into_bytes());
                self.lines.push(Heard { at_ms, bytes, ended: true });
            }
            Deed::Pause(ms) => self.now_ms += ms,
            Deed::Write(name) => self.wrote = name == runtimes::acp::judge::FILE,
            Deed::Exit(code) => self.leave(Some(code.into()), None),
        }
    }

    fn leave(&mut self, code: Option<i32>, signal: Option<i32>) {
        self.exit.get_or_insert(Exit { code, signal, spawn_error: None });
    }
}

fn judged(fault: &str) -> Vec<Finding> {
    let mut played = Vec::new();
    for scene in Scene::ALL {
        if scene.is_worth_playing(&played) {
            played.push(play(scene, fault, &played));
        }
    }
    judge(&played)
}

fn failed(findings: &[Finding]) -> Vec<&str> {
    let failed = findings.iter().filter(|finding| finding.verdict == Verdict::Fail);
    failed.map(|finding| finding.point.id).collect()
}

#[test]
fn a_good_agent_passes_every_point_there_is() {
    let findings = judged("");
    let other: Vec<_> =
        findings.iter().filter(|finding| finding.verdict != Verdict::Pass).collect();
    // SIGTERM is sent to nobody who has left.
    assert_eq!(other.len(), 1, "{other:#?}");
    assert_eq!((other[0].point.id, other[0].verdict), ("leaves.term", Verdict::NotSeen));
    assert_eq!(findings.len(), POINTS.len());
}

/// Points that cannot be broken alone, with those that break with them.
const TOGETHER: &[(&str, &[&str])] = &[
    ("turn.again", &["turn.again", "cancel.again", "hears.broken"]),
    ("leaves.eof", &["leaves.eof", "leaves.midturn"]),
    ("leaves.term", &["leaves.eof", "leaves.midturn", "leaves.term"]),
];

#[test]
fn each_point_turns_red_by_itself_for_an_agent_that_breaks_it() {
    let mut wrong = Vec::new();
    for point in POINTS {
        let findings = judged(point.id);
        let together = TOGETHER.iter().find(|(id, _)| *id == point.id);
        let expected = together.map_or_else(|| vec![point.id], |(_, all)| all.to_vec());
        if failed(&findings) != expected {
            wrong.push(format!("{}: {:?}", point.id, failed(&findings)));
        }
        let finding = findings.iter().find(|finding| finding.point == *point).expect("a finding");
        assert!(finding.why.as_ref().is_some_and(|why| !why.is_empty()), "{finding:?}");
        assert!(finding.scene.is_some(), "{finding:?}");
        assert_eq!(finding.line.is_some(), finding.text.is_some(), "{finding:?}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_reason_and_the_line_of_each_are_as_they_were_reviewed() {
    let mut report = String::new();
    for point in POINTS {
        let findings = judged(point.id);
        let finding = findings.iter().find(|finding| finding.point == *point).expect("a finding");
        let place = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
        let (scene, why) = (finding.scene.unwrap_or("-"), finding.why.as_deref().unwrap_or("-"));
        report.push_str(&format!("{} {scene}{place} {why}\n", point.id));
        report.extend(finding.text.iter().map(|text| format!("    {text}\n")));
    }
    insta::assert_snapshot!(report);
}
