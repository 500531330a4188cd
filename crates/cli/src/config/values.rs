//! Single values of the configuration, in the words of the rooms that need them.

use super::Config;
use super::file::Budget;
use super::words::{Activity, LogFormat, Window};
use crate::operator_log::Format;
use contract::NanoUsd;
use contract::limits::{LEASE_MS, LEASE_MS_MIN};
use engine::rules::price::{Price, PriceTable};
use host::ops::limits::{self, SharedAmounts, SharedBudget};
use host::ops::remove::Retention;
use std::path::Path;

/// Who runs this, when nobody says.
const ORGANIZATION: &str = "default";

impl Config {
    pub fn organization(&self) -> &str {
        self.file.organization.as_deref().unwrap_or(ORGANIZATION)
    }

    /// Where `serve` listens.
    pub fn listen(&self) -> Option<&str> {
        self.file.server.as_ref().and_then(|server| server.listen.as_deref())
    }

    /// How `serve` is come to at this address.
    pub fn door(&self, address: String) -> server::Door {
        let given = self.file.server.as_ref();
        let tls = given.and_then(|server| server.tls.as_ref());
        let home = self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        server::Door {
            address,
            // Files are named from where they are written down.
            tls: tls.map(|tls| (home.join(&tls.cert), home.join(&tls.key))),
            allow_insecure: given.is_some_and(|server| server.allow_insecure == Some(true)),
            public_url: given.and_then(|server| server.public_url.clone()),
            stalled_ms: None,
        }
    }

    /// Whether what agents show of their work is stored.
    pub fn activity(&self) -> host::Activity {
        match self.file.server.as_ref().and_then(|server| server.activity) {
            Some(Activity::Off) => host::Activity::Off,
            Some(Activity::Full) | None => host::Activity::Full,
        }
    }

    /// What a server keeps, and how long.
    pub fn retention(&self) -> Retention {
        let given = self.file.server.as_ref().and_then(|server| server.retention.as_ref());
        Retention {
            days: given.and_then(|retention| retention.days),
            // The cast saturates: an absurdly large disk is the largest there is.
            bytes: given.and_then(|retention| retention.gigabytes).map(|gb| (gb * 1e9) as u64),
        }
    }

    /// Level and format of the operator log.
    pub fn log(&self) -> (Option<&str>, Option<Format>) {
        let log = self.file.server.as_ref().and_then(|server| server.log.as_ref());
        let format = log.and_then(|log| log.format).map(|format| match format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        });
        (log.and_then(|log| log.level.as_deref()), format)
    }

    /// Lifetime of a lease without renewal.
    pub fn lease_ms(&self) -> u64 {
        let given = self.file.server.as_ref().and_then(|server| server.lease_sec);
        given.and_then(|seconds| seconds.ms()).unwrap_or(LEASE_MS).max(LEASE_MS_MIN)
    }

    /// How often a task is tried again by itself, at most.
    pub fn tries_max(&self) -> Option<u32> {
        self.file.retry.as_ref().map(|retry| retry.max)
    }

    /// The budgets that runs share: those of the file for all, those of an agent for its own.
    pub fn budgets(&self) -> Vec<SharedBudget> {
        let agents = self.file.agents.iter();
        let of_agents = agents
            .flat_map(|(name, agent)| shared_budgets(&format!("agent:{name}"), &agent.budgets));
        shared_budgets("global", &self.file.budgets).into_iter().chain(of_agents).collect()
    }

    /// The person's own prices. A bucket without a price of its own costs what input costs.
    pub fn prices(&self) -> PriceTable {
        let nano = |usd: f64| NanoUsd::from_usd(usd).unwrap_or_default();
        let price = |price: &super::file::Price| Price {
            input: nano(price.input),
            cache_read: nano(price.cache_read.unwrap_or(price.input)),
            cache_write: nano(price.cache_write.unwrap_or(price.input)),
            output: nano(price.output),
        };
        PriceTable(
            self.file.prices.iter().map(|(name, given)| (name.clone(), price(given))).collect(),
        )
    }
}

/// Those of these budgets that outlast a run.
pub fn shared_budgets(scope: &str, budgets: &[Budget]) -> Vec<SharedBudget> {
    budgets.iter().filter_map(|budget| shared(scope, budget)).collect()
}

/// A budget that outlasts a run. What one run may spend is its own; a share of the provider's quota
/// is held before every start, whatever the window.
fn shared(scope: &str, budget: &Budget) -> Option<SharedBudget> {
    let (window, limit) = match budget.window {
        Window::Run => (limits::Window::Lifetime, SharedAmounts::default()),
        Window::Day => (limits::Window::Day, amounts(budget)),
        Window::Month => (limits::Window::Month, amounts(budget)),
        Window::Lifetime => (limits::Window::Lifetime, amounts(budget)),
    };
    let quota_percent = budget.quota_percent;
    let says = limit != SharedAmounts::default() || quota_percent.is_some();
    says.then(|| SharedBudget { scope: scope.to_owned(), window, limit, quota_percent })
}

fn amounts(budget: &Budget) -> SharedAmounts {
    SharedAmounts {
        nanousd: budget.usd.and_then(NanoUsd::from_usd),
        tokens: budget.tokens,
        turns: budget.turns,
        // The cast saturates: an absurdly long time is the longest there is.
        ms: budget.minutes.map(|minutes| (minutes * 60_000.0) as u64),
    }
}
