//! Links the program at fixed addresses, where that is known to work, and tells it what `--version`
//! says. A program that can be loaded anywhere has its pointers written anew in every process, so each
//! keeper would hold its own copy of all pages with a pointer in them;
//! `docs/decisions/0011-the-program-is-linked-at-fixed-addresses.md` weighs it. The code inside is the
//! same either way, and nothing else is decided here.

use std::path::Path;
use std::process::Command;

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script by its environment")]
fn main() {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let is = |name: &str, value: &str| {
        var(&format!("CARGO_CFG_TARGET_{name}")).is_some_and(|found| found == value)
    };
    if is("OS", "linux") && is("ENV", "gnu") {
        emit("cargo::rustc-link-arg-bins=-no-pie");
    }
    emit("cargo::rerun-if-changed=build.rs");
    emit("cargo::rerun-if-env-changed=OSTLER_COMMIT");
    emit("cargo::rerun-if-env-changed=OSTLER_COMMIT_DATE");
    // A debug build is made again and again between commits: naming one would link it anew each time.
    let is_debug = var("PROFILE").is_some_and(|profile| profile == "debug");
    let manifest = var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let given = var("OSTLER_COMMIT").map(|commit| (commit, var("OSTLER_COMMIT_DATE")));
    let commit = given.or_else(|| if is_debug { None } else { checked_out(&manifest) });
    let (commit, date) = commit.map_or((None, None), |(commit, date)| (Some(commit), date));
    let target = var("TARGET").unwrap_or_default();
    let version = var("CARGO_PKG_VERSION").unwrap_or_default();
    let parts = commit.iter().chain(&date).chain([&target]);
    let build = parts.map(String::as_str).collect::<Vec<_>>().join(", ");
    emit(&format!("cargo::rustc-env=OSTLER_VERSION_TEXT={version} ({build})"));
    emit(&format!("cargo::rustc-env=OSTLER_TARGET={target}"));
    if let Some(commit) = commit {
        emit(&format!("cargo::rustc-env=OSTLER_COMMIT={commit}"));
    }
    if let Some(date) = date {
        emit(&format!("cargo::rustc-env=OSTLER_COMMIT_DATE={date}"));
    }
}

/// The commit of the checkout that this crate is built in, and its date; none without git, or in another project's
/// repository.
fn checked_out(manifest: &str) -> Option<(String, Option<String>)> {
    let root = Path::new(manifest).parent()?.parent()?;
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(root, &["rev-parse", "--git-path", file])?;
        emit(&format!("cargo::rerun-if-changed={}", root.join(path).display()));
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    Some((commit, git(root, &["show", "--no-patch", "--format=%cs", "HEAD"])))
}

#[expect(clippy::disallowed_methods, reason = "a build script starts git itself")]
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}

/// The one way to tell cargo anything.
#[allow(clippy::print_stdout)]
fn emit(instruction: &str) {
    println!("{instruction}");
}
