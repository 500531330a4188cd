//! What is remembered between two lines, as data with a version: the document so far, which is
//! bounded because it is stored with every batch. State that another version wrote is refused.

use crate::saved;
use contract::Fault;
use serde::{Deserialize, Serialize};

/// The version of the saved form.
const VERSION: u32 = 1;

/// A longer document is not gathered: its lines are kept as logs, and the run has no result.
pub(super) const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// The conversation that was to be taken up again.
    pub resumes: Option<String>,
    /// Where the run is meant to work.
    pub workspace: Option<String>,
    /// The workspace of its own that it was given for this run.
    #[serde(default)]
    pub owned: Option<String>,
    pub ended: bool,
    /// The lines of the document so far, each with its newline.
    pub document: String,
}

impl State {
    pub(super) fn new(
        resumes: Option<String>,
        workspace: Option<String>,
        owned: Option<String>,
    ) -> Self {
        let (version, ended, document) = (VERSION, false, String::new());
        Self { version, resumes, workspace, owned, ended, document }
    }

    pub(super) fn load(bytes: &[u8]) -> Result<Self, Fault> {
        saved::load(bytes, VERSION)
    }

    pub(super) fn save(&self) -> Vec<u8> {
        saved::save(self)
    }
}
