//! Where prices come from: the person's own table, a file they imported, and the table inside the
//! crate `genai-prices`. The last takes a tenth of a second to decode and megabytes to hold, so it is
//! loaded on a thread of its own when the first usage needs it: a driver waits for it before it
//! prices such a usage, and nobody else waits. Which price counts is decided by
//! `engine::rules::price`; how a file is read is in `prices/import.rs`.

mod built_in;
mod import;

pub use built_in::VERSION;
pub use import::read;

use crate::blocking::{self, Bulkhead};
use crate::data::replace_private;
use crate::supervise;
use built_in::Catalogue;
use contract::event::Usage;
use contract::money::CostSource;
use contract::{Code, Fault, Timestamp};
use engine::rules::price::{self, BuiltIn, Imported, Price, PriceTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

const FILE: &str = "prices.json";

/// All prices of one host.
pub struct Prices {
    user: RwLock<Arc<PriceTable>>,
    path: PathBuf,
    tables: watch::Sender<Tables>,
}

/// What has to be loaded.
enum Tables {
    NotAskedFor,
    Loading,
    Loaded { built_in: Option<Catalogue>, imported: Result<Option<Arc<Imported>>, String> },
}

/// One line of the list of prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Price")]
pub struct Listed {
    /// `provider/model`.
    pub model: String,
    /// Nano-dollars for a million tokens.
    #[serde(flatten)]
    pub price: Price,
    pub source: CostSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Whether a `costModel` has a price in the built-in table or in the one that was imported into this
/// data directory (if one is given), by its own name or as a family of models. Decodes the tables, which takes a moment.
pub fn has_cost_model(model: &str, data: Option<&Path>) -> bool {
    // Without a table nothing can be said against a name.
    let Some(built_in) = Catalogue::load() else { return true };
    // A file that cannot be read is told of by `ostler prices list`.
    let imported = data.and_then(|data| kept(&data.join(FILE)).ok().flatten());
    let mut usage = Usage {
        tokens: Some(contract::Tokens { input_uncached: 1_000, ..Default::default() }),
        ..Usage::default()
    };
    let (user, at) = (PriceTable::default(), crate::clock::now().wall);
    let prices = price::Prices {
        user: &user,
        imported: imported.as_deref(),
        built_in: Some(&built_in),
        cost_model: Some(model),
        at,
    };
    price::price(&mut usage, &prices);
    usage.effective_nanousd.is_some()
}

impl Prices {
    pub fn new(user: PriceTable, data: &Path) -> Self {
        let user = RwLock::new(Arc::new(user));
        Self { user, path: data.join(FILE), tables: watch::Sender::new(Tables::NotAskedFor) }
    }

    /// Puts other prices of the person in the place of those before.
    pub fn set_own(&self, user: PriceTable) {
        *self.user.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(user);
    }

    fn own(&self) -> Arc<PriceTable> {
        Arc::clone(&self.user.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to load, once; returns at once.
    fn warm(&self) {
        let first = self.tables.send_if_modified(|tables| match tables {
            Tables::NotAskedFor => {
                *tables = Tables::Loading;
                true
            }
            Tables::Loading | Tables::Loaded { .. } => false,
        });
        if !first {
            return;
        }
        let (sender, path) = (self.tables.clone(), self.path.clone());
        let load = move || {
            let imported = kept(&path);
            if let Err(error) = &imported {
                tracing::warn!(error, "imported prices cannot be read; built-in prices are used");
            }
            let loaded = Tables::Loaded { built_in: Catalogue::load(), imported };
            sender.send_replace(loaded);
            // More than half of what decoding took is free again, and lies between what is not.
            keeper::return_memory();
        };
        // Not of the runtime's blocking threads: those are waited for when a command ends.
        let started = supervise::thread("load prices", load);
        if let Err(error) = started {
            // A machine without a thread to spare runs its agents all the same, without prices.
            tracing::warn!(%error, "prices cannot be loaded: no thread can be started");
            self.tables.send_replace(Tables::Loaded { built_in: None, imported: kept(&self.path) });
        }
    }

    /// Waits until every table is there.
    pub async fn loaded(&self) {
        self.warm();
        let mut tables = self.tables.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = tables.wait_for(|tables| matches!(tables, Tables::Loaded { .. })).await;
    }

    /// Waits until this usage can be priced right, which most can at once.
    pub async fn ready_for(&self, usage: &Usage, cost_model: Option<&str>) {
        if !price::needs_no_table(usage, &self.own(), cost_model) {
            self.loaded().await;
        }
    }

    /// Prices a usage in place.
    pub fn price(&self, usage: &mut Usage, cost_model: Option<&str>, at: Timestamp) {
        let tables = self.tables.borrow();
        let (built_in, imported) = match &*tables {
            Tables::NotAskedFor | Tables::Loading => (None, None),
            Tables::Loaded { built_in, imported } => {
                (built_in.as_ref(), imported.as_ref().ok().and_then(Option::as_deref))
            }
        };
        let built_in = built_in.map(|built_in| built_in as &dyn BuiltIn);
        let user = self.own();
        price::price(usage, &price::Prices { user: &user, imported, built_in, cost_model, at });
    }

    /// The price that counts for each name, by name: so many behind `after`. `part` is in the name.
    pub async fn list(
        &self,
        part: &str,
        after: &str,
        limit: usize,
        at: Timestamp,
    ) -> Result<Vec<Listed>, Fault> {
        self.loaded().await;
        let (built_in, imported) = match &*self.tables.borrow() {
            Tables::Loaded { built_in, imported } => (*built_in, imported.clone()),
            Tables::NotAskedFor | Tables::Loading => (None, Ok(None)),
        };
        let imported = imported.map_err(|why| Fault::new(Code::InvalidConfig, why))?;
        let mut listed: Vec<Listed> = blocking::spawn(Bulkhead::Data, "read prices", move || {
            built_in.map(|built_in| built_in.all(at)).unwrap_or_default()
        })
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("listing prices: {error}")))?
        .into_iter()
        .map(|(model, price)| listed_of(model, price, CostSource::BuiltIn, Some(VERSION)))
        .collect();
        // Later ones take the place of earlier ones with the same name.
        if let Some(imported) = &imported {
            let version = Some(imported.version.as_str());
            let given = imported.prices.0.iter();
            listed.extend(given.map(|(model, price)| {
                listed_of(model.clone(), *price, CostSource::UserTable, version)
            }));
        }
        let own = self.own();
        let own = own.0.iter();
        listed.extend(
            own.map(|(model, price)| listed_of(model.clone(), *price, CostSource::UserTable, None)),
        );
        let part = part.to_lowercase();
        let by_name: BTreeMap<String, Listed> = listed
            .into_iter()
            .filter(|listed| listed.model.as_str() > after)
            .filter(|listed| listed.model.to_lowercase().contains(&part))
            .map(|listed| (listed.model.clone(), listed))
            .collect();
        Ok(by_name.into_values().take(limit).collect())
    }

    /// Takes a table in the place of the one imported before; it is durable when this returns.
    pub async fn import(&self, imported: Imported) -> Result<(), Fault> {
        self.loaded().await;
        let path = self.path.clone();
        let text = serde_json::to_string(&imported)
            .map_err(|error| Fault::new(Code::InternalError, format!("writing prices: {error}")))?;
        let write = move || replace_private(&path, &text).map_err(|error| (path, error));
        let failed = |(path, error): (PathBuf, std::io::Error)| {
            let code = match error.kind() {
                std::io::ErrorKind::StorageFull => Code::DiskFull,
                _ => Code::StoreUnreadable,
            };
            Fault::new(code, format!("{}: {error}", path.display()))
        };
        blocking::spawn(Bulkhead::Data, "write prices", write)
            .await
            .map_err(|error| Fault::new(Code::InternalError, format!("writing prices: {error}")))?
            .map_err(failed)?;
        self.tables.send_modify(|tables| {
            if let Tables::Loaded { imported: old, .. } = tables {
                *old = Ok(Some(Arc::new(imported)));
            }
        });
        Ok(())
    }
}

fn listed_of(model: String, price: Price, source: CostSource, version: Option<&str>) -> Listed {
    Listed { model, price, source, version: version.map(str::to_owned) }
}

/// The table that was imported, if one was.
fn kept(path: &Path) -> Result<Option<Arc<Imported>>, String> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    match serde_json::from_slice(&bytes) {
        Ok(imported) => Ok(Some(Arc::new(imported))),
        Err(error) => Err(format!("{}: {error}; import the prices again", path.display())),
    }
}
