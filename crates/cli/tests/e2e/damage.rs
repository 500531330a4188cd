//! A store that is not as this version left it: made by a newer one, or changed by its disk. Nothing
//! of it is touched, nothing wrong is shown, and whoever asks is told what to do.

use crate::ostler::Ostler;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a later version would leave: one migration more than this one knows.
const RAISE: &str = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); \
    db.execute(\"INSERT INTO migrations SELECT max(n) + 1, 'later', 'x' FROM migrations\"); \
    db.commit(); db.close()";

/// Says something that is too long to stay inline.
const LONG: &str = "--line-bytes 200000 --burst 1";

fn run(ostler: &Ostler) -> String {
    let events = ostler.events(&["run", "--process", &ostler.fake(LONG), "x", "--json"]);
    events[0]["run_id"].as_str().unwrap().to_owned()
}

/// Every file below a folder, with its bytes.
fn everything(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(everything(&path)),
            false => drop(found.insert(path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found
}

#[test]
fn a_store_of_a_newer_version_is_refused_by_every_command_and_left_as_it_is() {
    let ostler = Ostler::new();
    let (data, shown) = (ostler.instance.data(), run(&ostler));
    let python = testkit::python().expect("there is a python3");
    let raised = Command::new(python).args(["-c", RAISE]).arg(data.join("ostler.db")).status();
    assert!(raised.unwrap().success());
    // What the newer one was writing when it was ended.
    std::fs::write(data.join("blobs/new-1-1"), "half a blob").unwrap();
    let before = everything(&data);
    let agent = ostler.fake("");
    for command in [
        vec!["runs"],
        vec!["run", "--process", &agent, "x"],
        vec!["show", &shown],
        vec!["costs"],
        vec!["task", "list"],
        vec!["serve", "--listen", "127.0.0.1:0"],
    ] {
        let said = ostler.says(&command);
        assert_eq!(said.code, 14, "{command:?} {said:?}");
        assert!(said.stderr.contains("store_newer"), "{command:?} {said:?}");
        let after = everything(&data);
        let changed: Vec<_> = before
            .keys()
            .chain(after.keys())
            .filter(|path| before.get(*path) != after.get(*path))
            .collect();
        assert_eq!(changed, [] as [&PathBuf; 0], "{command:?}");
    }
}

#[test]
fn a_damaged_blob_is_named_and_the_rest_of_its_run_is_shown() {
    let ostler = Ostler::new();
    let shown = run(&ostler);
    let whole = ostler.says(&["show", &shown, "--full", "--json"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    let blobs = everything(&ostler.instance.data().join("blobs"));
    for (path, mut bytes) in blobs.clone() {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let said = ostler.says(&["show", &shown, "--full", "--json"]);
    assert_eq!(said.code, 14, "{}", said.stderr);
    let names = |path: &PathBuf| said.stderr.contains(path.file_name().unwrap().to_str().unwrap());
    assert!(said.stderr.contains("store_unreadable") && blobs.keys().any(names), "{}", said.stderr);
    assert!(said.stderr.contains("from a backup"), "{}", said.stderr);
    let (whole, events) = (whole.events(), said.events());
    assert_eq!(events.len(), whole.len());
    let cut = |event: &&serde_json::Value| event["truncated"] == true;
    assert_eq!(events.iter().filter(cut).count(), blobs.len());
    assert!(events.iter().filter(cut).all(|event| event["text_blob"]["hash"].is_string()));
}

/// Writes words of a version after this one: a fault code and an outcome of the first run, an event of
/// an unknown kind into it, the state of the second one, and why the first task waits.
const UNKNOWN_WORDS: &str = r#"
import sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("PRAGMA ignore_check_constraints = ON")
store.execute("UPDATE runs SET outcome = 'forked', code = 'star_misaligned' WHERE num = 1")
bytes = store.execute("SELECT bytes FROM events WHERE run = 1 AND seq = 2").fetchone()[0]
head = bytes[:bytes.index(b'"kind"')]
store.execute("UPDATE events SET bytes = ? WHERE run = 1 AND seq = 2",
    (head + b'"kind":"hologram","frames":[1,2],"colour":"red"}',))
store.execute("UPDATE runs SET state = 'hibernating', outcome = NULL, ended_at = NULL WHERE num = 2")
store.execute("UPDATE tasks SET state = 'waiting', waiting_for = 'moonrise' WHERE num = 1")
store.execute("UPDATE tasks SET state = 'delegated' WHERE num = 2")
store.close()
"#;

#[test]
fn words_of_a_newer_version_are_shown_and_left_alone() {
    let ostler = Ostler::new();
    let (first, second, third) = (run(&ostler), run(&ostler), run(&ostler));
    let database = ostler.instance.data().join("ostler.db");
    let python = testkit::python().expect("there is a python3");
    let written = Command::new(python).args(["-c", UNKNOWN_WORDS]).arg(&database).output().unwrap();
    assert!(written.status.success(), "{written:?}");

    let runs = || -> Vec<Value> {
        let said = ostler.says(&["runs", "--json", "--limit", "50"]);
        assert_eq!(said.code, 0, "{said:?}");
        serde_json::from_str(&said.stdout).unwrap()
    };
    let row = |id: &str| runs().into_iter().find(|row| row["run_id"] == *id).unwrap();
    assert_eq!(row(&first)["outcome"], "unknown");
    assert_eq!(row(&first)["code"], "unknown");
    assert_eq!(row(&second)["state"], "unknown");
    assert_eq!(row(&third)["outcome"], "succeeded");
    for command in [
        vec!["runs"],
        vec!["show", &first],
        vec!["show", &second],
        vec!["watch", &first],
        vec!["task", "list"],
        vec!["costs"],
        vec!["run", "demo", "hello"],
    ] {
        let said = ostler.says(&command);
        let fine = said.code == 0 || command[0] == "watch";
        assert!(fine && !said.stderr.contains("store_unreadable"), "{command:?} {said:?}");
    }
    // The event is passed on with its fields, and shown.
    let events = ostler.says(&["show", &first, "--json"]).events();
    assert_eq!((&events[1]["kind"], &events[1]["colour"]), (&"hologram".into(), &"red".into()));
    let shown = ostler.says(&["show", &first]).stdout;
    assert!(shown.contains("hologram"), "{shown}");

    // A host starts, adopts nothing of it, and works.
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    assert_eq!(ostler.says(&["run", "demo", "hello"]).code, 0);
    let said = ostler.says(&["show", &second, "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(row(&second)["state"], "unknown", "it was not driven");
    // This process was started here.
    let _ = serve.child.kill();
    let _ = serve.child.wait();
}
