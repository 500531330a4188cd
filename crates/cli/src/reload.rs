//! Reloads the configuration while a server works: when the file has changed, and on SIGHUP. Adapters,
//! agents, MCP servers, budgets and prices are taken over at once; live runs keep the plan that they
//! were started with. What counts from the next start on alone is named in the log and by
//! `ostler status`. A file that cannot be read, or has a mistake, is refused whole: everything stays as it
//! was, and that is logged and shown too. The token of a remote (`auth.tokenFile`) is read by each
//! session and needs no reload.

use crate::config::{self, Config, Live};
use contract::Fault;
use host::blocking::{self, Bulkhead};
use host::configuration::ConfigurationState;
use host::{Host, clock};
use serde_json::Value;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::Signal;

const LOOK: Duration = Duration::from_secs(1);

/// The keys of the file that are taken over while a server works. A command reads `defaultAgent` anew
/// each time, and `$schema` is for editors.
const TAKEN_OVER: [&str; 8] = [
    "$schema",
    "adapters",
    "agents",
    "budgets",
    "defaultAgent",
    "envPassthrough",
    "mcpServers",
    "prices",
];

/// The metadata that tells one state of a file from another; `None` when the file is not there.
type Mark = Option<(u64, i64, i64, u64)>;

/// Follows the file and the signal for as long as this is polled.
pub async fn follow(host: Host, live: Live, mut hangup: Signal) {
    let started_with = live.now();
    let Some(path) = started_with.path.clone() else {
        while hangup.recv().await.is_some() {
            tracing::warn!("SIGHUP: there is no configuration file to reload");
        }
        return std::future::pending().await;
    };
    let mut seen = mark(&path).await;
    loop {
        let is_asked = tokio::select! {
            () = tokio::time::sleep(LOOK) => false,
            _ = hangup.recv() => true,
        };
        let now = mark(&path).await;
        if now == seen && !is_asked {
            continue;
        }
        seen = now;
        let why = if is_asked { "SIGHUP" } else { "the file changed" };
        match reload(&host, &live, &path, &started_with).await {
            Err(fault) => {
                tracing::error!(
                    code = fault.code.word(),
                    error = fault.message,
                    detail = fault.detail,
                    path = %path.display(),
                    cause = why,
                    "the configuration was not reloaded; the previous one stays in force"
                );
                let before = host.configuration();
                host.set_configuration(before.refusing(fault, clock::now().wall));
            }
            Ok(later) if later.is_empty() => tracing::info!(
                path = %path.display(),
                "{why}: reloaded adapters, agents, MCP servers, budgets and prices"
            ),
            Ok(later) => tracing::warn!(
                path = %path.display(),
                restart_for = later.join(", "),
                "{why}: reloaded adapters, agents, MCP servers, budgets and prices; the keys in \
                 `restart_for` changed too and count after a restart"
            ),
        }
    }
}

/// Puts the file in force, and gives the keys that count only after a restart.
async fn reload(
    host: &Host,
    live: &Live,
    path: &Path,
    started_with: &Config,
) -> Result<Vec<String>, Fault> {
    let file = path.to_owned();
    let read =
        blocking::spawn(Bulkhead::Data, "read configuration", move || config::load(Some(&file)))
            .await;
    let config = read.map_err(|error| {
        Fault::new(contract::Code::InternalError, format!("reading the configuration: {error}"))
    })??;
    let later = restart_for(started_with, &config);
    let (budgets, prices) = (config.budgets(), config.prices());
    live.set(config);
    host.set_configuration(ConfigurationState::loaded(Some(path), later.clone()));
    host.set_prices(prices);
    host.set_budgets(budgets).await?;
    host.configuration_changed().await?;
    Ok(later)
}

/// The keys whose values are others than those that the server started with, and that it cannot take over.
fn restart_for(started_with: &Config, now: &Config) -> Vec<String> {
    let written = |config: &Config| {
        // Whatever was read can be written.
        serde_json::to_value(&config.file).unwrap_or_default()
    };
    let (before, now) = (written(started_with), written(now));
    let mut keys = changed_keys(&before, &now, "");
    keys.retain(|key| !TAKEN_OVER.contains(&key.as_str()));
    if keys.iter().any(|key| key == "server") {
        keys.retain(|key| key != "server");
        keys.extend(changed_keys(&before["server"], &now["server"], "server."));
    }
    keys.sort();
    keys
}

fn changed_keys(before: &Value, now: &Value, prefix: &str) -> Vec<String> {
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flat_map(|object| object.keys().cloned()).collect()
    };
    let mut all = [keys(before), keys(now)].concat();
    all.sort();
    all.dedup();
    let changed = all.into_iter().filter(|key| before.get(key) != now.get(key));
    changed.map(|key| format!("{prefix}{key}")).collect()
}

async fn mark(path: &Path) -> Mark {
    let file = path.to_owned();
    let found = blocking::probe(path, "look at the configuration", move || std::fs::metadata(file));
    let found = found.await.ok()?.ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config { path: None, file: serde_json::from_str(text).unwrap() }
    }

    #[test]
    fn keys_that_need_a_restart_are_named() {
        let before = config(r#"{ "server": { "listen": "127.0.0.1:1" }, "retry": { "max": 1 } }"#);
        for (now, expected) in [
            (r#"{ "server": { "listen": "127.0.0.1:1" }, "retry": { "max": 1 } }"#, vec![]),
            (
                r#"{ "server": { "listen": "127.0.0.1:2", "publicUrl": "https://a.example" },
                     "agents": { "a": { "adapter": "demo" } } }"#,
                vec!["retry", "server.listen", "server.publicUrl"],
            ),
            (
                r#"{ "organization": "acme", "retry": { "max": 1 } }"#,
                vec!["organization", "server.listen"],
            ),
        ] {
            assert_eq!(restart_for(&before, &config(now)), expected, "{now}");
        }
    }
}
