//! Who may do what over the API: the scope of a person's token, and what an answer that refuses looks
//! like (RFC 9457). A scope holds all that a lesser one holds; the token of a run is no person's and
//! has none. Which route wants which is the server's table, never decided here.

use crate::fault::Surface;
use crate::known::{UNKNOWN, Words};
use crate::{Code, Fault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a person's token opens, the least first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A word of a newer version: it opens nothing.
    Unknown,
    /// Looks, and changes nothing.
    Viewer,
    /// Starts agents of the configuration, speaks to runs, answers questions.
    Operator,
    /// Everything, with tokens and commands of one's own.
    Admin,
}

impl Scope {
    /// Every scope that this version gives.
    pub const ALL: &'static [Self] = &[Self::Viewer, Self::Operator, Self::Admin];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => UNKNOWN,
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.word() == word)
    }

    /// Reads a stored word; one of a newer version is `Unknown`.
    pub fn read(word: &str) -> Self {
        Self::from_word(word).unwrap_or(Self::Unknown)
    }
}

impl Words for Scope {
    const WORDS: &'static [&'static str] = &["viewer", "operator", "admin"];

    fn from_word(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

/// The media type of a problem.
pub const PROBLEM_TYPE: &str = "application/problem+json";

/// A fault as an answer of the API: the members of RFC 9457, and our code and hint beside them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `urn:ostler:fault:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for every problem of this code.
    pub title: String,
    pub status: u16,
    /// What was tried here, with what, and what came of it.
    pub detail: String,
    pub code: Code,
    /// What to do next.
    pub hint: String,
    /// The last words of whatever failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
}

impl Problem {
    /// A fault with its hint in the words of the surface that asked.
    pub fn on(surface: Surface, fault: Fault) -> Self {
        let row = fault.code.row();
        // A request is refused with this code only because of limits of this server.
        let title = match fault.code {
            Code::RateLimited => "too many requests to this server",
            _ => row.message,
        };
        Self {
            kind: format!("urn:ostler:fault:{}", row.word),
            title: title.to_owned(),
            status: row.http,
            code: fault.code,
            hint: fault.hint_on(surface).to_owned(),
            detail: fault.message,
            more: fault.detail,
        }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self::on(Surface::Api, fault)
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let Problem { code, detail, hint, more, .. } = problem;
        Self { code, message: detail, hint: Some(hint), detail: more }
    }
}

/// One page of a listing, by key: whoever wants the next one gives `next` where this one began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page begins; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A page of at most so many, out of rows of which one more was asked for.
    pub fn of(mut rows: Vec<T>, limit: usize, key: impl Fn(&T) -> String) -> Self {
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(key);
        Self { items: rows, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_comes_back_from_its_problem_as_it_was() {
        for code in Code::ALL {
            let fault =
                Fault::new(*code, "tried it").with_hint("do this").with_detail("last words");
            let problem = Problem::from(fault.clone());
            assert_eq!(problem.status, code.row().http);
            let wire = serde_json::to_string(&problem).unwrap();
            assert_eq!(Fault::from(serde_json::from_str::<Problem>(&wire).unwrap()), fault);
        }
    }

    #[test]
    fn a_scope_holds_every_lesser_one_and_reads_back_from_its_word() {
        assert!(Scope::Admin > Scope::Operator && Scope::Operator > Scope::Viewer);
        for scope in Scope::ALL {
            assert_eq!(Scope::from_word(scope.word()), Some(*scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.word());
            assert!(Scope::WORDS.contains(&scope.word()) && *scope > Scope::Unknown);
        }
        assert_eq!(Scope::WORDS.len(), Scope::ALL.len());
    }

    #[test]
    fn only_a_page_behind_which_there_is_more_says_where_to_go_on() {
        let page = |rows: Vec<u8>| Page::of(rows, 2, u8::to_string);
        assert_eq!(page(vec![1, 2, 3]), Page { items: vec![1, 2], next: Some("2".into()) });
        assert_eq!(page(vec![1, 2]), Page { items: vec![1, 2], next: None });
        assert_eq!(page(vec![]), Page { items: vec![], next: None });
    }
}
