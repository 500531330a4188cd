//! `ostler conformance process -- CMD`, `… acp -- CMD`, `… http URL` and `… agent NAME`: plays every scene of a
//! protocol with an agent and says, point by point and as each scene ends, what it does right. A server
//! is judged in `http`, from outside. For the others what is said and judged is in `runtimes`; `stage`
//! has the hands: each scene is a launch of its own under a keeper, without a store or a host, and
//! nothing of it is left behind. `process` and `acp` bring the two together. `agent` judges a configured
//! adapter of any lane by runs in a data directory of their own.

mod acp;
mod agent;
mod http;
mod process;
mod stage;

use super::{Context, Stopped};
use crate::args;
use contract::plan::Limit;
use contract::{Code, Fault};
use runtimes::verdict::{Finding, Verdict};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The findings of a judge.
struct Judged {
    findings: Vec<Finding>,
    /// Why not every scene was played.
    cut_short: Option<&'static str>,
}

pub async fn conformance(context: &Context, args: args::Conformance) -> Result<ExitCode, Stopped> {
    let mut progress = Progress { context, told: BTreeMap::new() };
    let judged = match &args {
        args::Conformance::Process(judged) => process::judged(&mut progress, judged).await?,
        args::Conformance::Acp(judged) => acp::judged(&mut progress, judged).await?,
        args::Conformance::Http(judged) => http::judged(&mut progress, judged).await?,
        args::Conformance::Agent(judged) => agent::judged(&mut progress, judged).await?,
    };
    let ok = !judged.findings.iter().any(Finding::breaks_spec);
    if context.global.json {
        let Judged { findings, cut_short } = &judged;
        let can_run = !findings.iter().any(Finding::prevents_runs);
        context.print_json(&json!({
            "ok": ok, "can_run": can_run, "cut_short": cut_short, "points": findings,
        }))?;
    } else {
        context.print(&closing(&judged))?;
    }
    Ok(match ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(Code::ProtocolError.row().exit),
    })
}

/// Tells people what is found as soon as a scene has shown it, and which scene plays.
struct Progress<'c> {
    context: &'c Context,
    /// The points that were told. One that passed is told again when a later scene breaks it.
    told: BTreeMap<&'static str, Verdict>,
}

impl Progress<'_> {
    fn plays(&self, scene: &str) {
        if !self.context.global.json {
            crate::terminal::remark(&format!("playing the scene {scene} …"));
        }
    }

    fn found(&mut self, findings: &[Finding]) -> Result<(), Stopped> {
        let width = width(findings);
        for finding in findings.iter().filter(|finding| finding.verdict != Verdict::NotSeen) {
            let before = self.told.insert(finding.point.id, finding.verdict);
            if !self.context.global.json && before != Some(finding.verdict) {
                self.context.print(lines_of(finding, width).trim_end())?;
            }
        }
        Ok(())
    }
}

/// How long an agent may be quiet.
fn patience_ms(patience: Limit) -> u64 {
    match patience {
        Limit::Ms(ms) => ms,
        Limit::Unlimited => stage::SCENE_MS_MAX,
    }
}

/// Plays a scene until it is over or a person has enough. The scene falls then, and with the socket
/// the keeper's reason to let the agent live.
async fn interrupted<T>(scene: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    tokio::select! {
        played = scene => played,
        _ = tokio::signal::ctrl_c() => Err(Fault::new(Code::Cancelled, "judging was interrupted")),
    }
}

fn width(findings: &[Finding]) -> usize {
    findings.iter().map(|finding| finding.point.id.len()).max().unwrap_or(0)
}

/// One point for people, and below it what offends.
fn lines_of(finding: &Finding, width: usize) -> String {
    let Finding { point, verdict, scene, line, text: offends, why, more, hint } = finding;
    let sign = match (verdict, point.required) {
        (Verdict::Pass, _) => '✓',
        (Verdict::Fail, true) => '✗',
        (Verdict::Fail, false) => '!',
        (Verdict::NotSeen, _) => '·',
    };
    let mut text = format!("{sign} {:width$}  {}\n", point.id, point.what);
    let Some(why) = why else { return text };
    let place = match (scene, line) {
        (Some(scene), Some(line)) => format!("{scene} scene, line {line}: "),
        (Some(scene), None) => format!("{scene} scene: "),
        (None, _) => "not tested: ".to_owned(),
    };
    let more = if *more > 0 { format!(" (and {more} more)") } else { String::new() };
    text.push_str(&format!("    {place}{why}{more}\n"));
    if let Some(offends) = offends {
        text.push_str(&format!("    {offends}\n"));
    }
    if let Some(hint) = hint {
        text.push_str(&format!("    → {hint}\n"));
    }
    text
}

/// The lines after the points: the points that were not tested, the counts, and the two verdicts.
fn closing(Judged { findings, cut_short }: &Judged) -> String {
    let of = |verdict: Verdict| findings.iter().filter(move |finding| finding.verdict == verdict);
    let missing = of(Verdict::NotSeen).count();
    let mut text = match cut_short {
        Some(why) => format!("· {missing} points were not tested: {why}\n"),
        None => {
            let width = width(findings);
            of(Verdict::NotSeen).map(|finding| lines_of(finding, width)).collect()
        }
    };
    let broken: Vec<_> = findings.iter().filter(|finding| finding.breaks_spec()).collect();
    let preventing: Vec<_> = findings.iter().filter(|finding| finding.prevents_runs()).collect();
    let warnings = of(Verdict::Fail).count() - broken.len();
    text.push_str(&format!(
        "{} passed, {} failed, {warnings} {}, {missing} not tested\n",
        of(Verdict::Pass).count(),
        broken.len(),
        if warnings == 1 { "warning" } else { "warnings" },
    ));
    let verdict = |failed: &[&Finding]| match failed {
        [] => "yes".to_owned(),
        failed => {
            let ids: Vec<_> = failed.iter().map(|finding| finding.point.id).collect();
            format!("no ({})", ids.join(", "))
        }
    };
    text.push_str(&format!("Ostler can run it: {}\n", verdict(&preventing)));
    text.push_str(&format!("it follows the specification: {}", verdict(&broken)));
    text
}
