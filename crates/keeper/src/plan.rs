//! What a keeper needs to know to hold one attempt.
//!
//! The plan travels over the control socket only: it holds the values of secrets, so it never
//! stands in an argument, an environment or a file. Its `Debug` shows no value of the environment,
//! no secret and no frame.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One attempt, complete: nothing is inherited and nothing is looked up.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the control protocol and of the spool; see [`crate::wire::VERSION`].
    pub version: u32,
    pub run_id: String,
    pub attempt: u32,
    /// The fence under which the attempt starts. Owners with a lower one are refused.
    pub fence: u64,
    /// What a later owner must show in its hello; hexadecimal.
    pub hello_secret: String,
    /// Absolute. Made by [`crate::door::prepare_spool`] before the plan is sent.
    pub spool_dir: PathBuf,
    /// Looked up in the `PATH` of `env`, unless it holds a slash.
    pub program: String,
    pub args: Vec<String>,
    pub cwd: PathBuf,
    /// The agent's whole environment.
    pub env: Vec<(String, String)>,
    /// Values the seal must know. Kept in memory and handed to the next owner.
    pub secrets: Vec<(String, String)>,
    /// What only the owner understands, kept in memory like the secrets and handed on with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub luggage: Option<String>,
    pub stdin: StdinMode,
    /// Written to stdin before anything else, as frame 0.
    #[serde(with = "frame", default)]
    pub first_frame: Option<Vec<u8>>,
    /// Absolute end of the lease on `clock`; `u64::MAX` never comes.
    pub deadline_ms: u64,
    pub clock: LeaseClock,
    /// How to say goodbye; an empty frame means that closing stdin is the goodbye.
    #[serde(with = "frame", default)]
    pub farewell: Option<Vec<u8>>,
    /// Graces of a stop that nobody timed: the output limit, or a signal to the keeper.
    pub farewell_ms: u64,
    pub term_ms: u64,
    /// Graces of the stop at the end of a lease that nobody renews. It begins early enough to be over at
    /// the deadline, and not before the last part of the lease
    /// ([`crate::limits::LEASE_STOP_PERCENT`]): the graces of a short lease are shorter.
    #[serde(default)]
    pub lease_farewell_ms: u64,
    #[serde(default)]
    pub lease_term_ms: u64,
    /// How long after the deadline that stop may end: 0 for an agent. The courier of a remote may need
    /// it to end its session, and passes on nothing meanwhile.
    #[serde(default)]
    pub lease_overrun_ms: u64,
    pub drain_ms: u64,
    /// Bytes of stdout and stderr together after which the agent is stopped.
    pub output_bytes_max: u64,
    pub segment_bytes: u64,
    /// A variable, also in `env`, by which leftovers of a dead keeper are found.
    pub mark: (String, String),
    /// How strongly the family is to be held.
    #[serde(default)]
    pub level: Level,
}

/// What is asked of the containment. A level asked for by name is given or the agent is not
/// started; see [`crate::record::Isolation`] for what each of them holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The strongest that changes nothing else for the agent.
    #[default]
    Auto,
    Basic,
    Cgroup,
    Strict,
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Basic => "basic",
            Self::Cgroup => "cgroup",
            Self::Strict => "strict",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "basic" => Some(Self::Basic),
            "cgroup" => Some(Self::Cgroup),
            "strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// What the agent finds at its stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinMode {
    /// A pipe that frames are said into.
    Open,
    /// A pipe that is closed behind the first frame.
    Once,
    /// The null device.
    Null,
}

/// The clock a lease is counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseClock {
    /// Stands still while the machine sleeps: for a store on the same machine.
    Monotonic,
    /// Goes on while the machine sleeps: for a store that others share.
    Boottime,
}

impl LeaseClock {
    /// The clock's present reading, for whoever computes a deadline.
    pub fn now_ms(self) -> u64 {
        use rustix::time::{ClockId, clock_gettime};
        let now = clock_gettime(match self {
            Self::Monotonic => ClockId::Monotonic,
            Self::Boottime => ClockId::Boottime,
        });
        now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| {
            pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        f.debug_struct("Plan")
            .field("version", &self.version)
            .field("run_id", &self.run_id)
            .field("attempt", &self.attempt)
            .field("fence", &self.fence)
            .field("spool_dir", &self.spool_dir)
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("cwd", &self.cwd)
            .field("env", &names(&self.env))
            .field("secrets", &names(&self.secrets))
            .field("stdin", &self.stdin)
            .field("first_frame_bytes", &self.first_frame.as_ref().map(Vec::len))
            .field("deadline_ms", &self.deadline_ms)
            .field("clock", &self.clock)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

/// Frames are nearly always text. As a JSON string they cost their own length; only other bytes
/// are spelled out as numbers.
mod frame {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Frame {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub fn serialize<S: Serializer>(
        frame: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match frame.as_deref().map(|bytes| (std::str::from_utf8(bytes), bytes)) {
            None => serializer.serialize_none(),
            Some((Ok(text), _)) => text.serialize(serializer),
            Some((Err(_), bytes)) => bytes.serialize(serializer),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Frame>::deserialize(deserializer)?.map(|frame| match frame {
            Frame::Text(text) => text.into_bytes(),
            Frame::Bytes(bytes) => bytes,
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn plan() -> Plan {
        Plan {
            version: crate::wire::VERSION,
            run_id: "run-1".into(),
            attempt: 1,
            fence: 7,
            hello_secret: "5ec2e7".into(),
            spool_dir: "/nowhere".into(),
            program: "cat".into(),
            args: vec!["--token=hunter2".into()],
            cwd: "/".into(),
            env: vec![("API_KEY".into(), "hunter2".into())],
            secrets: vec![("API_KEY".into(), "hunter2".into())],
            luggage: Some("hunter2".into()),
            stdin: StdinMode::Open,
            first_frame: Some(b"hunter2\n".to_vec()),
            deadline_ms: u64::MAX,
            clock: LeaseClock::Monotonic,
            farewell: Some(vec![0xff, 0x00]),
            farewell_ms: 5_000,
            term_ms: 15_000,
            lease_farewell_ms: 0,
            lease_term_ms: 0,
            lease_overrun_ms: 0,
            drain_ms: crate::limits::DRAIN_MS,
            output_bytes_max: 512 << 20,
            segment_bytes: crate::limits::SEGMENT_BYTES,
            mark: ("OSTLER_MARK".into(), "run-1/1".into()),
            level: Level::Auto,
        }
    }

    #[test]
    fn a_plan_survives_json_with_text_and_with_other_bytes() {
        let json = serde_json::to_vec(&plan()).unwrap();
        assert_eq!(serde_json::from_slice::<Plan>(&json).unwrap(), plan());
    }

    #[test]
    fn debug_names_secrets_and_shows_none() {
        let shown = format!("{:?}", plan());
        assert!(shown.contains("API_KEY"));
        assert!(!shown.contains("hunter2") && !shown.contains("5ec2e7"), "{shown}");
    }
}
