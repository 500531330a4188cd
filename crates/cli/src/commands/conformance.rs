//! `ostler conformance process -- CMD`, `… acp -- CMD` and `… http -- URL`: plays every scene of a
//! protocol with an agent and says, point by point, what it does right. A server is judged in `http`,
//! from outside. For the others what is said and judged is in `runtimes`; `stage` has the hands: each scene is a launch of its own under a keeper, without a
//! store or a host, and nothing of it is left behind. `process` and `acp` bring the two together.

mod acp;
mod http;
mod process;
mod stage;

use super::{Context, Stopped};
use crate::args;
use contract::plan::Limit;
use contract::{Code, Fault};
use runtimes::verdict::{Finding, Verdict};
use serde_json::json;
use std::process::ExitCode;

pub async fn conformance(context: &Context, args: args::Conformance) -> Result<ExitCode, Stopped> {
    let findings = match &args {
        args::Conformance::Process(judged) => process::findings(context, judged).await?,
        args::Conformance::Acp(judged) => acp::findings(context, judged).await?,
        args::Conformance::Http(judged) => http::findings(context, judged).await?,
    };
    let ok = !findings.iter().any(Finding::decides);
    match context.global.json {
        true => context.print_json(&json!({ "ok": ok, "points": findings }))?,
        false => context.print(&report(&findings))?,
    }
    Ok(match ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(Code::ProtocolError.row().exit),
    })
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

/// The findings for people: one line per point, and below it what offends.
fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    let width = findings.iter().map(|finding| finding.point.id.len()).max().unwrap_or(0);
    for Finding { point, verdict, scene, line, text: offends, why, more } in findings {
        let sign = match (verdict, point.required) {
            (Verdict::Pass, _) => '✓',
            (Verdict::Fail, true) => '✗',
            (Verdict::Fail, false) => '!',
            (Verdict::NotSeen, _) => '·',
        };
        text.push_str(&format!("{sign} {:width$}  {}\n", point.id, point.what));
        let Some(why) = why else { continue };
        let place = match (scene, line) {
            (Some(scene), Some(line)) => format!("{scene} scene, line {line}: "),
            (Some(scene), None) => format!("{scene} scene: "),
            (None, _) => "not seen: ".to_owned(),
        };
        let more = if *more > 0 { format!(" (and {more} more)") } else { String::new() };
        text.push_str(&format!("    {place}{why}{more}\n"));
        if let Some(offends) = offends {
            text.push_str(&format!("    {offends}\n"));
        }
    }
    let count = |wanted: Verdict, required: bool| {
        let fits =
            |finding: &&Finding| finding.verdict == wanted && (finding.point.required || !required);
        findings.iter().filter(fits).count()
    };
    let failed = count(Verdict::Fail, true);
    text.push_str(&format!(
        "{} passed, {failed} failed, {} warnings, {} not tested",
        count(Verdict::Pass, false),
        count(Verdict::Fail, false) - failed,
        count(Verdict::NotSeen, false),
    ));
    text
}
