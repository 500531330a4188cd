//! Whom the kernel takes first when memory runs out: the agent and its family, and not whoever holds
//! them. A child is born with its parent's score, so the keeper has the agent's for the moment in which
//! it makes the agent. The file is opened by a keeper that still waits: to find it takes
//! time, and one that hides its memory may not open it any more unless it is root's.

use crate::limits::AGENT_OOM_SCORE_ADJ;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;

const FILE: &std::ffi::CStr = c"/proc/self/oom_score_adj";

/// The keeper's own score, where the agent's is a higher one.
pub struct Score {
    file: OwnedFd,
    own: String,
}

impl Score {
    /// `None` where the kernel cannot be told, or was told as much already: then things stay as they are.
    pub fn open() -> Option<Self> {
        let file = rustix::fs::open(FILE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = [0; 8];
        let length = rustix::io::read(&file, &mut text).ok()?;
        let own: i32 = str::from_utf8(&text[..length]).ok()?.trim().parse().ok()?;
        (own < AGENT_OOM_SCORE_ADJ).then(|| Self { file, own: own.to_string() })
    }

    fn set(&self, score: &str) {
        // Where the kernel refuses, the score stays as it was, and only who is ended first changes.
        let _ = rustix::io::pwrite(&self.file, score.as_bytes(), 0);
    }
}

/// Whoever is started by this has the agent's score.
pub fn offer_first<T>(score: Option<&Score>, start: impl FnOnce() -> T) -> T {
    if let Some(score) = score {
        score.set(&AGENT_OOM_SCORE_ADJ.to_string());
    }
    let started = start();
    if let Some(score) = score {
        score.set(&score.own);
    }
    started
}
