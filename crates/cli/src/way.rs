//! A command's way to whoever hosts the data directory, for as long as the command lasts. A host may
//! make room for another or die at any moment: what was asked of it is then asked of the next one,
//! which may be this process. That is safe because everything that changes something carries an id of
//! its own, chosen here, and the same id again changes nothing (`host::ops`).

use crate::background;
use crate::client::Client;
use crate::hosting::{self, Hosting, Place, Purpose, Reached};
use contract::{Code, Fault};
use std::time::Duration;

/// How many hosts may go away in a row before that is a fault.
const HOSTS_MAX: u32 = 20;
/// Between two of them: one that is about to leave needs a moment.
const NEXT_HOST_PAUSE: Duration = Duration::from_millis(20);
/// How long the end of a command's own run or connection may take to be noticed.
const OWN_END: Duration = Duration::from_millis(400);

pub struct Way<'a> {
    pub place: &'a Place,
    purpose: Purpose,
    pub client: Client,
    /// The host, if it is us; it may become us on the way.
    pub hosting: Option<Hosting>,
}

impl<'a> Way<'a> {
    pub async fn find(place: &'a Place, purpose: Purpose) -> Result<Self, Fault> {
        let Reached { client, hosting } = hosting::reach(place, &purpose).await?;
        Ok(Self { place, purpose, client, hosting })
    }

    /// A way to a host that outlives this process; `way` is the one that is there already.
    pub async fn in_background(place: &'a Place, way: Option<Self>) -> Result<Self, Fault> {
        let hosting = way.and_then(|way| way.hosting);
        let client = background::ensure(place, hosting).await?;
        Ok(Self { place, purpose: Purpose::Act, client, hosting: None })
    }

    /// Asks whoever hosts, and the next host again when that one is gone.
    pub async fn ask<T>(
        &mut self,
        mut ask: impl AsyncFnMut(&Client) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        for _ in 0..HOSTS_MAX {
            match ask(&self.client).await {
                Err(lost) if lost.code == Code::RemoteUnavailable => self.next_host(lost).await?,
                answer => return answer,
            }
        }
        ask(&self.client).await
    }

    /// Finds who hosts now. Any other fault than a lost host is the caller's.
    pub async fn next_host(&mut self, lost: Fault) -> Result<(), Fault> {
        if let Some(fault) = self.hosting.as_ref().and_then(Hosting::is_broken) {
            return Err(fault);
        }
        if lost.code != Code::RemoteUnavailable {
            return Err(lost);
        }
        let reached = match self.hosting.take() {
            None => {
                tokio::time::sleep(NEXT_HOST_PAUSE).await;
                hosting::reach(self.place, &self.purpose).await?
            }
            // We are the host and were asked to make room; a failure of our own is not survived.
            Some(hosting) if hosting.is_asked_for() => {
                hosting.leave().await;
                hosting::reach_successor(self.place).await?
            }
            Some(hosting) => {
                self.hosting = Some(hosting);
                return Err(lost);
            }
        };
        let Reached { client, hosting } = reached;
        self.client = client;
        self.hosting = hosting;
        Ok(())
    }

    /// Makes sure that what is started by this way outlives this process: a server or a background
    /// host drives it from now on.
    pub async fn move_to_background(&mut self) -> Result<(), Fault> {
        self.client = background::ensure(self.place, self.hosting.take()).await?;
        Ok(())
    }

    /// The command is done. Runs that are live here go on under a background host.
    pub async fn finish(self) {
        let Some(hosting) = self.hosting else { return };
        // What the command itself did takes a moment to end.
        if hosting.is_idle_within(OWN_END).await {
            return hosting.leave().await;
        }
        hosting.leave_to_background(self.place).await;
    }
}
