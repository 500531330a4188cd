//! Agents that try to leave something behind.

use crate::ostler::{Ostler, result};
use testkit::find_marked;

#[test]
fn nothing_is_left_of_an_agent_however_its_children_hide() {
    let rows = [
        ("--setsid-child", "succeeded"),
        ("--double-fork", "succeeded"),
        ("--hold-stdout", "succeeded"),
        ("--setsid-child --double-fork --hold-stdout --ignore-term", "succeeded"),
        ("--fork-often 50", "succeeded"),
    ];
    for (manner, outcome) in rows {
        let ostler = Ostler::new();
        let said = ostler.says(&["run", "--process", &ostler.fake(manner), "x", "--json"]);
        assert_eq!(result(&said.events())["outcome"], outcome, "{manner}: {said:#?}");
        let left = find_marked(&ostler.instance.mark());
        assert!(left.is_empty(), "{manner} left {left:?}");
        let spools = ostler.spools();
        assert!(spools.is_empty(), "the spool is removed: {spools:?}");
    }
}

#[test]
fn an_agent_that_ignores_everything_is_ended_when_its_time_is_up() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "deaf": {{ "type": "process", "binary": "{}", "graceSec": 1,
              "args": ["--silent", "--never-read-stdin", "--ignore-term"] }} }} }}"#,
        testkit::fake_agent().display()
    ));
    let said = ostler.says(&["run", "deaf", "x", "--json", "--timeout", "500ms"]);
    let events = said.events();
    let result = result(&events);
    assert_eq!(
        (said.code, &result["outcome"], &result["code"]),
        (8, &"timed_out".into(), &"timeout_wall".into())
    );
    assert_eq!(result["evidence"]["forced"], true);
    assert!(find_marked(&ostler.instance.mark()).is_empty());
}
