//! `ostler mcp login` and `logout`: a person logs in at an MCP server of the configuration. The address
//! to open is printed on standard output, alone; nothing is opened. The answer of the authorization
//! server comes to a port of this machine, is taken once, and the tokens are kept by `host::Logins`.

use super::{Context, Stopped};
use crate::args::McpCommand;
use crate::terminal;
use contract::config::file::McpServer;
use contract::limits::MCP_LOGIN_WAIT_MS;
use contract::{Code, Fault};
use host::{LoginConfig, LoginSession, LoginState, Logins};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The head of a request that a browser sends to the port.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a connection to the port may take to send it.
const HEAD_MAX: Duration = Duration::from_secs(10);
const PATH: &str = "/callback";

pub async fn mcp_login(context: &Context, command: McpCommand) -> Result<ExitCode, Stopped> {
    match command {
        McpCommand::Login { server, scope } => login(context, &server, scope).await,
        McpCommand::Logout { server } => logout(context, &server),
    }
}

async fn login(context: &Context, name: &str, scopes: Vec<String>) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let servers = &place.config.file.mcp_servers;
    let (server, url) = with_url(servers, name)?;
    let oauth = server.oauth.clone().unwrap_or_default();
    let vars = &context.surroundings.vars;
    let key = format!("mcpServers.{name}.oauth.clientSecret");
    let fill = |text: &String| runtimes::template::fill(text, &key, &Default::default(), vars);
    let config = LoginConfig {
        url: url.to_owned(),
        client_id: oauth.client_id.clone(),
        client_secret: oauth.client_secret.as_ref().map(fill).transpose()?,
        client_metadata_url: oauth.client_metadata_url.clone(),
        scopes: oauth.scopes.clone(),
        more_scopes: scopes,
    };
    let port = oauth.redirect_port.unwrap_or_default();
    let listening = |error: std::io::Error| {
        Fault::new(Code::InternalError, format!("listening on 127.0.0.1:{port}: {error}"))
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(listening)?;
    let port = listener.local_addr().map_err(listening)?.port();
    let redirect = format!("http://127.0.0.1:{port}{PATH}");
    let logins = Logins::of(&place.data)?;
    let session = LoginSession::begin(&logins, name, &config, &redirect).await?;
    terminal::remark(&format!("open this address in a browser to log in at '{name}':"));
    context.print(session.url())?;
    let wait = Duration::from_millis(MCP_LOGIN_WAIT_MS);
    let answered = tokio::time::timeout(wait, answer(&listener, &redirect, &session)).await;
    let (callback, mut browser) = answered.map_err(|_| {
        let message = format!("nobody logged in within {} minutes", wait.as_secs() / 60);
        Fault::new(Code::Cancelled, message).with_hint("run the command again")
    })??;
    let finished = session.finish(name, &callback).await;
    let (status, text) = match &finished {
        Ok(_) => ("200 OK", "You are logged in. You can close this page.".to_owned()),
        Err(fault) => ("400 Bad Request", format!("The login failed: {}", fault.message)),
    };
    // The person sees in the terminal how it ended, too.
    let _ = reply(&mut browser, status, &text).await;
    told(context, name, &finished?)?;
    Ok(ExitCode::SUCCESS)
}

fn told(context: &Context, name: &str, state: &LoginState) -> Result<(), Stopped> {
    if context.global.json {
        context.print_json(&json!({ "server": name, "login": state }))?;
        return Ok(());
    }
    let until = match (state.renewable, state.expires_at) {
        (true, _) => "; it is renewed by itself".to_owned(),
        (false, Some(at)) => format!(" until {at}"),
        (false, None) => String::new(),
    };
    terminal::remark(&format!("logged in at '{name}'{until}"));
    Ok(())
}

fn logout(context: &Context, name: &str) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let logins = Logins::of(&place.data)?;
    let forgotten = logins.forget(name).map_err(|error| {
        Fault::new(Code::InternalError, format!("forgetting the login at '{name}': {error}"))
    })?;
    if !forgotten {
        let message = format!("there is no login at '{name}'");
        let hint = "`ostler doctor` shows how the logins stand";
        return Err(Fault::new(Code::NotFound, message).with_hint(hint).into());
    }
    terminal::remark(&format!("the login at '{name}' is forgotten; revoke it there to end it"));
    Ok(ExitCode::SUCCESS)
}

fn with_url<'a>(
    servers: &'a BTreeMap<String, McpServer>,
    name: &str,
) -> Result<(&'a McpServer, &'a str), Fault> {
    let Some(server) = servers.get(name) else {
        let known: Vec<&str> = servers
            .iter()
            .filter(|(_, server)| server.url.is_some())
            .map(|(name, _)| name.as_str())
            .collect();
        let message = format!("mcpServers has no server '{name}'");
        let hint = match known.is_empty() {
            true => {
                "add it to ostler.json: { \"mcpServers\": { NAME: { \"url\": … } } }".to_owned()
            }
            false => format!("servers with a url are {}", known.join(", ")),
        };
        return Err(Fault::new(Code::NotFound, message).with_hint(hint));
    };
    let url = server.url.as_deref().ok_or_else(|| {
        let message = format!("'{name}' is started by a command, which needs no login");
        Fault::new(Code::Usage, message)
    })?;
    Ok((server, url))
}

/// The first answer that belongs to this login. Others are refused, and waited on.
async fn answer(
    listener: &TcpListener,
    redirect: &str,
    session: &LoginSession,
) -> Result<(String, TcpStream), Fault> {
    loop {
        let accepted = listener.accept().await;
        let (mut stream, _) = accepted.map_err(|error| {
            Fault::new(Code::InternalError, format!("waiting for a browser: {error}"))
        })?;
        let head = tokio::time::timeout(HEAD_MAX, target(&mut stream)).await.ok().flatten();
        let callback = head.and_then(|target| {
            let query = target.strip_prefix(PATH)?.strip_prefix('?')?;
            Some(format!("{redirect}?{query}"))
        });
        match callback {
            Some(callback) if session.is_answered_by(&callback) => return Ok((callback, stream)),
            // A browser asks for an icon, too; whoever else asks is not answered.
            _ => drop(reply(&mut stream, "404 Not Found", "This is not a login.").await),
        }
    }
}

/// What a request asks for.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        // A connection that breaks off asks for nothing.
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&piece[..read]);
        if head.len() > HEAD_BYTES_MAX {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    head.lines().next()?.strip_prefix("GET ")?.split(' ').next().map(str::to_owned)
}

async fn reply(stream: &mut TcpStream, status: &str, text: &str) -> std::io::Result<()> {
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         x-content-type-options: nosniff\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
