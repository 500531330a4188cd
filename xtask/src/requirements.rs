//! The requirements of the source documents, each with what shows that it is met.
//!
//! `requirements/table.txt` is the source: one line per requirement with its state, a short statement
//! and the tests, files or decisions that show it. This module checks that each of them exists, writes
//! `docs/evidence/requirements.md`, and runs the tests of one requirement or of all of them.

mod page;
mod run;
mod table;

use std::path::Path;

pub use page::page;

/// Where the page stands.
pub const PAGE: &str = "docs/evidence/requirements.md";

/// Runs `cargo xtask requirements` with these arguments.
pub fn run(root: &Path, args: &[&str]) -> Result<(), String> {
    let rows = table::read(table::TEXT)?;
    table::check(root, &rows)?;
    match args {
        [] => {
            println!("{}", page::totals(&rows));
            Ok(())
        }
        ["--all"] => run::all(root, &rows, false),
        ["--all", "--write"] => run::all(root, &rows, true),
        ids => run::some(root, &rows, ids),
    }
}
