//! Mutations that no test can turn red, or none should: by name, with the reason. Whoever adds one
//! says why the code does the same without it, or what holds in its stead. A mutation that survives
//! and is not named here makes `cargo xtask mutate` fail.

pub const KNOWN: &[(&str, &str)] = &[];

pub fn reason(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}
