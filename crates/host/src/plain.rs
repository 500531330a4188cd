//! What a host is made of in the tests of this crate: a store and a data directory below a directory of
//! the test's own, and nothing else. A test says what is to be different.

use crate::data::DataDir;
use crate::{Activity, Setup};
use contract::{Code, Fault};
use std::path::Path;
use store::Store;

/// A host that knows no agents and serves nobody.
pub fn setup(dir: &Path) -> Setup {
    with(dir, Store::open(&dir.join("store")).unwrap())
}

/// The same over a store that is open already.
pub fn with(dir: &Path, store: Store) -> Setup {
    Setup {
        role: crate::HostRole::Command,
        lease_ms: contract::limits::LEASE_MS,
        isolation: Default::default(),
        activity: Activity::Full,
        data: DataDir::open(&dir.join("data"), None, dir).unwrap(),
        store,
        program: "ostler".into(),
        token: "the token of the house".to_owned(),
        budgets: Vec::new(),
        prices: Default::default(),
        organization: String::new(),
        environment: Default::default(),
        resolve: Box::new(|name| Err(Fault::new(Code::UnknownAgent, name))),
        book: Box::new(()),
        notify: Vec::new(),
        retention: Default::default(),
        tries_max: None,
    }
}
