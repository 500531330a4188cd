//! The lines of `ostler status` below the live runs: what waits for a person and what keeps work from
//! starting, one line each, with the command that shows it in full. Pure, like all of the renderer.

use super::clean::one_line;
use super::figures;
use super::tone::{Colour, Tone};
use contract::Timestamp;
use host::ops::quota::QuotaState;

/// Something that a person should know now. A count of zero makes no line.
#[derive(Debug, Clone, PartialEq)]
pub enum Attention {
    StoreFailed {
        code: String,
    },
    /// The configuration file has a mistake, and an older state of it is in force.
    ConfigurationRefused {
        message: String,
    },
    /// Keys of the configuration that count only after a restart.
    RestartNeeded(Vec<String>),
    Approvals(usize),
    Reviews(usize),
    Failed(usize),
    Quota {
        scope: String,
        state: QuotaState,
    },
    Budget {
        scope: String,
        window: &'static str,
        ends_at: Option<Timestamp>,
    },
    Waiting {
        queued: usize,
        waiting: usize,
        oldest: Option<Timestamp>,
        is_served: bool,
    },
}

/// One line for each, without a newline at the end.
pub fn attention_lines(all: &[Attention], now: Timestamp, colour: Colour) -> String {
    let lines = all.iter().filter_map(|one| {
        let (tone, text) = line(one, now)?;
        Some(colour.paint(tone, &text))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn line(attention: &Attention, now: Timestamp) -> Option<(Tone, String)> {
    Some(match attention {
        Attention::StoreFailed { code } => {
            (Tone::Bad, format!("! the store has failed ({code}): no runs are started"))
        }
        Attention::ConfigurationRefused { message } => {
            let text = format!(
                "! the configuration was not reloaded: {}: ostler config check",
                one_line(message)
            );
            (Tone::Bad, text)
        }
        Attention::RestartNeeded(keys) if keys.is_empty() => return None,
        Attention::RestartNeeded(keys) => {
            let keys = one_line(&keys.join(", "));
            (Tone::Tool, format!("! changed {keys}: restart ostler serve to take it over"))
        }
        Attention::Approvals(0) | Attention::Reviews(0) | Attention::Failed(0) => return None,
        Attention::Approvals(open) => {
            let wait = if *open == 1 { "request waits" } else { "requests wait" };
            (Tone::Tool, format!("? {open} {wait} for your approval: ostler approvals"))
        }
        Attention::Reviews(tasks) => {
            let wait = if *tasks == 1 { "task waits" } else { "tasks wait" };
            let text = format!("? {tasks} {wait} for your review: ostler task list --state review");
            (Tone::Tool, text)
        }
        Attention::Failed(runs) => {
            let failed = if *runs == 1 { "run" } else { "runs" };
            let text = format!(
                "✗ {runs} {failed} failed in the last 24 hours: ostler runs --failed --since 24h"
            );
            (Tone::Bad, text)
        }
        Attention::Quota { scope, state } => {
            let until = match state {
                QuotaState::Open => return None,
                QuotaState::Blocked { until } => {
                    format!("no run starts until {}", figures::moment(*until, now))
                }
                QuotaState::Probing { .. } => "one run tries whether the provider answers".into(),
                QuotaState::Resuming { .. } => "runs start one after another".into(),
            };
            (Tone::Tool, format!("! quota of {}: {until}: ostler quotas", one_line(scope)))
        }
        Attention::Budget { scope, window, ends_at } => {
            let again = ends_at
                .map(|end| format!(" until {}", figures::moment(end, now)))
                .unwrap_or_default();
            let scope = one_line(scope);
            (Tone::Tool, format!("! budget of {scope} ({window}) is used up{again}: ostler costs"))
        }
        Attention::Waiting { queued: 0, waiting: 0, .. } => return None,
        Attention::Waiting { queued, waiting, oldest, is_served } => {
            let since = match oldest.map(|oldest| figures::ago(oldest, now)) {
                Some(ago) if ago != "now" => format!(", the oldest from {ago}"),
                Some(_) | None => String::new(),
            };
            let counts = match (queued, waiting) {
                (queued, 0) => format!("{queued} queued"),
                (0, waiting) => format!("{waiting} waiting"),
                (queued, waiting) => format!("{queued} queued, {waiting} waiting"),
            };
            let more = match is_served {
                true => "ostler task list",
                false => "no server is running, start one with ostler serve",
            };
            (Tone::Gray, format!("… tasks: {counts}{since}: {more}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_matter_is_one_line_with_its_command() {
        let now = Timestamp(1_795_000_000_000);
        let all = [
            Attention::StoreFailed { code: "disk_full".into() },
            Attention::ConfigurationRefused { message: "ostler.json: agents.a: missing".into() },
            Attention::RestartNeeded(vec!["server.listen".into()]),
            Attention::RestartNeeded(Vec::new()),
            Attention::Approvals(1),
            Attention::Approvals(0),
            Attention::Reviews(2),
            Attention::Failed(3),
            Attention::Quota { scope: "claude".into(), state: QuotaState::Open },
            Attention::Budget { scope: "agent:scout".into(), window: "lifetime", ends_at: None },
            Attention::Waiting {
                queued: 2,
                waiting: 1,
                oldest: Some(now.plus_ms(-240_000)),
                is_served: false,
            },
        ];
        insta::assert_snapshot!(attention_lines(&all, now, Colour::Off), @"
        ! the store has failed (disk_full): no runs are started
        ! the configuration was not reloaded: ostler.json: agents.a: missing: ostler config check
        ! changed server.listen: restart ostler serve to take it over
        ? 1 request waits for your approval: ostler approvals
        ? 2 tasks wait for your review: ostler task list --state review
        ✗ 3 runs failed in the last 24 hours: ostler runs --failed --since 24h
        ! budget of agent:scout (lifetime) is used up: ostler costs
        … tasks: 2 queued, 1 waiting, the oldest from 4 min ago: no server is running, start one with ostler serve
        ");
        assert_eq!(attention_lines(&[Attention::Failed(0)], now, Colour::Off), "");
    }
}
