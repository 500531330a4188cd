//! `ostler config`: check it, print its schema, print what is in force.

use super::{Context, Stopped};
use crate::args::Configuration;
use crate::config::{self as settings, Finding, Level};
use serde_json::json;
use std::process::ExitCode;

pub fn config(context: &Context, args: Configuration) -> Result<ExitCode, Stopped> {
    match args {
        Configuration::Check => check(context),
        Configuration::Schema => {
            context.print_json(&settings::schema())?;
            Ok(ExitCode::SUCCESS)
        }
        Configuration::Show => {
            let path =
                settings::locate(context.global.config.as_deref(), &context.surroundings.vars);
            let config = settings::load(path.as_deref())?;
            context.print_json(&settings::show(&config))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(context: &Context) -> Result<ExitCode, Stopped> {
    let vars = &context.surroundings.vars;
    let Some(path) = settings::locate(context.global.config.as_deref(), vars) else {
        context.print("there is no configuration; `ostler init` writes a first one")?;
        return Ok(ExitCode::SUCCESS);
    };
    let findings = settings::check(&path, vars)?;
    if context.global.json {
        let findings: Vec<_> = findings.iter().map(as_json).collect();
        context.print_json(&findings)?;
    } else if findings.is_empty() {
        context.print(&format!("{}: nothing to complain about", path.display()))?;
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

fn as_lines(path: &std::path::Path, finding: &Finding) -> String {
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
