//! `ostler conformance acp -- CMD`: a scripted conversation with an agent that speaks ACP, scene by
//! scene, a launch each. What is said and judged is `runtimes::acp::judge`; here it is only handed on
//! to the stage, and the one file that the agent may be asked for is looked for.

use super::stage::{Heeded, Partner, Stage};
use super::{Judged, Progress, interrupted, patience_ms};
use crate::args;
use crate::commands::Stopped;
use crate::config::acp_adapter;
use contract::limits::FAREWELL_MS;
use contract::plan::Lane;
use runtimes::acp::judge::{self, Act, Client, Recording, Scene, Setting};

pub(super) async fn judged(
    progress: &mut Progress<'_>,
    args: &args::JudgedAcp,
) -> Result<Judged, Stopped> {
    let mut adapter = acp_adapter("agent")?;
    adapter.env_passthrough = args.env.clone();
    let judged = &args.judged;
    let stage = Stage::new(progress.context, &judged.command, adapter, Lane::Acp)?;
    let mut recordings: Vec<Recording> = Vec::new();
    for scene in Scene::ALL {
        if !scene.is_worth_playing(&recordings) {
            continue;
        }
        progress.plays(scene.word());
        let room = stage.room(scene.room().word(), &[])?;
        let setting = Setting {
            cwd: room.display().to_string(),
            nowhere: stage.root.join("nowhere").display().to_string(),
            wish: args.prompt.clone(),
            patience_ms: patience_ms(judged.patience),
        };
        let mut client = Client::new(scene, setting, &recordings);
        let deaf = recordings.iter().any(|played| played.done.killed);
        let term_ms = if deaf { judge::HURRIED_MS } else { FAREWELL_MS };
        let played = stage.play(scene.word(), &room, term_ms, &mut client);
        let Heeded { lines, exit, forced } = interrupted(played).await?;
        let (exchanges, mut done) = client.done();
        done.killed = forced;
        done.wrote = room.join(judge::FILE).exists();
        recordings.push(Recording { scene, lines, exchanges, done, exit });
        let findings = judge::judge(&recordings);
        progress.found(&findings)?;
        if let cut_short @ Some(_) = judge::dead_end(&recordings) {
            return Ok(Judged { findings, cut_short });
        }
    }
    Ok(Judged { findings: judge::judge(&recordings), cut_short: None })
}

impl Partner for Client {
    fn begin(&mut self, now_ms: u64) -> Vec<Act> {
        self.begin(now_ms)
    }

    fn hear(&mut self, now_ms: u64, line: &[u8]) -> Vec<Act> {
        self.hear(now_ms, line)
    }

    fn tick(&mut self, now_ms: u64) -> Vec<Act> {
        self.tick(now_ms)
    }
}
