//! What can be said of a remote's address without looking at the network: whether it is one, and
//! whether a secret may be sent there. The courier asks the same again of the address as it is really
//! read, and of every machine behind its name; this is for whoever wrote the configuration, before
//! anything is started.

use contract::plan::{Remote, RemoteAuth};
use contract::{Code, Fault};
use std::net::IpAddr;

/// Refuses a remote that cannot be reached, or not safely, with the key that is to be changed.
pub fn check(name: &str, remote: &Remote) -> Result<(), Fault> {
    let refuse = |key: &str, message: &str, hint: &str| {
        let message = format!("adapters.{name}.{key}: {message}");
        Err(Fault::new(Code::InvalidConfig, message).with_hint(hint))
    };
    let url = remote.base_url.as_str();
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else {
        return refuse(
            "baseUrl",
            "expected an address that begins with http:// or https://",
            "write the address of the remote, such as https://agents.example.com",
        );
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return refuse(
            "baseUrl",
            "it names a user, and an address can be read by everyone",
            "leave it out, and put the token into the variable that auth.tokenEnv names",
        );
    }
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    if authority.is_empty() || url.contains(odd) || rest.contains(['?', '#']) {
        return refuse(
            "baseUrl",
            "it is no plain address of a host, perhaps with a port and a path",
            "write the address of the remote, such as https://agents.example.com",
        );
    }
    let in_the_clear = url.starts_with("http://") && !is_loopback(authority);
    match &remote.auth {
        RemoteAuth::Bearer { token_env, .. } if token_env.trim().is_empty() => refuse(
            "auth.tokenEnv",
            "missing: type bearer needs it",
            "name the variable that holds the token",
        ),
        RemoteAuth::Bearer { .. } if in_the_clear && !remote.allow_insecure => refuse(
            "baseUrl",
            "a bearer token would cross the network in the clear",
            "use https://, or set allowInsecure to true",
        ),
        RemoteAuth::Mtls { .. } if !url.starts_with("https://") => refuse(
            "baseUrl",
            "a certificate is shown under TLS alone",
            "use https://, or another auth.type",
        ),
        RemoteAuth::Bearer { .. } | RemoteAuth::Mtls { .. } | RemoteAuth::None => Ok(()),
    }
}

/// Whether a remote may find what is at this address of ours: one that listens on loopback is found
/// from this machine alone.
pub fn is_within_reach(remote: &Remote, ours: &str) -> bool {
    let loopback = |url: &str| {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        is_loopback(rest.split(['/', '?', '#']).next().unwrap_or_default())
    };
    loopback(&remote.base_url) || !loopback(ours)
}

fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}
