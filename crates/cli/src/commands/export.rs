//! `ostler export`: a run and its events, as JSON lines: the run itself first, then every event, byte
//! for byte as it was committed. What events keep apart for its size, and the trace, are not in it.

use super::target::Unnamed;
use super::{Context, Stopped};
use crate::client::Received;
use crate::{args, terminal};
use contract::{Code, Fault};
use futures::StreamExt as _;
use std::io::Write as _;
use std::process::ExitCode;

pub async fn export(context: &Context, args: args::OneRun) -> Result<ExitCode, Stopped> {
    let given = context.run_meant(args.run.as_deref(), Unnamed::Here).await?;
    // Kept over a change of host, so that the next one goes on where the last one stopped.
    let mut seen = None;
    context
        .ask(async |client| {
            let row = client.run(&given).await?;
            let head = serde_json::to_string(&row).map_err(|error| {
                Fault::new(Code::InternalError, format!("writing JSON: {error}"))
            })?;
            let shown = |text: &str| {
                terminal::json(text, context.surroundings.stdout_is_terminal).into_owned()
            };
            if seen.is_none() {
                terminal::print(&shown(&head))?;
            }
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            let mut events = client.events(row.id, *seen.get_or_insert(0)).await?;
            while let Some(received) = events.next().await {
                let Received { seq, bytes } = match received {
                    Ok(received) => received,
                    Err(fault) => {
                        out.flush().map_err(terminal::Gone::from)?;
                        return Err(fault.into());
                    }
                };
                out.write_all(shown(&String::from_utf8_lossy(&bytes)).as_bytes())
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(terminal::Gone::from)?;
                seen = Some(seq);
            }
            out.flush().map_err(terminal::Gone::from)?;
            Ok(())
        })
        .await?;
    Ok(ExitCode::SUCCESS)
}
