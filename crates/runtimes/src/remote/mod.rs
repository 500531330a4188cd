//! An agent on another machine, reached by HTTP. What is started here is our own courier, which
//! speaks lines with us and HTTP with the remote; so a remote is held, spooled, adopted and stopped
//! like any process (`docs/decisions/0014-a-remote-is-held-by-a-courier.md`). The events of a remote
//! are those of the process protocol, and the same code hears them. The token never stands in an
//! argument or a file: the courier finds it in its environment.

mod address;
mod callback;
mod dialect;
mod ending;
mod wire;

#[cfg(test)]
mod tests;

use crate::launch::{self, Start};
use crate::registry::Left;
use crate::{Dialect, ExitEvidence, Runtime, Spec};
use contract::card::{Can, CardEvidence, Dollars, Mcp, PolicyRow, Reports, Retries, Told};
use contract::plan::{EnvEntry, EnvSource, Lane, Remote, RemoteAuth, RemoteProtocol, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use dialect::Remotely;
use serde_json::{Value, json};

/// The hidden command of this program that holds a remote.
pub const COURIER: &str = "courier";

/// The runtime for any agent that is reached by HTTP.
pub struct ByHttp;

impl Runtime for ByHttp {
    fn card(&self) -> Card {
        Card {
            id: "remote".to_owned(),
            label: "HTTP remote".to_owned(),
            versions_recorded: Vec::new(),
            evidence: CardEvidence::Documented,
            requires: Vec::new(),
            lanes: vec![Lane::Http],
            models: Vec::new(),
            models_source: "the remote decides; `model` is passed on to it".to_owned(),
            default_model: None,
            context_window: None,
            model_list: None,
            reports: Reports {
                tokens: true,
                usage: Told::ByAgent,
                answers: Told::ByAgent,
                dollars: Dollars::Trusted,
                quota: false,
                activity: true,
            },
            // A remote may say hello and accept messages and interrupts, and say that it can resume;
            // until it does, it cannot.
            can: Can {
                resume: false,
                interrupt: false,
                message: false,
                permissions: false,
                compaction: false,
                system_prompt: None,
                mcp: Mcp::Http,
                api: true,
            },
            env: Vec::new(),
            env_modes: Vec::new(),
            env_files: Vec::new(),
            retries: Retries::Silent,
            closing: "a complete or failed event".to_owned(),
            policies: policies(),
            skills: None,
            login: None,
            handshake: None,
            use_when: "the agent is a service on another machine, or is expensive to start\n\
             one agent is shared by several hosts, each of which holds its own runs\n\
             a service calls back when its work is done: protocol webhook-v1"
                .to_owned(),
            dont_use_when: "the agent is a program of this machine\n\
             the files must not leave this machine: a remote works on a copy or by relayed tools\n\
             what the agent does by itself must be seen: only what it tells is"
                .to_owned(),
            config_schema: [
                ("baseUrl", json!({ "type": "string", "description": "where the remote listens" })),
                ("auth", json!({ "type": "object", "required": ["type"] })),
                ("protocol", json!({ "enum": ["ca-http-v1", "hermes-runs-v1", "webhook-v1"] })),
                ("maxConcurrentSessions", json!({ "type": "integer", "minimum": 1 })),
                ("allowInsecure", json!({ "type": "boolean" })),
            ]
            .map(|(key, schema)| (key.to_owned(), schema))
            .into(),
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let name = &spec.adapter.name;
        let Some(remote) = &spec.adapter.remote else {
            let message = format!("adapters.{name}: a remote needs a baseUrl, and none is named");
            let hint = "give an adapter of type http its baseUrl, or use --http URL";
            return Err(Fault::new(Code::InvalidConfig, message).with_hint(hint));
        };
        address::check(name, remote)?;
        if let Some(variable) = remote.auth.token_env()
            && spec.caller_env.get(variable).is_none_or(|token| token.trim().is_empty())
        {
            let message =
                format!("adapters.{name}.auth.tokenEnv: the variable {variable} is not set");
            let hint = format!("export {variable} before the run is started");
            return Err(Fault::new(Code::AuthRequired, message).with_hint(hint));
        }
        let start = Start {
            lane: Lane::Http,
            program: spec.own_program.clone(),
            args: arguments(remote),
            stdin: StdinMode::Events,
            ..Start::default()
        };
        let mut plan = start.plan(spec, &self.card())?;
        if let Some(variable) = remote.auth.token_env() {
            let source = EnvSource::Passthrough;
            plan.env.push(EnvEntry { name: variable.to_owned(), source });
            plan.secrets.push(variable.to_owned());
        }
        Ok(plan)
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        let remote = spec.adapter.remote.clone().unwrap_or_default();
        let run = launch::placeholder(spec, "runId").unwrap_or_default();
        let fence = launch::placeholder(spec, "fencingToken").and_then(|fence| fence.parse().ok());
        let resumes = spec.session.is_some();
        Box::new(Remotely::new(run, fence, remote, session_body(spec), resumes))
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Ok(Box::new(Remotely::restore(state)?))
    }

    /// The courier says what happened in words of its own.
    fn classify(&self, _: &ExitEvidence<'_>) -> Option<Code> {
        None
    }
}

/// How this program is started to see whether a remote is there.
pub fn greeting(remote: &Remote) -> Vec<String> {
    let mut args = arguments(remote);
    args.insert(1, "--greet".to_owned());
    args
}

/// How a session is taken up that was left without a courier, if it may be.
pub(crate) fn left(saved: &[u8]) -> Option<Left> {
    let talk = Remotely::restore(saved).ok()?;
    let (remote, fence) = talk.left()?;
    let token_env = remote.auth.token_env().map(str::to_owned);
    let token_file = remote.auth.token_file().map(str::to_owned);
    Some(Left { args: arguments(remote), token_env, token_file, fence, first: talk.attach()? })
}

/// The lines that events are which a service sent by itself, in a saved conversation with one.
pub(crate) fn called_back(saved: &[u8], given: &Value) -> Result<Vec<Vec<u8>>, Fault> {
    match Remotely::restore(saved).ok().filter(Remotely::is_called_back) {
        Some(talk) => callback::lines(talk.run(), given),
        None => Err(callback::not_supported()),
    }
}

/// What the courier is told on its command line, where everyone can read it: no secret.
fn arguments(remote: &Remote) -> Vec<String> {
    let mut args = launch::words(&[COURIER, "--protocol", remote.protocol.word()]);
    match &remote.auth {
        RemoteAuth::None => {}
        RemoteAuth::Bearer { token_env, .. } => {
            args.extend(launch::words(&["--token-env", token_env]))
        }
        RemoteAuth::Mtls { cert_path, key_path } => {
            args.extend(launch::words(&["--cert", cert_path, "--key", key_path]));
        }
    }
    args.extend(launch::given("--ca", remote.ca_path.as_deref()));
    if remote.allow_insecure {
        args.push("--allow-insecure".to_owned());
    }
    args.extend(launch::words(&["--", &remote.base_url]));
    args
}

/// The body with which a session is asked for. What is not known is null, so that a remote finds every
/// name.
fn session_body(spec: &Spec) -> Value {
    let known = |name: &str| launch::placeholder(spec, name);
    let number = |name: &str| known(name).and_then(|text| text.parse::<u64>().ok());
    let tree = |name: &str| known(name).and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let remote = spec.adapter.remote.as_ref();
    let protocol = remote.map(|remote| remote.protocol);
    // What it cannot reach it is not offered: its tools come by the stream as well.
    let found = |url: &str| remote.is_none_or(|remote| address::is_within_reach(remote, url));
    let snapshot = tree("workspace").filter(|it| it["url"].as_str().is_some_and(found));
    let mut body = json!({
        "runId": known("runId"),
        "taskId": known("taskId"),
        "agentId": known("agentId"),
        "leaseToken": known("leaseToken"),
        "fencingToken": number("fencingToken"),
        "leaseExpiresAt": known("leaseExpiresAt"),
        "mcpUrl": launch::mcp_url(spec).filter(|url| found(url)),
        "budgetEnvelope": tree("budgetEnvelope"),
        "workspace": snapshot,
        "task": {
            "title": known("task.title"),
            "body": known("task.body"),
            "context": tree("context"),
        },
        "prompt": spec.prompt,
        "systemPrompt": spec.system_prompt,
        "model": spec.model,
        "sessionResume": spec.session,
        "protocol": protocol.map(RemoteProtocol::word),
    });
    if protocol == Some(RemoteProtocol::WebhookV1) {
        body["callbackUrl"] = json!(known("callbackUrl").filter(|url| found(url)));
    }
    body
}

/// The policies of the http lane: all of them, because what the remote does by itself is not seen.
fn policies() -> Vec<PolicyRow> {
    let rows = crate::process::policies().into_iter();
    rows.map(|row| PolicyRow {
        lane: Lane::Http,
        note: Some(match row.policy {
            Policy::Deny | Policy::Ask | Policy::AllowReads => {
                "governs the relayed tools only; what the remote does by itself is not seen"
                    .to_owned()
            }
            Policy::AllowAll => {
                "dangerous: every relayed tool may be used without asking; what the remote does by \
                 itself is not seen"
                    .to_owned()
            }
        }),
        ..row
    })
    .collect()
}
