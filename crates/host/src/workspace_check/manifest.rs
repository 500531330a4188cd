//! What is remembered of a workspace, and how two such memories differ. Pure. A path is kept as the
//! bytes of its name, relative to the workspace or absolute where it lies outside; that of a directory
//! ends with a slash, so that what is below it follows it directly.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// The paths that are compared, with a stamp each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest(pub BTreeMap<Vec<u8>, Stamp>);

/// What is remembered of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamp {
    File {
        bytes: u64,
        /// Of the inode: unlike the time of the content, a program cannot set it back.
        changed: (i64, i64),
        inode: u64,
        mode: u32,
    },
    /// Size and times of a directory change with files that are not compared.
    Directory { mode: u32 },
    /// A directory that git neither ignores nor lists a file of. Only a new one that is empty is a
    /// difference: others hold files that are ignored.
    Unlisted { is_empty: bool },
    /// The settings of a repository, but for those of its branches, which `git push -u` changes.
    Settings { digest: [u8; 16] },
}

impl Stamp {
    pub fn of_file(found: &Metadata) -> Self {
        let changed = (found.ctime(), found.ctime_nsec());
        Self::File { bytes: found.len(), changed, inode: found.ino(), mode: found.mode() }
    }
}

/// One path that is different.
#[derive(Debug)]
pub(super) struct Difference<'a> {
    path: &'a [u8],
    how: &'static str,
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", String::from_utf8_lossy(self.path), self.how)
    }
}

impl Difference<'_> {
    /// Whether it lies in a directory like `.claude`, where agents keep files of their own.
    pub fn is_of_an_agent(&self) -> bool {
        let is_hidden = self.path.starts_with(b".") && self.path.contains(&b'/');
        is_hidden && !self.path.starts_with(b".git/") && !self.path.starts_with(b"./")
    }
}

/// The word for these paths, by their count.
pub(super) fn word_for(different: &[Difference<'_>]) -> &'static str {
    let has_directory = different.iter().any(|one| one.path.ends_with(b"/"));
    match (has_directory, different.len()) {
        (false, 1) => "file",
        (false, _) => "files",
        (true, 1) => "directory",
        (true, _) => "files and directories",
    }
}

/// The paths that were made, changed or removed. A directory that was made or removed with something
/// in it is not named beside that.
pub(super) fn differences<'a>(before: &'a Manifest, now: &'a Manifest) -> Vec<Difference<'a>> {
    let (before, now) = (&before.0, &now.0);
    let made = now.iter().filter(|(path, _)| !before.contains_key(*path));
    let made = made.filter(|(path, stamp)| match stamp {
        Stamp::Unlisted { is_empty } => *is_empty,
        Stamp::Directory { .. } => !holds_more(now, path),
        Stamp::File { .. } | Stamp::Settings { .. } => true,
    });
    let made = made.map(|(path, _)| Difference { path, how: "new" });
    let other = before.iter().filter_map(|(path, stamp)| {
        let how = match (stamp, now.get(path)) {
            (Stamp::Unlisted { .. }, _) | (_, Some(Stamp::Unlisted { .. })) => return None,
            (Stamp::Directory { .. }, None) if holds_more(before, path) => return None,
            (_, None) => "removed",
            (stamp, Some(now)) if now != stamp => "changed",
            (_, Some(_)) => return None,
        };
        Some(Difference { path, how })
    });
    made.chain(other).collect()
}

/// Whether there is anything below a directory.
fn holds_more(paths: &BTreeMap<Vec<u8>, Stamp>, dir: &[u8]) -> bool {
    let after = (std::ops::Bound::Excluded(dir), std::ops::Bound::Unbounded);
    paths.range::<[u8], _>(after).next().is_some_and(|(next, _)| next.starts_with(dir))
}

const FILE: u8 = b'f';
const DIRECTORY: u8 = b'd';
const UNLISTED: u8 = b'u';
const SETTINGS: u8 = b's';

impl Manifest {
    /// The manifest as bytes: of each path its length, itself, the sort of its stamp and the stamp.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.len() * 96);
        for (path, stamp) in &self.0 {
            // No path that a system call takes is longer than 4096 bytes.
            out.extend(u32::try_from(path.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(path);
            match stamp {
                Stamp::File { bytes, changed, inode, mode } => {
                    out.push(FILE);
                    out.extend(bytes.to_le_bytes());
                    out.extend(changed.0.to_le_bytes());
                    out.extend(changed.1.to_le_bytes());
                    out.extend(inode.to_le_bytes());
                    out.extend(mode.to_le_bytes());
                }
                Stamp::Directory { mode } => {
                    out.push(DIRECTORY);
                    out.extend(mode.to_le_bytes());
                }
                Stamp::Unlisted { is_empty } => out.extend([UNLISTED, u8::from(*is_empty)]),
                Stamp::Settings { digest } => {
                    out.push(SETTINGS);
                    out.extend(digest);
                }
            }
        }
        out
    }

    /// `None` for bytes that `encode` did not write.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        // In the order of the paths, so that the map is built at once.
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_le_bytes(take(&mut rest)?) as usize;
            let (path, after) = rest.split_at_checked(length)?;
            rest = after;
            let [sort] = take(&mut rest)?;
            let stamp = match sort {
                FILE => Stamp::File {
                    bytes: u64::from_le_bytes(take(&mut rest)?),
                    changed: (
                        i64::from_le_bytes(take(&mut rest)?),
                        i64::from_le_bytes(take(&mut rest)?),
                    ),
                    inode: u64::from_le_bytes(take(&mut rest)?),
                    mode: u32::from_le_bytes(take(&mut rest)?),
                },
                DIRECTORY => Stamp::Directory { mode: u32::from_le_bytes(take(&mut rest)?) },
                UNLISTED => Stamp::Unlisted { is_empty: take(&mut rest)? == [1] },
                SETTINGS => Stamp::Settings { digest: take(&mut rest)? },
                _ => return None,
            };
            entries.push((path.to_vec(), stamp));
        }
        Some(Self(entries.into_iter().collect()))
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let file = Stamp::File { bytes: 7, changed: (-1, 999), inode: u64::MAX, mode: 0o100_644 };
        let entries = [
            (b"a\xff\nb".to_vec(), file),
            (b"d/".to_vec(), Stamp::Directory { mode: 0o40_755 }),
            (b"e/".to_vec(), Stamp::Unlisted { is_empty: true }),
            (b"/x/config".to_vec(), Stamp::Settings { digest: [9; 16] }),
        ];
        let manifest = Manifest(entries.into_iter().collect());
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Some(manifest));
        assert_eq!(Manifest::decode(&bytes[..bytes.len() - 1]), None);
    }
}
