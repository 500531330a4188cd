//! The way to one remote: a client that reaches the machines that were looked at and no others,
//! follows redirects within its origin alone, understands no compressed answers, and shows who we are
//! in every request. Every answer is bounded in time and size. What a status means for a run is
//! decided here, in one table; whether to try again is for whoever asked.

use super::Config;
use super::address::Address;
use contract::limits::{
    REMOTE_ANSWER_BYTES_MAX, REMOTE_ANSWER_MS, REMOTE_CONNECT_MS, REMOTE_REDIRECTS_MAX,
    REMOTE_WORK_BYTES_MAX, REMOTE_WORK_MS,
};
use contract::plan::RemoteAuth;
use contract::{Code, Fault, limits};
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client, Identity, Method, RequestBuilder, Response, StatusCode, Url};
use std::error::Error;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// The way to one remote.
#[derive(Clone)]
pub struct Link {
    http: Client,
    address: Address,
    token: Option<HeaderValue>,
    /// The variable that the token is from.
    token_env: Option<String>,
}

/// Why a request had no answer that helps.
#[derive(Debug)]
pub enum Trouble {
    /// It may be otherwise in a moment.
    Passing(String),
    /// The session is not there.
    Gone,
    /// Someone else owns the work by now.
    Stale,
    /// The remote does not take what was sent, and would not take it again.
    Refused(String),
    /// It is so, and stays so.
    Lasting(Fault),
}

impl Link {
    pub async fn new(config: &Config) -> Result<Self, Fault> {
        let secret = config.token.is_some();
        let address = Address::find(&config.base_url, secret, config.allow_insecure).await?;
        let token = config.token.as_deref().map(bearer).transpose()?;
        let http = client(config, &address)?;
        let token_env = config.auth.token_env().filter(|_| secret).map(str::to_owned);
        Ok(Self { http, address, token, token_env })
    }

    /// The address of a resource, each part of its path by itself.
    pub fn below<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        self.address.below(parts)
    }

    /// The address of the remote itself.
    pub fn base(&self) -> Url {
        self.address.base.clone()
    }

    /// An address that the remote named, if it is its own: nothing of ours goes anywhere else.
    pub fn own(&self, named: &str) -> Option<Url> {
        let url = self.address.base.join(named).ok()?;
        let plain = url.username().is_empty() && url.password().is_none();
        (plain && url.origin() == self.address.base.origin()).then_some(url)
    }

    /// A request that shows who we are.
    pub fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token.clone()),
            None => request,
        }
    }

    /// Sends a request and waits for the head of a good answer.
    pub async fn ask(&self, request: RequestBuilder) -> Result<Response, Trouble> {
        self.ask_within(REMOTE_ANSWER_MS, request).await
    }

    async fn ask_within(&self, ms: u64, request: RequestBuilder) -> Result<Response, Trouble> {
        let answer = Duration::from_millis(ms);
        let response = match tokio::time::timeout(answer, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(failed(&error)),
            // The timeout.
            Err(_) => {
                let seconds = ms / 1000;
                return Err(Trouble::Passing(format!("it did not answer within {seconds} s")));
            }
        };
        if let Some(coding) = response.headers().get(CONTENT_ENCODING)
            && coding != "identity"
        {
            let coding = coding.to_str().unwrap_or("something");
            let message = format!("it answered in {coding}, which was not offered");
            return Err(Trouble::Lasting(Fault::new(Code::ProtocolError, message)));
        }
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refused(response, self.token_env.as_deref()).await)
    }

    /// Sends a request and reads its whole answer.
    pub async fn answer(&self, request: RequestBuilder) -> Result<Vec<u8>, Trouble> {
        body(self.ask(request).await?, REMOTE_ANSWER_BYTES_MAX).await
    }

    /// The same for an answer that is the work itself, and may take as long as that does.
    pub async fn work(&self, request: RequestBuilder) -> Result<Worked, Trouble> {
        let response = self.ask_within(REMOTE_WORK_MS, request).await?;
        let accepted = response.status() == StatusCode::ACCEPTED;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let text = kind.is_some_and(|kind| kind.starts_with("text/"));
        let bytes = body(response, REMOTE_WORK_BYTES_MAX).await?;
        Ok(Worked { accepted, text, bytes })
    }
}

/// A whole answer of a remote that was asked to work.
#[derive(Debug)]
pub struct Worked {
    /// It will be done later.
    pub accepted: bool,
    /// The remote says that it is words.
    pub text: bool,
    pub bytes: Vec<u8>,
}

/// The bytes of an answer, of which there may not be many, and not late.
async fn body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    let read = async {
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
            if bytes.len() + chunk.len() > bytes_max {
                let message = format!("its answer has more than {bytes_max} bytes");
                return Err(Trouble::Lasting(Fault::new(Code::ProtocolError, message)));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(())
    };
    match tokio::time::timeout(Duration::from_millis(REMOTE_ANSWER_MS), read).await {
        Ok(read) => read.map(|()| bytes),
        // The timeout.
        Err(_) => Err(Trouble::Passing("its answer did not end".to_owned())),
    }
}

/// What a status that is no success means.
async fn refused(response: Response, token_env: Option<&str>) -> Trouble {
    let status = response.status();
    let said = match body(response, REMOTE_ANSWER_BYTES_MAX).await {
        Ok(bytes) => serde_json::from_slice::<crate::wire::Refusal>(&bytes).unwrap_or_default(),
        // The status is reported without the words.
        Err(_) => Default::default(),
    };
    let words = match &said.message {
        Some(message) => format!("it answered {status}: {}", shown(message)),
        None => format!("it answered {status}"),
    };
    let code = said.code.as_deref();
    if status.is_client_error() && code == Some(crate::wire::SESSION_UNKNOWN) {
        return Trouble::Lasting(Fault::new(Code::NativeSessionUnknown, words));
    }
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let token = match token_env {
                Some(name) => format!("; the token in {name} was refused"),
                None => String::new(),
            };
            Trouble::Lasting(Fault::new(Code::AuthFailed, format!("auth: {words}{token}")))
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => Trouble::Gone,
        StatusCode::CONFLICT
            if code.is_some_and(|code| {
                [crate::wire::FENCE_STALE, "fencing_token_stale"].contains(&code)
            }) =>
        {
            Trouble::Stale
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Trouble::Passing(words),
        status if status.is_server_error() => Trouble::Passing(words),
        _ => Trouble::Refused(words),
    }
}

/// What a remote wrote, as it may stand in a message.
fn shown(text: &str) -> String {
    let head = &text[..text.floor_char_boundary(limits::PREVIEW_BYTES / 4)];
    head.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Why nothing came back.
pub fn failed(error: &reqwest::Error) -> Trouble {
    let words = causes(error);
    if error.is_redirect() {
        return Trouble::Lasting(Fault::new(Code::ProtocolError, words));
    }
    // A certificate that one side does not take is not taken the next time either.
    let ours_refused = ["CertificateRequired", "BadCertificate", "UnknownCA", "CertificateUnknown"];
    let alert = words.contains("received fatal alert");
    if alert && ours_refused.iter().any(|alert| words.contains(alert))
        || words.contains("received fatal alert: CertificateExpired")
    {
        let message = format!("auth: it does not accept our certificate: {words}");
        return Trouble::Lasting(Fault::new(Code::AuthFailed, message));
    }
    if words.contains("invalid peer certificate") {
        let message = format!("its certificate is not trusted: {words}");
        return Trouble::Lasting(Fault::new(Code::RemoteUnavailable, message));
    }
    Trouble::Passing(words)
}

/// The causes of an error, without the address that stands before them.
fn causes(error: &reqwest::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !causes.contains(&text) {
            causes.push(text);
        }
        next = cause.source();
    }
    match causes.is_empty() {
        true if error.is_timeout() => "it took too long".to_owned(),
        true => "the connection broke".to_owned(),
        false => causes.join(": "),
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
        Fault::new(Code::InvalidConfig, "auth.tokenEnv: the token cannot stand in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn client(config: &Config, address: &Address) -> Result<Client, Fault> {
    let mut builder = Client::builder()
        .referer(false)
        .redirect(redirects())
        .http1_only()
        .http1_max_headers(limits::HEADERS_MAX)
        .connect_timeout(Duration::from_millis(REMOTE_CONNECT_MS))
        // The machines behind the name were looked at; a proxy would have ideas of its own.
        .no_proxy()
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate();
    if !address.machines.is_empty() {
        builder = builder.resolve_to_addrs(address.name(), &address.machines);
    }
    builder = match (&config.ca_path, address.is_tls()) {
        (_, true) => builder.https_only(true),
        // Nothing is verified, so nothing is loaded.
        (_, false) => builder.tls_certs_only([]),
    };
    if let (Some(path), true) = (&config.ca_path, address.is_tls()) {
        let pem = file("auth.caPath", path)?;
        let certificates = Certificate::from_pem_bundle(&pem)
            .map_err(|error| unreadable("auth.caPath", path, &causes(&error)))?;
        builder = builder.tls_certs_only(certificates);
    }
    if let RemoteAuth::Mtls { cert_path, key_path } = &config.auth {
        builder = builder.identity(identity(cert_path, key_path)?);
    }
    builder.build().map_err(|error| {
        Fault::new(Code::InvalidConfig, format!("making a client: {}", causes(&error)))
    })
}

/// Our certificate with its key, which nobody else may read.
fn identity(cert_path: &str, key_path: &str) -> Result<Identity, Fault> {
    let mut pem = file("auth.certPath", cert_path)?;
    let mode = std::fs::metadata(key_path)
        .map_err(|error| unreadable("auth.keyPath", key_path, &error.to_string()))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        let why = format!("others may read it (mode {:03o})", mode & 0o777);
        return Err(unreadable("auth.keyPath", key_path, &why)
            .with_hint(format!("chmod 600 {}", Path::new(key_path).display())));
    }
    pem.push(b'\n');
    pem.extend(file("auth.keyPath", key_path)?);
    Identity::from_pem(&pem)
        .map_err(|error| unreadable("auth.certPath", cert_path, &causes(&error)))
}

fn file(key: &str, path: &str) -> Result<Vec<u8>, Fault> {
    std::fs::read(path).map_err(|error| unreadable(key, path, &error.to_string()))
}

fn unreadable(key: &str, path: &str, why: &str) -> Fault {
    Fault::new(Code::InvalidConfig, format!("{key}: {path}: {why}"))
}

/// A remote may send us on within its own origin, a few times; what was to be posted is posted there.
fn redirects() -> Policy {
    Policy::custom(|attempt: Attempt<'_>| {
        let next = attempt.url();
        let to = format!("{}{}", next.origin().ascii_serialization(), next.path());
        let same = attempt.previous().first().map(Url::origin) == Some(next.origin());
        let whole = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT];
        if !same || !whole.contains(&attempt.status()) {
            attempt.error(format!(
                "it redirects to {to}, which is not followed: write that address as baseUrl if you \
                 trust it"
            ))
        } else if attempt.previous().len() > REMOTE_REDIRECTS_MAX {
            attempt.error(format!("it redirects more than {REMOTE_REDIRECTS_MAX} times"))
        } else {
            attempt.follow()
        }
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests await the tasks that they start")]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// The name is nobody's: what was looked at is what is reached.
    #[tokio::test]
    async fn a_connection_goes_to_the_machine_that_was_looked_at_whatever_the_name_means() {
        let machine = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = machine.local_addr().unwrap();
        let base = Url::parse(&format!("http://far.invalid:{}/x", at.port())).unwrap();
        let config = Config {
            base_url: base.to_string(),
            protocol: contract::plan::RemoteProtocol::CaHttpV1,
            auth: RemoteAuth::None,
            token: None,
            ca_path: None,
            allow_insecure: false,
            limits: super::super::Limits {
                start: Duration::from_secs(30),
                lost: Duration::from_secs(30),
                idle: Duration::from_secs(30),
            },
        };
        let asked = tokio::spawn(async move {
            let (mut stream, _) = machine.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi";
            stream.write_all(answer).await.unwrap();
            String::from_utf8_lossy(&head[..read]).to_ascii_lowercase()
        });
        let address = Address { base: base.clone(), machines: vec![at] };
        let http = client(&config, &address).unwrap();
        let link = Link { http, address, token: None, token_env: None };
        let answer = link.answer(link.request(Method::GET, base.clone())).await.unwrap();
        assert_eq!(answer, b"hi");
        let asked = asked.await.unwrap();
        assert!(asked.contains(&format!("host: far.invalid:{}", at.port())), "{asked}");
    }
}
