//! What a disk may hold after the power was cut: all that was synced, and of everything since a
//! random part, sector by sector. Names last once their folder was synced, and not before; each
//! half of a rename is lost or kept on its own. This is harsher than the file systems in use.

use super::log::{Node, Op, ROOT};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Chance from a seed, so that a failing image can be made again.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn percent(&mut self, n: u64) -> bool {
        self.next() % 100 < n
    }
}

#[derive(Default)]
struct Inode {
    synced: Vec<u8>,
    since: Vec<Change>,
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

/// A name in the folder of this number.
type Name = (u32, OsString);

/// A disk that follows a log. The root is there from the beginning.
#[derive(Default)]
pub(super) struct Disk {
    files: BTreeMap<u32, Inode>,
    synced: BTreeMap<Name, Node>,
    /// Names given and taken, in order, whose folder was not synced since.
    since: Vec<(Name, Option<Node>)>,
}

impl Disk {
    pub fn follow(&mut self, op: &Op) {
        match op {
            Op::Write { file, offset, bytes } => {
                let change = Change::Write { offset: *offset, bytes: bytes.clone() };
                self.files.entry(*file).or_default().since.push(change);
            }
            Op::Truncate { file, size } => {
                self.files.entry(*file).or_default().since.push(Change::Truncate(*size));
            }
            Op::Sync { file } => {
                let inode = self.files.entry(*file).or_default();
                for change in std::mem::take(&mut inode.since) {
                    apply(&mut inode.synced, &change);
                }
            }
            Op::Name { folder, path, node } => {
                self.since.push((name(*folder, path), Some(*node)));
            }
            Op::Unname { folder, path } => self.since.push((name(*folder, path), None)),
            Op::SyncFolder { folder, .. } => {
                let (lasting, open) = std::mem::take(&mut self.since)
                    .into_iter()
                    .partition::<Vec<_>, _>(|((within, _), _)| within == folder);
                self.since = open;
                lasting.into_iter().for_each(|entry| enter(&mut self.synced, entry));
            }
            Op::Unsynced { file } => self.files.entry(*file).or_default().since.clear(),
            Op::UnsyncedFolder { folder } => {
                self.since.retain(|((within, _), _)| within != folder);
            }
            Op::Answer => {}
        }
    }

    /// Cuts the power and lays what is left into a folder.
    pub fn cut(&self, dice: &mut Dice, to: &Path) {
        let kept = [0, 10, 50, 90, 100][dice.below(5)];
        let sector = [512, 4096][dice.below(2)];
        let mut names = self.synced.clone();
        for entry in &self.since {
            if dice.percent(kept) {
                enter(&mut names, entry.clone());
            }
        }
        self.lay(dice, &Left { names, kept, sector }, ROOT, to);
    }

    /// Lays out what is left of a folder. One whose own name was lost took everything in it along.
    fn lay(&self, dice: &mut Dice, left: &Left, folder: u32, to: &Path) {
        let inside = left.names.range((folder, OsString::new())..(folder + 1, OsString::new()));
        for ((_, name), node) in inside {
            let path = to.join(name);
            match node {
                Node::Folder(folder) => {
                    fs::create_dir(&path).unwrap();
                    self.lay(dice, left, *folder, &path);
                }
                Node::File(file) => {
                    let inode = self.files.get(file);
                    let bytes = inode.map(|inode| inode.cut(dice, left.kept, left.sector));
                    fs::write(&path, bytes.unwrap_or_default()).unwrap();
                }
            }
        }
    }
}

/// What one cut leaves: these names, and so many percent of what was not synced.
struct Left {
    names: BTreeMap<Name, Node>,
    kept: u64,
    sector: usize,
}

fn name(folder: u32, path: &Path) -> Name {
    (folder, path.file_name().unwrap().to_owned())
}

fn enter(names: &mut BTreeMap<Name, Node>, (name, node): (Name, Option<Node>)) {
    match node {
        Some(node) => names.insert(name, node),
        None => names.remove(&name),
    };
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes: new } => put(bytes, *offset, new),
        Change::Truncate(size) => bytes.resize(*size, 0),
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

impl Inode {
    /// Sectors are kept or lost each on its own; the length may have come through without them.
    fn cut(&self, dice: &mut Dice, kept: u64, sector: usize) -> Vec<u8> {
        let mut left = self.synced.clone();
        let mut length = left.len();
        for change in &self.since {
            match change {
                Change::Write { offset, bytes } => {
                    length = length.max(offset + bytes.len());
                    let mut at = 0;
                    while at < bytes.len() {
                        // Sectors are those of the disk, not of the write.
                        let end = ((offset + at) / sector + 1) * sector - offset;
                        let end = end.min(bytes.len());
                        if dice.percent(kept) {
                            put(&mut left, offset + at, &bytes[at..end]);
                        }
                        at = end;
                    }
                }
                Change::Truncate(size) => {
                    length = *size;
                    if dice.percent(kept) {
                        left.resize(*size, 0);
                    }
                }
            }
        }
        if dice.percent(50) && left.len() < length {
            left.resize(length, 0);
        }
        left
    }
}
