//! The keeper without the product around it, so that this crate's tests can start real ones.

fn main() -> std::process::ExitCode {
    keeper::keep()
}
