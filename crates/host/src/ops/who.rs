//! Who wants something: the word that stands beside every decision, in the audit file, with a task and
//! in the events of a run. It is made from the token that was shown and from nothing that was sent, so
//! nobody decides under another's name. What each may do is not decided here.

use contract::{RunId, TokenId};
use serde_json::{Value, json};
use std::fmt;
use store::TokenRow;

/// Who wants something of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// Whoever has the token of the data directory.
    Owner,
    /// Whoever has a token that was given, or a browser that signed in with one.
    Token { id: TokenId, name: String },
    /// An agent at work, by the token of its run.
    Run(RunId),
    /// Who called from elsewhere by ca-http-v1.
    Caller,
    /// A person who said yes to what a run proposed.
    Agreed { person: String, run: RunId },
}

impl Who {
    /// Whoever shows this token.
    pub fn holds(row: &TokenRow) -> Self {
        Self::Token { id: row.id, name: row.name.clone() }
    }

    /// What the audit file says of them. A name may be given again once its token is gone, an id not.
    pub(crate) fn told(&self, about: Value) -> Value {
        let mut about = about;
        about["by"] = json!(self.to_string());
        if let Self::Token { id, .. } = self {
            about["by_token"] = json!(id);
        }
        about
    }
}

impl fmt::Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => out.write_str("owner"),
            // The word before it keeps a token called `owner` from being taken for the owner.
            Self::Token { name, .. } => write!(out, "token {name}"),
            Self::Run(run) => write!(out, "{run}"),
            Self::Caller => out.write_str("caller"),
            Self::Agreed { person, run } => write!(out, "{person}, as {run} proposed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn no_name_of_a_token_reads_as_anyone_else() {
        let id = TokenId::new(Uuid::from_u128(7));
        let run = RunId::new(Uuid::from_u128(8));
        let others = [Who::Owner, Who::Run(run), Who::Caller];
        for other in &others {
            let named = Who::Token { id, name: other.to_string() };
            assert!(others.iter().all(|other| other.to_string() != named.to_string()));
        }
        let told = Who::Token { id, name: "ci".to_owned() }.told(json!({ "task_id": 1 }));
        assert_eq!(told, json!({ "task_id": 1, "by": "token ci", "by_token": id }));
        assert_eq!(Who::Owner.told(json!({})), json!({ "by": "owner" }));
    }
}
