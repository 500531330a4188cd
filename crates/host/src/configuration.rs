//! How the configuration of a host stands: which file is in force and since when, why a newer one was
//! refused, and which changed keys count only after a restart. The file itself is read by the binary;
//! here is what people are told of it (`GET /api/v1/host`, `ostler status`).

use crate::ops::limits::look_again;
use crate::{Host, clock};
use contract::state::WaitingFor;
use contract::{Code, Fault, Timestamp};
use engine::rules::price::PriceTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::PoisonError;

/// The configuration that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigurationState {
    /// The file; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub loaded_at: Timestamp,
    /// Why the file as it is now was not taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedConfiguration>,
    /// Keys that were changed since this host started, and that count only after a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_for: Vec<String>,
}

/// A file that was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedConfiguration {
    pub code: Code,
    pub message: String,
    pub at: Timestamp,
}

impl ConfigurationState {
    /// The file that was loaded now.
    pub fn loaded(path: Option<&Path>, restart_for: Vec<String>) -> Self {
        let path = path.map(|path| path.display().to_string());
        Self { path, loaded_at: clock::now().wall, refused: None, restart_for }
    }

    /// The same, with a newer state of its file that was refused.
    pub fn refusing(self, fault: Fault, at: Timestamp) -> Self {
        let refused = RefusedConfiguration { code: fault.code, message: fault.message, at };
        Self { refused: Some(refused), ..self }
    }
}

impl Host {
    /// How the configuration stands.
    pub fn configuration(&self) -> ConfigurationState {
        let state = self.inner.configuration.lock().unwrap_or_else(PoisonError::into_inner);
        state.clone()
    }

    pub fn set_configuration(&self, state: ConfigurationState) {
        *self.inner.configuration.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// From now on these are the person's own prices.
    pub fn set_prices(&self, prices: PriceTable) {
        self.inner.prices.set_own(prices);
    }

    /// Adapters and agents may be others than before: tasks that wait for one are looked at again.
    pub async fn configuration_changed(&self) -> Result<(), Fault> {
        look_again(self, WaitingFor::Agent).await?;
        self.inner.stirred.notify_one();
        Ok(())
    }
}
