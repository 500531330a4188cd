//! Finds out how the use of an adapter's account is paid for, before a run starts: by the configuration,
//! else by the runtime's own setting, variables and card (`Card::billing`). Reads one settings file of
//! the user and never a secret. What is not found out here the runtime may tell during the run.

use crate::Host;
use crate::blocking;
use crate::ops::run::RunRequest;
use contract::card::BillingFile;
use contract::limits::CONFIG_BYTES_MAX;
use contract::plan::Adapter;
use runtimes::registry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The adapter with its `billing` filled in, where that is known.
pub(crate) async fn found_out(host: &Host, request: &RunRequest, adapter: Adapter) -> Adapter {
    if adapter.billing.is_some() {
        return adapter;
    }
    // An unknown runtime is refused by the checks that follow.
    let Ok(runtime) = registry::of(&adapter) else { return adapter };
    let card = runtime.card();
    let Some(login) = &card.login else { return adapter };
    let caller = request.environment.as_ref().unwrap_or(&host.inner.environment);
    let kind = match &login.billing_file {
        Some(file) => login_kind(file.clone(), caller.clone()).await,
        None => None,
    };
    let value = |name: &str| {
        let value = adapter.env.get(name).or_else(|| caller.get(name));
        value.map(String::as_str)
    };
    let billing = card.billing(value, kind.as_deref());
    Adapter { billing, ..adapter }
}

/// The kind of login that the runtime's own setting names.
async fn login_kind(file: BillingFile, vars: BTreeMap<String, String>) -> Option<String> {
    let path = PathBuf::from(runtimes::skills::expanded(&file.path, &vars)?);
    let dir = path.clone();
    let read = blocking::probe(&dir, "read a login kind", move || read_kind(&file, &path));
    // A panic or a file system that hangs is logged where it happened; the kind stays unknown.
    read.await.ok().flatten()
}

fn read_kind(file: &BillingFile, path: &Path) -> Option<String> {
    let mut text = String::new();
    let opened = std::fs::File::open(path).ok()?;
    opened.take(CONFIG_BYTES_MAX as u64).read_to_string(&mut text).ok()?;
    let settings: Value = serde_json::from_str(&text).ok()?;
    let mut found = file.pointers.iter().filter_map(|pointer| settings.pointer(pointer)?.as_str());
    found.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_login_is_read_from_the_first_setting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        let file = BillingFile {
            path: "~/settings.json".to_owned(),
            pointers: vec![
                "/security/auth/selectedType".to_owned(),
                "/selectedAuthType".to_owned(),
            ],
            kinds: BTreeMap::new(),
        };
        for (text, kind) in [
            (
                r#"{"security": {"auth": {"selectedType": "a"}}, "selectedAuthType": "b"}"#,
                Some("a"),
            ),
            (r#"{"selectedAuthType": "b"}"#, Some("b")),
            (r#"{"selectedAuthType": 1}"#, None),
            ("no JSON", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_kind(&file, &path).as_deref(), kind, "{text}");
        }
    }
}
