//! `docs/runtimes`: one page for each runtime, made from its card, and a list of them.

use super::difference;
use runtimes::{catalogue, page};
use std::fs;
use std::path::Path;

const FOLDER: &str = "docs/runtimes";

/// Every page, by its path from the root.
fn pages() -> Vec<(String, String)> {
    let mut list = String::from(
        "# Runtimes\n\nOne page for each agent that Ostler drives, made from its card by `cargo xtask \
         docs`. `ostler runtimes NAME` prints the same, and `GET /api/v1/runtimes/NAME` gives it as data. \
         An agent that is known by an ACP name, such as `kimi-acp`, is driven by \
         [acp](acp.md).\n\n| runtime | | use when |\n|---|---|---|\n",
    );
    let mut pages = Vec::new();
    for card in catalogue::runtimes() {
        let (id, label) = (&card.id, &card.label);
        list.push_str(&format!("| [{id}]({id}.md) | {label} | {} |\n", card.use_when_short()));
        let path = format!("{FOLDER}/{id}.md");
        pages.push((path, page::of(&catalogue::whole(card))));
    }
    pages.push((format!("{FOLDER}/README.md"), list));
    pages
}

pub fn write(root: &Path) -> Result<(), String> {
    fs::create_dir_all(root.join(FOLDER)).map_err(|error| format!("make {FOLDER}: {error}"))?;
    for (path, page) in pages() {
        fs::write(root.join(&path), page).map_err(|error| format!("write {path}: {error}"))?;
    }
    println!("wrote {FOLDER}");
    Ok(())
}

pub fn check(root: &Path) -> Result<(), String> {
    for (path, page) in pages() {
        let stands = fs::read_to_string(root.join(&path)).unwrap_or_default();
        if let Some(difference) = difference(&stands, &page) {
            return Err(format!(
                "{path}: {difference}\nrun `cargo xtask docs` and look at the change"
            ));
        }
    }
    println!("{FOLDER} is as its source says");
    Ok(())
}
