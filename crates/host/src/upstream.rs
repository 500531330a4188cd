//! MCP servers of the configuration, for one run: started or dialled when their tools are first
//! wanted, called under the same policy and recorded like our own tools, and gone with the run.
//!
//! A command is started with the common environment and what its own configuration says, never with
//! the run's token, and in a process group that is killed when the run lets go of it. How each server
//! fared is told in the run, once by each host. Nothing is written into anyone's own configuration.
//! What it takes to reach them lies with the run's keeper, so a host that takes a run over ends what
//! is left of them and starts or dials them anew.

mod bounded;
mod client;
mod http;
mod login;
mod machines;
mod progress;

pub(crate) use http::{causes, client_with_secret};
pub use login::{LoginConfig, LoginSession, LoginState, Logins};

use client::{CallError, Opening};
use login::Login;

use crate::ops::permission;
use crate::ops::relay::{Asked, CallProgress, CallerLine, Listed};
use crate::ops::tool::Outcome;
use crate::supervise;
use contract::event::{Body, Log, Stream};
use contract::plan::McpServer;
use contract::speech::{ToolAnswer, ToolCall};
use contract::{Code, Draft, Fault, Policy, RunId};
use futures::future::join_all;
use keeper::strays::{self, Hold};
use rmcp::model::{CallToolRequestParams, Tool};
use runtimes::passed_env::is_common;
use runtimes::{Spec, template};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::{OnceCell, mpsc};

/// How long a server may take to be ready and list its tools, each time that it is tried.
const CONNECT_MAX: Duration = Duration::from_secs(30);
/// How long it may take to answer a call.
const CALL_MAX: Duration = Duration::from_secs(600);
/// What one call may give back.
const ANSWER_BYTES_MAX: usize = contract::limits::READ_FILE_BYTES_MAX;
/// What stands between a server's name and its tool's.
const SEPARATOR: &str = contract::plan::MCP_TOOL_SEPARATOR;
/// Names the run in the environment of its servers, so that a successor finds what is left of them.
pub(crate) const MARK: &str = "OSTLER_MCP_SERVER_OF";

/// The servers of one run.
#[derive(Default)]
pub(crate) struct Upstream {
    servers: BTreeMap<String, Server>,
    /// The logins of people at those at an address.
    logins: Logins,
    /// Where the run is told how they fare.
    tell: OnceLock<mpsc::Sender<Asked>>,
}

/// The servers of a run on their way from one host to the next.
#[derive(Serialize, Deserialize)]
struct Packed {
    cwd: PathBuf,
    environment: BTreeMap<String, String>,
    servers: BTreeMap<String, McpServer>,
}

/// One server, its values resolved.
struct Server {
    how: McpServer,
    run: RunId,
    cwd: PathBuf,
    /// What a command gets beside its own `env`.
    environment: BTreeMap<String, String>,
    link: OnceCell<Result<Link, String>>,
}

/// A server that answers.
struct Link {
    connection: client::Connection,
    login: Option<Arc<Login>>,
    tools: Vec<Tool>,
    _group: Option<Group>,
}

/// A process group that ends with its owner.
struct Group(Option<(Child, Hold)>);

impl Group {
    fn of(child: Child) -> Self {
        let hold = strays::hold(Pid::from_child(&child));
        Self(Some((child, hold)))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some((mut child, hold)) = self.0.take() else { return };
        // The child is held and not waited for yet, so the number is still its own. A group that has
        // ended already needs no signal.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let waiting = supervise::thread("wait for MCP server", move || {
            crate::cleanup::wait(&mut child);
            drop(hold);
        });
        if let Err(error) = waiting {
            tracing::warn!(%error, "an MCP server that was ended stays a zombie: no thread can be started");
        }
    }
}

impl Upstream {
    /// The servers of a run, with every value resolved, before anything is started.
    pub fn of(spec: &Spec, run: RunId, cwd: &Path, logins: Logins) -> Result<Self, Fault> {
        let environment = spec.caller_env.iter().filter(|(name, _)| is_common(name));
        let environment: BTreeMap<_, _> =
            environment.map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut servers = BTreeMap::new();
        for (name, server) in &spec.adapter.mcp_servers {
            let key = format!("mcpServers.{name}");
            let fill = |text: &String| template::fill(text, &key, &spec.context, &spec.caller_env);
            let filled = |from: &BTreeMap<String, String>| -> Result<BTreeMap<_, _>, Fault> {
                from.iter().map(|(name, text)| Ok((name.clone(), fill(text)?))).collect()
            };
            let how = McpServer {
                command: server.command.clone(),
                args: server.args.iter().map(fill).collect::<Result<_, _>>()?,
                env: filled(&server.env)?,
                url: server.url.clone(),
                headers: filled(&server.headers)?,
            };
            let (cwd, environment) = (cwd.to_owned(), environment.clone());
            let server = Server { how, run, cwd, environment, link: OnceCell::new() };
            servers.insert(name.clone(), server);
        }
        Ok(Self { servers, logins, tell: OnceLock::new() })
    }

    /// What is sent in their headers: the seal must know it.
    pub fn secrets(&self) -> Vec<(String, String)> {
        let headers = self.servers.values().flat_map(|server| &server.how.headers);
        headers
            .map(|(name, value)| {
                let bare = value
                    .split_once(' ')
                    .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                (name.clone(), bare.map_or(value.as_str(), |(_, token)| token).to_owned())
            })
            .collect()
    }

    /// Everything it takes to reach them, for the next host; none when there are none. It holds
    /// secrets, and is kept where the run's secrets are: in its keeper's memory.
    pub fn packed(&self) -> Option<String> {
        let first = self.servers.values().next()?;
        let servers = self.servers.iter();
        let packed = Packed {
            cwd: first.cwd.clone(),
            environment: first.environment.clone(),
            servers: servers.map(|(name, server)| (name.clone(), server.how.clone())).collect(),
        };
        serde_json::to_string(&packed).ok()
    }

    /// The servers of a run that another host packed.
    pub fn unpacked(packed: &str, run: RunId, logins: Logins) -> Option<Self> {
        let Packed { cwd, environment, servers } = serde_json::from_str(packed).ok()?;
        let server = |how| {
            let (cwd, environment) = (cwd.clone(), environment.clone());
            Server { how, run, cwd, environment, link: OnceCell::new() }
        };
        let servers = servers.into_iter().map(|(name, how)| (name, server(how))).collect();
        Some(Self { servers, logins, tell: OnceLock::new() })
    }

    pub fn tells(&self, to: mpsc::Sender<Asked>) {
        // Set once, by the driver of the run.
        let _ = self.tell.set(to);
    }

    /// The server that a tool's name points to, and the name it has there. Of two servers whose names
    /// fit, the longer name is the server's: the configuration refuses such pairs, and a run of an
    /// earlier version may have one.
    fn find<'a>(&self, tool: &'a str) -> Option<(&String, &Server, &'a str)> {
        let fitting = self.servers.iter().filter_map(|(name, server)| {
            let rest = tool.strip_prefix(name.as_str())?.strip_prefix(SEPARATOR)?;
            Some((name, server, rest))
        });
        fitting.max_by_key(|(name, ..)| name.len())
    }

    pub fn owns(&self, tool: &str) -> bool {
        self.find(tool).is_some()
    }

    /// The tools of every server that answers.
    pub async fn tools(&self) -> Vec<Listed> {
        let links =
            self.servers.iter().map(async |(name, server)| (name, self.link(name, server).await));
        let links = join_all(links).await;
        let answering = links.into_iter().filter_map(|(name, link)| Some((name, link.ok()?)));
        answering
            .flat_map(|(name, link)| link.tools.iter().map(move |tool| listed(name, tool)))
            .collect()
    }

    /// Carries out a call of one of their tools.
    pub async fn call(
        &self,
        policy: Policy,
        call: &ToolCall,
        progress: Option<mpsc::Sender<CallProgress>>,
    ) -> Outcome {
        match self.answer(policy, call, progress).await {
            Ok(value) => Outcome {
                answer: ToolAnswer::Value(value),
                drafts: Vec::new(),
                signals: Vec::new(),
            },
            Err(fault) => fault.into(),
        }
    }

    async fn answer(
        &self,
        policy: Policy,
        call: &ToolCall,
        progress: Option<mpsc::Sender<CallProgress>>,
    ) -> Result<Value, Fault> {
        let unknown = || {
            let shown: String = call.tool.chars().take(100).collect();
            Fault::new(Code::UnknownTool, format!("no tool is called '{shown}'"))
        };
        let (name, server, tool) = self.find(&call.tool).ok_or_else(unknown)?;
        let unavailable = |why: &str| {
            Fault::new(Code::RemoteUnavailable, format!("the MCP server '{name}': {why}"))
        };
        let link = self.link(name, server).await.map_err(unavailable)?;
        let known = link.tools.iter().find(|known| known.name == tool).ok_or_else(unknown)?;
        permission::allowed(policy, &call.tool, writes(known))?;
        let arguments = match &call.args {
            Value::Object(arguments) => arguments.clone(),
            _ => Default::default(),
        };
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let calling = client::call(&link.connection, params, progress);
        let result = tokio::time::timeout(CALL_MAX, calling)
            .await
            .map_err(|_| unavailable("it did not answer in time"))?
            .map_err(|error| unavailable(&link.redacted(not_called(name, &error))))?;
        let mut value = serde_json::to_value(result)
            .map_err(|error| Fault::new(Code::ParseFailed, error.to_string()))?;
        let text = link.redacted(value.to_string());
        if let Some(login) = &link.login
            && login.is_echoed_by(&value.to_string())
        {
            value = serde_json::from_str(&text)
                .map_err(|error| Fault::new(Code::ParseFailed, error.to_string()))?;
        }
        if text.len() > ANSWER_BYTES_MAX {
            let message = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(Fault::new(Code::TooLarge, message));
        }
        if let Value::Object(fields) = &mut value {
            fields.remove("resultType");
        }
        Ok(value)
    }

    /// The connection, made once for the run.
    async fn link<'a>(&self, name: &str, server: &'a Server) -> Result<&'a Link, &'a str> {
        let link = server.link.get_or_init(async || {
            let link = server.connect(name, &self.logins).await;
            let (text, level) = match &link {
                Ok(link) => (
                    format!("the MCP server '{name}' is connected: {} tools", link.tools.len()),
                    None,
                ),
                Err(why) => {
                    // The reason may be in the words of the server, which are for the run alone.
                    let run = server.run;
                    tracing::warn!(%run, server = name, "an MCP server cannot be used; the events of the run say why");
                    (format!("the MCP server '{name}' failed: {why}"), Some("warning".to_owned()))
                }
            };
            if let Some(tell) = self.tell.get() {
                let log = Log { stream: Stream::Ostler, text, level };
                // A run that takes no more calls needs no more news.
                let _ = tell.send(Asked::Note(Box::new(Draft::ostler(Body::Log(log))))).await;
            }
            link
        });
        link.await.as_ref().map_err(String::as_str)
    }
}

impl Link {
    /// Text of the server without the tokens that it was sent.
    fn redacted(&self, text: String) -> String {
        match &self.login {
            Some(login) => login.redacted(text),
            None => text,
        }
    }
}

impl Server {
    async fn connect(&self, name: &str, logins: &Logins) -> Result<Link, String> {
        match self.opened(name, logins, Opening::DiscoverFirst).await {
            Ok(link) => Ok(link),
            Err(NotOpened { why, again: None }) => Err(why),
            Err(NotOpened { again: Some(opening), .. }) => {
                self.opened(name, logins, opening).await.map_err(|failed| failed.why)
            }
        }
    }

    /// A connection, opened in this way.
    async fn opened(
        &self,
        name: &str,
        logins: &Logins,
        opening: Opening,
    ) -> Result<Link, NotOpened> {
        let late = |_| NotOpened::from("it was not ready in time".to_owned());
        let opening = async {
            let (connection, group, login) = match (&self.how.command, &self.how.url) {
                (Some(command), _) => {
                    let (group, stdout, stdin) =
                        self.start(command).map_err(|error| format!("{command}: {error}"))?;
                    let opened = client::open((stdout, stdin), opening).await;
                    let failed = |error| NotOpened {
                        why: http::not_begun(name, &error),
                        again: client::another_opening(&error)
                            .filter(|again| opening == Opening::DiscoverFirst || *again != opening),
                    };
                    (opened.map_err(failed)?, Some(group), None)
                }
                (None, Some(url)) => {
                    let (connection, login) =
                        http::dial(name, &self.how, url, opening, logins).await?;
                    (connection, None, login)
                }
                (None, None) => {
                    return Err("it has neither a command nor a url".to_owned().into());
                }
            };
            let tools = client::tools(connection.peer()).await;
            let tools = tools.map_err(|error| http::not_answered(name, &error))?;
            Ok(Link { connection, login, tools, _group: group })
        };
        tokio::time::timeout(CONNECT_MAX, opening).await.unwrap_or_else(|late_| Err(late(late_)))
    }

    #[expect(clippy::disallowed_methods, reason = "the host starts the servers of its runs")]
    fn start(&self, command: &str) -> std::io::Result<(Group, pipe::Receiver, pipe::Sender)> {
        let mut child = Command::new(command)
            .args(&self.how.args)
            .env_clear()
            .envs(&self.environment)
            .envs(&self.how.env)
            .env(MARK, self.run.to_string())
            .current_dir(&self.cwd)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let group = Group::of(child);
        let missing = || std::io::Error::other("it has no standard input or output");
        let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin.ok_or_else(missing)?))?;
        let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout.ok_or_else(missing)?))?;
        Ok((group, stdout, stdin))
    }
}

/// Why a server cannot be used.
#[derive(Debug)]
struct NotOpened {
    why: String,
    /// The way in which it may be tried once more.
    again: Option<Opening>,
}

impl From<String> for NotOpened {
    fn from(why: String) -> Self {
        Self { why, again: None }
    }
}

/// Why a call has no result, in words for a person.
fn not_called(name: &str, error: &CallError) -> String {
    match error {
        CallError::Service(error) => http::not_answered(name, error),
        CallError::WantsInput => {
            "its tool asks its caller for input (elicitation, sampling or roots), which is not relayed"
                .to_owned()
        }
    }
}

/// A tool that does not say that it only reads is taken to write.
fn writes(tool: &Tool) -> bool {
    let reads = tool.annotations.as_ref().and_then(|hints| hints.read_only_hint);
    reads != Some(true)
}

fn listed(server: &str, tool: &Tool) -> Listed {
    Listed {
        name: format!("{server}{SEPARATOR}{}", tool.name),
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        writes: writes(tool),
        schema: tool.input_schema.as_ref().clone(),
    }
}

/// What the run's terms say of a server: all of its tools, or those that were named.
pub(crate) fn offered(server: &str, wanted: Option<&[String]>) -> Vec<String> {
    let all = format!("{server}{SEPARATOR}*");
    match wanted {
        None => vec![all],
        Some(wanted) if wanted.iter().any(|name| name == server) => vec![all],
        Some(wanted) => {
            let beginning = format!("{server}{SEPARATOR}");
            wanted.iter().filter(|name| name.starts_with(&beginning)).cloned().collect()
        }
    }
}

/// The call, unless the run or its caller lets go of it first; its server is then told so.
pub(crate) async fn carried_out(
    upstream: Arc<Upstream>,
    policy: Policy,
    call: &ToolCall,
    mut caller: CallerLine,
    given_up: impl Future<Output = ()>,
) -> Option<Outcome> {
    let progress = caller.progress.take();
    tokio::select! {
        outcome = upstream.call(policy, call, progress) => Some(outcome),
        () = caller.has_left() => {
            let message = "the caller left before the MCP server answered";
            Some(Fault::new(Code::Cancelled, message).into())
        }
        () = given_up => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_goes_to_the_longest_server_name() {
        let server = || Server {
            how: McpServer {
                command: None,
                args: Vec::new(),
                env: BTreeMap::new(),
                url: None,
                headers: BTreeMap::new(),
            },
            run: crate::chance::run_id(),
            cwd: PathBuf::new(),
            environment: BTreeMap::new(),
            link: OnceCell::new(),
        };
        let names = ["a", "a__b", "a_", "c"];
        let servers = names.map(|name| (name.to_owned(), server())).into();
        let upstream = Upstream { servers, ..Upstream::default() };
        let rows = [
            ("a__x", Some(("a", "x"))),
            ("a__b__x", Some(("a__b", "x"))),
            ("a__bx", Some(("a", "bx"))),
            ("a___x", Some(("a_", "x"))),
            ("c__a__x", Some(("c", "a__x"))),
            ("b__x", None),
            ("a", None),
        ];
        for (tool, wanted) in rows {
            let found = upstream.find(tool).map(|(name, _, tool)| (name.as_str(), tool));
            assert_eq!(found, wanted, "{tool}");
        }
    }
}
