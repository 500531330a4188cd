//! Whether SQLite's log has lost what was committed. SQLite ends its log at the first frame that is
//! broken, and forgets what lies behind it. After a crash that is right: only the transaction that was
//! being written can be torn, because each is synced before the next one begins. So where frames of
//! the same log go on behind a later commit, a frame was broken that had been durable. The format is
//! SQLite's own (<https://sqlite.org/fileformat2.html#walformat>).

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The last bit says in which order the words of a checksum are read.
const MAGIC: u32 = 0x377f_0682;

struct Frame<'a> {
    header: &'a [u8],
    page: &'a [u8],
}

impl Frame<'_> {
    fn salt(&self) -> &[u8] {
        &self.header[8..16]
    }

    fn is_commit(&self) -> bool {
        word(self.header, 4) != 0
    }

    fn sum(&self) -> [u32; 2] {
        [word(self.header, 16), word(self.header, 20)]
    }
}

/// The first broken frame of a log, counted from 1, if commits behind it are lost. The last
/// transaction may be torn, so a frame of it that was broken later cannot be told apart.
pub(super) fn broken(log: &[u8]) -> Option<usize> {
    let (header, frames) = log.split_at_checked(HEADER_BYTES)?;
    let page_bytes = match word(header, 8) as usize {
        bytes @ 512..=65_536 if bytes.is_power_of_two() => bytes,
        _ => 4096,
    };
    let frames: Vec<Frame<'_>> = frames
        .chunks_exact(FRAME_HEADER_BYTES + page_bytes)
        .map(|frame| frame.split_at(FRAME_HEADER_BYTES))
        .map(|(header, page)| Frame { header, page })
        .collect();
    let begun = sum([0, 0], &header[..24], header);
    let whole = word(header, 0) & !1 == MAGIC && begun == [word(header, 24), word(header, 28)];
    // Without its header the log still has the salt of its frames.
    let salt = if whole { &header[16..24] } else { frames.first()?.salt() };
    if !whole && is_begun_anew(header, salt) {
        return None;
    }
    // A checksum goes on from that of the frame before, so each frame can be held against the one in
    // front of it as that says, whatever became of the others.
    let follows = |frame: &Frame<'_>, before: [u32; 2]| {
        let found = sum(sum(before, &frame.header[..8], header), frame.page, header);
        frame.salt() == salt && found == frame.sum()
    };
    let good = match whole {
        true => {
            let before = std::iter::once(begun).chain(frames.iter().map(Frame::sum));
            frames.iter().zip(before).take_while(|(frame, before)| follows(frame, *before)).count()
        }
        false => 0,
    };
    // A header alone may be torn, and have the commit of what was there before.
    let mut behind = frames[good..].windows(3);
    let goes_on = behind.any(|three| {
        let [before, commit, next] = three else { return false };
        commit.is_commit() && follows(commit, before.sum()) && follows(next, commit.sum())
    });
    goes_on.then_some(good + 1)
}

/// Whether a header was being written over that of a log with this salt, all of which was in the
/// database by then: with the count of its predecessor it is whole.
fn is_begun_anew(header: &[u8], salt: &[u8]) -> bool {
    let mut before = header.to_vec();
    before[12..16].copy_from_slice(&word(header, 12).wrapping_sub(1).to_be_bytes());
    before[16..24].copy_from_slice(salt);
    sum([0, 0], &before[..24], header) == [word(header, 24), word(header, 28)]
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn sum([mut one, mut two]: [u32; 2], bytes: &[u8], header: &[u8]) -> [u32; 2] {
    let read = |four: &[u8]| match word(header, 0) & 1 {
        0 => word(four, 0).swap_bytes(),
        _ => word(four, 0),
    };
    for eight in bytes.chunks_exact(8) {
        one = one.wrapping_add(read(&eight[..4])).wrapping_add(two);
        two = two.wrapping_add(read(&eight[4..])).wrapping_add(one);
    }
    [one, two]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A log of six transactions.
    fn log() -> Vec<u8> {
        let dir = tempfile::TempDir::new().unwrap();
        let connection = Connection::open(dir.path().join("t.db")).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        for n in 0..5 {
            connection.execute("INSERT INTO t VALUES (zeroblob(?1))", [9_000 + n]).unwrap();
        }
        std::fs::read(dir.path().join("t.db-wal")).unwrap()
    }

    #[test]
    fn a_log_that_is_whole_or_torn_at_its_end_is_not_broken() {
        let log = log();
        assert_eq!(broken(&log), None);
        assert_eq!(broken(b""), None);
        for end in 0..3 {
            // The last transaction has several frames; any of them may be missing.
            let mut torn = log.clone();
            let from = torn.len() - (end + 1) * (4096 + 24);
            torn[from..from + 4096 + 24].fill(0);
            assert_eq!(broken(&torn), None, "{end} frames before the end");
            torn.truncate(from + 100);
            assert_eq!(broken(&torn), None, "cut {end} frames before the end");
        }
    }

    #[test]
    fn a_log_that_was_being_begun_anew_is_not_broken() {
        let mut log = log();
        let count = word(&log, 12) + 1;
        log[12..16].copy_from_slice(&count.to_be_bytes());
        assert_eq!(broken(&log), None);
        log[17] ^= 1;
        assert_eq!(broken(&log), None);
    }

    /// A log that is begun anew is written over the frames of the one before, and a sector may end
    /// inside of a header: then a frame of one transaction has the commit of another.
    #[test]
    fn a_torn_transaction_over_an_older_log_is_not_broken() {
        let mut log = log();
        let last = |n: usize| log.len() - n * (4096 + 24);
        let (first, second) = (last(3), last(2));
        log[first + 1_000] ^= 1;
        log[second + 7] ^= 1;
        assert_eq!(broken(&log), None);
    }

    #[test]
    fn a_bit_in_front_of_later_commits_is_noticed_wherever_it_is() {
        let log = log();
        for at in [1, 17, 30, 33, 41, 50, 60, 4_000, 32 + 4_120 + 9, 32 + 2 * 4_120 + 77] {
            let mut changed = log.clone();
            changed[at] ^= 4;
            assert!(broken(&changed).is_some(), "byte {at}");
        }
    }
}
