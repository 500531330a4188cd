//! `cargo xtask mutate [--list] [--kind K] [--only PART] [--rest] [--narrow] [--write]`: the code of the product
//! is broken in one place after another, in a copy of the sources, and a test must turn red.
//!
//! The places come from the sources (`mutate/sql.rs`, `calls.rs`, `guards.rs`) and from a table
//! (`rows.rs`); `trial.rs` says which tests are asked, `court.rs` runs them, and `known.rs` has the
//! survivors that are excused. As many as can be are built together and chosen one by one when the
//! tests run (`switch.rs`); the others are built alone. Verdicts are kept in the target directory and,
//! by `--write`, in `docs/mutations.md`, so that a long run can be had in pieces. The work tree is
//! never written to but for that page.

mod calls;
mod court;
mod guards;
mod known;
mod report;
mod rows;
mod scratch;
mod site;
mod source;
mod sql;
mod switch;
#[cfg(test)]
mod tests;
mod trial;

use court::{Court, Found, Verdict};
use scratch::{Scratch, Together, Way};
use site::{Kind, Mutation};
use std::path::Path;
use std::time::Instant;
use trial::Trial;

#[derive(Default)]
struct Wanted {
    list: bool,
    rest: bool,
    /// Only the narrowest tests of each; who survives those and is not excused has no verdict yet.
    narrow: bool,
    write: bool,
    kind: Option<Kind>,
    only: Option<String>,
}

impl Wanted {
    fn takes(&self, mutation: &Mutation) -> bool {
        self.kind.is_none_or(|kind| kind == mutation.kind)
            && self.only.as_ref().is_none_or(|part| mutation.name.contains(part.as_str()))
    }
}

pub fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let wanted = wanted(words)?;
    let sources = source::product(root)?;
    let all = site::all(&sources)?;
    let mut chosen: Vec<&Mutation> = all.iter().filter(|mutation| wanted.takes(mutation)).collect();
    if chosen.is_empty() {
        return Err("no mutation is called so: cargo xtask mutate --list names them".to_owned());
    }
    if wanted.list {
        list(&chosen);
        return Ok(());
    }
    let scratch = Scratch::new(root)?;
    let mut verdicts = court::load(&scratch.results);
    // Of the page first: a target directory does not last.
    let recorded = report::Recorded::read(root);
    recorded.complete(&mut verdicts, &all);
    if wanted.write && !wanted.rest && wanted.kind.is_none() && wanted.only.is_none() {
        return report::write(root, &verdicts, &all);
    }
    if wanted.rest {
        chosen.retain(|mutation| match report::verdict(&verdicts, mutation) {
            Some(Verdict::Survived { .. }) => known::reason(&mutation.name).is_none(),
            Some(_) => false,
            None => true,
        });
    }
    // Those that ask the same tests about the same crate follow each other: less is built.
    chosen.sort_by_key(|mutation| (trial::of(mutation, true)[0].name, mutation.path.as_str()));
    let mut court = Court::new(&scratch);
    let everyone: Vec<&Mutation> = all.iter().collect();
    let numbers = switch::together(&everyone);
    let mut together = Together { sources: &sources, everyone, numbers };
    build(root, &scratch, &court, &mut together, &trials(&chosen, wanted.narrow))?;
    let is_alone = |mutation: &&Mutation| matches!(together.way(mutation), Way::Alone);
    chosen.sort_by_key(is_alone);
    let alone = chosen.iter().filter(|mutation| is_alone(mutation)).count();
    println!("{} are built together, {alone} alone", chosen.len() - alone);
    for (done, mutation) in chosen.iter().enumerate() {
        println!("{}/{} {}", done + 1, chosen.len(), mutation.name);
        let begun = Instant::now();
        let before = match recorded.test(mutation) {
            Some(test) => vec![test.to_owned()],
            None => report::near(&verdicts, mutation, &all, trial::of(mutation, wanted.narrow)),
        };
        let verdict = court.judge(mutation, &together, &before, wanted.narrow)?;
        let seconds = begun.elapsed().as_secs();
        println!("    {} ({seconds} s)", told(&verdict));
        let excused = known::reason(&mutation.name).is_some();
        if wanted.narrow && !excused && matches!(verdict, Verdict::Survived { .. }) {
            verdicts.remove(&mutation.name);
            continue;
        }
        let found = Found { verdict, becomes: mutation.becomes.clone(), seconds };
        verdicts.insert(mutation.name.clone(), found);
        court::keep(&scratch.results, &verdicts)?;
    }
    if wanted.write {
        report::write(root, &verdicts, &all)?;
    }
    report::survivors(&verdicts, &chosen)
}

/// One trial of each package that these mutations are tried in.
fn trials(chosen: &[&Mutation], narrow: bool) -> Vec<&'static Trial> {
    let mut trials: Vec<&'static Trial> =
        chosen.iter().flat_map(|mutation| trial::of(mutation, narrow)).copied().collect();
    trials.sort_by_key(|trial| trial.package);
    trials.dedup_by_key(|trial| trial.package);
    trials
}

/// Puts as many as can be built together into the copy, and builds what these trials need. Who stands
/// where the compiler complains is built alone. All of them are put in, whichever are tried now, so
/// that the next time nothing has to be built again.
fn build(
    root: &Path,
    scratch: &Scratch,
    court: &Court<'_>,
    together: &mut Together<'_>,
    trials: &[&Trial],
) -> Result<(), String> {
    let mut unfit = scratch.unfit();
    let mut unbuilt = trials.iter().peekable();
    while let Some(trial) = unbuilt.peek() {
        for numbers in together.numbers.values_mut() {
            numbers.retain(|number| !unfit.contains(&together.everyone[*number].name));
        }
        scratch.fill(root, together)?;
        let Err(said) = court.build(trial)? else {
            unbuilt.next();
            continue;
        };
        let blamed = switch::blamed(&said, &together.everyone);
        let before = unfit.len();
        unfit.extend(blamed.iter().map(|number| together.everyone[*number].name.clone()));
        if unfit.len() == before {
            return Err(format!("the mutations cannot be built together:\n{said}"));
        }
        println!("{} cannot be built with the others", unfit.len() - before);
        scratch.note_unfit(&unfit)?;
    }
    Ok(())
}

fn list(chosen: &[&Mutation]) {
    for mutation in chosen {
        let Mutation { name, path, line, becomes, .. } = mutation;
        println!("{name}\n    {path}:{line} → {}", site::said(becomes));
    }
    for kind in Kind::ALL {
        let count = chosen.iter().filter(|mutation| mutation.kind == kind).count();
        if count > 0 {
            println!("{:<6} {count:>4}  {}", kind.word(), kind.says());
        }
    }
}

fn told(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Caught { test } => format!("caught by {test}"),
        Verdict::TimedOut { trial } => format!("caught: {trial} hangs"),
        Verdict::Survived { trials } => format!("SURVIVES {}", trials.join(", ")),
        Verdict::NotViable { why } => format!("does not compile: {why}"),
    }
}

fn wanted(words: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut words = words.iter();
    while let Some(flag) = words.next() {
        match *flag {
            "--list" => wanted.list = true,
            "--rest" => wanted.rest = true,
            "--narrow" => wanted.narrow = true,
            "--write" => wanted.write = true,
            "--kind" => {
                let word = words.next().ok_or("--kind takes a word")?;
                let known = Kind::ALL.into_iter().find(|kind| kind.word() == *word);
                wanted.kind = Some(known.ok_or_else(|| format!("no kind is called '{word}'"))?);
            }
            "--only" => {
                let part = words.next().ok_or("--only takes a part of a name")?;
                wanted.only = Some((*part).to_owned());
            }
            other => return Err(format!("mutate does not know '{other}'")),
        }
    }
    Ok(wanted)
}
