//! The sealed trace of one run, as its driver keeps it: every line heard passes the seal and goes to
//! the run's file, and what a dialect made of the line is told where it stands there. A trace that
//! cannot be written ends with a warning; the run goes on. The file itself is `store`'s.

use crate::drive::Drive;
use contract::Draft;
use contract::event::{Body, Log, Raw, Stream};
use runtimes::{Dialect, Frame, Out};
use store::seal::Seal;
use store::{Trace, TraceMark};

/// What stands between the spool and the dialect.
pub struct Tracer {
    seal: Seal,
    /// Absent when no trace is kept.
    trace: Option<Trace>,
}

impl Tracer {
    pub fn new(seal: Seal, trace: Option<Trace>) -> Self {
        Self { seal, trace }
    }

    /// From now on more is kept out.
    pub fn reseal(&mut self, seal: Seal) {
        self.seal = seal;
    }

    /// How far the trace is written, for the Batch.
    pub fn mark(&self) -> Option<TraceMark> {
        self.trace.as_ref().map(Trace::mark)
    }

    /// Lets the dialect hear a line, and keeps it.
    pub fn hear(&mut self, dialect: &mut dyn Dialect, frame: &Frame<'_>, out: &mut Out) {
        let before = out.drafts.len();
        // The cut may have gone through a secret, which only the seal can tell.
        let head = frame.cut.then(|| self.seal.head(frame.bytes));
        let frame = match &head {
            Some(head) => &Frame { bytes: head.bytes(), ..*frame },
            None => frame,
        };
        dialect.hear(frame, out);
        let raw = self.keep(frame, &out.drafts[before..]);
        for draft in &mut out.drafts[before..] {
            draft.raw = raw;
        }
    }

    fn keep(&mut self, frame: &Frame<'_>, drafts: &[Draft]) -> Option<Raw> {
        let trace = self.trace.as_mut()?;
        let raw = Raw { stream: frame.stream.into(), line: frame.line };
        let pieces: Vec<&str> = drafts.iter().filter_map(|draft| piece(&draft.body)).collect();
        let text = match pieces.is_empty() {
            true => self.seal.line(frame.bytes),
            false => self.seal.line_without(frame.bytes, &pieces),
        };
        trace.hear(raw.stream, raw.line, &text, frame.cut).then_some(raw)
    }

    /// Makes the trace durable.
    pub fn sync(&self) {
        let Some(trace) = &self.trace else { return };
        // The run has ended and its events are stored; only the operator is left to tell.
        if let Err(error) = trace.sync() {
            tracing::warn!(%error, "the trace of the run may be lost if the machine fails now");
        }
    }
}

impl Drive {
    /// Writes what was heard, before any Batch can name it.
    pub(crate) fn write_trace(&mut self) {
        let Some(trace) = &mut self.tracer.trace else { return };
        let Err(error) = trace.write() else { return };
        self.tracer.trace = None;
        tracing::warn!(%error, "the trace of the run cannot be written and ends here");
        // What waits for its commit must not point at lines that are not there.
        self.joiner.flush(&mut self.pending.drafts);
        for draft in &mut self.pending.drafts {
            draft.raw = None;
        }
        let text = format!("the trace of this run ends here: {error}");
        self.pending.drafts.push(warning(text));
    }
}

/// The text of a delta, which other lines go on with.
fn piece(body: &Body) -> Option<&str> {
    match body {
        Body::AssistantText(text) | Body::Thinking(text) if text.delta => Some(&text.text),
        _ => None,
    }
}

/// A word of ours to the person who reads the run.
pub(crate) fn warning(text: String) -> Draft {
    let level = Some("warning".to_owned());
    Draft::ostler(Body::Log(Log { stream: Stream::Ostler, text, level }))
}

/// Goes on with the trace of a run that is taken over. A trace that cannot be gone on with has ended,
/// which the warning says.
pub(crate) fn resumed(
    store: &store::Store,
    run: contract::RunId,
    mark: Option<TraceMark>,
) -> (Option<Trace>, Option<Draft>) {
    match mark.map(|mark| store.resume_trace(run, mark)) {
        None => (None, None),
        Some(Ok(trace)) => (Some(trace), None),
        Some(Err(error)) => {
            (None, Some(warning(format!("the trace of this run ends here: {error}"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::speech::Close;
    use contract::{Code, Timestamp, Utterance};

    /// Remembers what it heard.
    #[derive(Default)]
    struct Ear(Vec<u8>);

    impl Dialect for Ear {
        fn open(&mut self) -> Option<Vec<u8>> {
            None
        }
        fn hear(&mut self, frame: &Frame<'_>, _: &mut Out) {
            self.0 = frame.bytes.to_vec();
        }
        fn say(&mut self, _: &Utterance, _: &mut Out) {}
        fn tick(&mut self, _: Timestamp, _: &mut Out) {}
        fn close(&mut self, _: Close, _: &mut Out) {}
        fn farewell(&self, _: Code) -> Option<Vec<u8>> {
            None
        }
        fn save(&self) -> Vec<u8> {
            Vec::new()
        }
    }

    #[test]
    fn a_dialect_hears_no_half_of_a_secret_that_the_cut_went_through() {
        let secret = "plum-otter-9f2c";
        let mut tracer = Tracer::new(Seal::new([("KEY".to_owned(), secret.to_owned())]), None);
        // Longer than the longest spelling of the value, which the end may be the half of.
        let line = format!("{} and then {secret}", "a long line ".repeat(100));
        for half in 4..secret.len() {
            let bytes = &line.as_bytes()[..line.len() - secret.len() + half];
            let mut ear = Ear::default();
            let frame = Frame { stream: runtimes::Stream::Stdout, line: 1, bytes, cut: true };
            tracer.hear(&mut ear, &frame, &mut Out::default());
            let heard = String::from_utf8(ear.0).unwrap();
            assert!(heard.starts_with("a long line") && !heard.contains("plum"), "{heard}");
        }
    }
}
