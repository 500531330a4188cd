//! The processes that can still write to the pipe on standard input, from /proc. A program in the same
//! pipeline as this one is a sibling; the program that started this one, such as a CI runner, is an
//! ancestor. Only processes of the same user and PID namespace are visible.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Whether another program of the same pipeline is expected to write to standard input.
pub fn is_fed_by_pipeline() -> bool {
    let Ok(stdin) = fs::metadata("/proc/self/fd/0") else { return false };
    let own = std::process::id();
    let writers =
        processes().filter(|pid| *pid != own && writes_to(*pid, stdin.dev(), stdin.ino()));
    of_pipeline(&writers.collect(), &ancestors(own))
}

/// Decides by who can write. A shell closes its own ends of a pipeline, so if an ancestor still holds
/// the pipe, this process has inherited it and the other writers may only have done the same.
fn of_pipeline(writers: &BTreeSet<u32>, ancestors: &BTreeSet<u32>) -> bool {
    !writers.is_empty() && writers.is_disjoint(ancestors)
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process has this pipe open for writing: the mode of the link to a descriptor says so.
fn writes_to(pid: u32, dev: u64, ino: u64) -> bool {
    const WRITABLE: u32 = 0o200;
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_end = |path: &Path| {
        let link = fs::symlink_metadata(path).is_ok_and(|link| link.mode() & WRITABLE != 0);
        link && fs::metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == (dev, ino))
    };
    entries.into_iter().any(|entry| is_end(&entry.path()))
}

fn ancestors(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut next = parent(pid);
    while let Some(pid) = next.filter(|pid| found.insert(*pid)) {
        next = parent(pid);
    }
    found
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, which may hold anything, ends with the last parenthesis.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sibling_feeds_and_an_ancestor_does_not() {
        let set = |pids: &[u32]| pids.iter().copied().collect::<BTreeSet<u32>>();
        let ancestors = set(&[1, 10, 20]);
        for (writers, expected) in
            [(&[][..], false), (&[30], true), (&[20], false), (&[30, 20], false)]
        {
            assert_eq!(of_pipeline(&set(writers), &ancestors), expected, "{writers:?}");
        }
    }

    #[test]
    fn own_ancestors_are_found() {
        let found = ancestors(std::process::id());
        assert!(found.contains(&std::os::unix::process::parent_id()), "{found:?}");
    }
}
