//! Quotas of accounts: whether runs may start in a scope, as the answers of providers left it, and a
//! person's word against it. The rule is `engine::rules::breaker`; what it says is written only if
//! nobody changed the breaker meanwhile, and survives this host. Live runs of a scope that is used up
//! are told so and left to their own end.

use super::relay::Asked;
use super::run::stored;
use super::who::Who;
use crate::trace::warning;
use crate::{Host, Inner, clock, usage};
use contract::event::{Quota, QuotaWindow};
use contract::limits::{PAGE_ROWS_MAX, QUOTA_WHY_BYTES_MAX, QUOTA_WINDOWS_MAX, USAGE_ASKS_MAX};
use contract::plan::QuotaSource;
use contract::state::WaitingFor;
use contract::{Code, Fault, RunId, Timestamp};
use engine::rules::breaker::{self, Breaker, Passage, Probe};
use futures::StreamExt as _;
use runtimes::registry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{Opened, QuotaRow, QuotaStep, Seal, Store};

/// How often a breaker that others change at the same time is looked at again.
const TRIES_MAX: usize = 64;
/// What was asked for, and not told by an agent.
const FROM_PROVIDER: WindowsSource = WindowsSource::Provider;
/// Why a scope is blocked whose used-up quota was reported and did not end a run.
pub(crate) const REPORTED: &str = "the provider reported that the quota is used up";

/// Whether runs may start in the scope of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum QuotaState {
    /// Runs may start.
    Open,
    /// No run starts before `until`.
    Blocked { until: Timestamp },
    /// The reset is past; one run tries first whether the provider answers.
    Probing { run_id: RunId, since: Timestamp },
    /// The provider answers; runs start one after another.
    Resuming { since: Timestamp, next_at: Timestamp },
}

impl From<Breaker> for QuotaState {
    fn from(breaker: Breaker) -> Self {
        match breaker {
            Breaker::Closed => Self::Open,
            Breaker::Open { until } => Self::Blocked { until },
            Breaker::Probing { run, since } => Self::Probing { run_id: run, since },
            Breaker::Resuming { since, next_at } => Self::Resuming { since, next_at },
        }
    }
}

/// One quota as people see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AccountQuota")]
pub struct QuotaView {
    pub scope: String,
    #[serde(flatten)]
    pub state: QuotaState,
    /// Runs of it that are live: they were begun before, and are left to their end.
    pub live: usize,
    /// The provider's words when it was blocked last, when that was, and by which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<RunId>,
    /// The windows as they were last told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<QuotaWindow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Timestamp>,
    /// Who told the windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<WindowsSource>,
    /// Why the provider could not be asked, where a fresh answer was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Who told how the windows of an account stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowsSource {
    /// An agent, during a run.
    Agent,
    /// The provider, when it was asked.
    Provider,
}

/// The windows as they are stored. Rows of earlier versions have the list alone.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum KeptWindows {
    Told { source: WindowsSource, windows: Vec<QuotaWindow> },
    Bare(Vec<QuotaWindow>),
}

/// Asks the providers now that have a source of quotas, for adapters with `quota.source: oauth`: one
/// question for each account, all at once, none more often than the limit allows. What they answer is
/// kept and heeded like before a start. Gives the accounts that could not be asked, each with why.
async fn refresh(host: &Host) -> Result<BTreeMap<String, String>, Fault> {
    let mut accounts = BTreeMap::new();
    for name in host.inner.book.adapters().into_iter().map(|adapter| adapter.name) {
        // An adapter that cannot be resolved is named by `ostler config check`; no run of it starts.
        let Ok(named) = (host.inner.resolve)(&name) else { continue };
        if named.adapter.quota == Some(QuotaSource::Oauth) {
            accounts.entry(super::limits::scope(&named.adapter)).or_insert(named.adapter);
        }
    }
    let asked = accounts.into_iter().map(async |(scope, adapter)| {
        let mut agent = host.inner.environment.clone();
        agent.extend(adapter.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        let (data, environment) = (host.inner.data.path(), &host.inner.environment);
        let place = usage::Place { data, host: environment, agent: &agent };
        let answer = usage::ask_now(&adapter, place).await;
        (scope, answer)
    });
    let answers: Vec<_> =
        futures::stream::iter(asked).buffer_unordered(USAGE_ASKS_MAX).collect().await;
    let mut failed = BTreeMap::new();
    for (scope, answer) in answers {
        match answer {
            Ok(answer) => {
                let (seal, at) = (Seal::default(), answer.asked_at);
                let kept = keep_windows(
                    &host.inner,
                    &scope,
                    &answer.quota.windows,
                    FROM_PROVIDER,
                    at,
                    &seal,
                );
                host.inner.heed(kept.await).map_err(stored)?;
                heed_report(host, &scope, &answer.quota, &seal).await?;
            }
            Err(why) => {
                failed.insert(scope, why);
            }
        }
    }
    Ok(failed)
}

/// The quotas that are known after a refresh: those whose provider could not be asked say so.
pub async fn list_fresh(host: &Host, after: &str, limit: usize) -> Result<Vec<QuotaView>, Fault> {
    // A later page belongs to the answers of the first one.
    let mut failed = match after {
        "" => refresh(host).await?,
        _ => BTreeMap::new(),
    };
    let mut views = list(host, after, limit).await?;
    for view in &mut views {
        view.error = failed.remove(&view.scope);
    }
    for (scope, why) in failed {
        let row = QuotaRow { scope, ..QuotaRow::default() };
        views.push(QuotaView { error: Some(why), ..view(host, row).await? });
    }
    views.sort_by(|one, other| one.scope.cmp(&other.scope));
    views.truncate(limit);
    Ok(views)
}

/// The quotas that are known, by their scopes: so many that come after this one.
pub async fn list(host: &Host, after: &str, limit: usize) -> Result<Vec<QuotaView>, Fault> {
    let mut views = Vec::new();
    for row in host.store().quotas(after, limit).await.map_err(stored)? {
        views.push(view(host, row).await?);
    }
    Ok(views)
}

async fn view(host: &Host, row: QuotaRow) -> Result<QuotaView, Fault> {
    let live = host.store().quota_runs(&row.scope, PAGE_ROWS_MAX).await.map_err(stored)?.len();
    Ok(QuotaView {
        state: read(&row).into(),
        live,
        windows: windows(&row),
        source: kept_windows(&row).map(|kept| match kept {
            KeptWindows::Told { source, .. } => source,
            KeptWindows::Bare(_) => WindowsSource::Agent,
        }),
        error: None,
        scope: row.scope,
        why: row.why,
        blocked_at: row.opened_at,
        blocked_by: row.opened_by,
        told_at: row.told_at,
    })
}

/// Runs may start again in this scope, because a person says so. Written down with who it was.
pub async fn clear(host: &Host, scope: &str, by: &Who) -> Result<QuotaView, Fault> {
    for _ in 0..TRIES_MAX {
        let row = match host.store().quota(scope).await.map_err(stored)? {
            Some(row) => row,
            None => {
                let rows = host.store().quotas("", PAGE_ROWS_MAX).await.map_err(stored)?;
                meant(scope, rows)?
            }
        };
        let (seen, scope) = (row.version, row.scope.clone());
        let step = QuotaStep { scope, seen, breaker: None, opened: None };
        match host.inner.heed(host.store().step_quota(step).await) {
            Ok(()) => {
                let about = serde_json::json!({ "scope": row.scope });
                host.inner.audit.did(clock::now().wall, by, "quota_cleared", about);
                // What was answered before would block it again.
                usage::forget(host.inner.data.path()).await;
                super::limits::look_again(host, WaitingFor::Quota).await?;
                return view(host, QuotaRow { breaker: None, version: seen + 1, ..row }).await;
            }
            Err(store::Error::Conflict { .. }) => {}
            Err(error) => return Err(stored(error)),
        }
    }
    Err(busy(scope))
}

/// The only quota of a runtime, or of a provider: the messages of agents name their provider.
fn meant(given: &str, mut rows: Vec<QuotaRow>) -> Result<QuotaRow, Fault> {
    rows.retain(|row| {
        let runtime = row.scope.split('/').next().unwrap_or_default();
        runtime == given || registry::quota_provider(runtime) == Some(given)
    });
    let shown: String = given.chars().take(80).collect();
    match rows.len() {
        1 => Ok(rows.remove(0)),
        0 => Err(Fault::new(Code::NotFound, format!("there is no quota '{shown}'"))
            .with_hint("`ostler quotas` lists the known ones")),
        several => {
            let scopes: Vec<&str> = rows.iter().map(|row| row.scope.as_str()).collect();
            Err(Fault::new(Code::Usage, format!("{several} quotas match '{shown}'"))
                .with_hint(format!("give one of them: {}", scopes.join(", "))))
        }
    }
}

/// A breaker as it was seen, and what it says to a start.
pub(super) struct Seen {
    pub row: QuotaRow,
    pub passage: Passage,
}

/// Whether this run may start in this scope now.
pub(super) async fn look(
    store: &Store,
    scope: &str,
    run: RunId,
    now: Timestamp,
) -> Result<Seen, Fault> {
    let row = store.quota(scope).await.map_err(stored)?;
    seen(store, scope, row, run, now).await
}

/// The same by the row there is.
pub(super) async fn seen(
    store: &Store,
    scope: &str,
    row: Option<QuotaRow>,
    run: RunId,
    now: Timestamp,
) -> Result<Seen, Fault> {
    let row = row.unwrap_or_else(|| QuotaRow { scope: scope.to_owned(), ..QuotaRow::default() });
    let standing = read(&row);
    let probe = match standing {
        Breaker::Probing { run, .. } => match store.run(run).await.map_err(stored)? {
            Some(row) if row.outcome.is_none() => Probe::Live,
            Some(_) | None => Probe::Ended,
        },
        Breaker::Closed | Breaker::Open { .. } | Breaker::Resuming { .. } => Probe::Ended,
    };
    Ok(Seen { passage: breaker::start(standing, probe, run, now), row })
}

impl Seen {
    /// What a run that may start changes of the breaker; nothing when nobody waits for it.
    pub fn step(&self) -> Option<QuotaStep> {
        let Passage::Go(then) = self.passage else { return None };
        let is_news = then != read(&self.row);
        is_news.then(|| QuotaStep {
            scope: self.row.scope.clone(),
            seen: self.row.version,
            breaker: written(then),
            opened: None,
        })
    }

    /// Why a run may not start, for whoever asked for it.
    pub fn refusal(&self) -> Option<Fault> {
        let Passage::Wait { until } = self.passage else { return None };
        let scope = &self.row.scope;
        let message = match read(&self.row) {
            Breaker::Open { .. } => {
                format!("the quota of {scope} is used up; it resets at {until}")
            }
            Breaker::Closed | Breaker::Probing { .. } | Breaker::Resuming { .. } => {
                format!(
                    "the quota of {scope} was reset, and runs start again one by one; try again at \
                     {until}"
                )
            }
        };
        let hint =
            format!("wait until then, use another account, or run `ostler quotas clear {scope}`");
        Some(Fault::new(Code::ProviderQuota, message).with_hint(hint))
    }
}

/// A provider said to this run that nothing is left: no run starts in its scope before `until`.
pub(crate) async fn trip(
    house: &Inner,
    run: RunId,
    until: Timestamp,
    why: &str,
    seal: &Seal,
) -> Result<(), store::Error> {
    match house.store.quota_of(run).await? {
        Some(scope) => close(house, &scope, Some(run), until, why, seal).await,
        None => Ok(()),
    }
}

/// Takes the answer of a provider that was asked before a start: it is kept, and when nothing is left
/// before a reset ahead, no run starts in this scope until then. Gives why the start is refused.
pub(super) async fn heed_report(
    host: &Host,
    scope: &str,
    quota: &Quota,
    seal: &Seal,
) -> Result<Option<Fault>, Fault> {
    let (house, now) = (&host.inner, clock::now().wall);
    let Some(until) = breaker::reported(quota, now) else { return Ok(None) };
    let kept = keep_windows(house, scope, &quota.windows, FROM_PROVIDER, now, seal).await;
    house.heed(kept).map_err(stored)?;
    let closed = close(house, scope, None, until, REPORTED, seal).await;
    house.heed(closed).map_err(stored)?;
    // No run has this id, so that no probe is taken for it.
    let nobody = RunId::new(uuid::Uuid::nil());
    Ok(look(host.store(), scope, nobody, now).await?.refusal())
}

/// Blocks a scope until then, and tells its live runs.
async fn close(
    house: &Inner,
    scope: &str,
    by: Option<RunId>,
    until: Timestamp,
    why: &str,
    seal: &Seal,
) -> Result<(), store::Error> {
    let at = clock::now().wall;
    let why = &why[..why.floor_char_boundary(QUOTA_WHY_BYTES_MAX)];
    for _ in 0..TRIES_MAX {
        let row = house.store.quota(scope).await?;
        let row =
            row.unwrap_or_else(|| QuotaRow { scope: scope.to_owned(), ..QuotaRow::default() });
        let step = QuotaStep {
            scope: scope.to_owned(),
            seen: row.version,
            breaker: written(breaker::trip(read(&row), until)),
            opened: Some(Opened { at, by, why: seal.given(why) }),
        };
        match house.store.step_quota(step).await {
            Err(store::Error::Conflict { .. }) => {}
            Ok(()) => {
                mark(house, scope, by, until).await?;
                // Several runs of an account hear the same answer; people hear it once.
                if !matches!(read(&row), Breaker::Open { .. }) {
                    let note = format!("the quota of {scope} is used up until {until}");
                    house.limit_closed(by, scope, &note);
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Tells the other live runs of a scope that its quota is used up.
async fn mark(
    house: &Inner,
    scope: &str,
    by: Option<RunId>,
    until: Timestamp,
) -> Result<(), store::Error> {
    let others = house.store.quota_runs(scope, PAGE_ROWS_MAX).await?;
    let live = house.live();
    let whose = by.map_or_else(|| "the provider".to_owned(), |by| by.to_string());
    for live in others.iter().filter(|run| Some(**run) != by).filter_map(|run| live.get(run)) {
        let text = format!(
            "{whose} reported that the quota of {scope} is used up until {until}; new runs wait, and \
             this one continues as long as it can"
        );
        // A run that takes no more calls needs no more news.
        let _ = live.asking.try_send(Asked::Note(Box::new(warning(text))));
    }
    Ok(())
}

/// Keeps what an agent told of the windows of its account.
pub(crate) async fn tell(
    house: &Inner,
    run: RunId,
    windows: &[QuotaWindow],
    source: WindowsSource,
    at: Timestamp,
    seal: &Seal,
) -> Result<(), store::Error> {
    match house.store.quota_of(run).await? {
        Some(scope) => keep_windows(house, &scope, windows, source, at, seal).await,
        None => Ok(()),
    }
}

async fn keep_windows(
    house: &Inner,
    scope: &str,
    windows: &[QuotaWindow],
    source: WindowsSource,
    at: Timestamp,
    seal: &Seal,
) -> Result<(), store::Error> {
    let windows = windows[..windows.len().min(QUOTA_WINDOWS_MAX)].to_vec();
    let kept = KeptWindows::Told { source, windows };
    house.store.tell_quota(scope.to_owned(), seal.json(&kept), at).await
}

/// The breaker that is kept. What cannot be read holds nobody up.
fn read(row: &QuotaRow) -> Breaker {
    let kept = row.breaker.as_deref();
    kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
}

fn written(breaker: Breaker) -> Option<String> {
    match breaker {
        Breaker::Closed => None,
        Breaker::Open { .. } | Breaker::Probing { .. } | Breaker::Resuming { .. } => {
            serde_json::to_string(&breaker).ok()
        }
    }
}

/// The windows that are kept of a quota.
pub(super) fn windows(row: &QuotaRow) -> Vec<QuotaWindow> {
    match kept_windows(row) {
        Some(KeptWindows::Told { windows, .. } | KeptWindows::Bare(windows)) => windows,
        None => Vec::new(),
    }
}

/// What was told last. What cannot be read is as if it had not been told.
fn kept_windows(row: &QuotaRow) -> Option<KeptWindows> {
    serde_json::from_str(row.windows.as_deref()?).ok()
}

pub(super) fn busy(scope: &str) -> Fault {
    Fault::new(Code::Conflict, format!("the quota of {scope} was changed by other requests"))
        .with_hint("try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_means_its_only_quota() {
        let rows = |scopes: &[&str]| -> Vec<QuotaRow> {
            let row = |scope: &&str| QuotaRow { scope: (*scope).to_owned(), ..QuotaRow::default() };
            scopes.iter().map(row).collect()
        };
        let found = |given, scopes: &[&str]| match meant(given, rows(scopes)) {
            Ok(row) => row.scope,
            Err(fault) => format!("{fault}; {}", fault.hint()),
        };
        assert_eq!(found("anthropic", &["claude/work", "codex"]), "claude/work");
        assert_eq!(found("claude", &["claude/work", "codex"]), "claude/work");
        let several = found("anthropic", &["claude", "claude/work"]);
        assert_eq!(
            several,
            "usage: 2 quotas match 'anthropic'; give one of them: claude, claude/work"
        );
        assert!(found("openai", &["claude"]).starts_with("not_found: there is no quota 'openai'"));
    }
}
