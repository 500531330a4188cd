//! Many mutations in one build: each stands beside what it replaces, and a file says which of them
//! is there. So a crate is built once for all of them, and each run has exactly one, or none. What
//! does not compile that way is built alone afterwards.

use super::site::{Form, Mutation};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// One mutation beside what it replaces.
struct Choice<'a> {
    /// Its number: what the file says when it is there.
    number: usize,
    at: Range<usize>,
    becomes: &'a str,
    statement: bool,
}

fn choice(number: usize, mutation: &Mutation) -> Option<Choice<'_>> {
    match &mutation.form {
        Form::Expression(at, becomes) => {
            Some(Choice { number, at: at.clone(), becomes, statement: false })
        }
        Form::Statement => {
            let (at, becomes) = (mutation.at.clone(), mutation.becomes.as_str());
            Some(Choice { number, at, becomes, statement: true })
        }
        Form::Alone => None,
    }
}

/// Which of these can stand in one tree: their numbers, by file. Of two that overlap without being
/// in the same place the later one stays out.
pub fn together(mutations: &[&Mutation]) -> BTreeMap<String, Vec<usize>> {
    let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, mutation) in mutations.iter().enumerate() {
        let Some(choice) = choice(number, mutation) else { continue };
        let there = found.entry(mutation.path.clone()).or_default();
        let fits =
            there.iter().filter_map(|other| self::choice(*other, mutations[*other])).all(|other| {
                let apart = other.at.end <= choice.at.start || choice.at.end <= other.at.start;
                apart || (other.at == choice.at && other.statement == choice.statement)
            });
        if fits {
            there.push(number);
        }
    }
    found
}

/// A file with these mutations in it, each behind its number in the file `active`; and with one that
/// stands there in any case, and leaves out those that it overlaps.
pub fn switched(
    text: &str,
    mutations: &[&Mutation],
    numbers: &[usize],
    active: &Path,
    alone: Option<&Mutation>,
) -> String {
    let mut places: BTreeMap<usize, Vec<Choice<'_>>> = BTreeMap::new();
    for choice in numbers.iter().filter_map(|number| choice(*number, mutations[*number])) {
        let apart =
            |alone: &Mutation| alone.at.end <= choice.at.start || choice.at.end <= alone.at.start;
        if alone.is_none_or(apart) {
            places.entry(choice.at.start).or_default().push(choice);
        }
    }
    if let Some(alone) = alone {
        places.insert(alone.at.start, Vec::new());
    }
    let (mut written, mut from) = (String::new(), 0);
    for (start, choices) in places {
        if let (true, Some(alone)) = (choices.is_empty(), alone) {
            written.push_str(&text[from..start]);
            written.push_str(&alone.becomes);
            from = alone.at.end;
            continue;
        }
        let (end, statement) = (choices[0].at.end, choices[0].statement);
        written.push_str(&text[from..start]);
        written.push('(');
        for Choice { number, becomes, .. } in choices {
            let is = is_active(number, active);
            // On one line, so that the lines behind it stay where they are; a comment would not end.
            let becomes = match becomes.contains("//") {
                true => becomes.to_owned(),
                false => becomes.replace('\n', " "),
            };
            written.push_str(&format!("if {is} {{ {becomes} }} else "));
        }
        let close = if statement { " });" } else { " })" };
        written.push_str(&format!("{{ {}{close}", &text[start..end]));
        from = end;
    }
    written.push_str(&text[from..]);
    written
}

/// Read once by each process, at each place: no environment is passed on to keepers and agents.
fn is_active(number: usize, active: &Path) -> String {
    format!(
        "{{ static IS: std::sync::OnceLock<bool> = std::sync::OnceLock::new(); \
         *IS.get_or_init(|| std::fs::read({:?}).is_ok_and(|is| is == b\"{number}\")) }}",
        active.display().to_string()
    )
}

/// The mutations near lines at which the compiler finds an error: `--> crates/a/src/b.rs:12:3`.
pub fn blamed(said: &str, mutations: &[&Mutation]) -> Vec<usize> {
    let mut is_error = false;
    let mut places: Vec<(&str, usize)> = Vec::new();
    for line in said.lines() {
        // What it only warns of is no reason.
        if line.starts_with("error") || line.starts_with("warning") {
            is_error = line.starts_with("error");
        }
        let place = line.trim_start().strip_prefix("--> ").filter(|_| is_error);
        let mut parts = place.unwrap_or_default().split(':');
        if let (Some(path), Some(Ok(line))) = (parts.next(), parts.next().map(str::parse)) {
            places.push((path, line));
        }
    }
    let is_blamed = |mutation: &Mutation, close: bool| {
        let lines = mutation.line.saturating_sub(3)
            ..=mutation.line + 3 + mutation.was.matches('\n').count();
        places.iter().any(|(path, line)| *path == mutation.path && (!close || lines.contains(line)))
    };
    let all = |close| -> Vec<usize> {
        let blamed = |(_, mutation): &(usize, &&Mutation)| is_blamed(mutation, close);
        mutations.iter().enumerate().filter(blamed).map(|(number, _)| number).collect()
    };
    let close = all(true);
    if close.is_empty() { all(false) } else { close }
}

#[cfg(test)]
mod tests {
    use super::super::site::Kind;
    use super::super::source::Source;
    use super::*;

    #[test]
    fn each_stands_beside_what_it_replaces() {
        let text = "fn f() { if a { g()?; } }";
        let source = Source::new("crates/host/src/a.rs", text);
        let of = |at: Range<usize>, becomes: &str| Mutation::new(&source, Kind::Auth, at, becomes);
        let statement = of(16..21, "let _ = g();").formed(Form::Statement);
        let found = [of(12..13, "false"), of(12..13, "true"), of(12..15, "x"), statement];
        let found: Vec<&Mutation> = found.iter().collect();
        let together = together(&found);
        assert_eq!(together["crates/host/src/a.rs"], [0, 1, 3]);
        let switched = |alone| switched(text, &found, &[0, 1, 3], Path::new("on"), alone);
        let is = |number| is_active(number, Path::new("on"));
        let (first, second, third) = (is(0), is(1), is(3));
        let loose = of(9..13, "if b");
        assert!(
            switched(Some(&loose)).starts_with("fn f() { if b { (if {"),
            "{}",
            switched(Some(&loose))
        );
        assert_eq!(
            switched(None),
            format!(
                "fn f() {{ if (if {first} {{ false }} else if {second} {{ true }} else {{ a }}) \
                 {{ (if {third} {{ let _ = g(); }} else {{ g()?; }}); }} }}"
            )
        );
    }

    #[test]
    fn the_compiler_blames_by_line() {
        let source = Source::new("crates/a/src/b.rs", "a\n\n\n\n\n\n\n\n\n\nb\n");
        let found = [
            Mutation::new(&source, Kind::Auth, 0..1, ""),
            Mutation::new(&source, Kind::Auth, 11..12, ""),
        ];
        let found: Vec<&Mutation> = found.iter().collect();
        assert_eq!(blamed("error: x\n  --> crates/a/src/b.rs:11:1\n", &found), [1]);
        assert_eq!(blamed("error: x\n  --> crates/a/src/b.rs:40:1\n", &found), [0, 1]);
        assert!(blamed("warning: x\n  --> crates/a/src/b.rs:1:1\n", &found).is_empty());
        assert!(blamed("error: x\n  --> crates/c/src/b.rs:1:1\n", &found).is_empty());
    }
}
