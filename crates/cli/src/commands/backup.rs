//! `ostler backup`: a copy of everything that is kept, made beside whoever hosts.

use super::{Context, Stopped};
use contract::Fault;
use std::path::Path;
use std::process::ExitCode;

pub async fn backup(context: &Context, dir: &Path) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let to = context.surroundings.cwd.join(dir);
    let made = store::backup(place.data.path(), &to, host::clock::now().wall)
        .await
        .map_err(|error| Fault::new(error.code(), error.to_string()))?;
    match context.global.json {
        true => context.print_json(&made)?,
        false => context.print(&format!(
            "{} runs, {} blobs and {} traces, {} bytes, in {}",
            made.runs,
            made.blobs,
            made.traces,
            made.bytes,
            to.display()
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
