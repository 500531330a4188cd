//! The environment of an agent, and of everything else that is started: built from a list, so that a
//! secret with an odd name is not in it.

use super::Tally;
use crate::mcp::{list, post};
use crate::ostler::{BOUND_MS, Ostler, keepers};
use serde_json::Value;
use std::collections::BTreeMap;

/// Names as people give them to secrets, none of which any pattern would know.
fn secrets() -> BTreeMap<String, String> {
    const STEMS: &[&str] = &[
        "DATABASE_URL",
        "PGPASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "NPM_CONFIG__AUTH",
        "DOCKER_AUTH_CONFIG",
        "SSH_ASKPASS",
        "KUBECONFIG",
        "VAULT_ADDR",
        "SENTRY_DSN",
        "MY_PW",
        "pass",
        "Kennwort",
        "x",
        "_",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "PYTHONPATH",
        "NODE_AUTH_TOKEN",
        "GIT_SSH_COMMAND",
        "HISTFILE",
        "PROMPT_COMMAND",
        "OSTLER_SECRET",
        "CA_OTHER",
        "MCP_OTHER",
        "CLAUDE_CODE_X",
        "HTTP_COOKIE",
        "SUDO_ASKPASS",
        "LCD_KEY",
        "PATH_KEY",
        "HOME_KEY",
        "TERM_KEY",
        "LANGUAGE_KEY",
        "ключ",
        "秘密",
        "a.b",
        "a-b",
        "naïve",
    ];
    let stems = STEMS.iter().cycle().take(200).enumerate();
    stems
        .map(|(i, stem)| {
            let name = if i < STEMS.len() { (*stem).to_owned() } else { format!("{stem}_{i}") };
            (name, format!("odd-s3cret-{i:03}"))
        })
        .collect()
}

/// An agent that writes its environment down and waits.
const AGENT: &str = r#"
env -0 > environ.part && mv environ.part environ
while [ ! -e done ]; do sleep 0.05; done
echo '{"type":"complete","output":{"text":"done"}}'
"#;

#[test]
fn of_two_hundred_secrets_a_child_has_those_that_the_configuration_names() {
    let ostler = Ostler::new();
    let script = ostler.instance.root().join("agent.sh");
    std::fs::write(&script, AGENT).unwrap();
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/mcp_server.py");
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "mine": {{ "type": "process", "binary": "sh", "args": ["{}"],
                "envPassthrough": ["SENTRY_DSN"], "env": {{ "NAMED": "${{MY_PW}}" }} }} }},
             "mcpServers": {{ "near": {{ "command": "python3", "args": ["{server}"] }} }} }}"#,
        script.display()
    ));
    let secrets = secrets();
    assert_eq!(secrets.len(), 200);
    let mut command = ostler.command(&["run", "mine", "x", "--json"]);
    // These two would change the loader and the shell before anything of ours runs.
    let given = secrets.iter().filter(|(name, _)| !name.starts_with("LD_"));
    let mut run = crate::ostler::Running::of(command.envs(given));
    let work = ostler.instance.work();
    let text = testkit::until("the agent's environment", BOUND_MS, || {
        std::fs::read_to_string(work.join("environ")).ok()
    });
    let mut tally = Tally::new("environment");
    let named = [("SENTRY_DSN", &secrets["SENTRY_DSN"]), ("NAMED", &secrets["MY_PW"])];
    for (name, value) in named {
        let given = format!("{name}={value}");
        tally.row(text.split('\0').any(|entry| entry == given), || format!("{given} is missing"));
    }
    let found = |text: &str, of: &str, tally: &mut Tally, allowed: &[&str]| {
        for (name, value) in secrets.iter().filter(|(name, _)| !allowed.contains(&name.as_str())) {
            tally.row(!text.contains(value.as_str()), || format!("{of} has {name}"));
        }
    };
    found(&text, "the agent", &mut tally, &["SENTRY_DSN", "MY_PW"]);
    let event = run.event("the first event", |event: &Value| event["run_id"].is_string());
    let id = event["run_id"].as_str().unwrap().to_owned();
    let keepers = keepers(&id);
    assert!(!keepers.is_empty());
    for pid in keepers {
        // Whoever is not root may not look at a process that holds secrets, which is as good.
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        found(&String::from_utf8_lossy(&environ), "the keeper", &mut tally, &[]);
    }
    // A server of the configuration is started when someone asks for its tools.
    let value = |name: &str| {
        let entry = text.split('\0').find_map(|entry| entry.strip_prefix(&format!("{name}=")));
        entry.unwrap_or_default().to_owned()
    };
    let (status, _) = post(&value("MCP_SERVER_URL"), &value("OSTLER_LEASE_TOKEN"), &list());
    assert_eq!(status, 200);
    let servers = testkit::until("the MCP server", BOUND_MS, || {
        let found = processes_with("mcp_server.py", &ostler.instance.mark());
        (!found.is_empty()).then_some(found)
    });
    for environ in servers {
        found(&environ, "an MCP server", &mut tally, &[]);
    }
    std::fs::write(work.join("done"), "").unwrap();
    run.finish();
    tally.close(600);
}

/// The environments of the processes of this instance whose command line holds a word.
fn processes_with(word: &str, mark: &str) -> Vec<String> {
    let left = testkit::find_marked(mark).into_iter();
    left.filter(|process| process.command.contains(word))
        .filter_map(|process| std::fs::read(format!("/proc/{}/environ", process.pid)).ok())
        .map(|environ| String::from_utf8_lossy(&environ).into_owned())
        .collect()
}
