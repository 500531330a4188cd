//! That the places are still found: a generator that finds nothing any more would say that all is
//! well. The rows' texts, the names of known survivors, the tests that the page names and what a
//! mutation leaves alone are held here too.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

fn all() -> Vec<Mutation> {
    site::all(&source::product(&crate::root()).unwrap()).unwrap()
}

#[test]
fn a_module_of_tests_in_a_file_of_its_own_is_no_part_of_the_product() {
    let text = "#[cfg(test)]\nmod alone;\nmod commit;\n#[cfg(test)]\nmod tests {\n}\n";
    let below = |path: &str| source::Source::new(path, text).test_modules();
    assert_eq!(below("crates/a/src/b/mod.rs"), ["crates/a/src/b/alone"]);
    assert_eq!(below("crates/a/src/b.rs"), ["crates/a/src/b/alone"]);
    let product = source::product(&crate::root()).unwrap();
    let has = |path: &str| product.iter().any(|source| source.path == path);
    assert!(has("crates/store/src/sqlite/verbs.rs"));
    assert!(!has("crates/store/src/sqlite/alone.rs"), "it is declared for tests alone");
}

#[test]
fn every_kind_of_place_is_still_found() {
    let all = all();
    for (part, at_least) in [
        ("fence/store/sqlite/verbs/held/", 3),
        ("fence/store/sqlite/verbs/renew/", 2),
        ("fence/store/sqlite/verbs/fence_off/", 4),
        ("fence/store/sqlite/commit/advance/", 3),
        ("fence/store/sqlite/commit/settle/", 2),
        ("fence/store/sqlite/commit/end_task/", 2),
        ("fence/store/sqlite/queue/recall/", 2),
        ("fence/store/sqlite/queue/again/", 1),
        ("fence/store/sqlite/queue/release_dependents/", 2),
        ("fence/store/sqlite/verbs/take/", 7),
        ("fence/store/sqlite/verbs/move_task/", 2),
        ("fence/store/sqlite/access/", 3),
        ("fence/store/sqlite/queue/heads/", 2),
        ("fence/store/sqlite/removal/", 8),
        ("fence/store/sqlite/scope/", 1),
        ("fence/store/sqlite/access/token/hash = ?2", 1),
        ("fence/store/sqlite/access/kept/created_at > ?3", 1),
        ("fence/store/sqlite/access/keep_answer/request = ?3", 1),
        ("fence/store/sqlite/access/keep_answer/status IS NULL", 1),
        ("fence/store/sqlite/queue/change_budget/budget IS ?2", 1),
        ("fence/store/sqlite/queue/note_dependents/o.state IN (", 1),
        ("fence/store/sqlite/queue/heads/run IS NULL", 1),
        ("fence/store/sqlite/queue/heads/r.state <> 'settled'", 1),
        ("fence/store/sqlite/queue/crowds/r.state <> 'settled'", 1),
        ("fence/store/sqlite/reads/run/deleted_at IS NULL", 1),
        ("fence/store/sqlite/reads/runs/deleted_at IS NULL", 1),
        ("fence/store/sqlite/reads/lines_sql/", 2),
        ("fence/store/sqlite/removal/finish/state IN (", 1),
        ("fence/store/sqlite/removal/stale/t.state IN (", 1),
        ("fence/store/sqlite/scope/told/", 2),
        ("fence/store/sqlite/verbs/enqueue/", 3),
        ("fence/store/sqlite/verbs/take/(SELECT count(*) FROM runs", 1),
        ("fence/store/sqlite/verbs/take/pool = ?4", 1),
        ("fence/store/sqlite/verbs/untaken/", 3),
        ("fence/host/adopt/", 3),
        ("fence/host/elsewhere/", 1),
        ("fence/host/ops/callback/", 1),
        ("fence/host/ops/session/kept/admit/", 2),
        ("fence/host/ops/snapshot/", 1),
        ("fence/", 200),
        ("sync/store/blobs/", 3),
        ("sync/store/trace/", 3),
        ("sync/store/disk/", 3),
        ("sync/store/sqlite/mod/open_writer/\"FULL\"", 1),
        ("sync/host/data/", 1),
        ("seal/host/batch/", 8),
        ("seal/host/ops/start/", 6),
        ("seal/host/trace/", 3),
        ("seal/host/ops/agents/", 2),
        ("seal/host/dispatch/", 1),
        ("seal/server/keyed/", 1),
        ("seal/store/seal/", 10),
        ("auth/server/auth/admit/", 3),
        ("auth/server/names/host/", 2),
        ("auth/server/names/origin/", 1),
        ("auth/server/auth/caller/", 1),
        ("auth/server/auth/content_type/", 1),
        ("auth/server/auth/whole/", 2),
        ("auth/server/auth/protected/", 4),
        ("auth/server/listen/converse/", 3),
        ("auth/server/remote/guard/admit/", 4),
        ("auth/server/remote/mod/router/", 2),
        ("auth/remote/courier/address/", 4),
        ("auth/host/upstream/", 3),
        ("auth/host/ops/token/", 3),
        ("auth/server/listen/open/", 1),
        ("auth/server/remote/listen/listen/", 2),
        ("auth/server/remote/mod/wanted/", 1),
        ("auth/server/rest/runs/start/", 1),
        ("auth/server/auth/shown/(given.next(), given.next())", 1),
        ("auth/server/remote/guard/check/(given.next(), given.next())", 1),
        ("path/host/git/", 5),
        ("path/host/trees/", 5),
        ("path/host/skills/", 6),
        ("path/host/workspace/", 3),
        ("path/host/data/", 2),
        ("rule/", 10),
    ] {
        let found = all.iter().filter(|mutation| mutation.name.starts_with(part)).count();
        assert!(found >= at_least, "{part}: {found} found, and at least {at_least} are there");
    }
}

#[test]
fn each_has_a_name_of_its_own_and_changes_something_in_its_place() {
    let (all, sources) = (all(), source::product(&crate::root()).unwrap());
    let names: BTreeSet<_> = all.iter().map(|mutation| &mutation.name).collect();
    assert_eq!(names.len(), all.len());
    for mutation in &all {
        let source = sources.iter().find(|source| source.path == mutation.path).unwrap();
        let mutated = switch::switched(&source.text, &[], &[], Path::new(""), Some(mutation));
        assert_ne!(mutated, source.text, "{}", mutation.name);
        assert!(mutation.at.end <= source.end, "{} is in a test", mutation.name);
    }
}

#[test]
fn whoever_is_excused_is_there_and_has_a_reason() {
    let names: BTreeSet<_> = all().into_iter().map(|mutation| mutation.name).collect();
    for (name, reason) in known::KNOWN {
        assert!(names.contains(*name), "{name} is no mutation any more");
        assert!(reason.len() > 20, "{name} has no reason");
    }
}

/// Every line of the sources of a crate, its tests included.
fn crate_lines(dir: &Path, lines: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            crate_lines(&path, lines);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            lines.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_owned));
        }
    }
}

#[test]
fn the_page_names_no_test_that_is_gone() {
    let named = report::named(&crate::root());
    let mut crates: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut gone = BTreeSet::new();
    for test in &named {
        let (binary, path) = test.split_once(' ').unwrap_or((test, ""));
        let package = binary.split(':').next().unwrap_or(binary);
        let lines = crates.entry(package).or_insert_with(|| {
            let mut lines = Vec::new();
            for part in ["src", "tests"] {
                crate_lines(&crate::root().join("crates").join(package).join(part), &mut lines);
            }
            lines
        });
        let function = format!("fn {}(", path.rsplit("::").next().unwrap_or(path));
        if !lines.iter().any(|line| line.contains(&function)) {
            gone.insert(test);
        }
    }
    assert!(gone.is_empty(), "docs/mutations.md names tests that are not there: {gone:#?}");
    assert!(named.len() > 100, "the page was not read: it names {} tests", named.len());
}

#[test]
fn a_row_whose_text_is_gone_is_said() {
    let mut sources = source::product(&crate::root()).unwrap();
    for source in &mut sources {
        if source.path == rows::ROWS[0].path {
            source.text = source.text.replace(rows::ROWS[0].text, "");
        }
    }
    assert!(rows::find(&sources, &mut Vec::new()).unwrap_err().contains("0 times"));
}
