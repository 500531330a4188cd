//! What chance does to the lines of an agent: whole lines are lost, doubled, moved and borrowed, and
//! a value inside a line of JSON becomes another one, so that most lines still mean something to
//! whoever reads them. Bytes are broken by `mutate.rs`, which knows nothing of lines.

use super::mutate::{self, Chance, INPUT_BYTES_MAX};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Longer than any id that is kept, and longer than a text that stays inside its event.
const LONG_CHARS: [usize; 2] = [300, 70_000];
/// How many words are taken from the seeds, and how long one may be.
const WORDS_MAX: usize = 500;
const WORD_BYTES_MAX: usize = 60;

/// One input: lines of a seed, changed as lines, then half of the time as bytes.
pub fn input(chance: &mut Chance, seeds: &[Vec<u8>], words: &[Vec<u8>]) -> Vec<u8> {
    let seed = chance.pick(seeds).cloned().unwrap_or_default();
    let mut lines = window(chance, &seed);
    for _ in 0..chance.below(6) {
        change(chance, &mut lines, seeds);
    }
    let mut bytes = lines.join(&b'\n');
    if !chance.one_in(8) {
        bytes.push(b'\n');
    }
    if chance.one_in(2) {
        for _ in 0..=chance.below(3) {
            mutate::mutate(chance, &mut bytes, seeds, words);
        }
    }
    bytes
}

/// Members of objects in the seeds, as words to be put in anywhere.
pub fn words(seeds: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut words = BTreeSet::new();
    for line in seeds.iter().flat_map(|seed| seed.split(|byte| *byte == b'\n')) {
        if let Ok(value) = serde_json::from_slice::<Value>(line) {
            gather(&value, &mut words);
        }
    }
    // Spread over the alphabet, not its beginning.
    let step = words.len().div_ceil(WORDS_MAX).max(1);
    let newline = std::iter::once(b"\n".to_vec());
    newline.chain(words.into_iter().step_by(step)).collect()
}

fn gather(value: &Value, words: &mut BTreeSet<Vec<u8>>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let word = match member {
                    Value::Object(_) | Value::Array(_) => format!("{}:", json!(name)),
                    plain => format!("{}:{plain}", json!(name)),
                };
                if word.len() <= WORD_BYTES_MAX {
                    words.insert(word.into_bytes());
                }
                gather(member, words);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// As many lines as fit, from anywhere; mostly with the first one, which says who speaks.
fn window(chance: &mut Chance, seed: &[u8]) -> Vec<Vec<u8>> {
    let all: Vec<&[u8]> = seed.strip_suffix(b"\n").unwrap_or(seed).split(|b| *b == b'\n').collect();
    let mut lines: Vec<Vec<u8>> = Vec::new();
    if seed.len() > INPUT_BYTES_MAX && !chance.one_in(4) {
        lines.push(all[0].to_vec());
    }
    let from = if seed.len() > INPUT_BYTES_MAX { chance.below(all.len()) } else { 0 };
    let mut bytes = 0;
    for line in &all[from..] {
        bytes += line.len() + 1;
        if bytes > INPUT_BYTES_MAX && !lines.is_empty() {
            break;
        }
        lines.push(line.to_vec());
    }
    lines
}

fn change(chance: &mut Chance, lines: &mut Vec<Vec<u8>>, seeds: &[Vec<u8>]) {
    let (at, to) = (chance.below(lines.len()), chance.below(lines.len()));
    if lines.is_empty() {
        return;
    }
    match chance.below(10) {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, to),
        2 => lines.insert(to, lines[at].clone()),
        3 => lines.insert(at, borrowed(chance, seeds)),
        _ => {
            let other = borrowed(chance, seeds);
            reshape(chance, &mut lines[at], &other);
        }
    }
}

/// Any line of any seed.
fn borrowed(chance: &mut Chance, seeds: &[Vec<u8>]) -> Vec<u8> {
    let seed = chance.pick(seeds).map(Vec::as_slice).unwrap_or_default();
    let lines: Vec<&[u8]> = seed.split(|byte| *byte == b'\n').collect();
    chance.pick(&lines).map(|line| line.to_vec()).unwrap_or_default()
}

/// One value somewhere in a line of JSON becomes another one; a line that is no JSON stays.
fn reshape(chance: &mut Chance, line: &mut Vec<u8>, other: &[u8]) {
    let Ok(mut value) = serde_json::from_slice::<Value>(line) else { return };
    let other = serde_json::from_slice::<Value>(other).unwrap_or_default();
    let (own, lent) = (any(chance, &value), any(chance, &other));
    let mut place = chance.below(count(&value));
    if let Some(node) = nth(&mut value, &mut place) {
        replace(chance, node, own, lent);
    }
    *line = value.to_string().into_bytes();
}

fn replace(chance: &mut Chance, node: &mut Value, own: Value, lent: Value) {
    match chance.below(9) {
        0 | 1 => *node = odd(chance),
        2 => *node = own,
        3 => *node = lent,
        4 => *node = json!([node.take()]),
        5 => *node = json!({ "type": node.take() }),
        6 => match node {
            Value::Array(items) => {
                let times = chance.below(40) * items.len();
                let again: Vec<Value> = items.iter().cycle().take(times).cloned().collect();
                items.extend(again);
            }
            _ => *node = Value::Array(vec![node.take(); 2]),
        },
        _ => match node {
            Value::Object(members) => {
                let names: Vec<String> = members.keys().cloned().collect();
                if let Some(name) = chance.pick(&names) {
                    members.remove(name);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                items.remove(chance.below(items.len()));
            }
            _ => *node = Value::Null,
        },
    }
}

/// Values that readers do not expect where they come.
fn odd(chance: &mut Chance) -> Value {
    match chance.below(14) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!(1e308),
        7 => json!(0.1),
        8 => json!(""),
        9 => json!([]),
        10 => json!({}),
        11 => json!("\u{1b}[31m\u{0}\u{202e}\n\u{2028}é"),
        12 => json!("9".repeat(30)),
        _ => json!("x".repeat(LONG_CHARS[usize::from(chance.one_in(20))])),
    }
}

/// Any value inside another one.
fn any(chance: &mut Chance, value: &Value) -> Value {
    let mut place = chance.below(count(value));
    let mut value = value.clone();
    nth(&mut value, &mut place).map(Value::take).unwrap_or_default()
}

/// How many values there are in one, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(members) => members.values().map(count).sum::<usize>(),
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The value at this place, counted from the outside in.
fn nth<'a>(value: &'a mut Value, place: &mut usize) -> Option<&'a mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, place)),
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, place)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_a_line_has_a_place_and_no_place_is_beyond() {
        let mut value = json!({ "a": [1, { "b": null }], "c": "d" });
        let total = count(&value);
        let mut seen = BTreeSet::new();
        for place in 0..total {
            let mut left = place;
            seen.insert(nth(&mut value, &mut left).expect("a value").to_string());
        }
        assert_eq!((total, seen.len()), (6, 6));
        assert_eq!(nth(&mut value, &mut total.clone()), None);
    }

    #[test]
    fn most_inputs_of_lines_still_hold_lines_that_can_be_read_and_some_do_not() {
        let line = r#"{"type":"assistant","message":{"id":"m1","content":[{"text":"hello"}]}}"#;
        let seeds =
            vec![format!("{line}\n{line}\n").into_bytes(), b"{\"type\":\"end\"}\n".to_vec()];
        let words = words(&seeds);
        assert!(words.contains(&b"\"id\":\"m1\"".to_vec()), "{words:?}");
        let (mut whole, mut all) = (0, 0);
        for number in 0..400 {
            let bytes = input(&mut Chance::of(1, "lines", number), &seeds, &words);
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                all += 1;
                whole += usize::from(serde_json::from_slice::<Value>(line).is_ok());
            }
        }
        assert!(whole * 2 > all && whole < all, "{whole} of {all}");
    }
}
