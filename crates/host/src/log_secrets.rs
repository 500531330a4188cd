//! The secret values that the operator log must not show: those of the data directory and of every
//! run that is driven here. There is one registry per process, because there is one log per process
//! and a line is redacted whichever component wrote it. The binary passes each line through `clean`
//! before it is written.

use contract::RunId;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};
use store::{Seal, Sealed};

static SECRETS: LazyLock<RwLock<LogSecrets>> = LazyLock::new(RwLock::default);

#[derive(Default)]
struct LogSecrets {
    /// The values that belong to no run.
    process: Seal,
    /// The value of a run is removed when the run is no longer driven here.
    runs: HashMap<RunId, Seal>,
}

/// Replaces the values that belong to no run: the token of the data directory.
pub fn set_process_secrets(secrets: impl IntoIterator<Item = (String, String)>) {
    write(|log| log.process = Seal::new(secrets));
}

pub(crate) fn add_run(run: RunId, seal: Seal) {
    write(|log| drop(log.runs.insert(run, seal)));
}

pub(crate) fn remove_run(run: RunId) {
    write(|log| drop(log.runs.remove(&run)));
}

/// A line of the log without secrets: known values and everything that looks like a key are replaced.
/// A line of JSON stays JSON.
pub fn clean(line: &[u8]) -> Sealed {
    let log = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    let sealed = log.process.line(line);
    log.runs.values().fold(sealed, |sealed, run| run.line(sealed.bytes()))
}

fn write(change: impl FnOnce(&mut LogSecrets)) {
    change(&mut SECRETS.write().unwrap_or_else(PoisonError::into_inner));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_driven_runs_are_redacted() {
        let (first, second) = (crate::chance::run_id(), crate::chance::run_id());
        let seal = |value: &str| Seal::new([("KEY".to_owned(), value.to_owned())]);
        add_run(first, seal("value-of-the-first-run"));
        add_run(second, seal("value-of-the-second-run"));
        let line = br#"{"message":"value-of-the-first-run, value-of-the-second-run"}"#;
        let shown = clean(line).text();
        assert!(!shown.contains("value-of-the"), "{shown}");
        assert!(serde_json::from_str::<serde_json::Value>(&shown).is_ok(), "{shown}");
        remove_run(first);
        let shown = clean(line).text();
        assert!(shown.contains("value-of-the-first-run"), "{shown}");
        assert!(!shown.contains("value-of-the-second-run"), "{shown}");
        remove_run(second);
    }
}
