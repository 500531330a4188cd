//! A workspace that the run owns, for an agent that writes files of its own into whatever workspace
//! it has: it is there for as long as the run lives, gone after every ending, and what was asked for
//! is in the directory of the run. The agent is a script under the name of the real one, which does
//! with its configuration what the real one does; the real one is driven in the suite `agents`.

use crate::ostler::{BOUND_MS, Ostler, Running, keepers, result, signal};
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use testkit::until;

/// Settles in at the workspace of its configuration, writes where it is to work, and says where it
/// was; then it does as it is told.
const AGENT: &str = r#"#!/bin/sh
named() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/" "$OPENCLAW_CONFIG_PATH"; }
workspace=$(named workspace)
mkdir -p "$workspace/.git" && echo mine > "$workspace/AGENTS.md"
echo asked > "$(named cwd)/asked.txt"
cat "$(named '\$include')" > "$HOME/included"
printf '%s' "$workspace" > "$HOME/at.new" && mv "$HOME/at.new" "$HOME/at"
case "$(cat "$HOME/manner")" in
  ends) exit 0 ;;
  crashes) exit 3 ;;
  dies) kill -9 $$ ;;
esac
exec sleep 120
"#;

/// What the person has set up, which no run may change.
const USERS: &str = r#"{ "agents": { "defaults": { "workspace": "~/.openclaw/workspace" } } }"#;

struct Place {
    ostler: Ostler,
}

impl Place {
    fn new(manner: &str) -> Self {
        let ostler = Ostler::new();
        let root = ostler.instance.root().to_owned();
        let script = root.join("agent.sh");
        fs::write(&script, AGENT).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        fs::create_dir_all(root.join("home/.openclaw")).unwrap();
        fs::write(root.join("home/.openclaw/openclaw.json"), USERS).unwrap();
        fs::write(root.join("home/manner"), manner).unwrap();
        let adapter = json!({
            "type": "cli", "runtime": "openclaw", "binary": script.display().to_string(),
            "permission": "allow-all", "graceSec": 1,
        });
        ostler.instance.write_config(&json!({ "adapters": { "mine": adapter } }).to_string());
        Self { ostler }
    }

    fn home(&self, name: &str) -> PathBuf {
        self.ostler.instance.root().join("home").join(name)
    }

    /// The workspace that the agent had.
    fn workspace(&self) -> PathBuf {
        fs::read_to_string(self.home("at")).expect("the agent was there").into()
    }

    fn starts(&self) -> (Running, String) {
        let mut run = self.ostler.starts(&["run", "mine", "write it", "--json"]);
        let begun = run.event("the agent to run", |event| event["phase"] == "running");
        let id = begun["run_id"].as_str().unwrap().to_owned();
        until("the agent to settle in", BOUND_MS, || self.home("at").exists().then_some(()));
        assert!(self.workspace().join("AGENTS.md").exists());
        (run, id)
    }

    /// The workspace is gone, and of the agent there is only what was asked for.
    fn is_clean(&self, what: &str) {
        let workspace = self.workspace();
        let work = self.ostler.instance.work();
        assert!(!workspace.starts_with(&work) && !workspace.starts_with(self.home("")), "{what}");
        until("the workspace to be gone", BOUND_MS, || (!workspace.exists()).then_some(()));
        let left = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["asked.txt"], "{what}");
        let mine = fs::read_dir(self.home(".openclaw")).unwrap().count();
        let users = fs::read_to_string(self.home(".openclaw/openclaw.json")).unwrap();
        assert_eq!((mine, users.as_str()), (1, USERS), "{what}");
        assert_eq!(fs::read_to_string(self.home("included")).unwrap(), USERS, "{what}");
    }
}

#[test]
fn a_workspace_of_its_own_is_gone_however_the_agent_ends() {
    for manner in ["ends", "crashes", "dies"] {
        let place = Place::new(manner);
        let said = place.ostler.says(&["run", "mine", "write it", "--json"]);
        assert_eq!(result(&said.events())["outcome"], "failed", "{manner}");
        place.is_clean(manner);
    }
    let place = Place::new("waits");
    let (run, id) = place.starts();
    assert_eq!(place.ostler.says(&["stop", &id]).code, 0);
    assert_eq!(result(&run.finish().events())["outcome"], "cancelled");
    place.is_clean("stopped");
}

#[test]
fn a_workspace_of_its_own_outlives_its_host_and_not_its_run() {
    let place = Place::new("waits");
    let (mut run, id) = place.starts();
    let keeper = keepers(&id)[0];
    signal(run.child.id() as i32, Signal::KILL);
    run.child.wait().unwrap();
    assert!(place.workspace().exists(), "the agent lives on");
    signal(keeper, Signal::KILL);
    place.ostler.says(&["watch", &id, "--json"]);
    place.is_clean("found dead");
}
