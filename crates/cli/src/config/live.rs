//! The configuration that is in force in a host process. `ostler serve` replaces it when the file changes
//! (`reload.rs`); whoever reads it takes one state of it and keeps that, so that a change never falls
//! into the middle of a start.

use super::Book;
use super::resolve::Config;
use contract::Fault;
use host::ops::agents::{DoctorSubject, Known, KnownAdapter, Read};
use host::ops::run::Named;
use serde_json::Value;
use std::sync::{Arc, PoisonError, RwLock};

/// A handle to it; every copy sees the same configuration.
#[derive(Clone)]
pub struct Live(Arc<RwLock<Arc<Config>>>);

impl Live {
    pub fn new(config: Config) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    /// The configuration as it is now.
    pub fn now(&self) -> Arc<Config> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another one in force.
    pub fn set(&self, config: Config) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    fn book(&self) -> Book<Arc<Config>> {
        Book(self.now())
    }
}

impl host::ops::agents::Book for Live {
    fn own(&self) -> Vec<Known> {
        self.book().own()
    }

    fn has(&self, name: &str) -> bool {
        self.book().has(name)
    }

    fn read(&self, name: &str, spec: &Value) -> Result<Read, Fault> {
        self.book().read(name, spec)
    }

    fn named(&self, name: &str, spec: &Value) -> Result<Named, Fault> {
        self.book().named(name, spec)
    }

    fn adapters(&self) -> Vec<KnownAdapter> {
        self.book().adapters()
    }

    fn patient(&self, subject: DoctorSubject<'_>) -> Result<host::diagnose::Patient, Fault> {
        self.book().patient(subject)
    }
}
