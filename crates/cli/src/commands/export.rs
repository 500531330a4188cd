//! `ostler export`: a run and everything it kept, as JSON lines: the run itself first, then every
//! event, byte for byte as it was committed.

use super::{Context, Stopped};
use crate::{args, terminal};
use contract::{Code, Fault};
use futures::StreamExt as _;
use std::io::Write as _;
use std::process::ExitCode;

pub async fn export(context: &Context, args: args::OneRun) -> Result<ExitCode, Stopped> {
    context
        .ask(async |client| {
            let row = client.run(&args.run).await?;
            let head = serde_json::to_string(&row).map_err(|error| {
                Fault::new(Code::InternalError, format!("writing JSON: {error}"))
            })?;
            let shown = |text: &str| {
                terminal::json(text, context.surroundings.stdout_is_terminal).into_owned()
            };
            terminal::print(&shown(&head))?;
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            let mut events = client.events(row.id).await?;
            while let Some(received) = events.next().await {
                let bytes = received?.bytes;
                out.write_all(shown(&String::from_utf8_lossy(&bytes)).as_bytes())
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(terminal::Gone::from)?;
            }
            out.flush().map_err(terminal::Gone::from)?;
            Ok(())
        })
        .await?;
    Ok(ExitCode::SUCCESS)
}
