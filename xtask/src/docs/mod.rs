//! Makes the pages of `docs/` that are generated, and compares them with what stands there.
//! `contract.rs`, `agents.rs` and `runtimes.rs` write the pages, `schema.rs` turns JSON Schema into words, and
//! `openapi.rs` keeps the API, against what would break it (`breaking.rs`). A page that differs
//! from its source fails the gate, so nobody edits one by hand for long.

mod agents;
mod breaking;
mod contract;
mod openapi;
mod runtimes;
mod schema;

use crate::requirements;
use std::fs;
use std::path::Path;

/// A path from the root, and what makes the page that stands there.
type Page = (&'static str, fn(&Path) -> String);

const PAGES: &[Page] = &[
    ("docs/contract.md", |_| contract::page()),
    ("docs/agents/outcomes.md", |_| agents::page()),
    (requirements::PAGE, requirements::page),
];

pub use openapi::Breaks;

pub fn write(root: &Path, breaks: Breaks) -> Result<(), String> {
    for (path, page) in PAGES {
        fs::write(root.join(path), page(root)).map_err(|error| format!("write {path}: {error}"))?;
        println!("wrote {path}");
    }
    runtimes::write(root)?;
    openapi::write(root, breaks)
}

pub fn check(root: &Path) -> Result<(), String> {
    for (path, page) in PAGES {
        let stands = fs::read_to_string(root.join(path)).unwrap_or_default();
        if let Some(difference) = difference(&stands, &page(root)) {
            return Err(format!(
                "{path}: {difference}\nrun `cargo xtask docs` and look at the change"
            ));
        }
        println!("{path} is as its source says");
    }
    runtimes::check(root)?;
    openapi::check(root)
}

/// The first line that differs, in words.
fn difference(stands: &str, wanted: &str) -> Option<String> {
    if stands == wanted {
        return None;
    }
    let same = stands.lines().zip(wanted.lines()).take_while(|(one, other)| one == other).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("the end of the page").to_owned();
    Some(format!("line {} is\n  {}\nand should be\n  {}", same + 1, line(stands), line(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(
            difference("a\nb\n", "a\nc\n").as_deref(),
            Some("line 2 is\n  b\nand should be\n  c")
        );
        assert_eq!(
            difference("a\n", "a\nb\n").as_deref(),
            Some("line 2 is\n  the end of the page\nand should be\n  b")
        );
    }
}
