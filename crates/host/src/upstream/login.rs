//! Logins at MCP servers of other people: OAuth 2.1 by authorization code with PKCE and a loopback
//! redirect, by the state machine of the MCP library (decision 0037).
//!
//! A login is made by a person (`ostler mcp login`) and kept in the data directory, encrypted, one file
//! per server of the configuration. A run that dials that server at that address sends its access token,
//! and renews it when it has expired or is refused. Tokens are written to no log and to no event; what a
//! server echoes of them is replaced. What may be reached is `login/http.rs`.

mod http;
mod kept;

use super::http::challenge;
use contract::{Code, Fault};
use http::OAuthHttp;
use kept::{Kept, Store};
pub use kept::{LoginState, Logins};
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, OAuthClientConfig,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// How Ostler names itself to authorization servers.
const CLIENT_NAME: &str = "Ostler";
/// What is shown of an error of an authorization server.
const SHOWN_CHARS: usize = 300;

/// What the configuration says of the login at a server.
#[derive(Debug, Clone, Default)]
pub struct LoginConfig {
    pub url: String,
    /// The id of a client that was registered by hand.
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// An https address at which a document describes this client.
    pub client_metadata_url: Option<String>,
    /// Asked for in place of what the server suggests.
    pub scopes: Vec<String>,
    /// Asked for beside those that were granted before.
    pub more_scopes: Vec<String>,
}

/// A login that waits for its person.
pub struct LoginSession {
    manager: AuthorizationManager,
    client: OAuthClientConfig,
    store: Store,
    url: String,
    authorize: Url,
}

impl LoginSession {
    /// Finds the authorization server, registers this client there if it must be, and makes the address
    /// that the person opens.
    pub async fn begin(
        logins: &Logins,
        name: &str,
        config: &LoginConfig,
        redirect_uri: &str,
    ) -> Result<Self, Fault> {
        let refused = |error: AuthError| not_logged_in(name, &error);
        let mut manager = manager(&config.url).await.map_err(refused)?;
        let challenge = challenge(&config.url).await;
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await;
        let found = found.map_err(refused)?;
        let metadata = found.metadata;
        let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint];
        for endpoint in endpoints.into_iter().chain(&metadata.registration_endpoint) {
            http::checked(&config.url, endpoint).map_err(|why| leads_elsewhere(name, &why))?;
        }
        manager.set_metadata(metadata.clone());
        let mut scopes = match config.scopes.is_empty() {
            true => manager.select_initial_scopes(&[]).await,
            false => config.scopes.clone(),
        };
        if !config.more_scopes.is_empty() {
            let granted = logins.state(name, &config.url).scopes;
            scopes = granted.into_iter().chain(config.more_scopes.iter().cloned()).collect();
            scopes.sort();
            scopes.dedup();
        }
        let asked: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let by_document = metadata.additional_fields.get("client_id_metadata_document_supported");
        let by_document = by_document.and_then(serde_json::Value::as_bool) == Some(true);
        let known = match (&config.client_id, &config.client_metadata_url) {
            (Some(id), _) => Some((id, config.client_secret.clone())),
            (None, Some(document)) if by_document => Some((document, None)),
            (None, _) => None,
        };
        let client = match known {
            Some((id, secret)) => {
                let mut client = OAuthClientConfig::new(id.clone(), redirect_uri.to_owned())
                    .with_scopes(scopes.clone())
                    .with_application_type("native");
                client.client_secret = secret;
                client
            }
            None => {
                let registered = manager.register_client(CLIENT_NAME, redirect_uri, &asked).await;
                registered.map_err(|error| {
                    refused(error).with_hint(format!(
                        "if it does not register clients by itself, register one there with the \
                         redirect address {redirect_uri} and write its id as \
                         mcpServers.{name}.oauth.clientId"
                    ))
                })?
            }
        };
        manager.configure_client(client.clone()).map_err(refused)?;
        let authorize = manager.get_authorization_url(&asked).await.map_err(refused)?;
        let authorize =
            http::checked(&config.url, &authorize).map_err(|why| leads_elsewhere(name, &why))?;
        let kept = Kept::new(name, &config.url, &client, &metadata);
        let store = logins.store(name, Some(kept));
        Ok(Self { manager, client, store, url: config.url.clone(), authorize })
    }

    /// What the person opens in a browser.
    pub fn url(&self) -> &str {
        self.authorize.as_str()
    }

    /// Whether an answer that came to the loopback address belongs to this login.
    pub fn is_answered_by(&self, callback: &str) -> bool {
        let parameter = |url: &Url, name: &str| {
            let mut pairs = url.query_pairs();
            pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        let callback = Url::parse(callback).ok(); // what is no address answers nothing
        let state = callback.and_then(|callback| parameter(&callback, "state"));
        state.is_some() && state == parameter(&self.authorize, "state")
    }

    /// Exchanges the code of the answer for tokens and keeps them.
    pub async fn finish(mut self, name: &str, callback: &str) -> Result<LoginState, Fault> {
        if let Some(why) = refusal(callback) {
            let message = format!("{name}: the authorization server refused the login: {why}");
            return Err(Fault::new(Code::RemoteUnavailable, message));
        }
        let refused = |error: AuthError| not_logged_in(name, &error);
        let answer = AuthorizationCallback::from_redirect_url(callback).map_err(refused)?;
        self.manager.set_credential_store(self.store.clone());
        let issuer = answer.issuer.as_deref();
        let exchanged = self
            .manager
            .exchange_code_for_token_with_issuer(&answer.code, &answer.csrf_token, issuer)
            .await;
        exchanged.map_err(refused)?;
        let (logins, client) = (self.store.logins(), &self.client.client_id);
        tracing::info!(server = name, client, "logged in at an MCP server");
        Ok(logins.state(name, &self.url))
    }
}

/// What an authorization server says in place of a code.
fn refusal(callback: &str) -> Option<String> {
    let callback = Url::parse(callback).ok()?; // the caller tells what is wrong with it
    let find = |name: &str| {
        let mut pairs = callback.query_pairs();
        pairs.find(|(key, _)| key == name).map(|(_, value)| shown(&value))
    };
    let error = find("error")?;
    Some(match find("error_description") {
        Some(description) => format!("{error}: {description}"),
        None => error,
    })
}

/// Text of a server as it may be shown in a terminal.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(SHOWN_CHARS).collect()
}

fn not_logged_in(name: &str, error: &AuthError) -> Fault {
    let error = error.to_string();
    let causes: Vec<&str> = error.split("Caused by:").map(str::trim).collect();
    Fault::new(Code::RemoteUnavailable, format!("{name}: {}", shown(&causes.join(": "))))
}

fn leads_elsewhere(name: &str, why: &str) -> Fault {
    Fault::new(Code::RemoteUnavailable, format!("{name}: {}", shown(why)))
}

async fn manager(url: &str) -> Result<AuthorizationManager, AuthError> {
    let client = Arc::new(OAuthHttp::of(url));
    AuthorizationManager::new_with_oauth_http_client(url, client).await
}

/// The login of one run at one server.
pub(super) struct Login {
    name: String,
    manager: AuthorizationManager,
    /// Every token that was sent, so that none is passed on when the server echoes it.
    sent: Mutex<BTreeSet<String>>,
}

impl Login {
    /// The login that is kept for this server at this address.
    pub async fn find(logins: &Logins, name: &str, url: &str) -> Result<Option<Self>, String> {
        let Some(kept) = logins.kept(name, url).await else { return Ok(None) };
        let unusable = |error: AuthError| shown(&error.to_string());
        let mut manager = manager(url).await.map_err(unusable)?;
        manager.set_metadata(kept.metadata.clone());
        manager.configure_client(kept.client()).map_err(unusable)?;
        manager.set_credential_store(logins.store(name, None));
        Ok(Some(Self { name: name.to_owned(), manager, sent: Mutex::default() }))
    }

    fn note(&self, token: String) -> String {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone());
        token
    }

    fn expired(&self, error: &AuthError) -> String {
        tracing::warn!(server = self.name, "the login at an MCP server cannot be renewed");
        let name = &self.name;
        match error {
            AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) => {
                format!("its login is no longer good: run `ostler mcp login {name}` again")
            }
            other => format!("its login cannot be renewed: {}", shown(&other.to_string())),
        }
    }

    /// The token to send, renewed if it is about to expire.
    pub async fn token(&self) -> Result<String, String> {
        let token = self.manager.get_access_token().await;
        token.map(|token| self.note(token)).map_err(|error| self.expired(&error))
    }

    /// Another token than one that the server refused.
    pub async fn renewed(&self, refused: &str) -> Result<String, String> {
        // Another run may have renewed it meanwhile.
        let kept = self.token().await?;
        if kept != refused {
            return Ok(kept);
        }
        self.manager.refresh_token().await.map_err(|error| self.expired(&error))?;
        self.token().await
    }

    /// Whether text of the server holds a token that it was sent.
    pub fn is_echoed_by(&self, text: &str) -> bool {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.iter().any(|token| text.contains(token.as_str()))
    }

    /// Text of the server without the tokens that it was sent.
    pub fn redacted(&self, text: String) -> String {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.iter().fold(text, |text, token| match text.contains(token.as_str()) {
            true => text.replace(token.as_str(), "[redacted:mcp login]"),
            false => text,
        })
    }
}
