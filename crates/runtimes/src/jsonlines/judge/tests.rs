//! Agents played on paper: each is a list of lines, and the orchestrator is the real one.

use super::*;

/// What an agent says, and how it exits.
struct Paper {
    lines: &'static [&'static str],
    code: i32,
}

/// Plays an agent that says a line every second and leaves when it has said them all.
fn play(scene: Scene, paper: &Paper) -> Recording {
    let mut orchestrator = Orchestrator::new(scene, 60_000);
    let mut lines = Vec::new();
    for (at_ms, text) in (0..).step_by(1_000).zip(paper.lines) {
        orchestrator.tick(at_ms);
        orchestrator.hear(at_ms, text.as_bytes());
        lines.push(Heard { at_ms, bytes: text.as_bytes().to_vec(), ended: true });
    }
    let exit = Exit { code: Some(paper.code), ..Exit::default() };
    let done = Done { stopped: false, ..orchestrator.done() };
    Recording { scene, lines, done, exit }
}

fn report(paper: &Paper) -> String {
    let scenes = [Scene::Plain, Scene::Strangers, Scene::Late, Scene::Refused, Scene::Shutdown];
    let recordings: Vec<_> = scenes.map(|scene| play(scene, paper)).into();
    let mut report = String::new();
    for finding in judge(&recordings) {
        let Finding { point, verdict, scene, line, text, why, more, hint: _ } = finding;
        if verdict == Verdict::Pass {
            continue;
        }
        let place = scene.map(|scene| format!(" {scene}")).unwrap_or_default();
        let line = line.map(|line| format!(" line {line}")).unwrap_or_default();
        let more = if more > 0 { format!(" (+{more})") } else { String::new() };
        report.push_str(&format!("{verdict:?} {}{place}{line}{more}", point.id));
        report.push_str(&format!(": {}\n", why.unwrap_or_default()));
        if let Some(text) = text {
            report.push_str(&format!("  {text}\n"));
        }
    }
    report
}

#[test]
fn the_page_lists_every_point_as_it_is() {
    let page = include_str!("../../../../../docs/protocols/json-lines.md").replace('`', "");
    for point @ Point { id, what, .. } in POINTS {
        let kind = point.weight();
        assert!(page.contains(&format!("| {id} | {what} | {kind} |")), "{id}");
    }
    for scene in Scene::ALL {
        assert!(page.contains(&format!("| {} | ", scene.word())), "{}", scene.word());
    }
}

#[test]
fn a_good_agent_offends_in_nothing() {
    let paper = Paper {
        lines: &[
            r#"{"type":"tool_call","id":"1","tool":"read_task","args":{}}"#,
            r#"{"type":"progress","summary":"half way","beliefs":[1],"cost":{"usd":0.1}}"#,
            r#"{"type":"event","event":{"kind":"assistant_text","text":"hi"}}"#,
            "",
            r#"{"type":"complete","output":{"text":"done"}}"#,
        ],
        code: 0,
    };
    insta::assert_snapshot!(report(&paper), @"
    NotSeen hears.spoken: no hello accepts a message or an interrupt
    NotSeen hears.resume: no hello accepts to be resumed
    NotSeen hears.eof: it ended before the request could be sent
    ");
}

#[test]
fn every_offence_is_named_with_its_line() {
    let paper = Paper {
        lines: &[
            "npm notice: a new version is available",
            r#"{"type":"sing","song":"la la"}"#,
            r#"{"type":"progress","summary":3,"beliefs":"one"}"#,
            r#"{"type":"tool_call","id":"1","tool":"read_mind","args":[]}"#,
            r#"{"type":"tool_call","id":"1","tool":"read_task","args":{}}"#,
            r#"{"type":"event","event":{"kind":"result","outcome":"succeeded"}}"#,
            r#"{"type":"complete","cost":{"usd":-1}}"#,
            r#"{"type":"failed","reason":"second thoughts"}"#,
            "bye",
        ],
        code: 3,
    };
    insta::assert_snapshot!(report(&paper));
}

#[test]
fn an_answer_to_another_call_is_no_answer() {
    // Late answers come after 400 ms, and this agent ends at once.
    let late = |tool: &str| {
        let call = format!(r#"{{"type":"tool_call","id":"1","tool":"{tool}"}}"#);
        let lines = [call.as_str(), r#"{"type":"complete"}"#];
        let mut orchestrator = Orchestrator::new(Scene::Late, 60_000);
        let heard = |text: &&str| Heard { at_ms: 0, bytes: text.as_bytes().to_vec(), ended: true };
        lines.iter().for_each(|text| drop(orchestrator.hear(0, text.as_bytes())));
        let exit = Exit { code: Some(0), ..Exit::default() };
        let lines = lines.iter().map(heard).collect();
        let plain = Paper {
            lines: &[
                r#"{"type":"tool_call","id":"1","tool":"read_task"}"#,
                r#"{"type":"complete"}"#,
            ],
            code: 0,
        };
        let late = Recording { scene: Scene::Late, lines, done: orchestrator.done(), exit };
        let judged = judge(&[play(Scene::Plain, &plain), late]);
        let point = judged.into_iter().find(|finding| finding.point.id == "hears.late").unwrap();
        (point.verdict, point.line)
    };
    assert_eq!(late("read_task"), (Verdict::Fail, Some(1)));
    assert_eq!(late("report_progress"), (Verdict::NotSeen, None));
}

#[test]
fn an_agent_that_says_nothing_has_no_end() {
    insta::assert_snapshot!(report(&Paper { lines: &[], code: 1 }));
}

#[test]
fn who_has_to_be_killed_is_said_to_be() {
    let lines = [r#"{"type":"complete"}"#, r#"{"type":"progress","summary":"cut"#];
    let heard = |(ended, text): (bool, &str)| Heard { at_ms: 0, bytes: text.into(), ended };
    let recording = |scene: Scene, lines: Vec<Heard>, told_after: Option<usize>| Recording {
        scene,
        lines,
        done: Done { told_after, stopped: true, ..Done::default() },
        exit: Exit { signal: Some(9), ..Exit::default() },
    };
    let lingers = recording(Scene::Plain, lines.map(|text| heard((true, text))).into(), None);
    let deaf = recording(Scene::Shutdown, vec![heard((false, lines[1]))], Some(0));
    assert!(!Scene::Late.is_worth_playing(std::slice::from_ref(&lingers)));
    assert!(Scene::Eof.is_worth_playing(std::slice::from_ref(&lingers)));
    let failed: Vec<_> = judge(&[lingers, deaf])
        .into_iter()
        .filter(|finding| finding.verdict == Verdict::Fail)
        .map(|finding| (finding.point.id, finding.scene.unwrap(), finding.line, finding.more))
        .collect();
    assert_eq!(
        failed,
        [
            ("lines.objects", "plain", Some(2), 0),
            ("end.last", "plain", Some(2), 0),
            ("end.leaves", "plain", Some(1), 0),
            ("hears.shutdown", "shutdown", None, 0),
        ],
        "a line that our own kill cut is not held against it"
    );
}

#[test]
fn whoever_was_slow_to_begin_once_is_not_said_to_buffer() {
    let call = r#"{"type":"tool_call","id":"1","tool":"now","args":{}}"#;
    let recording = |scene: Scene, answered: usize, told_after: Option<usize>| Recording {
        scene,
        lines: vec![Heard { at_ms: 0, bytes: call.into(), ended: true }],
        done: Done { answered, told_after, ..Done::default() },
        exit: Exit::default(),
    };
    let slow = recording(Scene::Eof, 0, Some(0));
    let fails = |scenes: &[Recording]| {
        let judged = judge(scenes);
        let flush = judged.iter().find(|finding| finding.point.id == "lines.flush").unwrap();
        flush.verdict == Verdict::Fail
    };
    assert!(fails(&[recording(Scene::Plain, 0, Some(0)), slow.clone()]));
    assert!(!fails(&[recording(Scene::Plain, 1, None), slow]));
}

#[test]
fn calls_are_answered_once_and_late_ones_in_reverse() {
    let call = |id: &str| format!(r#"{{"type":"tool_call","id":"{id}","tool":"get_budget"}}"#);
    let ids = |acts: Vec<Act>| -> Vec<String> {
        let id = |act: Act| match act {
            Act::Say(line) => {
                let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
                line["id"].as_str().unwrap_or_default().to_owned()
            }
            Act::CloseStdin | Act::Stop => "none".to_owned(),
        };
        acts.into_iter().map(id).collect()
    };
    let mut plain = Orchestrator::new(Scene::Plain, 1_000);
    assert_eq!(ids(plain.hear(0, call("a").as_bytes())), ["a"]);
    assert_eq!(ids(plain.hear(1, call("a").as_bytes())), [] as [&str; 0]);
    let mut late = Orchestrator::new(Scene::Late, 1_000);
    assert_eq!(ids(late.hear(0, call("a").as_bytes())), ["nobody-asked"]);
    assert_eq!(ids(late.hear(1, call("b").as_bytes())), [] as [&str; 0]);
    assert_eq!(ids(late.tick(200)), [] as [&str; 0]);
    assert_eq!(ids(late.tick(400)), ["b", "a"]);
}

#[test]
fn a_quiet_agent_is_told_to_leave_and_then_ended() {
    let mut orchestrator = Orchestrator::new(Scene::Plain, 1_000);
    assert_eq!(orchestrator.tick(999), []);
    let told = orchestrator.tick(1_000);
    let [Act::Say(line)] = &told[..] else { panic!("{told:?}") };
    let line: serde_json::Value = serde_json::from_slice(line).unwrap();
    assert_eq!(line, serde_json::json!({ "type": "shutdown", "reason": "cancelled" }));
    assert_eq!(orchestrator.tick(5_999), []);
    assert_eq!(orchestrator.tick(6_000), [Act::Stop]);
    assert_eq!(orchestrator.tick(7_000), []);
    let done = orchestrator.done();
    assert!(done.stopped && done.told_after == Some(0));
}
