//! The version of this program, with what is known of its build: the commit where it was built from
//! a checkout, and the target. `build.rs` finds both without the network.

use serde_json::{Value, json};

const COMMIT: Option<&str> = option_env!("OSTLER_COMMIT");
const TARGET: &str = env!("OSTLER_TARGET");

/// The text after the program's name in `ostler --version`.
pub const TEXT: &str = env!("OSTLER_VERSION_TEXT");

pub fn as_json() -> Value {
    json!({ "version": env!("CARGO_PKG_VERSION"), "commit": COMMIT, "target": TARGET })
}
