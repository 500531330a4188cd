//! `docs/openapi.json`: the API as it is promised to clients. The document comes from the server's own
//! example, so that these tools are built without the server. What would break a client of the kept
//! document is not written over it unless that is said with `--breaking`.

use super::{breaking, difference};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const PATH: &str = "docs/openapi.json";

/// Whether a change that breaks clients is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaks {
    Never,
    OnPurpose,
}

/// The document of the tree as it stands.
fn made(root: &Path) -> Result<String, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let made = Command::new(cargo)
        .args(["run", "--quiet", "--package", "server", "--example", "openapi"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo run --example openapi: {error}"))?;
    match made.status.success() {
        true => String::from_utf8(made.stdout).map_err(|error| format!("{PATH}: {error}")),
        false => Err(String::from_utf8_lossy(&made.stderr).into_owned()),
    }
}

fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{PATH}: {error}"))
}

/// What breaks whoever relies on what is kept.
fn compatible(kept: &str, new: &str) -> Result<(), String> {
    if kept.is_empty() {
        return Ok(());
    }
    let broken = breaking::between(&parsed(kept)?, &parsed(new)?);
    match broken.is_empty() {
        true => Ok(()),
        false => Err(format!("{PATH} would break its clients:\n  {}", broken.join("\n  "))),
    }
}

pub fn write(root: &Path, breaks: Breaks) -> Result<(), String> {
    let (kept, new) = (fs::read_to_string(root.join(PATH)).unwrap_or_default(), made(root)?);
    match (compatible(&kept, &new), breaks) {
        (Err(broken), Breaks::Never) => {
            return Err(format!("{broken}\nif that is meant: cargo xtask docs --breaking"));
        }
        (Err(broken), Breaks::OnPurpose) => println!("{broken}"),
        (Ok(()), _) => {}
    }
    fs::write(root.join(PATH), new).map_err(|error| format!("write {PATH}: {error}"))?;
    println!("wrote {PATH}");
    Ok(())
}

pub fn check(root: &Path) -> Result<(), String> {
    let (kept, new) = (fs::read_to_string(root.join(PATH)).unwrap_or_default(), made(root)?);
    compatible(&kept, &new)?;
    if let Some(difference) = difference(&kept, &new) {
        return Err(format!("{PATH}: {difference}\nrun `cargo xtask docs` and look at the change"));
    }
    println!("{PATH} is as its source says, and breaks nobody");
    Ok(())
}
