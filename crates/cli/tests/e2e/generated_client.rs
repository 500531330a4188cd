//! A client that openapi-python-client generates from the document, as it is served without a token:
//! every operation is generated, and a run and a task go end to end through it. The stage `api` of the
//! gate brings the generator.

use crate::door::Door;
use crate::ostler::Said;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The generator, as it is on PyPI.
const GENERATOR: &str = "openapi-python-client==0.29.1";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/generated_client.py");

/// Where the gate has put it; none unless this run is to use it.
fn generator() -> Option<PathBuf> {
    std::env::var_os("OSTLER_TEST_GENERATOR")?;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let bin = target.join("openapi-python-client/bin");
    let tool = bin.join("openapi-python-client");
    assert!(tool.exists(), "{GENERATOR} is not there: run ./scripts/test --stage api");
    Some(bin)
}

fn run(command: &mut Command, bin: &Path) -> Said {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    Said::from(command.env("PATH", path).stdin(Stdio::null()).output().expect("it starts"))
}

#[test]
fn generated_python_client_runs_a_task() {
    let Some(bin) = generator() else {
        eprintln!("skipped: the stage `api` of ./scripts/test brings {GENERATOR}");
        return;
    };
    let door = Door::open();
    let root = door.ostler.instance.root().to_owned();
    let answer = door.request("GET", "/api/v1/openapi.json", &[("host", &door.address)], "");
    assert_eq!(answer.status, 200, "it is readable without a token: {}", answer.body);
    let document: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(document["servers"][0]["url"], format!("http://{}", door.address));
    let kept = root.join("openapi.json");
    std::fs::write(&kept, &answer.body).unwrap();
    let client = root.join("client/ostler_client");
    std::fs::create_dir_all(client.parent().unwrap()).unwrap();
    let mut generate = Command::new(bin.join("openapi-python-client"));
    generate.args(["generate", "--meta", "none", "--path"]).arg(&kept);
    let said = run(generate.arg("--output-path").arg(&client), &bin);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let skipped = said.stdout.contains("Unable to process schema");
    assert!(!skipped, "every schema has a name: {}", said.stdout);
    let paths = document["paths"].as_object().unwrap();
    let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    let modules = std::fs::read_dir(client.join("api/default")).unwrap();
    let modules =
        modules.filter(|file| file.as_ref().is_ok_and(|file| file.file_name() != "__init__.py"));
    assert_eq!(modules.count(), operations, "{}", said.stdout);

    let mut play = Command::new(bin.join("python"));
    play.arg(SCRIPT).args([format!("http://{}", door.address), door.token.clone()]);
    play.arg(door.ostler.instance.work()).env("PYTHONPATH", root.join("client"));
    let said = run(&mut play, &bin);
    assert_eq!((said.code, said.stdout.trim()), (0, "done"), "{}", said.stderr);
}
