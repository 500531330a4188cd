//! What was found, for the terminal and as `docs/mutations.md`: each mutation with the test that
//! turned red, and those that survive with their reasons.

use super::court::{Found, Verdict, Verdicts};
use super::known;
use super::site::{Kind, Mutation, said};
use super::trial::Trial;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The verdict that counts for a mutation as it is now.
pub fn verdict<'a>(verdicts: &'a Verdicts, mutation: &Mutation) -> Option<&'a Verdict> {
    let found: &Found = verdicts.get(&mutation.name)?;
    (found.becomes == mutation.becomes).then_some(&found.verdict)
}

/// So many tests of neighbours are asked before all of them.
const NEAR_MAX: usize = 12;

/// The tests that noticed others in the same file: one of them is likely to notice this one too.
pub fn near(
    verdicts: &Verdicts,
    mutation: &Mutation,
    all: &[Mutation],
    trials: &[&Trial],
) -> Vec<String> {
    let asked = |test: &str| trials.iter().any(|trial| trial.runs(test));
    let mut tests: BTreeMap<&str, usize> = BTreeMap::new();
    for other in all.iter().filter(|other| other.path == mutation.path) {
        if let Some(Verdict::Caught { test }) = verdict(verdicts, other)
            && asked(test)
        {
            *tests.entry(test).or_default() += 1;
        }
    }
    let mut tests: Vec<(&str, usize)> = tests.into_iter().collect();
    tests.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    tests.into_iter().take(NEAR_MAX).map(|(test, _)| test.to_owned()).collect()
}

/// Prints the survivors among these; an error when one of them is not known.
pub fn survivors(verdicts: &Verdicts, tried: &[&Mutation]) -> Result<(), String> {
    let (mut caught, mut unviable, mut unknown) = (0, 0, 0);
    for mutation in tried {
        match verdict(verdicts, mutation) {
            Some(Verdict::Caught { .. } | Verdict::TimedOut { .. }) => caught += 1,
            Some(Verdict::NotViable { .. }) => unviable += 1,
            Some(Verdict::Survived { .. }) => {
                let reason = known::reason(&mutation.name);
                unknown += usize::from(reason.is_none());
                let (name, path, line) = (&mutation.name, &mutation.path, mutation.line);
                println!("survives: {name}\n    {path}:{line}: {}", reason.unwrap_or("NOT KNOWN"));
            }
            None => {}
        }
    }
    let survived = tried.len() - caught - unviable;
    println!(
        "{} mutations: {caught} caught, {survived} survive, {unviable} do not compile",
        tried.len()
    );
    match unknown {
        0 => Ok(()),
        unknown => {
            Err(format!("{unknown} mutations survive that no test catches and no reason excuses"))
        }
    }
}

const HEAD: &str = "\
# Mutations

A test that cannot turn red proves nothing. `cargo xtask mutate` breaks the code of the product in one
place after another, in a copy of the sources, and runs the tests that should notice: the one that
this page names or those that noticed a neighbour, then the narrowest, wider ones when those stay green. The first test that turns red, twice, and is green again without the
mutation, is written down.

```
cargo xtask mutate --list             what would be tried, and where
cargo xtask mutate                    all of it: more than an hour on two cores
cargo xtask mutate --kind fence       one kind
cargo xtask mutate --only renew       those whose name holds this
cargo xtask mutate --rest             those that are not settled yet; --narrow asks only the nearest tests
cargo xtask mutate --write            this page
```

Most places are found in the sources, so a new statement, sync, door or check is tried without anyone
thinking of it; the rest are rows of `xtask/src/mutate/rows.rs`. As many as can be are built together, each
beside what it replaces, and a file says which one is there while the tests run; the others are built alone.
The tests must be green when none is there.
A mutation that does not compile counts as neither. One that hangs is ended when it takes six times as long
as the tests do without it, and counts as caught. A survivor that `xtask/src/mutate/known.rs` does not name
with a reason makes the command fail. It is not part of `./scripts/test`; that the places are still found is.
";

/// What came of it so far; written by hand.
const FOUND: &str = "
## What it found

Each of these was not noticed by any test, and has one since.

- Conditions of statements that another check hid: in `advance`, `settle`, `take`, `fence_off`, `reap`, `reap_seen`, and the same claim again. The code was right; nothing would have said so.
- That the kernel is asked to sync at all: the power is cut in a log of what was told.
- A token that does not end with its run, in the moment between the end and the host letting go.
- Secrets in the names of models and of blocks, and those that a host hears which took a run over.
- The bounds on connections and on watchers: the test of a crowd took every answer for good.
- Ownership of directories, links and the token; files of a plan written through a link.
- What a deleted run leaves: that it is found by nobody, that its plan is not given out, that events of others stay and blobs of a run that lives are not looked for. Who has ended and still counted as running; who is told that a task failed.
- A door that was none: five mutations of the seal of a task were excused with a reason that was not so. What an agent handed on or proposed, and a key in what a person handed over, was stored as it came.
- Doors of the seal that had no test: what a start failed of, who is hired and changed, what a person says of a task, an answer that is kept for whoever asks again. Two more were excused with a reason that was not so: who starts a run says in words of their own why another does it, and a conversation can be called like a secret.
- A fault of the product: whoever hired an agent with a key in its spec and asked again was refused, because what was asked for was compared with what is kept, which has no keys.
- The fence under which a run is retaken, taken up again or reaped, by the one of two hosts that holds it no more; sessions of a remote under an older fence; a scope beside another, and a conversation beside one of the same name.
- The time for the headers of a request, which was only the library's own; the readers of a remote; names of tokens. And a condition that no row could meet, which is gone.
- The limits of the file tools and of assets, a file that could not be written and takes another's place all the same, work that git does not take, half a patch, a worktree that somebody removed, a merge that git refuses at the last, values of a repository's configuration with lines of their own, two keys of one request.

And the instrument itself was wrong twice. A test that was red by chance ended a trial before the others had
their turn, and the mutation counted as surviving; such a trial goes on without that test now. One of those
tests was right: half of a secret was let go when something came between two deltas. And a property met a counterexample by chance and remembered it, so
it was red for whatever came next, also the second time, and was credited with seven mutations that it had
not noticed. They were withdrawn and judged again; since then a test must be green again without the mutation,
and properties have one seed. Of the verdicts from before, every test that was named has been run again without
any mutation, and was green. The counterexample was a fault of that test, which would have failed now and then.

What is recorded below was run in pieces, while the tests it asked for were written.
";

const PAGE: &str = "docs/mutations.md";

/// What the page says of each mutation, as it is shown there.
pub struct Recorded(BTreeMap<String, Verdict>);

impl Recorded {
    pub fn read(root: &Path) -> Self {
        Self::of_page(&std::fs::read_to_string(root.join(PAGE)).unwrap_or_default())
    }

    fn of_page(page: &str) -> Self {
        let mut recorded = BTreeMap::new();
        for (mutation, verdict) in rows(page) {
            // Of two that are shown alike the first counts: survivors come before what was caught.
            recorded.entry(mutation).or_insert(verdict);
        }
        Self(recorded)
    }

    /// What became of this mutation the last time that the page was written.
    pub fn of(&self, mutation: &Mutation) -> Option<&Verdict> {
        self.0.get(&shown(mutation))
    }

    /// The test that turned red then.
    pub fn test(&self, mutation: &Mutation) -> Option<&str> {
        match self.of(mutation)? {
            Verdict::Caught { test } => Some(test),
            Verdict::TimedOut { .. } | Verdict::Survived { .. } | Verdict::NotViable { .. } => None,
        }
    }

    /// Adds what is recorded to what was found since.
    pub fn complete(&self, verdicts: &mut Verdicts, all: &[Mutation]) {
        for mutation in all {
            if let (None, Some(recorded)) = (verdict(verdicts, mutation), self.of(mutation)) {
                let (verdict, becomes) = (recorded.clone(), mutation.becomes.clone());
                verdicts.insert(mutation.name.clone(), Found { verdict, becomes, seconds: 0 });
            }
        }
    }
}

/// The rows of the page: a mutation as it is shown, and what became of it.
fn rows(page: &str) -> Vec<(String, Verdict)> {
    let row = |line: &str| {
        let (mutation, says) = line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")?;
        let quoted = says.strip_prefix('`').and_then(|says| says.strip_suffix('`'));
        let hangs = says.strip_prefix("it hangs (").and_then(|says| says.strip_suffix(')'));
        let verdict = match (quoted, hangs) {
            (Some(test), _) => Verdict::Caught { test: test.to_owned() },
            (None, Some(trial)) => Verdict::TimedOut { trial: trial.to_owned() },
            (None, None) => Verdict::Survived { trials: Vec::new() },
        };
        Some((mutation.to_owned(), verdict))
    };
    page.lines().filter_map(row).collect()
}

/// Every test that the page names, as its binary and its name.
#[cfg(test)]
pub fn named(root: &Path) -> Vec<String> {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let test = |(_, verdict)| match verdict {
        Verdict::Caught { test } => Some(test),
        Verdict::TimedOut { .. } | Verdict::Survived { .. } | Verdict::NotViable { .. } => None,
    };
    rows(&page).into_iter().filter_map(test).collect()
}

/// Writes the page from all verdicts there are.
pub fn write(root: &Path, verdicts: &Verdicts, all: &[Mutation]) -> Result<(), String> {
    let page = page(verdicts, all, &crate::date::today());
    let path = root.join(PAGE);
    std::fs::write(&path, page).map_err(|error| format!("writing {}: {error}", path.display()))?;
    println!("docs/mutations.md is written");
    Ok(())
}

fn page(verdicts: &Verdicts, all: &[Mutation], date: &str) -> String {
    let mut page =
        format!("{HEAD}{FOUND}\n## Recorded\n\n{date}, by `cargo xtask mutate --write`:\n\n");
    page.push_str(
        "| kind | what is broken | places | caught | survive | not compiled | not settled |\n",
    );
    page.push_str("|---|---|---|---|---|---|---|\n");
    for kind in Kind::ALL {
        let of: Vec<_> = all.iter().filter(|mutation| mutation.kind == kind).collect();
        let count = |is: fn(Option<&Verdict>) -> bool| {
            of.iter().filter(|mutation| is(verdict(verdicts, mutation))).count()
        };
        let caught = count(|verdict| {
            matches!(verdict, Some(Verdict::Caught { .. } | Verdict::TimedOut { .. }))
        });
        let survive = count(|verdict| matches!(verdict, Some(Verdict::Survived { .. })));
        let unviable = count(|verdict| matches!(verdict, Some(Verdict::NotViable { .. })));
        let untried = count(|verdict| verdict.is_none());
        let (word, says, places) = (kind.word(), kind.says(), of.len());
        let _ = writeln!(
            page,
            "| {word} | {says} | {places} | {caught} | {survive} | {unviable} | {untried} |"
        );
    }
    survived(&mut page, verdicts, all);
    for kind in Kind::ALL {
        let _ = write!(
            page,
            "\n## {}: what turned red\n\n| mutation | test |\n|---|---|\n",
            kind.word()
        );
        for mutation in all.iter().filter(|mutation| mutation.kind == kind) {
            let test = match verdict(verdicts, mutation) {
                Some(Verdict::Caught { test }) => format!("`{test}`"),
                Some(Verdict::TimedOut { trial }) => format!("it hangs ({trial})"),
                Some(Verdict::NotViable { .. } | Verdict::Survived { .. }) | None => continue,
            };
            let _ = writeln!(page, "| {} | {test} |", shown(mutation));
        }
    }
    left(&mut page, "Not compiled", all, |mutation| {
        matches!(verdict(verdicts, mutation), Some(Verdict::NotViable { .. }))
    });
    left(
        &mut page,
        "Not settled: not tried, or against the nearest tests alone",
        all,
        |mutation| verdict(verdicts, mutation).is_none(),
    );
    page
}

fn survived(page: &mut String, verdicts: &Verdicts, all: &[Mutation]) {
    let survivors: Vec<_> = all
        .iter()
        .filter(|mutation| matches!(verdict(verdicts, mutation), Some(Verdict::Survived { .. })))
        .collect();
    if survivors.is_empty() {
        return;
    }
    page.push_str("\n## What survives, and why\n\n| mutation | why |\n|---|---|\n");
    for mutation in survivors {
        let reason = known::reason(&mutation.name).unwrap_or("**open**: no test notices it yet");
        let _ = writeln!(page, "| {} | {reason} |", shown(mutation));
    }
}

fn left(page: &mut String, title: &str, all: &[Mutation], is: impl Fn(&Mutation) -> bool) {
    let left: Vec<_> = all.iter().filter(|mutation| is(mutation)).collect();
    if left.is_empty() {
        return;
    }
    let _ = write!(page, "\n## {title}\n\n");
    for mutation in left {
        let _ = writeln!(page, "- {}", shown(mutation));
    }
}

/// A mutation in a cell of a table, with its number when others of its function look the same: what
/// was found of one says nothing of another.
fn shown(mutation: &Mutation) -> String {
    let cell = |text: &str| said(text).replace('|', "\\|").replace('`', "'");
    let name = mutation.name.split_once('/').map_or(mutation.name.as_str(), |(_, name)| name);
    let becomes = match mutation.becomes.as_str() {
        "" => "nothing".to_owned(),
        becomes => format!("`{}`", cell(becomes)),
    };
    match mutation.name.matches('/').count() {
        // A row of the table says itself what it breaks.
        1 => cell(name),
        _ => {
            let (place, number) =
                name.rsplit_once(&format!("/{}", said(&mutation.was))).unwrap_or((name, ""));
            format!("{place}: `{}`{number} → {becomes}", cell(&mutation.was))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    #[test]
    fn what_was_found_of_one_counts_for_none_that_looks_the_same() {
        let source = Source::new("crates/store/src/a.rs", "fn f() { g(x); g(x); }");
        let of = |at: usize| Mutation::new(&source, Kind::Auth, at..at + 4, "h()");
        let (first, mut second) = (of(9), of(15));
        second.name.push_str(" (2)");
        let all = [first, second];
        assert_eq!(shown(&all[0]), "store/a/f: `g(x)` → `h()`");
        assert_eq!(shown(&all[1]), "store/a/f: `g(x)` (2) → `h()`");

        let completed = |page: &str| {
            let mut verdicts = Verdicts::new();
            Recorded::of_page(page).complete(&mut verdicts, &all);
            let found = all.iter().map(|mutation| verdict(&verdicts, mutation).cloned());
            found.collect::<Vec<_>>()
        };
        let caught = |test: &str| Some(Verdict::Caught { test: test.to_owned() });
        let row = "| store/a/f: `g(x)` → `h()` | `store one` |\n";
        assert_eq!(completed(row), [caught("store one"), None]);
        let both = format!("{row}| store/a/f: `g(x)` (2) → `h()` | `store two` |\n");
        assert_eq!(completed(&both), [caught("store one"), caught("store two")]);
        // As it was written before there were numbers.
        let unnumbered = format!("{row}| store/a/f: `g(x)` → `h()` | `store two` |\n");
        assert_eq!(completed(&unnumbered), [caught("store one"), None]);
    }
}
