//! Chance from a seed, and what it does to bytes: bits, interesting bytes, truncation, duplication,
//! splices, words of a dictionary, deep nesting, huge numbers. Nothing here reads a clock or the
//! machine's own chance, so an input can be had again from its number.

/// Inputs stay below this, but for one in a while.
pub const INPUT_BYTES_MAX: usize = 8 * 1024;

/// What readers of text and JSON have tripped over before.
const WORDS: &[&[u8]] = &[
    b"\0",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\xff",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xe2\x80\xa9",
    b"\xf0\x9f\x92\xa9",
    b"\xc3",
    br"\ud800",
    br"\udc00",
    br"\ud83d\udca9",
    br"\u0000",
    br"\u2028",
    br"\u00e9",
    b"\\",
    b"\\\\",
    b"\\\"",
    b"\"",
    b"'",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\x1b[31m",
    b"\x1b[",
    br"\u001b[0m",
    b"null",
    b"true",
    b"-0",
    b"NaN",
    b"1e400",
    b"-1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775808",
    b"0.1e-400",
    b"4294967296",
    b"123456789012345678901234567890",
];

/// Splitmix: small, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The chance of one input, which does not depend on those before it.
    pub fn of(seed: u64, name: &str, number: u64) -> Self {
        let name = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut mixed = Self(seed ^ name);
        let first = mixed.number();
        Self(first ^ number.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.number() % end as u64) as usize }
    }

    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// Places to cut `length` bytes at, in order, with both ends.
    pub fn cuts(&mut self, length: usize) -> Vec<usize> {
        let mut cuts: Vec<usize> = (0..self.below(6)).map(|_| self.below(length + 1)).collect();
        cuts.extend([0, length]);
        cuts.sort_unstable();
        cuts
    }
}

/// One input: a seed, or several, mutated one to eight times.
pub fn input(chance: &mut Chance, seeds: &[Vec<u8>], words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = chance.pick(seeds).cloned().unwrap_or_default();
    for _ in 0..=chance.below(8) {
        mutate(chance, &mut bytes, seeds, words);
    }
    if bytes.len() > INPUT_BYTES_MAX && !chance.one_in(200) {
        bytes.truncate(INPUT_BYTES_MAX);
    }
    bytes
}

/// One change to bytes, of whatever kind.
pub fn mutate(
    chance: &mut Chance,
    bytes: &mut Vec<u8>,
    seeds: &[Vec<u8>],
    words: &[impl AsRef<[u8]>],
) {
    let at = chance.below(bytes.len() + 1);
    match chance.below(13) {
        0 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
        1 if at < bytes.len() => bytes[at] = chance.number() as u8,
        2 => insert(bytes, at, chance.pick(WORDS).copied().unwrap_or_default()),
        3..=5 => insert(bytes, at, chance.pick(words).map(AsRef::as_ref).unwrap_or_default()),
        6 => bytes.truncate(at),
        7 => {
            let end = at + chance.below(bytes.len() - at + 1);
            bytes.drain(at..end);
        }
        8 => {
            let end = at + chance.below((bytes.len() - at).min(64) + 1);
            let again = bytes[at..end].repeat(1 + chance.below(4));
            insert(bytes, at, &again);
        }
        9 => {
            let other = chance.pick(seeds).cloned().unwrap_or_default();
            let from = chance.below(other.len() + 1);
            let to = from + chance.below(other.len() - from + 1);
            insert(bytes, at, &other[from..to]);
        }
        10 => {
            let deep = [&b"["[..], b"{\"a\":", b"(", b"{{", b"\\"];
            let times = if chance.one_in(500) { 20_000 } else { chance.below(200) };
            insert(bytes, at, &chance.pick(&deep).copied().unwrap_or_default().repeat(times));
        }
        11 => replace_number(chance, bytes, at),
        12 => {
            let random: Vec<u8> = (0..chance.below(8)).map(|_| chance.number() as u8).collect();
            insert(bytes, at, &random);
        }
        _ => insert(bytes, at, b" "),
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, what: &[u8]) {
    bytes.splice(at..at, what.iter().copied());
}

/// The first digits behind `at` become another number.
fn replace_number(chance: &mut Chance, bytes: &mut Vec<u8>, at: usize) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|from| at + from) else {
        return;
    };
    let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = match chance.below(4) {
        0 => u64::MAX.to_string(),
        1 => "9".repeat(1 + chance.below(400)),
        2 => format!("-{}e{}", chance.below(100), chance.below(400)),
        _ => (chance.number() >> chance.below(64)).to_string(),
    };
    bytes.splice(from..from + digits, number.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_follows_from_its_seed_name_and_number_alone() {
        let seeds = [b"{\"type\":\"progress\",\"n\":1}".to_vec(), b"two\n".to_vec()];
        let made = |seed, name, number| {
            input(&mut Chance::of(seed, name, number), &seeds, &[b"token" as &[u8]])
        };
        let several = |seed, name| (0..50).map(|number| made(seed, name, number)).collect();
        let first: Vec<_> = several(1, "a");
        assert_eq!(first, several(1, "a"));
        assert_ne!(first, several(2, "a"));
        assert_ne!(first, several(1, "b"));
    }
}
