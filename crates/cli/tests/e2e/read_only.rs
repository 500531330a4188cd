//! A data directory that cannot be written to: nothing is started, nothing is touched, and whoever
//! asks is told what to do. A host that was there before can still be asked by others. One that
//! becomes read-only under a host is in `storage.rs`.

use crate::ostler::{Ostler, signal};
use crate::storage::SmallDisk;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directory over itself, and there it can only be read.
const READ_ONLY: &str = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"";

fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().flatten().filter(|entry| entry.path().is_file());
    entries.map(|entry| (entry.path(), std::fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn a_directory_that_can_only_be_read_is_refused_with_what_to_do() {
    let ostler = Ostler::new();
    let said = ostler.says(&["run", "demo", "hello", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let id = said.events()[0]["run_id"].as_str().unwrap().to_owned();
    let Some(disk) = SmallDisk::mounted(ostler, READ_ONLY) else { return };
    let data = disk.ostler.instance.data();
    let before = content(&data);
    let commands: [&[&str]; 6] = [
        &["runs"],
        &["show", &id],
        &["run", "--process", "touch started", "go"],
        &["stop", &id],
        &["watch", &id],
        &["serve", "--listen", "127.0.0.1:0"],
    ];
    for command in commands {
        let said = disk.says(command);
        assert_eq!(said.code, 14, "{command:?}: {said:?}");
        assert!(said.complaint().starts_with("error: store_unreadable: "), "{said:?}");
        let told = [data.to_str().unwrap(), "writable", "--data"];
        assert!(told.iter().all(|word| said.stderr.contains(word)), "{command:?}: {said:?}");
    }
    assert!(!disk.ostler.instance.work().join("started").exists(), "no agent was started");
    assert_eq!(content(&data), before, "nothing in it was changed");
    // What it says to do does it.
    let copy = disk.ostler.instance.root().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for (path, bytes) in before {
        std::fs::write(copy.join(path.file_name().unwrap()), bytes).unwrap();
    }
    let said = disk.says(&["runs", "--data", copy.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("demo"), "{said:?}");
}

#[test]
fn who_can_only_read_the_directory_still_reaches_its_host() {
    let ostler = Ostler::new();
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on"));
    assert_eq!(ostler.says(&["run", "demo", "hello", "--quiet"]).code, 0);
    let Some(disk) = SmallDisk::mounted(ostler, READ_ONLY) else { return };
    let listed = disk.says(&["runs"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stdout.contains("demo"), "{listed:?}");
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
}
