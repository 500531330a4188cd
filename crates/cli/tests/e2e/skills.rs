//! Skills as an agent meets them: there for as long as its run lives, gone after every ending, and
//! never in the directory it works in. The agents are scripts under the names of real runtimes: what
//! the real programs make of a mount is in their NOTES.md.

use crate::ostler::{BOUND_MS, Ostler, Running, keepers, result, signal};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::until;

/// Copies every skill it can see to where the test looks, says that it did, and does as it is told.
const AGENT: &str = r#"#!/bin/sh
printf '%s\n' "$@" > "$HOME/args"
if [ "$1" = --add-dir ]; then from="$2/.claude/skills"; else from="$CODEX_HOME/skills"; fi
cp -RL "$from" "$HOME/seen.new" && mv "$HOME/seen.new" "$HOME/seen"
case "$(cat "$HOME/manner")" in
  ends) exit 0 ;;
  crashes) exit 3 ;;
  dies) kill -9 $$ ;;
esac
exec sleep 120
"#;

/// Speaks JSON lines, is told of its skills in its prompt, and succeeds if it can read the one that
/// it must.
const READER: &str = r#"#!/bin/sh
printf '%s' "$1" > "$HOME/prompt"
path=$(printf '%s\n' "$1" | sed -n 's/^Before you begin, read \(.*\) and follow it\.$/\1/p')
mkdir "$HOME/seen" && cp "$path" "$HOME/seen/" && echo '{"type":"complete","output":{"text":"weighed"}}'
"#;

/// A place with a repository to work in, one skill of the person's own, and agents of two kinds:
/// one with mounts of its own, one with links that all runs share.
struct Place {
    ostler: Ostler,
}

impl Place {
    fn new(manner: &str) -> Self {
        let ostler = Ostler::new();
        let place = Self { ostler };
        let root = place.ostler.instance.root().to_owned();
        let [script, reader] = [("agent.sh", AGENT), ("reader.sh", READER)].map(|(name, text)| {
            let script = root.join(name);
            fs::write(&script, text).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
            script.display().to_string()
        });
        let own = root.join("config/ostler/skills/weighing");
        fs::create_dir_all(own.join("references")).unwrap();
        let text = "---\nname: weighing\ndescription: Use when a thing is weighed.\n---\nWeigh it.";
        fs::write(own.join("SKILL.md"), text).unwrap();
        fs::write(own.join("references/scale.md"), "the scale").unwrap();
        fs::write(root.join("home/manner"), manner).unwrap();
        fs::create_dir_all(root.join("codex/skills/theirs")).unwrap();
        let agent = |adapter: &str| {
            let skills = json!(["using-ostler", { "name": "weighing", "always": true }]);
            json!({ "adapter": adapter, "skills": skills, "permission": "allow-all" })
        };
        let adapter = |runtime: &str| {
            let codex = root.join("codex").display().to_string();
            json!({
                "type": "cli", "runtime": runtime, "binary": script,
                "env": { "CODEX_HOME": codex }, "graceSec": 1,
            })
        };
        let told = json!({ "type": "process", "binary": reader, "args": ["{{prompt}}"] });
        let config = json!({
            "adapters": { "a": adapter("claude"), "b": adapter("codex"), "c": told },
            "agents": { "own": agent("a"), "shared": agent("b"), "told": agent("c") },
        });
        place.ostler.instance.write_config(&config.to_string());
        place.git(&["init", "-q"]);
        place
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git: Command = self.ostler.instance.command("git");
        String::from_utf8(git.args(args).output().expect("git runs").stdout).unwrap()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.ostler.instance.root().join(path)
    }

    fn starts(&self, agent: &str) -> (Running, String) {
        let mut run = self.ostler.starts(&["run", agent, "weigh this", "--json"]);
        let begun = run.event("the agent to run", |event| event["phase"] == "running");
        let id = begun["run_id"].as_str().unwrap().to_owned();
        let what = "the agent to see its skills";
        until(what, BOUND_MS, || self.at("home/seen").exists().then_some(()));
        (run, id)
    }

    /// What the agent saw: the last part of each path in its directory of skills.
    fn seen(&self) -> Vec<String> {
        let seen = self.at("home/seen");
        let mut names: Vec<String> = files(&seen)
            .into_iter()
            .map(|path| path.strip_prefix(&seen).unwrap().display().to_string())
            .collect();
        names.sort();
        names
    }

    /// That no file of a mount is left anywhere, and the working directory is as it was.
    fn is_clean(&self, what: &str) {
        until("the mounts to be gone", BOUND_MS, || {
            (self.spooled().is_empty() && self.links() == ["theirs"]).then_some(())
        });
        assert_eq!(self.git(&["status", "--porcelain", "--ignored"]), "", "{what}");
        let kept = self.ostler.instance.data().join("skills");
        assert!(files(&kept).is_empty(), "{what}: {:?}", files(&kept));
    }

    fn spooled(&self) -> Vec<PathBuf> {
        let mut found = files(&self.ostler.instance.runtime());
        found.retain(|path| path.ends_with("SKILL.md"));
        found
    }

    fn links(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at("codex/skills")).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}

fn ended(run: Running) -> Value {
    result(&run.finish().events()).clone()
}

#[test]
fn an_agent_sees_its_skills_and_its_plan_says_where() {
    let place = Place::new("waits");
    let (run, id) = place.starts("own");
    let expected = ["using-ostler/SKILL.md", "weighing/SKILL.md", "weighing/references/scale.md"];
    assert_eq!(place.seen(), expected);
    assert_eq!(place.spooled().len(), 2);
    let plan: Value =
        serde_json::from_str(&place.ostler.says(&["show", &id, "--plan", "--json"]).stdout)
            .unwrap();
    let mounts = plan["mounts"].as_array().unwrap();
    assert_eq!((mounts.len(), &mounts[1]["held"]), (2, &json!("attempt")), "{plan}");
    assert!(mounts[1]["into"].as_str().unwrap().ends_with("/files/skills/.claude/skills"));
    let shown = place.ostler.says(&["show", &id, "--json"]).stdout;
    assert!(!shown.contains("Weigh it."), "what a skill says is in no event");
    assert_eq!(place.ostler.says(&["stop", &id]).code, 0);
    ended(run);
    place.is_clean("a stop");
}

#[test]
fn links_that_runs_share_stay_until_the_last_of_them_has_ended() {
    let place = Place::new("waits");
    let mut serve = place.ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    let (one, first) = place.starts("shared");
    let links = place.links();
    let ours: Vec<&String> = links.iter().filter(|name| name.starts_with("ostler-")).collect();
    assert_eq!((ours.len(), links.len()), (2, 3), "{links:?}");
    assert_eq!(place.seen().len(), 3, "as its own, and nothing of others: {:?}", place.seen());

    fs::remove_dir_all(place.at("home/seen")).unwrap();
    let (two, second) = place.starts("shared");
    assert_eq!(place.links(), links, "one link for both");
    assert_eq!(place.ostler.says(&["stop", &first]).code, 0);
    ended(one);
    let runs = place.ostler.instance.data().join("skills/runs");
    let record = runs.join(first.trim_start_matches("run_"));
    until("the first run to let go", BOUND_MS, || (!record.exists()).then_some(()));
    assert_eq!(place.links(), links, "the second run still uses them");
    assert_eq!(place.ostler.says(&["stop", &second]).code, 0);
    ended(two);
    place.is_clean("the last stop");
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
}

#[test]
fn nothing_of_a_mount_is_left_however_the_agent_ends() {
    for manner in ["ends", "crashes", "dies"] {
        for agent in ["own", "shared"] {
            let place = Place::new(manner);
            let said = place.ostler.says(&["run", agent, "weigh this", "--json"]);
            assert_eq!(result(&said.events())["outcome"], "failed", "{manner} {agent}");
            assert_eq!(place.seen().len(), 3, "{manner} {agent}");
            place.is_clean(&format!("{agent}, which {manner}"));
        }
    }
}

#[test]
fn an_agent_with_no_way_of_its_own_is_told_where_its_skills_are_and_nothing_more() {
    let place = Place::new("succeeds");
    let said = place.ostler.says(&["run", "told", "weigh this", "--json"]);
    let events = said.events();
    assert_eq!(result(&events)["outcome"], "succeeded", "{:#?}", events.last());
    assert_eq!(place.seen(), ["SKILL.md"]);
    let prompt = fs::read_to_string(place.at("home/prompt")).unwrap();
    assert!(prompt.starts_with("weigh this\n\nSkills are at hand"), "{prompt}");
    assert!(prompt.contains("- weighing: Use when a thing is weighed. ("), "{prompt}");
    assert!(!prompt.contains("Weigh it."), "no body of a skill: {prompt}");
    let user = events.iter().find(|event| event["kind"] == "user_text").unwrap();
    assert_eq!(user["text"], "weigh this", "what the person said is shown as they said it");
    place.is_clean("a success");
}

#[test]
fn nothing_of_a_mount_is_left_when_the_host_is_killed() {
    for agent in ["own", "shared"] {
        // A host that is killed leaves the agent alive, and with it what it was given.
        let place = Place::new("waits");
        let (mut run, id) = place.starts(agent);
        signal(run.child.id() as i32, Signal::KILL);
        run.child.wait().unwrap();
        let there = (place.spooled().len(), place.links().len());
        assert_eq!(there, if agent == "own" { (2, 1) } else { (0, 3) }, "{agent}");
        assert_eq!(place.ostler.says(&["stop", &id]).code, 0);
        let events = place.ostler.events(&["watch", &id, "--json"]);
        assert_eq!(result(&events)["outcome"], "cancelled", "{agent}");
        place.is_clean(&format!("{agent}, adopted and stopped"));

        // With the keeper too: the next host settles the run and finds what is left.
        let place = Place::new("waits");
        let (mut run, id) = place.starts(agent);
        let keeper = keepers(&id)[0];
        signal(run.child.id() as i32, Signal::KILL);
        run.child.wait().unwrap();
        signal(keeper, Signal::KILL);
        place.ostler.says(&["watch", &id, "--json"]);
        place.is_clean(&format!("{agent}, found dead"));
    }
}

#[test]
fn links_of_a_run_that_was_settled_just_before_its_host_died_are_removed() {
    let place = Place::new("ends");
    let said = place.ostler.says(&["run", "shared", "weigh this", "--json"]);
    let id = said.events()[0]["run_id"].as_str().unwrap().trim_start_matches("run_").to_owned();
    // As the dead host would have left them.
    let kept = place.ostler.instance.data().join("skills");
    let (copy, link) = (kept.join("copies/ostler-x-1"), place.at("codex/skills/ostler-x-1"));
    fs::create_dir_all(&copy).unwrap();
    std::os::unix::fs::symlink(&copy, &link).unwrap();
    let record = json!([{ "at": link, "copy": "ostler-x-1" }]);
    fs::write(kept.join("runs").join(id), record.to_string()).unwrap();
    assert_eq!(place.links(), ["ostler-x-1", "theirs"]);
    let said = place.ostler.says(&["run", "demo", "hello", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    place.is_clean("the next start");
}

#[test]
fn a_skill_that_is_not_there_is_named_before_anything_is_started() {
    let place = Place::new("ends");
    let config = json!({ "agents": { "x": { "adapter": "demo", "skills": ["weighin"] } } });
    place.ostler.instance.write_config(&config.to_string());
    let said = place.ostler.says(&["run", "x", "hello"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(said.complaint().contains("no skill is called 'weighin'"), "{}", said.stderr);
    assert!(said.stderr.contains("did you mean 'weighing'?"), "{}", said.stderr);
    let said = place.ostler.says(&["config", "check"]);
    assert_eq!(said.code, 3, "{}", said.stdout);
    let found = said.stdout + &said.stderr;
    assert!(found.contains("agents.x.skills[0]: no skill is called 'weighin'"), "{found}");

    let outside = place.at("config/ostler/skills/weighing/passwords");
    std::os::unix::fs::symlink("/etc/passwd", outside).unwrap();
    let config = json!({ "agents": { "x": { "adapter": "demo", "skills": ["weighing"] } } });
    place.ostler.instance.write_config(&config.to_string());
    let said = place.ostler.says(&["run", "x", "hello"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(said.complaint().contains("leads out of it"), "{}", said.stderr);
    assert!(!place.ostler.instance.data().join("skills").exists());
}
