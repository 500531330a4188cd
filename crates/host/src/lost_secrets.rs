//! What is kept of an agent's output whose secrets are no longer known: figures, and that it ended.
//! A run gets here when its keeper died and the file with its secrets cannot be read.

use crate::trace::warning;
use contract::event::Body;
use contract::{Draft, Signal};
use runtimes::Out;

/// The warning that so many events were not stored.
pub(crate) fn unkept_note(unkept: u64) -> Draft {
    let text = format!(
        "{unkept} events were not stored, because the secrets to remove from them are no longer \
         known"
    );
    warning(text)
}

/// Takes every word of the agent out of what was heard: its secrets went with its keeper, so nothing
/// can be kept that might hold one. Figures and the fact of an end stay. Gives how many were taken.
pub(crate) fn unseal(out: &mut Out) -> u64 {
    let before = out.drafts.len();
    out.drafts.retain(|draft| matches!(draft.body, Body::Usage(_) | Body::Turn(_)));
    for signal in &mut out.signals {
        if let Signal::Ended(ending) | Signal::Result(ending) = signal {
            (ending.text, ending.output, ending.detail) = (None, None, None);
        }
    }
    (before - out.drafts.len()) as u64
}
