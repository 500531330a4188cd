//! The judge of ACP agents with real processes: a good one passes, and those faults are found that
//! only a process can have. That each point can turn red is shown on paper, in `testkit`.

use crate::ostler::{Ostler, Said};
use serde_json::Value;

fn judged(ostler: &Ostler, fault: &str) -> Said {
    let fake = testkit::fake_agent().display().to_string();
    let mut args = vec!["conformance", "acp", "--json", "--patience", "10s", "--"];
    args.extend([&fake, "--acp-judged", fault]);
    ostler.says(&args)
}

/// The points that were not passed, with where and why.
fn other(said: &Said) -> Vec<String> {
    let report: Value =
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:#?}"));
    let points = report["points"].as_array().expect("points");
    let word = |point: &Value, name: &str| point[name].as_str().unwrap_or("-").to_owned();
    let other = points.iter().filter(|point| point["verdict"] != "pass");
    let words = ["verdict", "id", "scene", "why"];
    other.map(|point| words.map(|name| word(point, name)).join(" ")).collect()
}

/// Nothing of a judged agent is left: no process, no file.
fn assert_swept(ostler: &Ostler) {
    assert_eq!(testkit::find_marked(&ostler.instance.mark()), []);
    let left: Vec<_> =
        std::fs::read_dir(ostler.instance.root().join("tmp")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!ostler.instance.data().exists(), "a judge needs no store");
}

#[test]
fn a_good_agent_conforms() {
    let ostler = Ostler::new();
    let said = judged(&ostler, "");
    assert_eq!(other(&said), ["not_seen leaves.term - it always left before"]);
    assert_eq!(said.code, 0);
    assert_swept(&ostler);
}

#[test]
fn an_agent_that_stays_is_named_and_ended() {
    let ostler = Ostler::new();
    let said = judged(&ostler, "leaves.term");
    assert_eq!(
        other(&said),
        [
            "fail leaves.eof plain it was still there five seconds later",
            "fail leaves.midturn eof it was still there five seconds later",
            "fail leaves.term plain it was still there five seconds later and was killed",
        ]
    );
    assert_eq!(said.code, 15, "leaving is required");
    assert_swept(&ostler);
}

#[test]
fn an_agent_that_does_what_it_was_denied_is_found_by_what_it_left() {
    let ostler = Ostler::new();
    let said = judged(&ostler, "asks.obeys");
    let found = other(&said);
    assert_eq!(
        found[0],
        "fail asks.obeys denied conformance.txt is there, and all that was asked was denied"
    );
    assert_eq!(said.code, 15);
    assert_swept(&ostler);
}

#[test]
fn advice_decides_nothing() {
    let ostler = Ostler::new();
    let said = judged(&ostler, "hears.broken");
    let found = other(&said);
    let why = "nothing was answered after it: it exited with 1";
    assert_eq!(found[0], format!("fail hears.broken strangers {why}"));
    assert_eq!(said.code, 0);
}

#[test]
fn what_is_no_agent_is_told_to_people_with_its_line() {
    let ostler = Ostler::new();
    std::fs::write(ostler.instance.work().join("words"), "good day\n").unwrap();
    let said = ostler.says(&["conformance", "acp", "--patience", "1s", "--", "cat", "words"]);
    assert_eq!(said.code, 15, "{said:?}");
    assert!(said.stdout.contains("✗ lines.json"), "{}", said.stdout);
    assert!(said.stdout.contains("    plain scene, line 1: it is not JSON"), "{}", said.stdout);
    assert!(said.stdout.contains("    good day\n"), "{}", said.stdout);
    let missing = ostler.says(&["conformance", "acp", "--", "no-such-agent"]);
    assert_eq!(missing.code, 15, "{missing:?}");
    assert!(missing.stdout.starts_with("✗ starts"), "{}", missing.stdout);
    assert!(missing.stdout.lines().count() < 8, "{}", missing.stdout);
    assert_eq!(ostler.says(&["conformance", "acp"]).code, 2);
    assert_swept(&ostler);
}

#[test]
fn a_variable_is_handed_on_only_when_it_is_named() {
    let ostler = Ostler::new();
    let script = "import os, sys\nprint(os.environ.get('JUDGED_KEY', 'nothing'), flush=True)\n";
    std::fs::write(ostler.instance.work().join("shows.py"), script).unwrap();
    for (flags, shown) in [(&[][..], "nothing"), (&["--env", "JUDGED_KEY"][..], "heron")] {
        let mut args = vec!["conformance", "acp", "--patience", "1s"];
        args.extend(flags);
        args.extend(["--", "python3", "shows.py"]);
        let output = ostler.command(&args).env("JUDGED_KEY", "heron").output().unwrap();
        let said = Said::from(output);
        assert!(said.stdout.contains(&format!("    {shown}\n")), "{}", said.stdout);
    }
}
