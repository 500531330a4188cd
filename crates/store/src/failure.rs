//! Fail-stop. When the system could not say that bytes reached the disk, nobody can know what is on
//! it: the pages may be marked clean and gone, and asking again would be answered with a lie. So the
//! first such answer is the store's last: every verb and every read gives it from then on, and only
//! a new process that reads the files afresh may go on.

use crate::error::Error;
use std::sync::{Arc, OnceLock};

/// Shared by all that write and read one store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure {
    first: Arc<OnceLock<Error>>,
}

impl Failure {
    /// Takes note of an error, if it is of the kind after which nothing may go on.
    pub fn note(&self, error: &Error) {
        if let Error::Unsynced { .. } = error {
            // The first one stays: those after it follow from it.
            let _ = self.first.set(error.clone());
        }
    }

    pub fn get(&self) -> Option<Error> {
        self.first.get().cloned()
    }

    pub fn check(&self) -> Result<(), Error> {
        match self.get() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Why a store that no longer answers does not.
    pub fn or_closed(&self) -> Error {
        self.get().unwrap_or(Error::Closed)
    }
}
