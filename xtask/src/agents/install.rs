//! Puts pinned packages into a cache by npm or pip, one folder for each, and does nothing for those
//! that are there. A folder without its seal was left half done and is made anew. Where packages
//! come from, and by which proxy, is the configuration of those two and the environment's.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;
use testkit::agents::{By, LIBRARY, NODE, PYTHON, Pin};

/// The longest one package may take; the largest took nine minutes on a busy machine.
const INSTALL_SEC: u32 = 900;
/// The longest a CLI may take to say its version.
const VERSION_SEC: u32 = 60;

/// Installs what is missing and gives those that failed, each with why.
pub fn all(home: &Path, pins: &[Pin]) -> Result<Vec<String>, String> {
    fs::create_dir_all(home).map_err(|error| format!("making {}: {error}", home.display()))?;
    let door = home.join("lock");
    let lock =
        File::create(&door).map_err(|error| format!("making {}: {error}", door.display()))?;
    // Two at once would take away each other's half-done folders.
    lock.lock().map_err(|error| format!("locking {}: {error}", door.display()))?;
    println!("agents are kept in {}", home.display());
    let mut failed = Vec::new();
    for pin in pins {
        if pin.is_installed(home) {
            println!("{} {}: is there", pin.id, pin.version);
            continue;
        }
        let began = Instant::now();
        println!("{} {}: installing {}", pin.id, pin.version, pin.package);
        match one(home, pin) {
            Ok(()) => {
                println!("{} {}: installed in {} s", pin.id, pin.version, began.elapsed().as_secs())
            }
            Err(why) => {
                println!("{} {}: {why}", pin.id, pin.version);
                failed.push(format!("{} {}", pin.id, pin.version));
            }
        }
    }
    Ok(failed)
}

/// One that does not install is a failure, never something left out.
pub fn verdict(failed: &[String]) -> Result<(), String> {
    match failed {
        [] => Ok(()),
        failed => Err(format!("did not install: {}", failed.join(", "))),
    }
}

fn one(home: &Path, pin: &Pin) -> Result<(), String> {
    let dir = pin.dir(home);
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(|error| format!("emptying {}: {error}", dir.display()))?;
    }
    fs::create_dir_all(&dir).map_err(|error| format!("making {}: {error}", dir.display()))?;
    match pin.by {
        By::Npm => by_npm(home, pin, &dir)?,
        By::Pip => by_pip(home, pin, &dir)?,
    }
    tells_its_version(home, pin)?;
    fs::write(pin.seal(home), pin.version).map_err(|error| format!("sealing it: {error}"))
}

fn by_npm(home: &Path, pin: &Pin, dir: &Path) -> Result<(), String> {
    let package = format!("{}@{}", pin.package, pin.version);
    let mut npm = bounded(INSTALL_SEC, "npm", path(home, pin));
    npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix"]).arg(dir).arg(package);
    succeed(&mut npm, "npm install")?;
    if let Some(script) = pin.after {
        let mut node = bounded(INSTALL_SEC, "node", path(home, pin));
        node.arg(script).current_dir(dir.join("node_modules").join(pin.package));
        succeed(&mut node, script)?;
    }
    Ok(())
}

/// An environment of its own: two of them want the same packages in different versions.
fn by_pip(home: &Path, pin: &Pin, dir: &Path) -> Result<(), String> {
    let python = python()?;
    let mut venv = bounded(INSTALL_SEC, &python, path(home, pin));
    succeed(venv.args(["-m", "venv"]).arg(dir), "python -m venv")?;
    let package = format!("{}=={}", pin.package, pin.version);
    let mut pip = bounded(INSTALL_SEC, dir.join("bin/python"), path(home, pin));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", &package]).args(pin.with);
    succeed(&mut pip, "pip install").map(drop)
}

/// The Python that is wanted: on PATH under its own name, or among the versions that pyenv keeps,
/// whose names on PATH answer only for the version that is chosen.
fn python() -> Result<PathBuf, String> {
    let name = format!("python{PYTHON}");
    let homes = ["PYENV_ROOT", "HOME"].map(|name| std::env::var_os(name).map(PathBuf::from));
    let [root, home] = homes;
    let versions = root.or(home.map(|home| home.join(".pyenv"))).map(|root| root.join("versions"));
    let entries = versions.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let mut kept: Vec<PathBuf> =
        entries.map(|entry| entry.path().join("bin").join(&name)).collect();
    kept.sort();
    let mut all = std::iter::once(PathBuf::from(&name)).chain(kept);
    let answers = |path: &PathBuf| {
        let output = Command::new(path).arg("--version").stdin(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success())
    };
    all.find(answers).ok_or_else(|| format!("no {name} was found, on PATH or in pyenv: install it"))
}

/// It starts, and is the version that was asked for. It gets nothing of the machine's environment.
fn tells_its_version(home: &Path, pin: &Pin) -> Result<(), String> {
    let empty = tempfile::tempdir().map_err(|error| format!("making a folder: {error}"))?;
    let program = pin.path(home);
    let mut command = bounded(VERSION_SEC, &program, path(home, pin));
    let path = path(home, pin);
    match pin.program {
        LIBRARY => command.args(["-m", "pip", "show", pin.package]),
        _ => command.arg("--version"),
    };
    command.env_clear().env("PATH", path).env("HOME", empty.path());
    let output = succeed(command.current_dir(empty.path()), "--version")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.contains(pin.version) {
        true => Ok(()),
        false => Err(format!("asked for its version it said {:?}", said.trim())),
    }
}

/// The machine's own PATH, behind the newer Node where that is wanted.
fn path(home: &Path, pin: &Pin) -> std::ffi::OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let node = NODE.path(home).parent().map(Path::to_owned).filter(|_| pin.newer_node);
    let all: Vec<PathBuf> = node.into_iter().chain(std::env::split_paths(&own)).collect();
    std::env::join_paths(all).unwrap_or(own)
}

fn bounded(
    seconds: u32,
    program: impl AsRef<std::ffi::OsStr>,
    path: std::ffi::OsString,
) -> Command {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=10").arg(seconds.to_string()).arg(program).env("PATH", path);
    command.stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command, what: &str) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = stderr.lines().rev().take(12).collect();
    let words: Vec<&str> = last.into_iter().rev().collect();
    let how = match output.status.code() {
        Some(124 | 137) => "took too long".to_owned(),
        _ => format!("ended with {}", output.status),
    };
    Err(format!("{what} {how}\n{}", words.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::agents::PINS;

    fn sealed(home: &Path, pin: &Pin) {
        let program = pin.path(home);
        fs::create_dir_all(program.parent().expect("a parent")).expect("folders");
        fs::write(&program, "#!/bin/sh\necho something else\n").expect("a file");
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::write(pin.seal(home), pin.version).expect("a seal");
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let home = tempfile::tempdir().expect("a folder");
        sealed(home.path(), &PINS[0]);
        // Nothing is started, so a PATH without npm would do as well.
        assert_eq!(all(home.path(), &PINS[..1]), Ok(Vec::new()));
        assert_eq!(fs::read(PINS[0].seal(home.path())).expect("kept"), PINS[0].version.as_bytes());
    }

    #[test]
    fn a_program_that_is_another_version_is_no_success() {
        let home = tempfile::tempdir().expect("a folder");
        sealed(home.path(), &PINS[0]);
        let why = tells_its_version(home.path(), &PINS[0]).expect_err("it says something else");
        assert_eq!(why, "asked for its version it said \"something else\"");
        assert!(verdict(&[why]).is_err());
    }
}
