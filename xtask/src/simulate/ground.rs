//! What a simulation stands on: a store, and a way to wait for its answers. The model answers at
//! once; SQLite answers from its own threads, on the same verbs.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use store::Store;
use store::backend::Backend;
use store::model::{Flaw, Model};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub trait Ground {
    type Store: Backend;

    fn store(&self) -> &Self::Store;
    fn wait<T>(&self, answer: impl Future<Output = T>) -> T;
}

/// A store in memory for one simulation.
pub struct InMemory(Model);

impl InMemory {
    pub fn new(flaw: Option<Flaw>) -> Self {
        Self(Model::flawed(flaw))
    }
}

impl Ground for InMemory {
    type Store = Model;

    fn store(&self) -> &Model {
        &self.0
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(answer).poll(&mut context) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("the model answers at once"),
        }
    }
}

/// A store on disk for one simulation.
pub struct OnDisk {
    pub dir: TempDir,
    store: Store,
    runtime: Runtime,
}

impl OnDisk {
    pub fn new() -> Result<Self, String> {
        // In memory where the system has such a place: what survives a power cut is asked elsewhere.
        let shm = std::path::Path::new("/dev/shm");
        let dir = if shm.is_dir() { TempDir::new_in(shm) } else { TempDir::new() };
        let dir = dir.map_err(|error| format!("making a directory for the store: {error}"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("starting a runtime: {error}"))?;
        let opened = runtime.block_on(async { Store::open(dir.path()) });
        let store = opened.map_err(|error| format!("opening the store: {error}"))?;
        Ok(Self { dir, store, runtime })
    }
}

impl Ground for OnDisk {
    type Store = Store;

    fn store(&self) -> &Store {
        &self.store
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }
}
