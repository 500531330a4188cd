//! `ostler init`: a first configuration, commented, where it will be found. Never over another.

use super::{Context, Stopped};
use crate::config as settings;
use contract::{Code, Fault};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ExitCode;

pub fn init(context: &Context) -> Result<ExitCode, Stopped> {
    let path = context
        .global
        .config
        .clone()
        .or_else(|| settings::default_path(&context.surroundings.vars))
        .ok_or_else(|| {
            Fault::new(Code::Usage, "neither XDG_CONFIG_HOME nor HOME is set")
                .with_hint("name a file with --config")
        })?;
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Fault::new(Code::Conflict, format!("{} is there already", path.display()))
                .with_hint("edit it, or name another with --config")
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
        .open(&path)
        .map_err(failed)?;
    file.write_all(settings::TEMPLATE.as_bytes()).map_err(failed)?;
    context.print(&format!("wrote {}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}
