//! The words of who may use the API, and of answers that are given again. Rows and requests only:
//! the statements are in `sqlite/access.rs`. A token itself is never here, only its hash.

use contract::{Scope, Timestamp, TokenId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A token of the API as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenRow {
    pub id: TokenId,
    pub name: String,
    pub scope: Scope,
    /// Whether it is that of a browser that signed in.
    pub browser: bool,
    pub created_at: Timestamp,
    /// It is good for ever when absent.
    pub expires_at: Option<Timestamp>,
}

/// A token to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    pub row: TokenRow,
    pub hash: [u8; 32],
}

/// A request that carries a key of its caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerKey {
    pub caller: String,
    pub key: String,
    /// The hash of all that is asked.
    pub request: [u8; 32],
    /// The id of what will be made, if this is the first time.
    pub chosen: Uuid,
    pub now: Timestamp,
}

/// What is known of such a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It has no answer yet: what is made is made under this id.
    Open {
        chosen: Uuid,
    },
    Answered {
        status: u16,
        body: Vec<u8>,
    },
    /// The key was used for something else.
    OtherRequest,
    /// There is no room for another key.
    Full,
}
