//! The workspace that a run of it owns. It writes files of its own and a repository into whatever
//! workspace its configuration names, so it is given one among the files of the attempt, which go
//! with them, and the run's own directory as the place its tools work in. A file of the run says so
//! and takes over the rest of the user's configuration, which is only read.
//! Who names a configuration in the adapter's own `env` has decided, and is left alone.

use crate::{Spec, skills};
use contract::plan::PlanFile;
use serde_json::json;
use std::collections::BTreeMap;

const CONFIG_FILE: &str = "openclaw.json";
const CONFIG_VARIABLE: &str = "OPENCLAW_CONFIG_PATH";
const ROOTS_VARIABLE: &str = "OPENCLAW_INCLUDE_ROOTS";
const DIR: &str = "workspace";

/// What is added to the start of a run.
pub(super) struct Owned {
    pub file: PlanFile,
    pub env: Vec<(String, String)>,
}

/// Where the workspace is, if the run has one.
pub(super) fn dir(spec: &Spec) -> Option<String> {
    users(spec).map(|_| format!("{}/{DIR}", spec.files))
}

/// The workspace, for a run that works in `cwd`.
pub(super) fn of(spec: &Spec, cwd: &str) -> Option<Owned> {
    let users = users(spec)?;
    let (above, _) = users.rsplit_once('/')?;
    let text = json!({
        "$include": users,
        "agents": { "defaults": {
            "workspace": dir(spec)?,
            "cwd": cwd,
            // A fresh workspace is a beginning to it, with a ritual that nobody asked for.
            "skipBootstrap": true,
            "contextInjection": "never",
        } },
    });
    let given = spec.caller_env.get(ROOTS_VARIABLE).filter(|roots| !roots.is_empty());
    let roots = given.map_or(above.to_owned(), |roots| format!("{above}:{roots}"));
    Some(Owned {
        file: PlanFile { name: CONFIG_FILE.to_owned(), text: text.to_string() },
        env: vec![
            (CONFIG_VARIABLE.to_owned(), format!("{}/{CONFIG_FILE}", spec.files)),
            (ROOTS_VARIABLE.to_owned(), roots),
        ],
    })
}

/// The user's configuration, found as the program itself finds it. None when the adapter decides, or
/// when no home is known.
fn users(spec: &Spec) -> Option<String> {
    let adapter = &spec.adapter;
    let passed = adapter.env_passthrough.iter().any(|name| name == CONFIG_VARIABLE);
    if adapter.env.contains_key(CONFIG_VARIABLE) || passed {
        return None;
    }
    let mut vars: BTreeMap<String, String> = spec.caller_env.clone();
    let plain = |(_, value): &(&String, &String)| !value.contains("${") && !value.contains("{{");
    vars.extend(
        adapter.env.iter().filter(plain).map(|(name, value)| (name.clone(), value.clone())),
    );
    if let Some(home) = vars.get("OPENCLAW_HOME").filter(|home| home.starts_with('/')) {
        vars.insert("HOME".to_owned(), home.clone());
    }
    let profile =
        vars.get("OPENCLAW_PROFILE").filter(|name| !matches!(name.as_str(), "" | "default"));
    let dir = match profile {
        Some(name) => format!("~/.openclaw-{name}"),
        None => "~/.openclaw".to_owned(),
    };
    let dir = skills::expanded(&format!("${{OPENCLAW_STATE_DIR:-{dir}}}"), &vars)?;
    let named = vars.get(CONFIG_VARIABLE).filter(|path| !path.is_empty());
    let path = match named {
        Some(path) => skills::expanded(path, &vars)?,
        None => format!("{}/{CONFIG_FILE}", skills::expanded(&dir, &vars)?),
    };
    path.starts_with('/').then_some(path)
}
