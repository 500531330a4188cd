//! `ostler init`: a first configuration, commented, where it will be found. Never over another.

use super::{Context, Stopped, config};
use crate::config as settings;
use contract::{Code, Fault};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;

pub fn init(context: &Context) -> Result<ExitCode, Stopped> {
    let path = config::path(context)?;
    write(&path)?;
    let shown = path.display();
    match context.global.json {
        true => context.print_json(&serde_json::json!({ "path": path }))?,
        false => context.print(&format!(
            "wrote {shown}\n\
             Ostler reads this file, whatever the current directory is; another one: --config FILE\n\
             or OSTLER_CONFIG. `ostler config edit` opens it, `ostler config check` checks it."
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the first configuration to a new file.
pub(super) fn write(path: &Path) -> Result<(), Fault> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Fault::new(Code::Conflict, format!("{} exists already", path.display()))
                .with_hint("edit it (`ostler config edit`), or name another with --config")
        }
        _ => Fault::new(
            Code::InvalidConfig,
            format!("{}: cannot be written: {error}", path.display()),
        )
        .with_hint("name a file that can be written with --config"),
    };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.write_all(settings::TEMPLATE.as_bytes()).map_err(failed)
}
