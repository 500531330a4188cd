//! `ostler show --plan`: how an agent was launched, as a person would read it. Values of variables are
//! left out; `--json` has the whole plan.

use super::clean::one_line;
use super::page::Page;
use super::tone::Colour;
use super::{home_relative, tail};
use contract::plan::{EnvSource, LaunchPlan};
use contract::view::RunView;
use std::path::Path;

/// The sheet of a plan, without a newline at its end.
pub fn launch_plan(
    plan: &LaunchPlan,
    run: &RunView,
    home: Option<&Path>,
    (columns, colour): (usize, Colour),
) -> String {
    let id = run.id.to_string();
    let mut page = Page::titled(&format!("launch plan of {}", tail(&id)), columns, colour);
    page.gap();
    page.say("agent", &one_line(&run.agent));
    page.say("runtime", &format!("{} ({} lane)", one_line(&run.runtime), word(&plan.lane)));
    if let Some(model) = &run.model {
        page.say("model", &one_line(model));
    }
    page.say("command", &command_line(plan));
    page.say("cwd", &one_line(&home_relative(Path::new(&run.cwd), home)));
    page.say("stdin", &word(&plan.stdin));
    type IsOf = fn(&EnvSource) -> bool;
    let sources: [(&str, IsOf); 4] = [
        ("from the runtime", |source| matches!(source, EnvSource::Runtime { .. })),
        ("from ostler.json", |source| matches!(source, EnvSource::Config { .. })),
        ("--env", |source| matches!(source, EnvSource::Flag)),
        ("passed if set", |source| matches!(source, EnvSource::Card | EnvSource::Passthrough)),
    ];
    let mut name = "env";
    for (source, is_of) in sources {
        let names = plan.env.iter().filter(|entry| is_of(&entry.source));
        let names: Vec<String> = names.map(|entry| one_line(&entry.name)).collect();
        if !names.is_empty() {
            page.say(name, &format!("{source}: {}", names.join(" ")));
            name = "";
        }
    }
    let is_common = |source: &EnvSource| matches!(source, EnvSource::Allowlist);
    let common = plan.env.iter().filter(|entry| is_common(&entry.source)).count();
    if common > 0 {
        page.say(name, &format!("passed if set: {common} that every agent gets, such as PATH"));
    }
    for file in &plan.files {
        page.say("file", &format!("{} ({} bytes)", one_line(&file.name), file.text.len()));
    }
    for mount in &plan.mounts {
        page.say("skill", &format!("{} in {}", one_line(&mount.skill), one_line(&mount.into)));
    }
    page.next(&[format!("ostler show {} --plan --json   all of it", tail(&id))]);
    page.finish()
}

/// The program and its arguments as they could be typed into a shell.
fn command_line(plan: &LaunchPlan) -> String {
    let words = std::iter::once(&plan.program).chain(&plan.args);
    words.map(|word| quoted(&one_line(word))).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A value of an enum as JSON has it.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plan_is_shown_without_values() {
        let plan: LaunchPlan = serde_json::from_value(json!({
            "lane": "native", "program": "claude", "args": ["-p", "it's on", "--verbose"],
            "env": [
                {"name": "HOME", "source": {"from": "allowlist"}},
                {"name": "PATH", "source": {"from": "allowlist"}},
                {"name": "KEY", "source": {"from": "config", "value": "hush"}},
                {"name": "MINE", "source": {"from": "flag"}},
            ],
            "stdin": "stream_json", "framing": "lines", "secrets": [],
        }))
        .unwrap();
        let run: RunView = serde_json::from_value(json!({
            "run_id": "run_00000000000000000000000022330001",
            "task_id": "task_00000000000000000000000022330001",
            "id": "run_00000000000000000000000022330001",
            "task": "task_00000000000000000000000022330001",
            "state": "settled", "head_seq": 1, "agent": "scout", "adapter": "claude",
            "runtime": "claude", "cwd": "/srv/ada/parser", "prompt_preview": "x",
            "started_at": "2026-11-16T15:10:00.000Z",
        }))
        .unwrap();
        let home = Some(Path::new("/srv/ada"));
        insta::assert_snapshot!(launch_plan(&plan, &run, home, (72, Colour::Off)), @r"
        launch plan of 22330001

        agent     scout
        runtime   claude (native lane)
        command   claude -p 'it'\''s on' --verbose
        cwd       ~/parser
        stdin     stream json
        env       from ostler.json: KEY
                  --env: MINE
                  passed if set: 2 that every agent gets, such as PATH

        next      ostler show 22330001 --plan --json   all of it
        ");
    }
}
