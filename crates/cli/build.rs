//! Links the program at fixed addresses, where that is known to work. A program that can be loaded
//! anywhere has its pointers written anew in every process, so each keeper would hold its own copy of
//! all pages with a pointer in them; `docs/decisions/0011-the-program-is-linked-at-fixed-addresses.md`
//! weighs it. The code inside is the same either way, and nothing else is decided here.

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script by its environment")]
fn main() {
    let of_target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}"));
    let is = |name: &str, value: &str| of_target(name).is_ok_and(|found| found == value);
    if is("OS", "linux") && is("ENV", "gnu") {
        emit("cargo::rustc-link-arg-bins=-no-pie");
    }
    emit("cargo::rerun-if-changed=build.rs");
}

/// The one way to tell cargo anything.
#[allow(clippy::print_stdout)]
fn emit(instruction: &str) {
    println!("{instruction}");
}
