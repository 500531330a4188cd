//! Logins as they are kept: one encrypted file per server of the configuration, in the data directory.
//! The key is derived from the token of the directory. Writers of one file take turns by a lock beside it.

use crate::aead::Purpose;
use crate::blocking::{self, Bulkhead};
use crate::data::{DataDir, replace_private};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{Fault, Timestamp};
use rmcp::transport::auth::{
    AuthError, AuthorizationMetadata, CredentialRefreshGuard, CredentialStore, OAuthClientConfig,
    StoredCredentials,
};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

const FOLDER: &str = "mcp-logins";
const PURPOSE: Purpose =
    Purpose { context: "ostler 2026-11 mcp login key", magic: b"ostler mcp login 1\n" };

/// The logins of one data directory.
#[derive(Clone, Default)]
pub struct Logins {
    folder: PathBuf,
    token: String,
}

/// What is kept of one login.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    name: String,
    url: String,
    client_id: String,
    client_secret: Option<String>,
    redirect_uri: String,
    scopes: Vec<String>,
    pub metadata: AuthorizationMetadata,
    credentials: Option<StoredCredentials>,
}

impl Kept {
    pub fn new(
        name: &str,
        url: &str,
        client: &OAuthClientConfig,
        metadata: &AuthorizationMetadata,
    ) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            client_id: client.client_id.clone(),
            client_secret: client.client_secret.clone(),
            redirect_uri: client.redirect_uri.clone(),
            scopes: client.scopes.clone(),
            metadata: metadata.clone(),
            credentials: None,
        }
    }

    pub fn client(&self) -> OAuthClientConfig {
        let mut client = OAuthClientConfig::new(self.client_id.clone(), self.redirect_uri.clone());
        client.client_secret = self.client_secret.clone();
        client.with_scopes(self.scopes.clone())
    }
}

/// How the login at a server stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoginState {
    /// `none`, `valid`, `expired`, or `other_url` when it was made for another address.
    pub login: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Whether it is renewed without a person.
    pub renewable: bool,
    pub scopes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

impl Logins {
    pub fn of(data: &DataDir) -> Result<Self, Fault> {
        Ok(Self::at(data.path(), data.token()?))
    }

    pub(crate) fn at(data: &Path, token: String) -> Self {
        Self { folder: data.join(FOLDER), token }
    }

    /// A name may hold what a file name may not.
    fn path(&self, name: &str) -> PathBuf {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        self.folder.join(&hash.as_str()[..32])
    }

    fn read(&self, name: &str) -> Option<Kept> {
        let file = std::fs::read(self.path(name)).ok()?; // there is none, or none that can be used
        let file = STANDARD.decode(file).ok()?; // it was changed: a new login replaces it
        let kept: Kept = serde_json::from_slice(&PURPOSE.decrypt(&self.token, &file)?).ok()?; // the same
        (kept.name == name).then_some(kept)
    }

    fn write(&self, kept: &Kept) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let bytes = PURPOSE.encrypt(&self.token, serde_json::to_vec(kept)?)?;
        replace_private(&self.path(&kept.name), &STANDARD.encode(bytes))
    }

    /// The login for this server, if it was made for this address.
    pub(super) async fn kept(&self, name: &str, url: &str) -> Option<Kept> {
        if self.token.is_empty() {
            return None;
        }
        let (logins, wanted) = (self.clone(), name.to_owned());
        let read = blocking::spawn(Bulkhead::Data, "read MCP login", move || logins.read(&wanted));
        let kept = read.await.ok()??; // a panic is in the log
        (kept.url == url && kept.credentials.is_some()).then_some(kept)
    }

    /// How the login at a server stands, as far as this machine knows.
    pub fn state(&self, name: &str, url: &str) -> LoginState {
        let none = LoginState {
            login: "none",
            expires_at: None,
            renewable: false,
            scopes: Vec::new(),
            issuer: None,
        };
        let Some(kept) = self.read(name) else { return none };
        if kept.url != url {
            return LoginState { login: "other_url", ..none };
        }
        let Some(credentials) = kept.credentials else { return none };
        let token = serde_json::to_value(&credentials.token_response).unwrap_or_default();
        let seconds = token["expires_in"].as_u64();
        let received = credentials.token_received_at;
        let expires = received.zip(seconds).map(|(at, seconds)| at.saturating_add(seconds));
        let expires_at = expires.and_then(|at| i64::try_from(at.saturating_mul(1_000)).ok()); // far away
        let expires_at = expires_at.map(Timestamp);
        let renewable = token["refresh_token"].is_string();
        let is_over = expires_at.is_some_and(|at| at.0 <= crate::clock::now().wall.0);
        LoginState {
            login: if is_over && !renewable { "expired" } else { "valid" },
            expires_at,
            renewable,
            scopes: credentials.granted_scopes,
            issuer: kept.metadata.issuer,
        }
    }

    /// Forgets a login; whether there was one.
    pub fn forget(&self, name: &str) -> io::Result<bool> {
        match std::fs::remove_file(self.path(name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The file of one server; `new` is written with the first tokens.
    pub(super) fn store(&self, name: &str, new: Option<Kept>) -> Store {
        Store { logins: self.clone(), name: name.to_owned(), new }
    }
}

/// The file of one login, as the library reads and writes it.
#[derive(Clone)]
pub(super) struct Store {
    logins: Logins,
    name: String,
    new: Option<Kept>,
}

impl Store {
    pub fn logins(&self) -> &Logins {
        &self.logins
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> io::Result<T> + Send + 'static,
    ) -> Result<T, AuthError> {
        let store = self.clone();
        let done = blocking::spawn(Bulkhead::Data, "keep MCP login", move || work(store)).await;
        done.map_err(|error| AuthError::CredentialStoreError(error.to_string()))?
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }
}

#[async_trait::async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        self.blocking(|store| Ok(store.logins.read(&store.name).and_then(|kept| kept.credentials)))
            .await
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.blocking(|store| {
            let kept = store.new.or_else(|| store.logins.read(&store.name));
            let Some(kept) = kept else {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the login was forgotten"));
            };
            store.logins.write(&Kept { credentials: Some(credentials), ..kept })
        })
        .await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.blocking(|store| store.logins.forget(&store.name).map(drop)).await
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let lock = self.blocking(|store| {
            let path = store.logins.path(&store.name).with_extension("lock");
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
            let file = open(&path, flags, Mode::RUSR | Mode::WUSR)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        Ok(Some(CredentialRefreshGuard::new(lock.await?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str, token: &str) -> Kept {
        let client = OAuthClientConfig::new("client", "http://127.0.0.1:1/callback");
        let metadata: AuthorizationMetadata = serde_json::from_value(serde_json::json!({
            "authorization_endpoint": "https://a.example/authorize",
            "token_endpoint": "https://a.example/token",
            "issuer": "https://a.example",
        }))
        .unwrap();
        let tokens = serde_json::json!({
            "access_token": token, "token_type": "bearer", "expires_in": 3600,
        });
        let credentials = StoredCredentials::new(
            "client".to_owned(),
            Some(serde_json::from_value(tokens).unwrap()),
            vec!["read".to_owned()],
            Some(u64::try_from(crate::clock::now().wall.0).unwrap() / 1_000),
        );
        let new = Kept::new(name, "https://mcp.example", &client, &metadata);
        Kept { credentials: Some(credentials), ..new }
    }

    #[test]
    fn login_is_encrypted_and_bound_to_its_server() {
        let dir = tempfile::tempdir().unwrap();
        let logins = Logins::at(dir.path(), "a".repeat(64));
        let name = "../github";
        assert_eq!(logins.state(name, "https://mcp.example").login, "none");
        logins.write(&kept(name, "a-very-secret-token")).unwrap();
        let state = logins.state(name, "https://mcp.example");
        assert_eq!((state.login, state.renewable), ("valid", false));
        assert_eq!(state.issuer.as_deref(), Some("https://a.example"));
        assert!(state.expires_at.is_some());
        assert_eq!(logins.state(name, "https://other.example").login, "other_url");
        let files: Vec<_> = std::fs::read_dir(dir.path().join(FOLDER)).unwrap().flatten().collect();
        assert_eq!(files.len(), 1, "one file, inside its folder");
        let bytes = STANDARD.decode(std::fs::read(files[0].path()).unwrap()).unwrap();
        assert!(memchr::memmem::find(&bytes, b"secret-token").is_none());
        // Another directory's token, another server's file and a changed byte open nothing.
        assert!(Logins::at(dir.path(), "b".repeat(64)).read(name).is_none());
        std::fs::copy(files[0].path(), logins.path("gitlab")).unwrap();
        assert!(logins.read("gitlab").is_none());
        assert!(logins.forget(name).unwrap() && !logins.forget(name).unwrap());
        assert_eq!(logins.state(name, "https://mcp.example").login, "none");
    }
}
