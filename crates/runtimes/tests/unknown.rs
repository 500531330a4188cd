//! Lines that no runtime has heard of. A newer version of an agent prints what nobody knew when its
//! dialect was written, and whatever that is, it is kept and is neither an end nor a trouble.
//!
//! A runtime is taken from the registry: nothing is listed here.

use contract::Signal;
use runtimes::{Frame, Out, Stream, registry};
use testkit::recorded::spec;

const LINES: [&str; 6] = [
    r#"{"type":"session.never_heard_of","data":{"status":"pending"},"id":"1"}"#,
    r#"{"type":"never_heard_of"}"#,
    r#"{"kind":"NeverHeardOf","source":"agent"}"#,
    r#"{"method":"never/heardOf","params":{}}"#,
    r#"{"event":"never_heard_of"}"#,
    r#"[{"type":"never_heard_of"}]"#,
];

fn ends(signal: &Signal) -> bool {
    match signal {
        Signal::Ended(_)
        | Signal::Result(_)
        | Signal::ResultAtExit(_)
        | Signal::ModelError { .. }
        | Signal::SessionUnknown
        | Signal::TurnEnded { .. }
        | Signal::ModelAnswer
        | Signal::Forced
        | Signal::PolicyBroken { .. }
        | Signal::Limited(_) => true,
        Signal::Accepts { .. }
        | Signal::TurnStarted
        | Signal::ToolOpened { .. }
        | Signal::ToolClosed { .. }
        | Signal::ToolCalled(_)
        | Signal::Asked(_)
        | Signal::AskWithdrawn { .. }
        | Signal::Session { .. }
        | Signal::Resets(_)
        | Signal::LimitLifted
        | Signal::Greeted
        | Signal::Progress
        | Signal::FinalText
        | Signal::Model { .. }
        | Signal::Billing { .. }
        | Signal::Spent(_) => false,
    }
}

#[test]
fn a_line_that_nobody_has_heard_of_ends_nothing() {
    let mut wrong = Vec::new();
    for runtime in registry::all() {
        let card = runtime.card();
        let Some(lane) = card.lanes.first() else { continue };
        let unheard = LINES.map(|line| (line, line.as_bytes().to_vec()));
        for (name, bytes) in unheard.into_iter().chain(testkit::agent::garbage::lines()) {
            let mut dialect = runtime.dialect(&spec(*runtime, *lane));
            let mut out = Out::default();
            let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            let frame = Frame { stream: Stream::Stdout, line: 1, bytes, cut: false };
            dialect.hear(&frame, &mut out);
            if out.signals.iter().any(ends) {
                wrong.push(format!("{}: {name}: {:?}", card.id, out.signals));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
