//! What a live run shares with others: the quota of its account and budgets. Its driver tells the
//! quota's breaker of a terminal answer before the run is settled, so that no restart forgets it, keeps
//! what is told of the windows, and asks for more of a shared budget while the run goes on. No trouble
//! here keeps a run from its end.

use crate::drive::Drive;
use crate::ops::limits::Fund;
use crate::ops::quota;
use crate::{Host, chance, clock};
use contract::event::{Body, QuotaWindow};
use contract::{Code, Command, Draft, RunState, Wish};
use engine::Input;
use engine::rules::reset;
use std::sync::Arc;
use store::Batch;

/// What of it a driver remembers.
#[derive(Debug, Default)]
pub(crate) struct Share {
    pub fund: Option<Fund>,
    /// The windows of the account as they were told and not kept yet.
    told: Option<Vec<QuotaWindow>>,
    /// The breaker knows of the answer that ends this run.
    tripped: bool,
}

impl Share {
    /// That of a run that is taken over.
    pub fn of(fund: Option<Fund>) -> Self {
        Self { fund, ..Self::default() }
    }

    pub fn note(&mut self, body: &Body) {
        if let Body::Quota(quota) = body
            && !quota.windows.is_empty()
        {
            self.told = Some(quota.windows.clone());
        }
    }
}

impl Drive {
    /// Opens the breaker of the run's quota, if this Batch ends the run because nothing is left of it.
    pub(crate) async fn trip_quota(&mut self, batch: &Batch) {
        let ends = batch.settle.as_ref().filter(|end| end.code == Some(Code::ProviderQuota));
        let Some(end) = ends.filter(|_| !self.share.tripped) else { return };
        let until = reset::until(self.machine.resets_at(), clock::now().wall);
        let why = end.message.text();
        let tripped = quota::trip(&self.house, self.run, until, &why, &self.words.seal).await;
        // A store that cannot take this cannot take the end either: both are tried again.
        self.share.tripped = tripped.is_ok();
    }

    /// Keeps what was told of the windows, and asks for more of the budgets when little is left.
    pub(crate) async fn tend_share(&mut self) {
        if let Some(windows) = self.share.told.take() {
            let (seal, at) = (&self.words.seal, clock::now().wall);
            // It is told again with the next answer of the model.
            if let Err(error) = quota::tell(&self.house, self.run, &windows, at, seal).await {
                tracing::warn!(%error, "the quota that the provider reported cannot be stored");
            }
        }
        self.grow_fund().await;
    }

    async fn grow_fund(&mut self) {
        let going = match self.machine.state() {
            RunState::Planned | RunState::Live => true,
            RunState::Stopping | RunState::Settled | RunState::Unknown => false,
        };
        let now = clock::now();
        let remaining = self.machine.remaining(now);
        let Some(fund) = self.share.fund.as_mut().filter(|_| going) else { return };
        // Asked again when it is next looked at.
        let _ = fund.refresh(&Host { inner: Arc::clone(&self.house) }).await;
        let Some(more) = fund.wants(&remaining) else { return };
        let whose = (self.run, self.fence);
        match fund.grow(&self.house, whose, more, remaining).await {
            Ok(Ok(remaining)) => {
                let wish = Wish::Budget { remaining };
                let (id, run_id, asked_at) = (chance::command_id(), self.run, now.wall);
                self.step(now, Input::Command(Command { id, run_id, asked_at, wish }));
            }
            Ok(Err(drafts)) => self.pending.drafts.extend::<Vec<Draft>>(drafts),
            // Tried again when it is next looked at.
            Err(error) => tracing::warn!(%error, "no more of a shared budget can be reserved"),
        }
    }
}
