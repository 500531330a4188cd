//! `ostler prices`: what a million tokens costs, and newer prices from a file.

use super::{Context, Stopped};
use crate::args::Prices;
use crate::client::escaped;
use crate::{render, terminal};
use contract::limits::BODY_BYTES_MAX;
use contract::{Code, Fault};
use host::prices::Listed;
use serde_json::Value;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

pub async fn prices(context: &Context, args: Option<Prices>) -> Result<ExitCode, Stopped> {
    match args.unwrap_or(Prices::List { model: None }) {
        Prices::List { model } => list(context, model.as_deref()).await,
        Prices::Import { file } => import(context, &context.surroundings.cwd.join(file)).await,
    }
}

async fn list(context: &Context, model: Option<&str>) -> Result<ExitCode, Stopped> {
    let part = model.map(|model| format!("?model={}", escaped(model))).unwrap_or_default();
    let path = format!("/api/v1/prices{part}");
    let rows: Vec<Listed> = context.ask(async |client| Ok(client.all(&path).await?)).await?;
    if context.global.json {
        context.print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (true, Some(model)) = (rows.is_empty(), model) {
        let message = format!("no price has '{model}' in its name");
        return Err(Fault::new(Code::NotFound, message)
            .with_hint("name one in `prices` of ostler.json, or import newer ones")
            .into());
    }
    let surroundings = &context.surroundings;
    let columns = surroundings.columns_to_fill();
    let colour = terminal::colour(&surroundings.vars, surroundings.stdout_is_terminal);
    context.print_rendered(&render::prices_table(&rows, columns, colour))?;
    Ok(ExitCode::SUCCESS)
}

async fn import(context: &Context, path: &Path) -> Result<ExitCode, Stopped> {
    let file = read(path)?;
    let report = context
        .ask(async |client| {
            client.import_prices(&file).await.map_err(|fault| named(path, fault).into())
        })
        .await?;
    match context.global.json {
        true => context.print_json(&report)?,
        false => context.print(&format!("{} prices from {}", report.prices, report.version))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The file is what the person named; where it is wrong is inside it.
fn named(path: &Path, mut fault: Fault) -> Fault {
    fault.message = format!("{}: {}", path.display(), fault.message);
    fault
}

fn read(path: &Path) -> Result<Value, Fault> {
    let failed = |what: String| Fault::new(Code::Usage, format!("{}: {what}", path.display()));
    let unreadable = |error: std::io::Error| failed(format!("cannot be read: {error}"));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    // One byte more than allowed is enough to know that there is too much.
    file.take(BODY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > BODY_BYTES_MAX {
        return Err(failed(format!("longer than the {BODY_BYTES_MAX} bytes allowed")));
    }
    serde_json::from_slice(&bytes).map_err(|error| failed(format!("not JSON: {error}")))
}
