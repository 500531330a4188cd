//! What the product is made of that nobody here wrote. Every package comes from the registry and is
//! known by its checksum: no repository, no directory elsewhere, and that for everything that the lock
//! files name. Every licence lets the whole be given on as MIT or Apache-2.0: asked of what is built on
//! this machine's platform, since the licences of what is not fetched cannot be read.

use super::{File, Finding, rooms};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "supply";
const LICENCE: &str = "licence";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Terms under which something may be in what is given on, and why. What a package offers beside one of
/// these need not be here.
const ALLOWED: &[(&str, &str)] = &[
    ("MIT", "our own"),
    ("Apache-2.0", "our own"),
    ("BSD-3-Clause", "as MIT, and names are not used to advertise: subtle, parts of aws-lc"),
    ("ISC", "as MIT, in fewer words: what rustls is made of"),
    ("Unicode-3.0", "as MIT, for the tables of Unicode: what reads international names of hosts"),
    ("Zlib", "as MIT, and changes are marked as such: foldhash"),
];

/// The lock files, package by package.
pub fn check(file: &File, findings: &mut Vec<Finding>) {
    if file.path != "Cargo.lock" && !file.path.ends_with("/Cargo.lock") {
        return;
    }
    for Locked { line, name, source, checksum } in locked(&file.text) {
        let what = match (source, checksum) {
            (None, _) if rooms::is_ours(name) => continue,
            (None, _) => format!("{name} is a directory that is no part of this workspace"),
            (Some(REGISTRY), Some(sum))
                if sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
            {
                continue;
            }
            (Some(REGISTRY), _) => format!("{name} has no checksum"),
            (Some(other), _) => format!("{name} comes from {other}: take it from the registry"),
        };
        findings.push(Finding { path: file.path.clone(), line, rule: SOURCE, what });
    }
}

struct Locked<'a> {
    line: usize,
    name: &'a str,
    source: Option<&'a str>,
    checksum: Option<&'a str>,
}

/// The packages of a lock file, as cargo writes it.
fn locked(text: &str) -> Vec<Locked<'_>> {
    let mut found: Vec<Locked<'_>> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line == "[[package]]" {
            found.push(Locked { line: at + 1, name: "", source: None, checksum: None });
        }
        let value = |key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
        let Some(last) = found.last_mut() else { continue };
        last.name = value("name").unwrap_or(last.name);
        last.source = value("source").or(last.source);
        last.checksum = value("checksum").or(last.checksum);
    }
    found
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: String,
}

/// Asks cargo what is built here, and under which terms.
pub fn licences(root: &Path) -> Result<Vec<Finding>, String> {
    let platform = platform(root)?;
    let args = ["metadata", "--locked", "--offline", "--format-version", "1"];
    let args = [&args[..], &["--filter-platform", &platform]].concat();
    of_metadata(&said(root, "cargo", &args)?, root)
}

/// What this machine is called by the compiler.
pub fn platform(root: &Path) -> Result<String, String> {
    let said = said(root, "rustc", &["-vV"])?;
    let platform = said.lines().find_map(|line| line.strip_prefix("host: "));
    platform.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

fn said(root: &Path, program: &str, args: &[&str]) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{program} {}: {error}", args.join(" "));
    let output = Command::new(program).args(args).current_dir(root).output();
    let output = output.map_err(|error| failed(&error))?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|error| failed(&error)),
        false => Err(failed(&String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn of_metadata(text: &str, root: &Path) -> Result<Vec<Finding>, String> {
    let metadata: Metadata =
        serde_json::from_str(text).map_err(|error| format!("reading cargo metadata: {error}"))?;
    let mut findings = Vec::new();
    for Package { name, license, source, manifest_path } in metadata.packages {
        let mut find = |rule: &'static str, what: String| {
            findings.push(Finding { path: "Cargo.lock".to_owned(), line: 1, rule, what });
        };
        if source.is_none() && !Path::new(&manifest_path).starts_with(root) {
            find(SOURCE, format!("{name} is a directory that is no part of this workspace"));
        }
        let license = license.unwrap_or_default();
        if !is_allowed(&license) {
            find(
                LICENCE,
                format!(
                    "{name} is under '{license}': do without it, or say in \
                     xtask/src/tidy/supply.rs why what is made of it can be given on"
                ),
            );
        }
    }
    Ok(findings)
}

/// Whether an expression of SPDX can be met by allowed terms alone. `/` is how `OR` was once written.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest) == Some(true) && rest.is_empty()
}

fn any(rest: &mut &[&str]) -> Option<bool> {
    let mut met = all(rest)?;
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        met |= all(rest)?;
    }
    Some(met)
}

fn all(rest: &mut &[&str]) -> Option<bool> {
    let mut met = one(rest)?;
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        met &= one(rest)?;
    }
    Some(met)
}

fn one(rest: &mut &[&str]) -> Option<bool> {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let met = any(rest)?;
            let [")", after @ ..] = *rest else { return None };
            *rest = after;
            Some(met)
        }
        // An exception makes other terms of it.
        [_, "WITH", _, after @ ..] => {
            *rest = after;
            Some(false)
        }
        [term, after @ ..] => {
            *rest = after;
            Some(ALLOWED.iter().any(|(allowed, _)| allowed == term))
        }
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::found;

    fn lock(lines: &str) -> String {
        format!("version = 4\n\n[[package]]\nname = \"aside\"\nversion = \"1.0.0\"\n{lines}")
    }

    #[test]
    fn a_package_that_is_not_the_registrys_is_found() {
        let sum = "0123456789abcdef".repeat(4);
        let registry = format!("source = \"{REGISTRY}\"\n");
        let good = lock(&format!("{registry}checksum = \"{sum}\"\n"));
        let git = lock("source = \"git+https://github.com/a/aside#0123\"\n");
        let other =
            lock(&format!("source = \"registry+https://a.example\"\nchecksum = \"{sum}\"\n"));
        let rows = [
            (good.as_str(), 0),
            (&lock(&registry), 1),
            (&lock(&format!("{registry}checksum = \"none\"\n")), 1),
            (&git, 1),
            (&other, 1),
            (&lock(""), 1),
            (&good.replace("aside", "contract").replace(&registry, ""), 0),
        ];
        for path in ["Cargo.lock", "crates/cli/tests/stranger/Cargo.lock"] {
            for (text, findings) in rows {
                assert_eq!(found(path, text), vec!["3 supply"; findings], "{path}: {text}");
            }
        }
    }

    #[test]
    fn a_licence_that_nobody_allowed_and_a_directory_elsewhere_are_found() {
        let package = |license: &str, source: &str, path: &str| {
            let text = format!(
                r#"{{"packages":[{{"name":"aside","license":{license},"source":{source},
                "manifest_path":"{path}/Cargo.toml"}}]}}"#
            );
            let findings = of_metadata(&text, Path::new("/tree")).unwrap();
            findings.into_iter().map(|finding| finding.rule).collect::<Vec<_>>()
        };
        assert_eq!(package("\"MIT\"", "\"registry\"", "/home"), [""; 0]);
        assert_eq!(package("\"GPL-3.0-only\"", "\"registry\"", "/home"), ["licence"]);
        assert_eq!(package("null", "\"registry\"", "/home"), ["licence"]);
        assert_eq!(package("\"MIT\"", "null", "/tree/crates/a"), [""; 0]);
        assert_eq!(package("\"MIT\"", "null", "/elsewhere"), ["supply"]);
    }

    #[test]
    fn an_expression_is_met_by_allowed_terms_alone() {
        for met in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "Unlicense OR MIT",
            "(MIT OR GPL-2.0-only) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "ISC AND (Apache-2.0 OR ISC) AND BSD-3-Clause",
        ] {
            assert!(is_allowed(met), "{met}");
        }
        for unmet in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "MPL-2.0",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "MIT OR",
            "(MIT",
            "MIT Apache-2.0",
            "MIT)",
            "mit",
        ] {
            assert!(!is_allowed(unmet), "{unmet}");
        }
    }

    #[test]
    fn every_allowed_term_says_why() {
        assert!(ALLOWED.iter().all(|(term, why)| is_allowed(term) && !why.is_empty()));
    }
}
