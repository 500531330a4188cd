//! The metrics of this process, in the text format of Prometheus. What happens is counted where it
//! happens (`run_log.rs`, the driver's commit, the dispatcher, the HTTP server); what stands is asked of
//! the host and the store when the metrics are read. Labels are closed words and names of the
//! configuration, never text of an agent, so that their number is bounded.

use crate::ops::{limits, quota, run::stored};
use crate::{Host, clock};
use contract::limits::PAGE_ROWS_MAX;
use contract::{Code, Fault};
use prometheus::core::Collector;
use prometheus::{
    Counter, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};
use std::sync::LazyLock;
use tokio::sync::Mutex;

/// Counters since the start of this process, and gauges.
pub struct Metrics {
    registry: Registry,
    pub(crate) runs_started: IntCounter,
    pub(crate) runs_adopted: IntCounter,
    pub(crate) runs_ended: IntCounterVec,
    pub(crate) tokens: IntCounter,
    pub(crate) cost_usd: Counter,
    pub(crate) events: IntCounter,
    pub(crate) commit_seconds: Histogram,
    pub(crate) commit_failures: IntCounter,
    pub(crate) leases_renewed: IntCounter,
    pub(crate) leases_lost: IntCounter,
    pub(crate) dispatch: IntCounterVec,
    pub(crate) process_scans: IntCounter,
    /// Connections to keepers; each counts itself.
    pub(crate) keepers: IntGauge,
    pub http_requests: IntCounterVec,
    standing: Standing,
}

/// Gauges that are set when the metrics are read.
struct Standing {
    build: IntGaugeVec,
    runs: IntGaugeVec,
    runs_driven: IntGauge,
    tasks: IntGaugeVec,
    oldest_seconds: GaugeVec,
    approvals: IntGauge,
    watchers: IntGauge,
    quota_blocked: IntGaugeVec,
    budget_used: GaugeVec,
    store_ok: IntGauge,
    memory: IntGauge,
    descriptors: IntGauge,
}

static METRICS: LazyLock<Metrics> = LazyLock::new(|| {
    // Names and labels are fixed here, and the test below makes them all.
    Metrics::new().unwrap_or_else(|error| panic!("a metric is declared wrongly: {error}"))
});

/// One reader at a time, so that gauges with labels are whole.
static READING: Mutex<()> = Mutex::const_new(());

/// The metrics of this process.
pub fn metrics() -> &'static Metrics {
    &METRICS
}

/// Values that only the HTTP server knows.
#[derive(Debug, Clone, Copy)]
pub struct FromServer<'a> {
    pub version: &'a str,
    pub watchers: usize,
}

/// Registers what it makes.
struct Maker(Registry);

impl Maker {
    fn register<C: Collector + Clone + 'static>(&self, metric: C) -> prometheus::Result<C> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn count(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.register(IntCounter::new(name, help)?)
    }

    fn counts(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.register(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn fractions(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<GaugeVec> {
        self.register(GaugeVec::new(Opts::new(name, help), labels)?)
    }
}

/// Half a millisecond to eight seconds: a commit takes one sync of the disk.
const COMMIT_SECONDS: [f64; 8] = [0.000_5, 0.002, 0.008, 0.032, 0.128, 0.512, 2.048, 8.192];

impl Metrics {
    #[rustfmt::skip]
    fn new() -> prometheus::Result<Self> {
        let make = Maker(Registry::new());
        let commit = HistogramOpts::new("ostler_commit_seconds", "Time to make a batch of events durable")
            .buckets(COMMIT_SECONDS.to_vec());
        Ok(Self {
            runs_started: make.count("ostler_runs_started_total", "Runs whose agent was started by this process")?,
            runs_adopted: make.count("ostler_runs_adopted_total", "Runs taken over from an earlier host")?,
            runs_ended: make.counts("ostler_runs_ended_total", "Runs that ended here, by outcome and fault code", &["outcome", "code"])?,
            tokens: make.count("ostler_tokens_total", "Tokens of the runs that ended here")?,
            cost_usd: make.register(Counter::new("ostler_cost_usd_total", "Dollars of the runs that ended here; runs without a price are not in it")?)?,
            events: make.count("ostler_events_total", "Events made durable")?,
            commit_seconds: make.register(Histogram::with_opts(commit)?)?,
            commit_failures: make.count("ostler_commit_failures_total", "Batches that could not be made durable at the first try")?,
            leases_renewed: make.count("ostler_leases_renewed_total", "Leases of runs renewed")?,
            leases_lost: make.count("ostler_leases_lost_total", "Leases of runs lost")?,
            dispatch: make.counts("ostler_dispatch_decisions_total", "Decisions of the queue about a task: started, waits or failed, with the reason", &["decision", "reason"])?,
            process_scans: make.count("ostler_process_scans_total", "Looks at the environments of all processes, for those that a dead keeper or host left")?,
            keepers: make.gauge("ostler_keepers", "Keeper processes that this process is connected to")?,
            http_requests: make.counts("ostler_http_requests_total", "Answered HTTP requests by method, declared route and status", &["method", "route", "status"])?,
            standing: Standing {
                build: make.gauges("ostler_build_info", "Always 1; the version is in the label", &["version"])?,
                runs: make.gauges("ostler_runs", "Runs that have not ended, by state", &["state"])?,
                runs_driven: make.gauge("ostler_runs_driven", "Runs that this process drives")?,
                tasks: make.gauges("ostler_tasks", "Tasks that are not done, by state", &["state"])?,
                oldest_seconds: make.fractions("ostler_task_oldest_seconds", "Age of the oldest task in a state", &["state"])?,
                approvals: make.gauge("ostler_approvals_open", "Requests that wait for a person's approval")?,
                watchers: make.gauge("ostler_watchers", "Clients that follow events")?,
                quota_blocked: make.gauges("ostler_quota_blocked", "1 while no run may start in the scope of a quota", &["scope"])?,
                budget_used: make.fractions("ostler_budget_used_ratio", "Used part of a shared budget of dollars", &["scope", "window"])?,
                store_ok: make.gauge("ostler_store_ok", "0 while the store has failed and no run starts")?,
                memory: make.gauge("process_resident_memory_bytes", "Resident memory of this process")?,
                descriptors: make.gauge("process_open_fds", "Open file descriptors of this process")?,
            },
            registry: make.0,
        })
    }

    /// Counts a decision of the queue. The reason is a closed word.
    pub(crate) fn dispatched(&self, decision: &str, reason: &str) {
        self.dispatch.with_label_values(&[decision, reason]).inc();
    }
}

/// All metrics in the text format of Prometheus.
pub async fn text(host: &Host, server: FromServer<'_>) -> Result<String, Fault> {
    let _reading = READING.lock().await;
    let metrics = metrics();
    metrics.standing.ask(host, server).await?;
    // Counted where no metrics are known.
    let unseen = keeper::mark::scans().saturating_sub(metrics.process_scans.get());
    metrics.process_scans.inc_by(unseen);
    TextEncoder::new()
        .encode_to_string(&metrics.registry.gather())
        .map_err(|error| Fault::new(Code::InternalError, format!("writing the metrics: {error}")))
}

impl Standing {
    async fn ask(&self, host: &Host, server: FromServer<'_>) -> Result<(), Fault> {
        self.build.with_label_values(&[server.version]).set(1);
        self.watchers.set(whole(server.watchers));
        self.store_ok.set(i64::from(host.trouble().is_none()));
        let (driven, approvals) = host.inner.live_counts();
        self.runs_driven.set(whole(driven));
        self.approvals.set(whole(approvals));
        let counts = host.store().counts().await.map_err(stored)?;
        self.runs.reset();
        for (state, count) in counts.runs {
            self.runs.with_label_values(&[&state]).set(whole(count));
        }
        self.tasks.reset();
        self.oldest_seconds.reset();
        let now = clock::now().wall;
        for store::TaskCount { state, count, oldest } in counts.tasks {
            self.tasks.with_label_values(&[&state]).set(whole(count));
            let age = now.since(oldest) as f64 / 1e3;
            self.oldest_seconds.with_label_values(&[&state]).set(age);
        }
        self.quota_blocked.reset();
        for quota in quota::list(host, "", PAGE_ROWS_MAX).await? {
            let is_blocked = quota.state != quota::QuotaState::Open;
            self.quota_blocked.with_label_values(&[&quota.scope]).set(i64::from(is_blocked));
        }
        self.budget_used.reset();
        for view in limits::budgets(host).await? {
            if let (Some(used), Some(limit)) = (view.used.nanousd, view.budget.limit.nanousd)
                && limit.0 > 0
            {
                let labels = [view.budget.scope.as_str(), view.budget.window.word()];
                self.budget_used.with_label_values(&labels).set(used.usd() / limit.usd());
            }
        }
        self.memory.set(resident_bytes().unwrap_or(0));
        // Both files are made by the kernel from its memory.
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        self.descriptors.set(whole(open));
        Ok(())
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The second number of `statm` counts resident pages.
fn resident_bytes() -> Option<i64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    i64::try_from(rustix::param::page_size()).ok()?.checked_mul(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;

    #[tokio::test]
    async fn every_metric_is_written_with_its_help() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(plain::setup(dir.path()));
        metrics().dispatched("waits", "quota");
        let server = FromServer { version: "1.2.3", watchers: 2 };
        let text = text(&host, server).await.unwrap();
        for line in [
            "# TYPE ostler_events_total counter",
            "# TYPE ostler_commit_seconds histogram",
            "# HELP ostler_approvals_open Requests that wait for a person's approval",
            "ostler_build_info{version=\"1.2.3\"} 1",
            "ostler_watchers 2",
            "ostler_store_ok 1",
            "ostler_dispatch_decisions_total{decision=\"waits\",reason=\"quota\"}",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("process_resident_memory_bytes 0\n"), "{text}");
    }
}
