//! `cargo xtask agents [--all | --budgets | --policies] [--install] [--write]`: the agent CLIs of others,
//! pinned, driven by our product against a scripted model on loopback. `--budgets` and `--policies` drive
//! the tests of one page alone, with the CLIs they need.
//!
//! `install` puts what is missing into a cache, by npm or pip; one that does not install is a failure. Then
//! the suite `crates/cli/tests/agents` is built, and run where no network but loopback exists. What
//! each test found is a row; `page` makes them the page that `--write` keeps.

mod budgets;
pub(crate) mod install;
mod page;
mod policies;

use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::agents::{HOME_VARIABLE, NODE, PINS, Pin, home};

/// The variable that names the folder into which each test writes its row.
const ROWS_VARIABLE: &str = "OSTLER_AGENTS_ROWS";
/// The folders in it for rows of budgets and of policies.
const BUDGETS: &str = "budgets";
const POLICIES: &str = "policies";
/// Tests of the CLIs beyond every day have names that begin so.
const BEYOND: &str = "beyond::";
/// Tests of budgets and of policies have these in their names.
const BUDGET: &str = "budget::";
const POLICY: &str = "policies::";

/// Which tests are driven.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Suite {
    #[default]
    Everyday,
    All,
    Budgets,
    Policies,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    suite: Suite,
    install: bool,
    write: bool,
}

impl Wanted {
    fn of(words: &[&str]) -> Result<Self, String> {
        let mut wanted = Self::default();
        for word in words {
            let suite = match *word {
                "--all" => Suite::All,
                "--budgets" => Suite::Budgets,
                "--policies" => Suite::Policies,
                "--install" => {
                    wanted.install = true;
                    continue;
                }
                "--write" => {
                    wanted.write = true;
                    continue;
                }
                other => return Err(format!("agents does not know '{other}'")),
            };
            if wanted.suite != Suite::Everyday {
                return Err("use one of --all, --budgets and --policies".into());
            }
            wanted.suite = suite;
        }
        if wanted.write && (wanted.suite == Suite::Everyday || wanted.install) {
            return Err("--write keeps what came of whole pages: use it with --all, --budgets or \
                        --policies, and without --install"
                .into());
        }
        Ok(wanted)
    }

    fn pins(&self) -> Vec<Pin> {
        let is_chosen = |pin: &&Pin| match self.suite {
            Suite::Everyday => pin.everyday,
            Suite::All => true,
            Suite::Budgets => pin.budgets,
            Suite::Policies => policies::CLIS.contains(&pin.id),
        };
        let chosen: Vec<Pin> = PINS.iter().filter(is_chosen).copied().collect();
        let node = chosen.iter().any(|pin| pin.newer_node).then_some(NODE);
        node.into_iter().chain(chosen).collect()
    }
}

pub fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let wanted = Wanted::of(words)?;
    let home = home()?;
    let pins = wanted.pins();
    // One that fails does not keep the others from being tried.
    let failed = install::all(&home, &pins)?;
    if wanted.install || !failed.is_empty() {
        return install::verdict(&failed);
    }
    let rows = rows(root)?;
    let driven = drive(root, &wanted, &home, &rows);
    let has = |suite: Suite| [suite, Suite::All].contains(&wanted.suite);
    let mut pages = Vec::new();
    if has(Suite::Everyday) {
        pages.push((page::PAGE, page::of(&pins, &page::read(&rows)?)));
    }
    if has(Suite::Budgets) || wanted.suite == Suite::Everyday {
        let rows = page::read(&rows.join(BUDGETS))?;
        pages.push((budgets::PAGE, budgets::page(&pins, &rows, &crate::date::today())));
    }
    if has(Suite::Policies) {
        let rows = page::read(&rows.join(POLICIES))?;
        pages.push((policies::PAGE, policies::page(&rows, &crate::date::today())));
    }
    for (path, page) in pages {
        println!("{page}");
        // A page of one suite with rows missing would not show that one did not hold.
        if wanted.write && (path == page::PAGE || driven.is_ok()) {
            page::keep(root, path, &page)?;
        }
    }
    driven
}

/// An empty folder for what the tests find.
fn rows(root: &Path) -> Result<PathBuf, String> {
    let rows = target(root).join("agents-rows");
    match std::fs::remove_dir_all(&rows) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("emptying {}: {error}", rows.display()));
        }
        Ok(()) | Err(_) => {}
    }
    for folder in [BUDGETS, POLICIES].map(|name| rows.join(name)) {
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("making {}: {error}", folder.display()))?;
    }
    Ok(rows)
}

/// The target directory this program was built into.
fn target(root: &Path) -> PathBuf {
    let own = std::env::current_exe().ok();
    own.and_then(|own| own.ancestors().nth(2).map(Path::to_owned))
        .unwrap_or_else(|| root.join("target"))
}

/// Builds the suite, then runs it on loopback alone.
fn drive(root: &Path, wanted: &Wanted, home: &Path, rows: &Path) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let nextest = Command::new(&cargo).args(["nextest", "--version"]).output();
    let nextest = nextest.is_ok_and(|output| output.status.success());
    let mut words: Vec<&str> = if nextest { vec!["nextest", "run"] } else { vec!["test"] };
    words.extend(["--package", "cli", "--test", "agents"]);
    let build: Vec<&str> = words.iter().copied().chain(["--no-run"]).collect();
    carry_out(Command::new(&cargo).args(build).current_dir(root))?;
    words.push("--offline");
    words.push("--no-fail-fast");
    if nextest {
        words.extend(["--status-level", "pass"]);
    } else if wanted.suite != Suite::All {
        words.push("--");
    }
    match (nextest, wanted.suite) {
        (_, Suite::All) => {}
        (true, Suite::Budgets) => words.extend(["-E", "test(/(^|::)budget::/)"]),
        (true, Suite::Policies) => words.extend(["-E", "test(/(^|::)policies::/)"]),
        (true, Suite::Everyday) => words.extend(["-E", "not test(/^beyond::/)"]),
        (false, Suite::Budgets) => words.push(BUDGET),
        (false, Suite::Policies) => words.push(POLICY),
        (false, Suite::Everyday) => words.extend(["--skip", BEYOND]),
    }
    let python = testkit::python().ok_or("no python3: the scripted model needs it")?;
    let mut command = Command::new(python);
    command
        .arg(testkit::model::scripts().join("loopback_only.py"))
        .arg(&cargo)
        .args(words)
        .env(HOME_VARIABLE, home)
        .env(ROWS_VARIABLE, rows)
        .current_dir(root);
    carry_out(&mut command)
}

fn carry_out(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(error) => Err(format!("starting {program}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_takes_fewer_than_all_and_needs_no_node_of_its_own() {
        let everyday = Wanted::of(&[]).expect("no words").pins();
        let all = Wanted::of(&["--all"]).expect("a word").pins();
        assert!(everyday.len() >= 3 && all.len() > everyday.len());
        assert!(!everyday.contains(&NODE) && all[0] == NODE);
    }

    #[test]
    fn budgets_need_their_clis_and_write_their_page() {
        let budgets = Wanted::of(&["--budgets", "--write"]).expect("words").pins();
        assert!(budgets[0] == NODE && budgets[1..].iter().all(|pin| pin.budgets));
        assert_eq!(budgets.len(), 7);
        assert!(Wanted::of(&["--all", "--budgets"]).is_err());
    }

    #[test]
    fn policies_need_their_agents_alone() {
        let pins = Wanted::of(&["--policies", "--write"]).expect("words").pins();
        assert_eq!(pins.iter().map(|pin| pin.id).collect::<Vec<_>>(), policies::CLIS);
    }

    #[test]
    fn a_page_is_kept_of_all_of_them_or_not_at_all() {
        assert!(Wanted::of(&["--write"]).is_err());
        assert!(Wanted::of(&["--all", "--install", "--write"]).is_err());
        assert!(Wanted::of(&["--all", "--write"]).is_ok());
        assert!(Wanted::of(&["--some"]).is_err());
    }
}
