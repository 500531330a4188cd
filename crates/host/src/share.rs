//! What a live run shares with others: the quota of its account and budgets. Its driver tells the
//! quota's breaker of a terminal answer before the run is settled, so that no restart forgets it, keeps
//! what is told of the windows, and asks for more of a shared budget while the run goes on. No trouble
//! here keeps a run from its end.

use crate::drive::Drive;
use crate::ops::limits::Fund;
use crate::ops::quota::{self, WindowsSource};
use crate::{Host, chance, clock};
use contract::event::{Body, Origin, QuotaWindow};
use contract::{Code, Command, Draft, RunState, Signal, Timestamp, Wish};
use engine::Input;
use engine::rules::{breaker, reset};
use runtimes::Out;
use std::sync::Arc;
use store::Batch;

/// What of it a driver remembers.
#[derive(Debug, Default)]
pub(crate) struct Share {
    pub fund: Option<Fund>,
    /// The windows of the account as they were told and not kept yet.
    told: Option<(WindowsSource, Vec<QuotaWindow>)>,
    /// The breaker knows of the answer that ends this run.
    tripped: bool,
    /// Until when a used-up quota was reported, and until when the breaker knows of one.
    reported: Option<Timestamp>,
    closed: Option<Timestamp>,
    /// The last error that the agent told: it explains a block, and an end that nobody tells.
    pub last_error: Option<(Code, String)>,
}

impl Share {
    /// That of a run that is taken over.
    pub fn of(fund: Option<Fund>) -> Self {
        Self { fund, ..Self::default() }
    }

    pub fn note(&mut self, draft: &Draft) {
        if let (Origin::Agent, Body::Error(error)) = (draft.origin, &draft.body) {
            let words = error.detail.clone().filter(|words| !words.trim().is_empty());
            self.last_error = words.map(|words| (error.code, words));
        }
        let Body::Quota(quota) = &draft.body else { return };
        if !quota.windows.is_empty() {
            let source = match draft.origin {
                Origin::Agent => WindowsSource::Agent,
                Origin::Ostler | Origin::Operator | Origin::Unknown => WindowsSource::Provider,
            };
            self.told = Some((source, quota.windows.clone()));
        }
        self.reported = self.reported.max(breaker::reported(quota, clock::now().wall));
    }

    /// The report that the breaker does not know of yet.
    fn unknown_report(&self) -> Option<Timestamp> {
        self.reported.filter(|until| self.closed.is_none_or(|closed| closed < *until))
    }
}

/// Gives a used-up quota the reset that was told beside it in words.
pub(crate) fn add_told_resets(out: &mut Out, now: Timestamp) {
    let reset = out.signals.iter().rev().find_map(|signal| match signal {
        Signal::Resets(told) => reset::moment(told, now),
        _ => None,
    });
    for draft in &mut out.drafts {
        let Body::Quota(quota) = &mut draft.body else { continue };
        if !quota.rate_limited || quota.resets_at.is_some() {
            continue;
        }
        quota.resets_at = reset;
        for window in quota.windows.iter_mut().filter(|window| window.exhausted) {
            window.resets_at = window.resets_at.or(reset);
        }
    }
}

impl Drive {
    /// Opens the breaker of the run's quota, if it was reported that nothing is left of it before a
    /// reset ahead, or if this Batch ends the run because nothing is left. The run itself goes on.
    pub(crate) async fn trip_quota(&mut self, batch: &Batch) {
        if let Some(until) = self.share.unknown_report() {
            let (seal, why) = (&self.words.seal, quota::REPORTED);
            match quota::trip(&self.house, self.run, until, why, seal).await {
                Ok(()) => self.share.closed = Some(until),
                // It is tried again with the next Batch.
                Err(error) => {
                    tracing::warn!(%error, "the reported quota cannot be closed");
                }
            }
        }
        let ends = batch.settle.as_ref().filter(|end| end.code == Some(Code::ProviderQuota));
        let Some(end) = ends.filter(|_| !self.share.tripped) else { return };
        let until = reset::until(self.machine.resets_at(), clock::now().wall);
        // The provider's own words say more than the result of a run that was stopped for them.
        let told = self.share.last_error.as_ref().filter(|(code, _)| *code == Code::ProviderQuota);
        let why = told.map_or_else(|| end.message.text(), |(_, words)| words.clone());
        let tripped = quota::trip(&self.house, self.run, until, &why, &self.words.seal).await;
        // A store that cannot take this cannot take the end either: both are tried again.
        self.share.tripped = tripped.is_ok();
    }

    /// Keeps what was told of the windows, and asks for more of the budgets when little is left.
    pub(crate) async fn tend_share(&mut self) {
        if let Some((source, windows)) = self.share.told.take() {
            let (seal, at) = (&self.words.seal, clock::now().wall);
            // It is told again with the next answer of the model.
            if let Err(error) = quota::tell(&self.house, self.run, &windows, source, at, seal).await
            {
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
        let is_included = self.machine.is_included();
        let Some(fund) = self.share.fund.as_mut().filter(|_| going) else { return };
        // Asked again when it is next looked at.
        let _ = fund.refresh(&Host { inner: Arc::clone(&self.house) }).await;
        let whose = (self.run, self.fence);
        if is_included {
            match fund.release_dollars(&self.house, whose).await {
                Ok(drafts) => self.pending.drafts.extend(drafts),
                // Tried again when it is next looked at; the end of the run gives them back in any case.
                Err(error) => tracing::warn!(%error, "reserved dollars cannot be given back"),
            }
        }
        let Some(more) = fund.wants(&remaining) else { return };
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
