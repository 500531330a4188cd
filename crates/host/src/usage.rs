//! Asks a provider how an account stands, for an adapter that says `quota.source: oauth`. The token is
//! read from the agent's own login, sent to the provider over TLS and to nobody else, known to the
//! seal, and kept nowhere. The answer is kept in the data directory for half an hour. No trouble here
//! is trouble of a run: it is said in a warning, and what the agent tells by itself counts.

use crate::blocking::{self, Bulkhead};
use crate::data::write_private;
use crate::diagnose::expanded;
use crate::trace::warning;
use crate::{clock, upstream};
use contract::event::{Body, Quota};
use contract::limits::{
    USAGE_ANSWER_BYTES_MAX, USAGE_ASK_MS_MIN, USAGE_FAILED_MS, USAGE_FRESH_MS, USAGE_MS_MAX,
};
use contract::plan::{Adapter, QuotaSource};
use contract::{Draft, Timestamp};
use futures::StreamExt as _;
use runtimes::account::{Account, Question};
use runtimes::registry;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Another address to ask, where the host was started: a mirror, or the endpoint of a test.
const URL_VARIABLE: &str = "OSTLER_USAGE_URL";
/// The name of a file with an answer.
const KEPT_PREFIX: &str = "usage-";
const KEPT_SUFFIX: &str = ".json";
/// What the token is called where secrets are named.
const SECRET: &str = "the token of the agent's login";
/// A file of a login is small.
const CREDENTIALS_BYTES_MAX: u64 = 64 * 1024;

/// What came of asking.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// A `quota`, or a warning.
    pub drafts: Vec<Draft>,
    /// The same quota.
    pub quota: Option<Quota>,
    /// The token, for the seal.
    pub secret: Option<(String, String)>,
}

/// An answer as it is kept. A trouble is kept too, for a shorter time.
#[derive(Serialize, Deserialize)]
struct Kept {
    asked_at: Timestamp,
    /// The login it was asked with, by the time of its file.
    login_ms: u64,
    quota: Option<Quota>,
}

/// What a provider answered, and when it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub quota: Quota,
    pub asked_at: Timestamp,
}

/// How old an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// One that is kept is good for half an hour.
    Kept,
    /// The provider is asked, but not twice in a moment.
    Now,
}

impl Freshness {
    fn good_for_ms(self, is_answer: bool) -> u64 {
        match (self, is_answer) {
            (Self::Kept, true) => USAGE_FRESH_MS,
            (Self::Kept, false) => USAGE_FAILED_MS,
            (Self::Now, _) => USAGE_ASK_MS_MIN,
        }
    }
}

/// Where to look and ask.
pub(crate) struct Place<'a> {
    /// The data directory.
    pub data: &'a Path,
    /// The host's own variables.
    pub host: &'a BTreeMap<String, String>,
    /// The agent's variables.
    pub agent: &'a BTreeMap<String, String>,
}

/// How the account of this adapter stands; nothing unless the adapter is configured to ask.
pub(crate) async fn ask(adapter: &Adapter, place: Place<'_>) -> Asked {
    match adapter.quota {
        Some(QuotaSource::Oauth) => {}
        Some(QuotaSource::Auto | QuotaSource::Off) | None => return Asked::default(),
    }
    let mut secret = None;
    let found = found(adapter, &place, Freshness::Kept, &mut secret).await;
    let quota = found.as_ref().ok().cloned().flatten().map(|Answer { quota, .. }| quota);
    let drafts = match (&quota, found) {
        (Some(quota), _) => vec![Draft::ostler(Body::Quota(quota.clone()))],
        // It was said when it happened.
        (None, Ok(_)) => Vec::new(),
        (None, Err(why)) => {
            // The reason may be in the words of the provider, which are for the run alone.
            let adapter = &adapter.name;
            tracing::warn!(
                adapter,
                "the state of an account cannot be read; the events of the run say why"
            );
            vec![warning(format!(
                "the state of the account could not be read: {why}; what the agent reports is used"
            ))]
        }
    };
    Asked { drafts, quota, secret }
}

/// How an account stands, by a question that is asked now unless one was asked a moment ago.
pub(crate) async fn ask_now(adapter: &Adapter, place: Place<'_>) -> Result<Answer, String> {
    // The answer is stored without the login's token, so that no seal has to know it.
    let mut secret = None;
    let found = found(adapter, &place, Freshness::Now, &mut secret).await?;
    found.ok_or_else(|| {
        format!("the last question failed; it is repeated after {USAGE_ASK_MS_MIN} ms")
    })
}

/// Forgets all answers that are kept, so that the next start asks again.
pub(crate) async fn forget(data: &Path) {
    let data = data.to_owned();
    let removed = blocking::spawn(Bulkhead::Data, "forget usage", move || {
        for entry in std::fs::read_dir(&data)?.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(KEPT_PREFIX) && name.ends_with(KEPT_SUFFIX) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok::<(), std::io::Error>(())
    });
    match removed.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "the kept answers about accounts cannot be removed")
        }
        // The panic is logged where it happened.
        Err(_) => {}
    }
}

async fn found(
    adapter: &Adapter,
    place: &Place<'_>,
    freshness: Freshness,
    secret: &mut Option<(String, String)>,
) -> Result<Option<Answer>, String> {
    let account = registry::account(&adapter.runtime)
        .ok_or_else(|| format!("no endpoint is known for {}", adapter.runtime))?;
    let question = account.question();
    let login = expanded(question.credentials, place.agent).ok_or("no home is known")?;
    let url = place.host.get(URL_VARIABLE).map_or(question.url, String::as_str);
    let keep = kept_at(place.data, &login, adapter.account.as_deref(), url);
    let login_ms = changed_ms(&login).await?;
    // The seal must know the token of every such run, also when nothing is asked this time.
    let token = token(&login, &question).await?;
    *secret = Some((SECRET.to_owned(), token.clone()));
    let now = clock::now().wall;
    let answer = |asked_at: Timestamp, mut quota: Quota| {
        quota.account.clone_from(&adapter.account);
        Answer { quota, asked_at }
    };
    if let Some(kept) = kept(&keep, login_ms, now, freshness).await {
        return Ok(kept.quota.map(|quota| answer(kept.asked_at, quota)));
    }
    let quota = asked(account, &question, url, &token).await;
    let kept = Kept { asked_at: now, login_ms, quota: quota.as_ref().ok().cloned() };
    if let Ok(text) = serde_json::to_string(&kept) {
        // If it cannot be written, the endpoint is asked again the next time.
        let _ = blocking::spawn(Bulkhead::Data, "write login", move || write_private(&keep, &text))
            .await;
    }
    quota.map(|quota| Some(answer(now, quota)))
}

/// One file for each login, account and address.
fn kept_at(data: &Path, login: &Path, account: Option<&str>, url: &str) -> PathBuf {
    let of = format!("{}\n{}\n{url}", login.display(), account.unwrap_or_default());
    let name = blake3::hash(of.as_bytes()).to_hex();
    data.join(format!("{KEPT_PREFIX}{}{KEPT_SUFFIX}", &name[..16]))
}

/// What was answered not long ago with the same login.
async fn kept(path: &Path, login_ms: u64, now: Timestamp, freshness: Freshness) -> Option<Kept> {
    let file = path.to_owned();
    let read = blocking::spawn(Bulkhead::Data, "read quota", move || std::fs::read(file));
    let bytes = read.await.ok()?.ok()?;
    let kept: Kept = serde_json::from_slice(&bytes).ok()?;
    let fresh_ms = freshness.good_for_ms(kept.quota.is_some());
    let past = kept.asked_at <= now;
    (past && now.since(kept.asked_at) < fresh_ms && kept.login_ms == login_ms).then_some(kept)
}

async fn changed_ms(login: &Path) -> Result<u64, String> {
    let unread = |error: std::io::Error| format!("{}: {error}", login.display());
    let file = login.to_owned();
    let found = blocking::probe(login, "look at the login file", move || std::fs::metadata(file));
    let found = found.await.map_err(|fault| fault.message)?.map_err(unread)?;
    if found.len() > CREDENTIALS_BYTES_MAX || !found.is_file() {
        return Err(format!("{} is not a login file", login.display()));
    }
    let since = found.modified().map_err(unread)?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The token. What else is in the file is not told, not even when it cannot be read.
async fn token(login: &Path, question: &Question) -> Result<String, String> {
    let unread = |what: &str| format!("{}: {what}", login.display());
    let file = login.to_owned();
    let read = blocking::probe(login, "read the login file", move || std::fs::read(file));
    let bytes = read.await.map_err(|fault| fault.message)?;
    let bytes = bytes.map_err(|error| unread(&error.to_string()))?;
    let file: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|_| unread("it is not JSON"))?;
    let token = file.pointer(question.token).and_then(|token| token.as_str());
    token.filter(|token| !token.is_empty()).map(str::to_owned).ok_or_else(|| unread("no token"))
}

async fn asked(
    account: &dyn Account,
    question: &Question,
    url: &str,
    token: &str,
) -> Result<Quota, String> {
    let answer = tokio::time::timeout(
        Duration::from_millis(USAGE_MS_MAX),
        answer(question, url.to_owned(), token),
    );
    let bytes = answer.await.map_err(|_| format!("no answer within {USAGE_MS_MAX} ms"))??;
    account.read(&bytes).ok_or_else(|| "its answer was not understood".to_owned())
}

async fn answer(question: &Question, url: String, token: &str) -> Result<Vec<u8>, String> {
    let (client, url) = upstream::client_with_secret(url).await?;
    let mut request = client.get(url).bearer_auth(token);
    for (name, value) in question.headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.map_err(|error| upstream::causes(&error))?;
    if !response.status().is_success() {
        return Err(format!("it answered {}", response.status().as_u16()));
    }
    let (mut bytes, mut pieces) = (Vec::new(), response.bytes_stream());
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| upstream::causes(&error))?);
        if bytes.len() > USAGE_ANSWER_BYTES_MAX {
            return Err("its answer is too long".to_owned());
        }
    }
    Ok(bytes)
}
