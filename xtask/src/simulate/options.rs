//! What a seed expands to: how many nodes and tasks, how they share the store, how long a lease is,
//! and which faults are on. Everything else a simulation does follows from the seed too; these are
//! the parts that can be taken away to make a failing script smaller.

use crate::fuzz::mutate::Chance;
use std::fmt;

/// How the nodes come to one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// One data directory: whoever has its lock is the host, and takes over what the last one left
    /// under the same fence.
    OneHost,
    /// One store over a network: every node claims, and takes over by reaping alone.
    SharedStore,
}

/// What may go wrong while faults are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A node stands still, sometimes past its lease.
    Pause,
    /// Everything stands still while the lease clock goes on.
    Freeze,
    /// A node dies and comes back without its memory.
    Crash,
    /// The store did it and the answer is lost.
    LostAnswer,
    /// The caller is told that nobody knows, and the store does it later.
    LateRequest,
    /// The store refuses to write for a while.
    Trouble,
    /// The wall clock is set, by a second or by ten years.
    WallJump,
    /// The wall clock runs at double or half its rate.
    WallRate,
    /// The nodes' wall clocks disagree.
    Skew,
    KeeperDeath,
    AgentDeath,
    /// A host makes room for the next.
    HandOver,
    /// A wish is sent again.
    RepeatedWish,
    /// What a node reads is as it was a while ago.
    StaleRead,
}

impl Fault {
    pub const ALL: &'static [(Self, &'static str)] = &[
        (Self::Pause, "pause"),
        (Self::Freeze, "freeze"),
        (Self::Crash, "crash"),
        (Self::LostAnswer, "lost-answer"),
        (Self::LateRequest, "late-request"),
        (Self::Trouble, "trouble"),
        (Self::WallJump, "wall-jump"),
        (Self::WallRate, "wall-rate"),
        (Self::Skew, "skew"),
        (Self::KeeperDeath, "keeper-death"),
        (Self::AgentDeath, "agent-death"),
        (Self::HandOver, "hand-over"),
        (Self::RepeatedWish, "repeated-wish"),
        (Self::StaleRead, "stale-read"),
    ];

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(fault, _)| *fault)
    }
}

/// One simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub seed: u64,
    pub nodes: usize,
    pub tasks: usize,
    pub sharing: Sharing,
    pub lease_ms: u64,
    /// Steps with faults; then come as many as it takes without.
    pub steps: u64,
    /// One step in so many is a fault.
    pub rarity: usize,
    pub faults: Vec<Fault>,
}

/// Nodes of one simulation.
pub const NODES_MIN: usize = 2;
pub const NODES_MAX: usize = 8;
const TASKS_MAX: usize = 3;
const STEPS_MIN: usize = 40;
const STEPS_MAX: usize = 240;
const RARITIES: [usize; 4] = [8, 20, 40, 80];
const LEASES_MS: [u64; 4] = [2_000, 5_000, 20_000, 60_000];

impl Options {
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::of(seed, "options", 0);
        let sharing = match chance.one_in(2) {
            true => Sharing::OneHost,
            false => Sharing::SharedStore,
        };
        // Few faults at a time find what many together hide.
        let often = 1 + chance.below(4);
        let faults = Fault::ALL.iter().map(|(fault, _)| *fault);
        Self {
            seed,
            nodes: NODES_MIN + chance.below(NODES_MAX - NODES_MIN + 1),
            tasks: 1 + chance.below(TASKS_MAX),
            sharing,
            lease_ms: *chance.pick(&LEASES_MS).unwrap_or(&LEASES_MS[0]),
            rarity: *chance.pick(&RARITIES).unwrap_or(&RARITIES[0]),
            steps: (STEPS_MIN + chance.below(STEPS_MAX - STEPS_MIN)) as u64,
            faults: faults.filter(|_| chance.one_in(often)).collect(),
        }
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// These, with a little less of something each: what is tried when one has failed.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        for fault in &self.faults {
            let faults = self.faults.iter().copied().filter(|other| other != fault).collect();
            smaller.push(Self { faults, ..self.clone() });
        }
        if self.nodes > NODES_MIN {
            smaller.push(Self { nodes: NODES_MIN, ..self.clone() });
            smaller.push(Self { nodes: self.nodes - 1, ..self.clone() });
        }
        if self.tasks > 1 {
            smaller.push(Self { tasks: 1, ..self.clone() });
        }
        if self.steps > 1 {
            smaller.push(Self { steps: self.steps / 2, ..self.clone() });
            smaller.push(Self { steps: self.steps - self.steps.div_ceil(8), ..self.clone() });
        }
        smaller
    }

    /// The words that give these options again, behind the flag that takes a seed.
    pub fn words(&self) -> String {
        let without: Vec<&str> = Fault::ALL
            .iter()
            .filter(|(fault, _)| !self.has(*fault))
            .map(|(_, word)| *word)
            .collect();
        let without = match without.is_empty() {
            true => String::new(),
            false => format!(" --without {}", without.join(",")),
        };
        format!(
            "{} --nodes {} --tasks {} --steps {}{without}",
            self.seed, self.nodes, self.tasks, self.steps
        )
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = Fault::ALL
            .iter()
            .filter(|(fault, _)| self.has(*fault))
            .map(|(_, word)| *word)
            .collect();
        write!(
            f,
            "seed {}: {:?}, {} nodes, {} tasks, lease {} ms, {} steps, one in {} a fault: {}",
            self.seed,
            self.sharing,
            self.nodes,
            self.tasks,
            self.lease_ms,
            self.steps,
            self.rarity,
            if words.is_empty() { "none".to_owned() } else { words.join(", ") }
        )
    }
}
