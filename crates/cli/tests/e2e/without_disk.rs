//! Work without a shared disk: an agent in an empty directory far from the workspace fetches the
//! snapshot with the token of its run, changes files there, and sends back what changed. The person's
//! repository then shows just that. The snapshot is unpacked by Python, which shares no code with
//! what packed it.

use crate::door::Door;
use crate::git::git;
use crate::mcp::Guest;
use crate::ostler::{Ostler, kinds, result};
use crate::security::Tally;
use serde_json::{Value, json};
use std::path::Path;

/// An agent as it would be on another machine: it knows the address and the token, and nothing of
/// our disk. What it makes of the repository goes back as git wrote it.
const REMOTE: &str = include_str!("without_disk.py");

/// A person's repository, with what must never leave it.
fn repository(work: &Path) {
    git(work, &["init", "-q"]);
    for (name, text) in [
        (".gitignore", "*.key\n"),
        ("my.key", "ignored-secret"),
        ("src/one.txt", "one\n"),
        ("café.txt", "tout\nle reste\n"),
        ("gone.txt", "bye\n"),
        ("old.sh", "#!/bin/sh\necho old\n"),
        ("kept.txt", "kept\n"),
    ] {
        let path = work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(work.join("old.sh"), executable).unwrap();
    std::os::unix::fs::symlink("kept.txt", work.join("link")).unwrap();
    git(work, &["add", "-A"]);
    git(work, &["commit", "-qm", "first"]);
}

fn remote(ostler: &Ostler, permission: &str) -> Vec<Value> {
    let root = ostler.instance.root();
    let far = root.join("far");
    let _ = std::fs::remove_dir_all(&far);
    std::fs::create_dir(&far).unwrap();
    let script = root.join("remote.py");
    std::fs::write(&script, REMOTE).unwrap();
    let agent = format!("python3 {} {}", script.display(), far.display());
    let args = ["run", "--process", &agent, "x", "--json", "--permission", permission];
    let said = ostler.says(&args);
    assert_eq!(said.code, 0, "{}\n{}", said.stderr, said.stdout);
    said.events()
}

#[test]
fn a_remote_edits_a_repository_through_its_snapshot_and_one_patch() {
    let ostler = Ostler::new();
    let work = ostler.instance.work();
    repository(&work);
    let events = remote(&ostler, "allow-all");
    let named = events.iter().find(|event| event["kind"] == "log" && event["stream"] == "stdout");
    let named: Vec<String> =
        serde_json::from_str(named.unwrap()["text"].as_str().unwrap()).unwrap();
    let expected =
        [".gitignore", "café.txt", "gone.txt", "kept.txt", "link", "old.sh", "src/one.txt"];
    assert_eq!(named, expected, "tracked and unignored, and no .git");

    let answer = &result(&events)["output"]["answer"];
    assert_eq!(answer["value"]["files"].as_array().map(Vec::len), Some(6), "{answer}");
    let status = git(&work, &["-c", "core.quotePath=false", "status", "--porcelain", "-uall"]);
    let mut lines: Vec<&str> = status.lines().collect();
    lines.sort_unstable();
    let expected = [
        " D gone.txt",
        " D old.sh",
        " M café.txt",
        " M src/one.txt",
        "?? moved.sh",
        "?? new/empty",
        "?? new/three.sh",
    ];
    assert_eq!(lines, expected, "just that, and nothing else");
    let read = |name: &str| std::fs::read_to_string(work.join(name)).unwrap();
    assert_eq!(read("src/one.txt"), "one\nand more\n");
    assert_eq!(read("café.txt"), "tout\nautre\n");
    assert_eq!((read("moved.sh"), read("new/empty")), ("#!/bin/sh\necho old\n".into(), "".into()));
    for name in ["moved.sh", "new/three.sh"] {
        let mode = work.join(name).metadata().unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&mode);
        assert_eq!(mode & 0o100, 0o100, "{name}");
    }
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "diff").count(), 6);
}

#[test]
fn a_remote_that_may_not_write_reads_and_changes_nothing() {
    let ostler = Ostler::new();
    let work = ostler.instance.work();
    repository(&work);
    let events = remote(&ostler, "allow-reads");
    let answer = &result(&events)["output"]["answer"];
    let refusal = answer["error"].as_str().unwrap_or_default();
    assert!(refusal.starts_with("permission_denied: "), "{answer}");
    assert_eq!(git(&work, &["status", "--porcelain"]), "");
}

/// Asks for the workspace of a run with a token: the status, and what came.
fn fetched(door: &Door, run: &str, token: &str) -> (u16, String) {
    let bearer = format!("Bearer {token}");
    let headers = [("host", door.address.as_str()), ("authorization", &bearer)];
    let answer = door.request("GET", &format!("/api/v1/runs/{run}/workspace"), &headers, "");
    let code = serde_json::from_str::<Value>(&answer.body).unwrap_or_default();
    let code = code["code"].as_str().map(str::to_owned);
    (answer.status, code.unwrap_or(answer.body))
}

#[test]
fn a_workspace_is_given_to_its_own_run_alone_and_holds_nothing_of_ours() {
    let served = Door::open();
    let ostler = &served.ostler;
    let root = ostler.instance.root();
    // A workspace with our own directory in it, and a second name of our token.
    let guest = Guest::of_cwd(ostler, root);
    let token = guest.token().to_owned();
    let run = guest.run();
    let mut tally = Tally::new("workspaces");
    std::fs::hard_link(ostler.instance.data().join("token"), root.join("twin")).unwrap();
    std::fs::write(root.join("mine"), "inside\n").unwrap();
    let (status, tar) = fetched(&served, &run, &token);
    tally.row(status == 200 && tar.contains("inside\n"), || format!("its own: {status}"));
    for (name, secret) in [
        ("the owner's token", served.token.as_str()),
        ("a spool", "run/ostler/"),
        ("the store", "ostler.db"),
        ("the address", "data/ostler"),
        ("the second name of the token", "twin"),
    ] {
        tally.row(!tar.contains(secret), || format!("{name} is in the snapshot"));
    }
    let other = "run_01890000000070008000000000000001";
    for (name, run, token, status, code) in [
        ("another run", other, token.as_str(), 403, "forbidden"),
        ("the owner", run.as_str(), served.token.as_str(), 403, "forbidden"),
        ("the owner, of nothing", other, served.token.as_str(), 404, "not_found"),
        ("nobody", run.as_str(), "", 401, "unauthorized"),
        ("a cut token", run.as_str(), &token[1..], 401, "unauthorized"),
        ("no id", "..", token.as_str(), 403, "forbidden"),
        ("a short id", &run[run.len() - 8..], token.as_str(), 403, "forbidden"),
    ] {
        let got = fetched(&served, run, token);
        tally.row(got == (status, code.to_owned()), || format!("{name}: {got:?}"));
    }
    guest.finish();
    let got = fetched(&served, &run, &token);
    tally.row(got == (401, "unauthorized".to_owned()), || format!("after its end: {got:?}"));
    tally.close(14);
}

/// Ways to write a path that leads out, in every place of a patch that can name one.
#[test]
fn no_patch_of_a_remote_leads_out_of_the_workspace() {
    let ostler = Ostler::new();
    let work = ostler.instance.work();
    let outside = ostler.instance.root().join("outside");
    std::fs::write(&outside, "outside\n").unwrap();
    std::os::unix::fs::symlink("../outside", work.join("way")).unwrap();
    std::fs::write(work.join("in"), "in\n").unwrap();
    let guest = Guest::new(&ostler, &["--permission", "allow-all"]);
    let mut tally = Tally::new("patched paths");
    for path in [
        "../outside",
        "/etc/passwd",
        "way",
        "a/../../outside",
        ".git/hooks/pre-commit",
        "\"..\\057outside\"",
        "\"\\056\\056/outside\"",
        "in/x",
        "\"a\\000b\"",
    ] {
        let plain = path.trim_matches('"');
        for (name, patch) in [
            ("renamed to", format!("diff --git a/in b/x\nrename from in\nrename to {path}\n")),
            ("renamed from", format!("diff --git a/x b/y\nrename from {path}\nrename to y\n")),
            ("made empty", format!("diff --git a/{plain} b/{plain}\nnew file mode 100644\n")),
            (
                "removed empty",
                format!("diff --git a/{plain} b/{plain}\ndeleted file mode 100644\n"),
            ),
            ("made", format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n")),
            ("removed", format!("--- {path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-outside\n")),
        ] {
            let answer = guest.call("apply_patch", &json!({ "patch": patch }));
            // A name with a backslash is an odd name inside, where it is not quoted.
            let harmless = path.contains('\\') && answer.is_ok() && !name.starts_with("renamed");
            tally.row(answer.is_err() || harmless, || format!("{name} {path}: {answer:?}"));
        }
        let same = std::fs::read_to_string(&outside).unwrap() == "outside\n";
        tally.row(same && work.join("in").exists(), || format!("{path} changed what it may not"));
    }
    guest.finish();
    tally.close(60);
}
