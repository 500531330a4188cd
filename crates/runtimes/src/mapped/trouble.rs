//! What an agent's errors mean by its mapping: the words of the rule, then the words of the mapping,
//! then what all providers share, by words and by status. Knows no agent: every word is the mapping's
//! own or `provider`'s.

use super::book::Book;
use super::path::Place;
use crate::{ExitEvidence, provider};
use contract::Code;
use contract::mapping::{Limit, Mapping, On, Trouble, Words};
use serde_json::Value;

/// The code of an error and its words.
pub(super) fn of(book: &Book, error: &Trouble, place: Place<'_>) -> (Code, String) {
    let message = book.text(error.message.as_ref(), place).unwrap_or_default();
    let status = book.number(error.status.as_ref(), place).map(|status| status as u64);
    let told = error.code.or_else(|| in_words(&error.words, &message));
    let code = told.or_else(|| meaning(&book.mapping, status, &message));
    (code.or(error.otherwise).unwrap_or(Code::UpstreamError), message)
}

/// The code of a limit that has words or a code of its own.
pub(super) fn of_limit(book: &Book, limit: &Limit, place: Place<'_>) -> Option<Code> {
    let message = || book.text(limit.message.as_ref(), place);
    limit.code.or_else(|| {
        let code = meaning(&book.mapping, None, &message()?);
        Some(code.unwrap_or(Code::UpstreamError))
    })
}

/// How long the agent waits, by a number or by words.
pub(super) fn wait_ms(book: &Book, limit: &Limit, place: Place<'_>) -> Option<u64> {
    // The casts saturate: an absurdly long wait is the longest there is.
    let ms = book.number(limit.wait_ms.as_ref(), place);
    let sec = || book.number(limit.wait_sec.as_ref(), place).map(|sec| sec * 1000.0);
    let told = ms.or_else(sec).filter(|ms| *ms >= 0.0).map(|ms| ms as u64);
    told.or_else(|| {
        let mark = limit.wait_ms_after.as_deref()?;
        let line = || place.line.as_str().map(str::to_owned);
        number_after(mark, &book.text(limit.message.as_ref(), place).or_else(line)?)
    })
}

/// What a message means, with the status it has or names.
fn meaning(mapping: &Mapping, status: Option<u64>, message: &str) -> Option<Code> {
    let named = || {
        let marks = mapping.errors.status_after.iter();
        let mut found = marks.filter_map(|mark| number_after(mark, message));
        found.find(|status| (100..600).contains(status))
    };
    in_words(&mapping.errors.words, message)
        .or_else(|| provider::of(status.or_else(named), message))
}

fn in_words(words: &[Words], message: &str) -> Option<Code> {
    let message = message.to_lowercase();
    words.iter().find(|words| message.contains(&words.says.to_lowercase())).map(|words| words.code)
}

/// The number that stands after a mark.
fn number_after(mark: &str, text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(mark)?;
    let rest = rest.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// What an exit means when no end was told: the last error on stderr by its words, then the words of
/// the mapping's `exit`, then the number, then that error by whatever else it tells.
pub(super) fn at_exit(book: &Book, evidence: &ExitEvidence<'_>) -> Option<Code> {
    let exit = evidence.exit_code.filter(|exit| *exit != 0)?;
    let rules = || book.mapping.rules.iter().enumerate().filter(|(_, rule)| rule.on == On::Stderr);
    let mut last = None;
    for line in evidence.stderr_tail.lines() {
        let line = Value::from(line);
        let mut answers = book.answers(Place::line(&line));
        for (index, rule) in rules() {
            if !book.fits(index, &mut answers) {
                continue;
            }
            if rule.session_unknown {
                return Some(Code::NativeSessionUnknown);
            }
            if rule.error.is_some() {
                last = Some((index, line.clone()));
            }
        }
    }
    let error = last.as_ref().and_then(|(index, line)| {
        Some((book.mapping.rules.get(*index)?.error.as_ref()?, Place::line(line)))
    });
    let by_words = error.and_then(|(error, place)| {
        let message = book.text(error.message.as_ref(), place)?;
        let words = in_words(&error.words, &message);
        words
            .or_else(|| in_words(&book.mapping.errors.words, &message))
            .or_else(|| provider::of_words(&message))
    });
    by_words
        .or_else(|| in_words(&book.mapping.exit.words, evidence.stderr_tail))
        .or_else(|| book.mapping.exit.codes.get(&exit.to_string()).copied())
        .or_else(|| error.map(|(error, place)| of(book, error, place).0))
}
