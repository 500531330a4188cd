//! Where agents were told to find their host. The address is in their environment and cannot be
//! changed any more, so a host that takes a run over from another also listens where that one did.
//! What is known about such addresses is here; listening is the server's (`cli/src/doors.rs`).

use crate::Host;
use crate::ops::relay::Asked;
use crate::trace::warning;
use std::collections::BTreeSet;

impl Host {
    /// The addresses at which agents of live runs look for this host and do not find it at its own.
    pub fn told_elsewhere(&self) -> Vec<String> {
        let live = self.inner.live();
        let told: BTreeSet<_> = live.values().filter_map(|live| live.told.clone()).collect();
        told.into_iter().filter(|told| told != self.inner.address()).collect()
    }

    /// Waits until no agent of a live run looks for its host at this address.
    pub async fn untold(&self, address: &str) {
        let mut reasons = self.inner.reasons.subscribe();
        let is_told =
            || self.inner.live().values().any(|live| live.told.as_deref() == Some(address));
        // The sender lives in `self`, so waiting cannot fail.
        let _ = reasons.wait_for(|_| !is_told()).await;
    }

    /// Tells every run whose agent looks for its host at this address that it does not find it.
    pub fn tell_of_closed_door(&self, address: &str, why: &str) {
        for live in self.inner.live().values() {
            if live.told.as_deref() == Some(address) {
                let text = format!(
                    "the agent expects its tools at {address}, where this host cannot listen: \
                     {why}; it retries"
                );
                // A run that takes no more calls needs no more news.
                let _ = live.asking.try_send(Asked::Note(Box::new(warning(text))));
            }
        }
    }
}
