//! The tests that a mutation is held against: the narrowest first, wider ones only when those stay
//! green. A trial is a package, a filter of `cargo nextest` and an environment.

use super::rows;
use super::site::{Kind, Mutation};

#[derive(Debug, PartialEq, Eq)]
pub struct Trial {
    pub name: &'static str,
    pub package: &'static str,
    pub filter: &'static str,
    pub env: &'static [(&'static str, &'static str)],
}

impl Trial {
    /// Whether a test, by the name that the runner gives it, is one of its package.
    pub fn runs(&self, test: &str) -> bool {
        test.split([':', ' ']).next() == Some(self.package)
    }
}

/// The store without what takes long and looks at syncs and secrets.
pub const STORE: Trial = Trial {
    name: "store",
    package: "store",
    filter: "not test(powercut::) and not test(corpus) and not test(/^seal::/)",
    env: &[],
};
/// Enough images to meet a sync that is missing.
pub const POWERCUT: Trial = Trial {
    name: "power cut",
    package: "store",
    filter: "test(powercut::a_power_cut) or test(powercut::folders) or test(/^disk::/) or test(/^blobs::/) or test(/^trace::/)",
    env: &[("POWERCUT_IMAGES", "400")],
};
pub const SEAL: Trial = Trial {
    name: "seal",
    package: "store",
    filter: "test(/^seal::/) or test(corpus) or test(canary)",
    env: &[],
};
pub const ENGINE: Trial = Trial { name: "engine", package: "engine", filter: "all()", env: &[] };
pub const KEEPER: Trial = Trial { name: "keeper", package: "keeper", filter: "all()", env: &[] };
pub const HOST: Trial = Trial { name: "host", package: "host", filter: "all()", env: &[] };
pub const SERVER: Trial = Trial { name: "server", package: "server", filter: "all()", env: &[] };
pub const DEATHS: Trial = Trial {
    name: "end to end: deaths and stops",
    package: "cli",
    filter: "kind(test) and (test(/^deaths::/) or test(/^adopted::/) or test(/^stop::/) or test(/^escape::/) or test(/^moment::/) or test(/^lost::a_run_that_cannot/))",
    env: &[],
};
pub const SECRETS: Trial = Trial {
    name: "end to end: secrets",
    package: "cli",
    filter: "kind(test) and (test(/^secrets::/) or test(/^trace::/) or test(/secret/))",
    env: &[],
};
pub const TOKENS: Trial = Trial {
    name: "end to end: tokens",
    package: "cli",
    filter: "kind(test) and test(/^security::tokens::/)",
    env: &[],
};
pub const WATCHERS: Trial = Trial {
    name: "end to end: watchers",
    package: "cli",
    filter: "kind(test) and (test(/^watchers::/) or test(/^security::wire::more_watchers/))",
    env: &[],
};
pub const SPARE: Trial = Trial {
    name: "end to end: spare keepers",
    package: "cli",
    filter: "kind(test) and (test(/^spare::/) or test(/^manners::pids::/))",
    env: &[],
};
pub const SECURITY: Trial = Trial {
    name: "end to end: security",
    package: "cli",
    filter: "kind(test) and (test(/^security::/) or test(/^mcp::/) or test(/^bad_input::/) \
             or test(/^hook::a_service_whose/) or test(/^api::a_request_under/)) \
             and not (test(/^security::escapes/) or test(/a_crowd_that/) or test(/official_sdk/) \
             or test(/a_lock_whose_holder/))",
    env: &[],
};
/// What takes a minute.
pub const CROWD: Trial = Trial {
    name: "end to end: a crowd",
    package: "cli",
    filter: "kind(test) and test(/^security::wire::a_crowd_that/)",
    env: &[],
};

/// Who may come to `ostler remote`.
pub const REMOTE: Trial = Trial {
    name: "end to end: the remote",
    package: "cli",
    filter: "kind(test) and (test(/^security::remote::/) or test(/^remote_server/))",
    env: &[],
};
/// Where one may be sent to.
pub const REACH: Trial =
    Trial { name: "contract", package: "contract", filter: "test(/^reach::/)", env: &[] };
pub const COURIER: Trial =
    Trial { name: "courier", package: "remote", filter: "test(/^courier::/)", env: &[] };
pub const REMOTES: Trial = Trial {
    name: "end to end: remotes",
    package: "cli",
    filter: "kind(test) and test(/^remote::/)",
    env: &[],
};
/// Repositories, worktrees and skills.
pub const TREES: Trial = Trial {
    name: "host: trees",
    package: "host",
    filter: "test(/^git::/) or test(/^trees::/) or test(/^skills::/) or test(/^snapshot::/)",
    env: &[],
};
pub const HOSTILE: Trial = Trial {
    name: "end to end: repositories",
    package: "cli",
    filter: "kind(test) and (test(/^hostile::/) or test(/^git::/) or test(/^trees::/) or test(/^skills::/))",
    env: &[],
};
/// Tokens that are given and taken away.
pub const PRINCIPALS: Trial = Trial {
    name: "end to end: who did what",
    package: "cli",
    filter: "kind(test) and (test(/^principals::/) or test(/^security::scopes::/))",
    env: &[],
};

/// Tasks in their order, and who waits for whom.
pub const QUEUE: Trial = Trial {
    name: "end to end: the queue",
    package: "cli",
    filter: "kind(test) and (test(/^queue::/) or test(/^tasks::/) or test(/^pool::/))",
    env: &[],
};

pub const OF_REMOTE: &[&Trial] = &[&SERVER, &REMOTE];
pub const OF_TREES: &[&Trial] = &[&TREES, &HOSTILE];

/// Files whose checks are other tests' business than their kind's: the beginning of a path.
const BY_PATH: &[(&str, &[&Trial])] = &[
    ("crates/server/src/remote/", OF_REMOTE),
    ("crates/remote/", &[&COURIER, &REMOTES]),
    ("crates/host/src/git", OF_TREES),
    ("crates/host/src/trees", OF_TREES),
    ("crates/host/src/skills", OF_TREES),
    ("crates/host/src/ops/token.rs", &[&HOST, &PRINCIPALS]),
];

/// The same for conditions of statements and comparisons of a fence.
const FENCES: &[(&str, &[&Trial])] = &[
    ("crates/store/src/sqlite/access.rs", &[&STORE, &PRINCIPALS]),
    ("crates/store/src/sqlite/queue.rs", &[&STORE, &QUEUE]),
    ("crates/store/", &[&STORE, &DEATHS]),
    // What a token of a run may do when another holds it.
    ("crates/host/src/ops/session/", &[&HOST, &REMOTE]),
    ("crates/host/src/ops/", &[&HOST, &TOKENS]),
    ("crates/host/src/elsewhere.rs", &[&HOST, &REMOTES]),
    ("crates/host/", &[&HOST, &DEATHS]),
    ("crates/remote/", &[&COURIER, &REMOTES]),
];

/// Which trials a mutation has to pass, in their order; `narrow` for the first alone.
pub fn of(mutation: &Mutation, narrow: bool) -> &'static [&'static Trial] {
    let trials = all(mutation);
    if narrow { &trials[..1] } else { trials }
}

fn all(mutation: &Mutation) -> &'static [&'static Trial] {
    if let Some(trials) = rows::trials(&mutation.name) {
        return trials;
    }
    let own = match mutation.kind {
        Kind::Auth | Kind::Path => BY_PATH,
        Kind::Fence => FENCES,
        Kind::Sync | Kind::Seal | Kind::Rule => &[],
    };
    if let Some((_, trials)) = own.iter().find(|(path, _)| mutation.path.starts_with(path)) {
        return trials;
    }
    let in_store = mutation.path.starts_with("crates/store/");
    match mutation.kind {
        Kind::Fence => &[&SERVER, &DEATHS],
        Kind::Sync if in_store => &[&POWERCUT, &STORE],
        Kind::Sync => &[&HOST],
        Kind::Seal if in_store => &[&SEAL, &SECRETS],
        // Whether words are sealed on their way shows where the whole product is.
        Kind::Seal => &[&SECRETS, &HOST],
        Kind::Auth if mutation.path.starts_with("crates/host/") => &[&HOST, &SECURITY],
        Kind::Auth => &[&SERVER, &SECURITY, &CROWD],
        Kind::Path => &[&HOST, &SECURITY],
        Kind::Rule => &[&STORE],
    }
}
