//! `ostler backup`: a copy of everything that is kept, made beside whoever hosts.

use super::{Context, Stopped};
use contract::{Code, Fault};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub async fn backup(context: &Context, dir: &Path) -> Result<ExitCode, Stopped> {
    let place = context.place()?;
    let to = normalised(&context.surroundings.cwd.join(dir));
    if let Some(above) = to.parent().filter(|above| !above.is_dir()) {
        let message = format!("the directory {} does not exist", above.display());
        return Err(Fault::new(Code::Usage, message).with_hint("create it first").into());
    }
    let made = store::backup(place.data.path(), &to, host::clock::now().wall)
        .await
        .map_err(|error| refused(&error))?;
    match context.global.json {
        true => context.print_json(&made)?,
        false => {
            let runs =
                if made.runs == 1 { "1 run".to_owned() } else { format!("{} runs", made.runs) };
            let megabytes = made.bytes as f64 / 1e6;
            let to = to.display();
            context.print(&format!("copied {runs}, {megabytes:.1} MB, to {to}"))?;
            context.print(&format!("open it with: ostler --data {to} runs"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A path without `.` and `..`, as far as its existing part can be followed.
fn normalised(path: &Path) -> PathBuf {
    match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

fn refused(error: &store::Error) -> Fault {
    let fault = Fault::new(error.code(), error.to_string());
    match error.code() {
        Code::Conflict => fault.with_hint("give a directory that does not exist yet"),
        _ => {
            fault.with_hint("check that the copy can be written and the data directory can be read")
        }
    }
}
