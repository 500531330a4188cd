//! Tokens of the API that the owner gives to others, and to browsers that sign in. A token is drawn
//! here, shown once and kept as its hash; what is made and taken away is written down in the audit
//! file. The owner's own token is no row: it is the file of the data directory, and cannot be revoked.

use super::run::stored;
use super::who::Who;
use crate::{Host, chance, clock};
use contract::limits::{SIGNED_IN_MS, TOKEN_NAME_CHARS_MAX, TOKENS_MAX};
use contract::{Code, Fault, Scope, TokenId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{NewToken, TokenRow};

/// Every token of ours begins so: what does not is looked for nowhere.
pub const PREFIX: &str = "ostler_";
/// The prefix, and 256 bits.
const BYTES: usize = PREFIX.len() + 64;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What it is for, in a word; no two tokens have the same.
    pub name: String,
    #[serde(deserialize_with = "contract::known::word")]
    #[schemars(with = "contract::Known<Scope>")]
    pub scope: Scope,
    /// How long it is good for; for ever when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// A token on the only occasion on which it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GivenToken {
    #[serde(flatten)]
    pub row: TokenRow,
    pub token: String,
}

/// Draws a token and keeps its hash.
pub async fn add(host: &Host, request: TokenRequest, by: &Who) -> Result<GivenToken, Fault> {
    let TokenRequest { name, scope, expires_ms } = request;
    let odd = name.is_empty()
        || name.chars().count() > TOKEN_NAME_CHARS_MAX
        || name.trim() != name
        || name.chars().any(char::is_control);
    if odd {
        let message = format!("a token has a name of 1 to {TOKEN_NAME_CHARS_MAX} characters");
        return Err(Fault::new(Code::Usage, message).with_hint("such as dashboard or ci"));
    }
    if expires_ms == Some(0) {
        return Err(Fault::new(Code::Usage, "the lifetime of a token must be above 0"));
    }
    keep(host, Wanted { name, scope, expires_ms, browser: false }, by).await
}

/// A token for a browser that signed in, for a while, by a link that this one made.
pub async fn sign_in(host: &Host, scope: Scope, by: &Who) -> Result<GivenToken, Fault> {
    let name = format!("browser {}", chance::aside().trim_start_matches(".ostler-"));
    let expires_ms = Some(SIGNED_IN_MS);
    keep(host, Wanted { name, scope, expires_ms, browser: true }, by).await
}

/// What a token is to be.
struct Wanted {
    name: String,
    scope: Scope,
    expires_ms: Option<u64>,
    browser: bool,
}

async fn keep(host: &Host, wanted: Wanted, by: &Who) -> Result<GivenToken, Fault> {
    let Wanted { name, scope, expires_ms, browser } = wanted;
    let drawn = chance::token().map_err(|error| {
        Fault::new(
            Code::InternalError,
            format!(
                "creating a token: no random numbers from the \
         kernel: {error}"
            ),
        )
    })?;
    let token = format!("{PREFIX}{drawn}");
    let now = clock::now().wall;
    let expires_at = expires_ms.map(|ms| now.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX)));
    let row =
        TokenRow { id: chance::token_id(), name, scope, browser, created_at: now, expires_at };
    let new = NewToken { row: row.clone(), hash: hash(&token) };
    host.store().add_token(new).await.map_err(|error| match error.code() {
        Code::Conflict => Fault::new(Code::Conflict, error.to_string())
            .with_hint("`ostler token list` shows them; revoke one, or choose another name"),
        _ => stored(error),
    })?;
    let what = if browser { "signed_in" } else { "token_added" };
    host.inner.audit.did(now, by, what, json!({ "token": row.id, "scope": row.scope }));
    Ok(GivenToken { row, token })
}

/// The tokens that are good now, oldest first: so many that come after this one.
pub async fn list(
    host: &Host,
    after: Option<TokenId>,
    limit: usize,
) -> Result<Vec<TokenRow>, Fault> {
    host.store().tokens(clock::now().wall, after, limit).await.map_err(stored)
}

/// All of them, since no more are given.
async fn all(host: &Host) -> Result<Vec<TokenRow>, Fault> {
    list(host, None, TOKENS_MAX).await
}

/// Whether this one is good now.
pub async fn is_good(host: &Host, token: TokenId) -> Result<bool, Fault> {
    Ok(all(host).await?.iter().any(|row| row.id == token))
}

/// Takes a token away: its name, its id, or an end of that which fits no other.
pub async fn revoke(host: &Host, given: &str, by: &Who) -> Result<TokenRow, Fault> {
    let row = find(all(host).await?, given)?;
    if !host.store().revoke_token(row.id).await.map_err(stored)? {
        return Err(unknown(given));
    }
    let about = json!({ "token": row.id, "scope": row.scope });
    host.inner.audit.did(clock::now().wall, by, "token_revoked", about);
    host.inner.tokens_changed.send_modify(|changes| *changes += 1);
    Ok(row)
}

fn unknown(given: &str) -> Fault {
    let given: String = given.chars().take(80).collect();
    Fault::new(Code::NotFound, format!("there is no token '{given}'"))
        .with_hint("`ostler token list` lists the valid tokens")
}

fn find(rows: Vec<TokenRow>, given: &str) -> Result<TokenRow, Fault> {
    let fits = |id: TokenId| {
        let id = id.to_string();
        id == given || (given.len() >= 4 && id.ends_with(given))
    };
    if let Some(row) = rows.iter().find(|row| row.name == given) {
        return Ok(row.clone());
    }
    let mut fitting = rows.into_iter().filter(|row| fits(row.id));
    match (fitting.next(), fitting.next()) {
        (Some(row), None) => Ok(row),
        (None, _) => Err(unknown(given)),
        (Some(_), Some(_)) => {
            Err(Fault::new(Code::NotFound, format!("more than one token matches '{given}'"))
                .with_hint("give more digits of the ID"))
        }
    }
}

/// Whose token this is, if it is one that was given and is good now.
pub async fn holder(host: &Host, token: &str) -> Result<Option<TokenRow>, Fault> {
    if token.len() != BYTES || !token.starts_with(PREFIX) {
        return Ok(None);
    }
    host.store().token(clock::now().wall, hash(token)).await.map_err(stored)
}

fn hash(token: &str) -> [u8; 32] {
    *blake3::hash(token.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;
    use contract::Timestamp;

    fn row(n: u128, name: &str) -> TokenRow {
        TokenRow {
            id: TokenId::new(uuid::Uuid::from_u128(n)),
            name: name.to_owned(),
            scope: Scope::Viewer,
            browser: false,
            created_at: Timestamp(0),
            expires_at: None,
        }
    }

    #[test]
    fn a_token_is_found_by_its_name_or_by_an_end_of_its_id_that_fits_no_other() {
        let rows = || vec![row(0x1_abcd, "one"), row(0x2_abcd, "two")];
        let found = |given: &str| find(rows(), given).map(|row| row.name).ok();
        assert_eq!(found("two").as_deref(), Some("two"));
        assert_eq!(found("1abcd").as_deref(), Some("one"));
        assert_eq!(found(&row(0x2_abcd, "").id.to_string()).as_deref(), Some("two"));
        for given in ["abcd", "d", "", "three"] {
            assert_eq!(found(given), None, "{given}");
        }
    }

    #[tokio::test]
    async fn a_token_has_a_name_that_can_be_shown_and_is_good_for_some_time() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(plain::setup(dir.path()));
        let asked = async |name: &str, expires_ms: Option<u64>| {
            let request = TokenRequest { name: name.to_owned(), scope: Scope::Viewer, expires_ms };
            add(&host, request, &Who::Owner).await.map(|given| given.row.name)
        };
        let longest = "n".repeat(TOKEN_NAME_CHARS_MAX);
        for name in ["ci", "the board in the hall", &longest] {
            assert_eq!(asked(name, None).await.unwrap(), name);
        }
        let longer = "n".repeat(TOKEN_NAME_CHARS_MAX + 1);
        for name in ["", " ", " ci2", "ci2 ", "c\ni", "\u{1b}[31mci", "c\u{9b}i", &longer] {
            assert_eq!(asked(name, None).await.unwrap_err().code, Code::Usage, "{name:?}");
        }
        assert_eq!(asked("never", Some(0)).await.unwrap_err().code, Code::Usage);
        assert_eq!(asked("a while", Some(1_000)).await.unwrap(), "a while");
        assert_eq!(list(&host, None, TOKENS_MAX).await.unwrap().len(), 4);
    }
}
