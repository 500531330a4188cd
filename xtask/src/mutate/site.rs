//! One mutation: a place in a file of the product and what stands there instead. Names stay the same
//! when lines move, so that verdicts and known survivors can be kept by them.

use super::source::Source;
use super::{calls, guards, rows, sql};
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A condition of a statement of SQL, or a comparison of a fence.
    Fence,
    /// A call that makes something durable.
    Sync,
    /// A door through which words come to be stored.
    Seal,
    /// A check of who asks, from where, and how much.
    Auth,
    /// A check of where a path leads and whose a directory is.
    Path,
    /// A row of the table in `rows.rs`.
    Rule,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::Fence, Self::Sync, Self::Seal, Self::Auth, Self::Path, Self::Rule];

    pub fn word(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Sync => "sync",
            Self::Seal => "seal",
            Self::Auth => "auth",
            Self::Path => "path",
            Self::Rule => "rule",
        }
    }

    /// What is mutated, for people.
    pub fn says(self) -> &'static str {
        match self {
            Self::Fence => {
                "each condition of a statement of the store holds, or never does where one of two suffices; each comparison of a fence outside of it finds two the same"
            }
            Self::Sync => "each call that makes something durable is left out",
            Self::Seal => "each door to what is stored knows no secrets, or lets everything pass",
            Self::Auth => "each check of who asks, from where and how much is left out",
            Self::Path => "each check of where a path leads and whose a directory is is left out",
            Self::Rule => "rules of the whole, one by one",
        }
    }
}

/// How a mutation can stand in the code beside what it replaces, to be chosen when it runs.
#[derive(Debug, Clone)]
pub enum Form {
    /// An expression, there and of the same type either way: its place, and what stands there.
    Expression(Range<usize>, String),
    /// A statement with its semicolon.
    Statement,
    /// Anything else: it is built alone.
    Alone,
}

#[derive(Debug, Clone)]
pub struct Mutation {
    pub name: String,
    pub kind: Kind,
    pub path: String,
    pub line: usize,
    pub at: Range<usize>,
    pub was: String,
    pub becomes: String,
    pub form: Form,
}

impl Mutation {
    /// Of an expression.
    pub fn new(source: &Source, kind: Kind, at: Range<usize>, becomes: impl Into<String>) -> Self {
        let becomes = becomes.into();
        let was = source.text[at.clone()].to_owned();
        let function = source.function(at.start);
        let name = format!("{}/{}/{function}/{}", kind.word(), source.short(), said(&was));
        let (path, line) = (source.path.clone(), source.line(at.start));
        let form = Form::Expression(at.clone(), becomes.clone());
        Self { name, kind, path, line, at, was, becomes, form }
    }

    pub fn formed(self, form: Form) -> Self {
        Self { form, ..self }
    }
}

/// A piece of code in few words.
pub fn said(code: &str) -> String {
    let words = code.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(48) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}

/// All that are found in these files, and the rows of the table; each has a name of its own.
pub fn all(sources: &[Source]) -> Result<Vec<Mutation>, String> {
    let mut found = Vec::new();
    for source in sources {
        sql::find(source, &mut found);
        calls::syncs(source, &mut found);
        calls::seals(source, &mut found);
        guards::find(source, &mut found);
    }
    rows::find(sources, &mut found)?;
    found.sort_by(|one, other| {
        (one.kind, &one.path, one.at.start).cmp(&(other.kind, &other.path, other.at.start))
    });
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for mutation in &mut found {
        let seen = times.entry(mutation.name.clone()).or_default();
        *seen += 1;
        if *seen > 1 {
            mutation.name = format!("{} ({seen})", mutation.name);
        }
    }
    Ok(found)
}
