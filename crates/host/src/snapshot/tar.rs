//! The headers of a tar file, as POSIX has them: one block of 512 bytes, and before it a block of
//! extended words where a name does not fit. Everything that differs between two machines (owners,
//! times) is left at nothing, so the same files give the same bytes. Pure.

/// Everything in a tar file is a multiple of this.
pub const BLOCK: usize = 512;
/// The end of a tar file.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

const NAME_BYTES: usize = 100;

/// What a header is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    File { bytes: u64, executable: bool },
    Link { target: &'a str },
}

/// How many bytes stand between a content of this length and the next block.
pub fn padding(bytes: u64) -> usize {
    (BLOCK - (bytes % BLOCK as u64) as usize) % BLOCK
}

/// The header of one entry, with its extended words where they are needed.
pub fn header(path: &str, kind: Kind<'_>) -> Vec<u8> {
    let target = match kind {
        Kind::File { .. } => "",
        Kind::Link { target } => target,
    };
    let mut words = Vec::new();
    for (word, value) in [("path", path), ("linkpath", target)] {
        // What is no ASCII is read as anyone likes unless it is said to be UTF-8.
        if value.len() > NAME_BYTES || !value.is_ascii() {
            words.extend_from_slice(extended(word, value).as_bytes());
        }
    }
    let (mode, bytes, flag) = match kind {
        Kind::File { bytes, executable: true } => (0o755, bytes, b'0'),
        Kind::File { bytes, executable: false } => (0o644, bytes, b'0'),
        Kind::Link { .. } => (0o777, 0, b'2'),
    };
    let mut header = Vec::new();
    if !words.is_empty() {
        header.extend_from_slice(&block("pax", "", 0o644, words.len() as u64, b'x'));
        let after = padding(words.len() as u64);
        header.append(&mut words);
        header.resize(header.len() + after, 0);
    }
    header.extend_from_slice(&block(path, target, mode, bytes, flag));
    header
}

/// `25 path=a/long/name\n`: the length is that of the whole line, its own digits included.
fn extended(word: &str, value: &str) -> String {
    let rest = format!(" {word}={value}\n");
    let mut length = rest.len();
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    format!("{length}{rest}")
}

fn block(path: &str, target: &str, mode: u64, bytes: u64, flag: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, value: &[u8]| block[at..at + value.len()].copy_from_slice(value);
    put(0, cut(path));
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{bytes:011o}").as_bytes());
    put(136, b"00000000000");
    put(148, b"        ");
    put(156, &[flag]);
    put(157, cut(target));
    put(257, b"ustar\x0000");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

/// As much of a name as fits; all of it is among the extended words then.
fn cut(name: &str) -> &[u8] {
    &name.as_bytes()[..name.len().min(NAME_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_word_counts_its_own_digits() {
        for length in [1, 80, 90, 91, 92, 93, 94, 100, 985, 990, 4000] {
            let line = extended("path", &"x".repeat(length));
            let said: usize = line.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(said, line.len(), "{length}");
        }
    }

    #[test]
    fn a_header_is_whole_blocks_and_sums_up() {
        let link = Kind::Link { target: "../there" };
        let file = Kind::File { bytes: 8, executable: true };
        for (path, kind, blocks) in [
            ("a/b", file, 1),
            ("l", link, 1),
            (&"n".repeat(100), file, 1),
            (&"n".repeat(101), file, 3),
            ("café", file, 3),
        ] {
            let header = header(path, kind);
            assert_eq!(header.len(), blocks * BLOCK, "{path}");
            for at in [0, (blocks - 1) * BLOCK] {
                let block = &header[at..at + BLOCK];
                let said = std::str::from_utf8(&block[148..154]).unwrap();
                let said = u64::from_str_radix(said, 8).unwrap();
                let own: u64 = block[148..156].iter().map(|byte| u64::from(*byte)).sum();
                let all: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
                assert_eq!(said, all - own + 8 * u64::from(b' '), "{path}");
            }
        }
        assert_eq!((padding(0), padding(1), padding(512), padding(513)), (0, 511, 0, 511));
    }
}
