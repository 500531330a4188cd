//! A race that must be lost: while tools read, list and write through a directory, someone exchanges
//! it with a link that leads out, again and again. Nothing outside is ever seen or touched.

use super::{Change, Was, Workspace};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How often the tools come, each time with one of them.
const TRIES: usize = 10_000;

/// Ends the exchanges when the tries are over, also by a failed one.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Exchanges `a` and `b` until told to stop, and counts how often.
fn swap(a: &Path, b: &Path, over: &AtomicBool, swaps: &AtomicU64) {
    while !over.load(Ordering::Relaxed) {
        renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
        swaps.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_link_that_comes_between_look_and_open_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, work) = (dir.path().join("outside"), dir.path().join("work"));
    for dir in [&outside, &work.join("d")] {
        std::fs::create_dir_all(dir).unwrap();
    }
    std::fs::write(outside.join("f"), "outside").unwrap();
    std::fs::write(outside.join("hidden"), "outside").unwrap();
    std::fs::write(work.join("d/f"), "inside").unwrap();
    symlink("../outside", work.join("way")).unwrap();
    let workspace = Workspace::open(&work).unwrap();
    let (over, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut inside, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&work.join("d"), &work.join("way"), &over, &swaps));
        let _over = Over(&over);
        for i in 0..TRIES {
            let held = match i % 4 {
                0 => workspace.read("d/f", 100).map(|(bytes, _)| bytes != b"outside"),
                1 => workspace
                    .list("d", 2, 100)
                    .map(|(found, _)| found.iter().all(|entry| !entry.path.contains("hidden"))),
                2 => workspace.change(&[write("d/f", b"inside")]).map(|()| true),
                _ => workspace.change(&[write("d/new/g", b"inside")]).map(|()| true),
            };
            match held {
                Ok(held) => {
                    assert!(held, "try {i} saw what is outside");
                    inside += 1;
                }
                // Refused while the link was there.
                Err(_) => refused += 1,
            }
        }
    });
    let swaps = swaps.into_inner();
    // Both sides of the race were there, or nothing was shown.
    assert!(inside > 0 && refused > 0 && swaps > 100, "{inside} {refused} {swaps}");
    let mut left: Vec<_> = std::fs::read_dir(&outside).unwrap().flatten().collect();
    left.sort_by_key(std::fs::DirEntry::file_name);
    let left: Vec<_> = left.iter().map(std::fs::DirEntry::file_name).collect();
    assert_eq!(left, ["f", "hidden"], "after {swaps} swaps");
    assert_eq!(std::fs::read_to_string(outside.join("f")).unwrap(), "outside");
}

fn write(path: &str, content: &[u8]) -> Change {
    let becomes = Some(content.to_vec());
    Change { path: path.to_owned(), was: Was::Anything, becomes, executable: false }
}
