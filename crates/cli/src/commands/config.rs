//! `ostler config`: where it is, whether it is right, and what it says.

use super::{Context, Stopped, init};
use crate::args::Configuration;
use crate::config::{self as settings, Finding, Level};
use crate::terminal;
use contract::{Code, Fault};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn config(context: &Context, args: Option<Configuration>) -> Result<ExitCode, Stopped> {
    match args {
        None => overview(context),
        Some(Configuration::Path) => {
            let path = path(context)?;
            match context.global.json {
                true => context.print_json(&json!({ "path": path, "exists": path.is_file() }))?,
                false => context.print(&path.display().to_string())?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Some(Configuration::Edit) => edit(context),
        Some(Configuration::Check) => check(context),
        Some(Configuration::Schema) => {
            context.print_json(&settings::schema())?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Configuration::Show) => {
            let path =
                settings::locate(context.global.config.as_deref(), &context.surroundings.vars);
            let config = settings::load(path.as_deref())?;
            context.print_json(&settings::show(&config))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The configuration file that is or would be read.
pub(super) fn path(context: &Context) -> Result<PathBuf, Fault> {
    let vars = &context.surroundings.vars;
    settings::locate(context.global.config.as_deref(), vars)
        .or_else(|| settings::default_path(vars))
        .ok_or_else(|| {
            Fault::new(
                Code::Usage,
                "no configuration file: neither XDG_CONFIG_HOME nor HOME is set",
            )
            .with_hint("name a file with --config or OSTLER_CONFIG")
        })
}

fn overview(context: &Context) -> Result<ExitCode, Stopped> {
    let path = path(context)?;
    let exists = path.is_file();
    if context.global.json {
        context.print_json(&json!({ "path": path, "exists": exists }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = path.display();
    context.print(&match exists {
        true => format!(
            "{shown}\n\
             `ostler config check` checks it, `edit` opens it, `show` prints what is in force"
        ),
        false => format!("{shown} (does not exist yet)\n`ostler init` writes a first one"),
    })?;
    remark_unread(context);
    Ok(ExitCode::SUCCESS)
}

/// Opens the file in the user's editor, and checks it afterwards.
fn edit(context: &Context) -> Result<ExitCode, Stopped> {
    let vars = &context.surroundings.vars;
    let path = path(context)?;
    if !path.exists() {
        init::write(&path)?;
    }
    let set = |name: &str| vars.get(name).filter(|value| !value.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).ok_or_else(|| {
        Fault::new(Code::Usage, "no editor is set")
            .with_hint(format!("set VISUAL or EDITOR, or open {} yourself", path.display()))
    })?;
    let mut words = settings::split_words(editor)?.into_iter();
    let program = words.next().unwrap_or_default();
    #[expect(clippy::disallowed_methods, reason = "the user's own editor, in the user's terminal")]
    let ended = std::process::Command::new(&program).args(words).arg(&path).status();
    match ended {
        Ok(status) if status.success() => check(context),
        Ok(status) => Err(Fault::new(
            Code::InvalidConfig,
            format!("the editor '{editor}' ended with {status}"),
        )
        .with_hint("the file was not checked; `ostler config check` does that")
        .into()),
        Err(error) => {
            Err(Fault::new(Code::NotInstalled, format!("starting the editor '{program}': {error}"))
                .with_hint("set VISUAL or EDITOR to a program that is installed")
                .into())
        }
    }
}

/// Says that an ostler.json of the current directory is not read.
fn remark_unread(context: &Context) {
    if let Some(hint) = context.unread_configuration() {
        terminal::remark(hint);
    }
}

fn check(context: &Context) -> Result<ExitCode, Stopped> {
    let vars = &context.surroundings.vars;
    let Some(path) = settings::locate(context.global.config.as_deref(), vars) else {
        context.print(&format!(
            "no configuration file at {}; `ostler init` writes a first one",
            path(context)?.display()
        ))?;
        remark_unread(context);
        return Ok(ExitCode::SUCCESS);
    };
    // Without a data directory there are no imported prices.
    let place = context.place().ok();
    let data = place.as_ref().map(|place| place.data.path());
    let findings = settings::check(&path, vars, data)?;
    if context.global.json {
        let findings: Vec<_> = findings.iter().map(as_json).collect();
        context.print_json(&findings)?;
    } else if findings.is_empty() {
        context.print(&format!("{}: OK, no problems found", path.display()))?;
    } else {
        let lines: Vec<_> = findings.iter().map(|finding| as_lines(&path, finding)).collect();
        context.print(&lines.join("\n"))?;
    }
    let worst = findings.iter().find(|finding| finding.level == Level::Error);
    Ok(worst.map_or(ExitCode::SUCCESS, |finding| ExitCode::from(finding.code.row().exit)))
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
    }
}

fn as_lines(path: &Path, finding: &Finding) -> String {
    let place = finding.at.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
    let key = if finding.path.is_empty() { String::new() } else { format!("{}: ", finding.path) };
    let hint = finding.hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
    format!("{}{place}: {}: {key}{}{hint}", path.display(), word(finding.level), finding.message)
}

fn as_json(finding: &Finding) -> serde_json::Value {
    json!({
        "level": word(finding.level),
        "code": finding.code,
        "path": finding.path,
        "message": finding.message,
        "hint": finding.hint,
        "line": finding.at.map(|at| at.0),
        "column": finding.at.map(|at| at.1),
    })
}
