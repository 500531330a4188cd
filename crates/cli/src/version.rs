//! The version of this program, with what is known of its build: the commit and its date where it was
//! built from a checkout, and the target. `build.rs` finds them without the network. The date of the
//! build itself is left out, so that the same commit gives the same program.

use serde_json::{Value, json};

const COMMIT: Option<&str> = option_env!("OSTLER_COMMIT");
const COMMIT_DATE: Option<&str> = option_env!("OSTLER_COMMIT_DATE");
const TARGET: &str = env!("OSTLER_TARGET");

/// The text after the program's name in `ostler --version`.
pub const TEXT: &str = env!("OSTLER_VERSION_TEXT");

pub fn as_json() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": COMMIT,
        "commit_date": COMMIT_DATE,
        "target": TARGET,
    })
}
