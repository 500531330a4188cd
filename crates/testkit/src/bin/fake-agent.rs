//! An agent with bad manners on demand, for tests alone. It speaks the process protocol of
//! `docs/protocols/json-lines.md`; `fake-agent --help` lists its flags, `testkit::agent` does the
//! work.

fn main() -> std::process::ExitCode {
    testkit::agent::main()
}
