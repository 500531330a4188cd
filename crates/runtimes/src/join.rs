//! Joins deltas before they are sealed, so that a token is not an event. Deltas of one kind, block
//! and origin that follow each other become one draft, up to a size and for a short time; any other
//! draft lets the held one go first, so the order is never changed. Knows no clock: the caller says
//! what time it is and comes back at `deadline`.

use contract::event::{Body, Text};
use contract::{Draft, Timestamp, limits};
use std::mem::{Discriminant, discriminant};

/// Holds at most one draft. Whoever commits calls `flush` first.
#[derive(Debug, Default)]
pub struct Joiner {
    held: Option<Held>,
}

/// The draft that may still grow, and since when it waits.
#[derive(Debug)]
struct Held {
    draft: Draft,
    since: Timestamp,
}

impl Joiner {
    /// Takes a draft; what may go now is appended to `out`.
    pub fn push(&mut self, draft: Draft, now: Timestamp, out: &mut Vec<Draft>) {
        self.tick(now, out);
        if delta(&draft.body).is_none() {
            self.flush(out);
            out.push(draft);
            return;
        }
        match &mut self.held {
            Some(held) if fits(&held.draft, &draft) => append(&mut held.draft, &draft),
            _ => {
                self.flush(out);
                self.held = Some(Held { draft, since: now });
            }
        }
        if self.held.as_ref().is_some_and(|held| size(&held.draft) >= limits::JOIN_BYTES_MAX) {
            self.flush(out);
        }
    }

    /// Lets go what has waited long enough.
    pub fn tick(&mut self, now: Timestamp, out: &mut Vec<Draft>) {
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            self.flush(out);
        }
    }

    /// Lets go whatever is held.
    pub fn flush(&mut self, out: &mut Vec<Draft>) {
        out.extend(self.held.take().map(|held| held.draft));
    }

    /// When `tick` has something to do.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.held.as_ref().map(|held| held.since.plus_ms(limits::JOIN_MS as i64))
    }
}

/// The text of a body that may be joined, with its kind.
fn delta(body: &Body) -> Option<(Discriminant<Body>, &Text)> {
    match body {
        Body::AssistantText(text) | Body::Thinking(text) if text.delta => {
            Some((discriminant(body), text))
        }
        _ => None,
    }
}

fn size(draft: &Draft) -> usize {
    delta(&draft.body).map_or(0, |(_, text)| text.text.len())
}

/// Whether `next` goes on where `held` stops, within the size.
fn fits(held: &Draft, next: &Draft) -> bool {
    let (Some((kind, text)), Some((next_kind, next_text))) = (delta(&held.body), delta(&next.body))
    else {
        return false;
    };
    kind == next_kind
        && text.block == next_text.block
        && held.origin == next.origin
        && text.text.len() + next_text.text.len() <= limits::JOIN_BYTES_MAX
}

fn append(held: &mut Draft, next: &Draft) {
    let Some((_, more)) = delta(&next.body) else { return };
    match &mut held.body {
        Body::AssistantText(text) | Body::Thinking(text) => text.text.push_str(&more.text),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::event::{Comment, Log};
    use proptest::prelude::*;

    fn say(text: &str, block: &str) -> Draft {
        let block = (!block.is_empty()).then(|| block.to_owned());
        Draft::agent(Body::AssistantText(Text { text: text.to_owned(), block, delta: true }))
    }

    fn think(text: &str) -> Draft {
        Draft::agent(Body::Thinking(Text { text: text.to_owned(), block: None, delta: true }))
    }

    /// `kind:block:text` of each draft, which is all that joining may touch.
    fn shown(drafts: &[Draft]) -> Vec<String> {
        let row = |draft: &Draft| match &draft.body {
            Body::AssistantText(text) | Body::Thinking(text) => {
                let block = text.block.as_deref().unwrap_or("-");
                format!("{}:{block}:{}", draft.body.kind(), text.text)
            }
            other => other.kind().to_owned(),
        };
        drafts.iter().map(row).collect()
    }

    fn join(drafts: Vec<Draft>) -> Vec<Draft> {
        let (mut joiner, mut out) = (Joiner::default(), Vec::new());
        for draft in drafts {
            joiner.push(draft, Timestamp(0), &mut out);
        }
        joiner.flush(&mut out);
        out
    }

    #[test]
    fn deltas_of_one_block_become_one_draft_that_is_still_a_delta() {
        let joined =
            join(vec![say("a", "1"), say("b", "1"), say("c", "2"), think("d"), think("e")]);
        assert_eq!(shown(&joined), ["assistant_text:1:ab", "assistant_text:2:c", "thinking:-:de"]);
        assert!(joined.iter().all(|draft| delta(&draft.body).is_some()));
    }

    #[test]
    fn any_other_draft_lets_the_held_one_go_first() {
        let comment = Draft::agent(Body::Comment(Comment::default()));
        let whole = Draft::agent(Body::AssistantText(Text { text: "w".into(), ..Text::default() }));
        let joined = join(vec![say("a", ""), comment, say("b", ""), whole, say("c", "")]);
        assert_eq!(
            shown(&joined),
            [
                "assistant_text:-:a",
                "comment",
                "assistant_text:-:b",
                "assistant_text:-:w",
                "assistant_text:-:c"
            ]
        );
    }

    #[test]
    fn a_held_draft_goes_at_its_deadline_and_not_before() {
        let (mut joiner, mut out) = (Joiner::default(), Vec::new());
        assert_eq!(joiner.deadline(), None);
        joiner.push(say("a", ""), Timestamp(1_000), &mut out);
        joiner.push(say("b", ""), Timestamp(1_050), &mut out);
        let deadline = Timestamp(1_000).plus_ms(limits::JOIN_MS as i64);
        assert_eq!(joiner.deadline(), Some(deadline), "the first delta counts");
        joiner.tick(deadline.plus_ms(-1), &mut out);
        assert!(out.is_empty());
        joiner.tick(deadline, &mut out);
        assert_eq!(shown(&out), ["assistant_text:-:ab"]);
        assert_eq!(joiner.deadline(), None);
    }

    #[test]
    fn a_delta_that_comes_after_the_deadline_is_not_joined_to_what_waited() {
        let (mut joiner, mut out) = (Joiner::default(), Vec::new());
        joiner.push(say("a", ""), Timestamp(0), &mut out);
        joiner.push(say("b", ""), Timestamp(10_000), &mut out);
        joiner.flush(&mut out);
        assert_eq!(shown(&out), ["assistant_text:-:a", "assistant_text:-:b"]);
    }

    proptest! {
        #[test]
        fn joining_keeps_every_byte_in_order_and_within_the_size(
            given in proptest::collection::vec((0..4u8, 0..2u8, 0..5_000usize), 0..40)
        ) {
            let drafts: Vec<_> = given
                .iter()
                .enumerate()
                .map(|(index, (kind, block, length))| {
                    let text = char::from(b'a' + (index % 26) as u8).to_string().repeat(*length);
                    match kind {
                        0 | 1 => say(&text, if *block == 0 { "" } else { "b" }),
                        2 => think(&text),
                        _ => Draft::agent(Body::Log(Log {
                            stream: contract::event::Stream::Stdout,
                            text,
                            level: None,
                        })),
                    }
                })
                .collect();
            let joined = join(drafts.clone());
            for draft in &joined {
                prop_assert!(size(draft) <= limits::JOIN_BYTES_MAX);
            }
            prop_assert_eq!(runs(&joined), runs(&drafts));
        }
    }

    /// Drafts with neighbours of one kind and block put together: what must not change.
    fn runs(drafts: &[Draft]) -> Vec<(Discriminant<Body>, Option<String>, String)> {
        let mut runs: Vec<(Discriminant<Body>, Option<String>, String)> = Vec::new();
        for draft in drafts {
            let (block, text) = match &draft.body {
                Body::AssistantText(text) | Body::Thinking(text) => {
                    (text.block.clone(), text.text.as_str())
                }
                Body::Log(log) => (None, log.text.as_str()),
                other => unreachable!("no {} is made here", other.kind()),
            };
            let kind = discriminant(&draft.body);
            match runs.last_mut() {
                Some(last) if last.0 == kind && last.1 == block => last.2.push_str(text),
                _ => runs.push((kind, block, text.to_owned())),
            }
        }
        runs
    }
}
