//! `ostler conformance process -- CMD`: every scene of the process protocol, a launch each. What is
//! said and judged is `runtimes::jsonlines::judge`; here it is only handed on to the stage.

use super::stage::{Heeded, Partner, Stage};
use super::{Judged, Progress, interrupted, patience_ms};
use crate::args;
use crate::commands::Stopped;
use crate::config::process_adapter;
use contract::plan::Lane;
use runtimes::jsonlines::judge::{self, Act, Orchestrator, Recording, Scene};

pub(super) async fn judged(
    progress: &mut Progress<'_>,
    args: &args::Judged,
) -> Result<Judged, Stopped> {
    let adapter = process_adapter("agent")?;
    let stage = Stage::new(progress.context, &args.command, adapter, Lane::Process)?;
    let mut recordings: Vec<Recording> = Vec::new();
    for scene in Scene::ALL {
        if !scene.is_worth_playing(&recordings) {
            continue;
        }
        progress.plays(scene.word());
        let room = stage.room(scene.word(), &[(judge::NOTE, judge::NOTE_TEXT)])?;
        let mut orchestrator = Orchestrator::new(scene, patience_ms(args.patience));
        let played = stage.play(scene.word(), &room, 0, &mut orchestrator);
        let Heeded { lines, exit, forced } = interrupted(played).await?;
        let mut done = orchestrator.done();
        done.stopped = done.stopped || forced;
        recordings.push(Recording { scene, lines, done, exit });
        let findings = judge::judge(&recordings);
        progress.found(&findings)?;
        if let cut_short @ Some(_) = judge::dead_end(&recordings) {
            return Ok(Judged { findings, cut_short });
        }
    }
    Ok(Judged { findings: judge::judge(&recordings), cut_short: None })
}

impl Partner for Orchestrator {
    /// The agent has the first word.
    fn begin(&mut self, _: u64) -> Vec<Act> {
        Vec::new()
    }

    fn hear(&mut self, now_ms: u64, line: &[u8]) -> Vec<Act> {
        self.hear(now_ms, line)
    }

    fn tick(&mut self, now_ms: u64) -> Vec<Act> {
        self.tick(now_ms)
    }
}
