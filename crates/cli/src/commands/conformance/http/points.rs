//! The points of ca-http-v1 as data, and the book in which it is held against a server what it did. A
//! point passes when it was seen and nothing was held against it; what was held first is shown.

use runtimes::verdict::{self, Finding, Need, Verdict};
use std::collections::BTreeMap;

/// The types a line of a remote may have.
pub const TYPES: &[&str] =
    &["progress", "tool_call", "comment", "complete", "failed", "hello", "event"];

macro_rules! points {
    ($($point:ident $id:literal $need:ident $what:literal;)+) => {
        /// One thing that a server does right or not.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Point { $($point),+ }

        /// All of them, in the order in which they are reported.
        pub const POINTS: &[(Point, verdict::Point)] = &[
            $((Point::$point, verdict::Point::new($id, $what, Need::$need))),+
        ];
    };
}

points! {
    Health "health" Advice "answers GET /healthz with 200";
    Auth "auth" Spec "refuses a session without the token, or with another, by 401";
    Create "create" Run "opens a session with 201 and an id";
    CreateProtocol "create.protocol" Spec "names the protocol when it opens a session";
    CreateForm "create.form" Spec "refuses a body that is no JSON by a status of 4xx";
    Idempotent "create.again" Spec "gives the same session for the same run";
    Unknown "unknown" Spec "answers 404 for a session that there is not";
    Stream "events.stream" Run "streams events as text/event-stream";
    Frames "events.frames" Run "sends one JSON object as the data of each event";
    Lines "events.types" Spec "gives every event a type of the protocol";
    Ids "events.ids" Spec "numbers events by integers that increase";
    IdsNext "events.next" Advice "numbers them without a gap, so that a lost one is noticed";
    Reconnect "events.reconnect" Spec "goes on after Last-Event-ID, and tells the same again";
    Input "input" Run "takes an input with 202, also when it is repeated";
    InputForm "input.form" Spec "refuses an input that is none by a status of 4xx";
    Fence "input.fence" Advice "refuses an input of an older fence by 409";
    End "end" Run "ends a session with complete or failed";
    EndLast "end.last" Spec "says nothing after its end";
    EndCloses "end.closes" Advice "closes the stream after its end";
    Shutdown "shutdown" Spec "ends a session within ten seconds of a shutdown";
    Delete "delete" Spec "closes a session by DELETE";
    Gone "delete.gone" Spec "answers 404 or 410 for a session that was closed";
    Resume "resume" Spec "resumes an earlier session, or refuses it by native_session_unknown, if it says it can";
}

/// What was found so far.
#[derive(Debug, Default)]
pub struct Book {
    seen: BTreeMap<Point, Vec<String>>,
}

/// What is shown of an answer or an event.
const SHOWN_CHARS_MAX: usize = 160;

impl Book {
    /// Notes that a point was seen, and what is wrong unless it holds.
    pub fn hold(&mut self, point: Point, holds: bool, why: impl FnOnce() -> String) {
        let offences = self.seen.entry(point).or_default();
        if !holds {
            let why = why();
            let shown = why.chars().filter(|char| !char.is_control()).take(SHOWN_CHARS_MAX);
            offences.push(shown.collect());
        }
    }

    pub fn findings(&self) -> Vec<Finding> {
        let finding = |(point, row): &(Point, verdict::Point)| {
            let offences = self.seen.get(point);
            let (verdict, why) = match offences.map(Vec::as_slice) {
                None => (Verdict::NotSeen, Some("the session did not come that far".to_owned())),
                Some([]) => (Verdict::Pass, None),
                Some([first, ..]) => (Verdict::Fail, Some(first.clone())),
            };
            Finding {
                point: *row,
                verdict,
                scene: (verdict == Verdict::Fail).then_some("http"),
                line: None,
                text: None,
                why,
                more: offences.map_or(0, |offences| offences.len().saturating_sub(1)),
                hint: None,
            }
        };
        POINTS.iter().map(finding).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_failed_by_one_offence_and_passed_by_none() {
        let mut book = Book::default();
        book.hold(Point::Create, true, || panic!("nothing to say"));
        book.hold(Point::Input, true, String::new);
        for n in 0..3 {
            book.hold(Point::Input, false, || format!("offence\u{1b} {n}"));
        }
        let findings = book.findings();
        let found = |id: &str| findings.iter().find(|finding| finding.point.id == id).unwrap();
        assert_eq!(found("create").verdict, Verdict::Pass);
        assert_eq!(found("auth").verdict, Verdict::NotSeen);
        let input = found("input");
        assert_eq!(
            (input.verdict, input.why.as_deref(), input.more),
            (Verdict::Fail, Some("offence 0"), 2)
        );
        assert_eq!(findings.len(), POINTS.len());
    }
}
