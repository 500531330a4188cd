//! What a task must pass before its start is tried. Each gate looks at one thing and says, if it says
//! no, for what the task waits, until when, and why in words for people. The gates stand in the order
//! in which a person would want to hear of them; the first that holds is told. Slots of an adapter are
//! no gate: the claim asks for those in the statement that takes the task.

use crate::Host;
use crate::blocking;
use contract::{Billing, Fault, TaskId};
use engine::rules::hold::Hold;
use std::path::PathBuf;

/// A task that could be started, with what its agent stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub task: TaskId,
    pub agent: String,
    pub adapter: String,
    pub runtime: String,
    pub provider: Option<String>,
    pub account: Option<String>,
    /// How the account is paid for, as the configuration says.
    pub billing: Option<Billing>,
    pub cwd: PathBuf,
}

/// What keeps a task from being started now, if anything does.
pub(crate) async fn hold(host: &Host, candidate: &Candidate) -> Result<Option<Hold>, Fault> {
    if let Some(hold) = place(host, candidate).await? {
        return Ok(Some(hold));
    }
    if let Some(hold) = super::agents::hold(host, candidate).await? {
        return Ok(Some(hold));
    }
    if let Some(hold) = super::locks::hold(host, candidate).await? {
        return Ok(Some(hold));
    }
    super::limits::hold(host, candidate).await
}

/// A directory that is not there now may be there again: a disk that is not mounted, a checkout that
/// is being made. A person is told, and it is looked at again by itself.
async fn place(_: &Host, candidate: &Candidate) -> Result<Option<Hold>, Fault> {
    let cwd = candidate.cwd.clone();
    let looked = blocking::probe(&candidate.cwd, "find the directory", move || cwd.is_dir()).await;
    let note = match looked {
        Ok(true) => return Ok(None),
        Ok(false) => format!("{} is not a directory", candidate.cwd.display()),
        Err(fault) => fault.message,
    };
    Ok(Some(Hold { why: contract::state::WaitingFor::Workspace, until: None, note, of: None }))
}
