//! Development tools of this repository: `cargo xtask <tool>`. Nothing here is part of the product.
//! Each tool is one module and one line in `main`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool speaks to its terminal")]
#![allow(clippy::disallowed_methods, reason = "a tool may start processes and read the clock")]

mod agents;
mod bench;
mod date;
mod docs;
mod fuzz;
mod mutate;
mod requirements;
mod simulate;
mod tidy;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask tidy            check the rules of the tree that the compiler does not know
cargo xtask docs            write the generated pages of docs/
cargo xtask docs --check    compare them with what would be written
cargo xtask docs --breaking write them, with an API that breaks clients of the kept docs/openapi.json
cargo xtask bench NAME      measure against a floor of the same minutes: size, memory, cold, start,
                            stop, commit, growth, fanout, pipeline, decode, or all (--write puts
                            the table into docs/benchmarks.md); builds what it needs with
                            optimisation first
cargo xtask bench agents    what Ostler adds to the agents of others that are greeted; --pairs N,
                            --only ID, --write to keep it in docs/benchmarks.md
cargo xtask bench acp [--write | --quick]
                            one run of a scripted ACP agent through us and through others that drive
                            such agents, which are installed first; lost updates beside the time
cargo xtask bench instructions [--check | --write]
                            count instructions with valgrind; against those kept, or keep them
cargo xtask agents          install the agents of others that are pinned, and drive them against a
                            scripted model on loopback; --all for those beyond every day, --write
                            to keep what came of it in docs/agents/real.md, --install alone
cargo xtask fuzz            odd bytes into everything that reads what others wrote; --seconds N,
                            --inputs N and --seed S, --everyday for the gate, --target NAME for
                            one: frame, jsonlines, mapped, seal, deltas, config, resolve, template,
                            sse, spool, dialect (of all runtimes), dialect-ID (of one); --coverage
                            by libFuzzer, --blind with it for what our own loop reaches, --input FILE
                            to try what it found again
cargo xtask mutate          break the code in one place after another, and name the test that turns
                            red; --list, --kind K, --only PART, --rest (without those that are
                            settled), --narrow (only the nearest tests), --write for docs/mutations.md
cargo xtask requirements [ID …]
                            run the tests that show these requirements of the source documents;
                            --all for every one, with --write for docs/evidence/requirements.md
cargo xtask simulate        nodes over one store, by seed, with everything that can come between;
                            --seeds N, --first S, --disk N, --seed S for one, with its script,
                            --disk-seed S for one over SQLite
cargo xtask torture         kill the product at named points and at any instant, and check what it
                            promised; --points N, --seed S, --failpoint NAME, --case I, --jobs J,
                            --seconds T to begin no case after that
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy::run(&root()),
        ["docs"] => docs::write(&root(), docs::Breaks::Never),
        ["docs", "--breaking"] => docs::write(&root(), docs::Breaks::OnPurpose),
        ["docs", "--check"] => docs::check(&root()),
        ["agents", rest @ ..] => agents::run(&root(), rest),
        ["bench" | "bench-built" | "bench-agent" | "bench-count", ..] => {
            bench::run(&root(), &words)
        }
        ["fuzz" | "fuzz-built", ..] => fuzz::run(&root(), &words),
        ["mutate", rest @ ..] => mutate::run(&root(), rest),
        ["requirements", rest @ ..] => requirements::run(&root(), rest),
        ["simulate" | "simulate-built", ..] => simulate::run(&root(), &words),
        ["torture", rest @ ..] => torture::run(&root(), rest),
        [] | ["--help" | "-h" | "help"] => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("no tool is called '{}'\n{HELP}", other.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// The root of the checkout this tool runs in: cargo says where, for the one it was built in may
/// have moved since.
fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map(Path::to_owned).unwrap_or(own)
}
