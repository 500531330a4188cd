//! Workspaces of their own, as people meet them: a worktree for a run, its diff, bringing it back,
//! going on in it, directories that are only for one run, and what is told when two meet. Hosts are
//! killed while they make one.

use crate::git::git;
use crate::ostler::{Ostler, Running, Said, result, signal};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// An instance whose working directory is a person's repository.
fn with_repository() -> Ostler {
    let ostler = Ostler::new();
    repository(&ostler);
    ostler
}

/// Makes the working directory of an instance one.
pub fn repository(ostler: &Ostler) {
    let work = ostler.instance.work();
    git(&work, &["init", "-q", "-b", "main"]);
    for (name, text) in [("a.txt", "one\ntwo\n"), ("src/b.txt", "b\n"), (".gitignore", "*.log\n")] {
        fs::create_dir_all(work.join(name).parent().unwrap()).unwrap();
        fs::write(work.join(name), text).unwrap();
    }
    git(&work, &["add", "."]);
    git(&work, &["commit", "-qm", "first"]);
}

/// An agent that does this in its working directory and is done.
fn agent(ostler: &Ostler, name: &str, does: &str) -> String {
    let path = ostler.instance.root().join(format!("{name}.sh"));
    let end = r#"echo '{"type":"complete","text":"done"}'"#;
    fs::write(&path, format!("#!/bin/sh\n{does}\n{end}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn good(said: &Said) -> Vec<Value> {
    assert_eq!(said.code, 0, "{}\n{}", said.stderr, said.stdout);
    said.events()
}

fn id(events: &[Value]) -> String {
    events[0]["run_id"].as_str().unwrap().to_owned()
}

fn warnings(events: &[Value]) -> Vec<&str> {
    let warned = events.iter().filter(|event| event["level"] == "warning");
    warned.filter_map(|event| event["text"].as_str()).collect()
}

fn json(said: &Said) -> Value {
    assert_eq!(said.code, 0, "{}", said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

/// The workspaces that there are.
fn trees(ostler: &Ostler) -> Vec<PathBuf> {
    let entries = fs::read_dir(ostler.instance.data().join("trees")).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

#[test]
fn work_in_a_worktree_is_looked_at_and_brought_back_and_the_checkout_is_left_alone_until_then() {
    let ostler = with_repository();
    let work = ostler.instance.work();
    fs::write(work.join("open.txt"), "not committed\n").unwrap();
    let does = "pwd; echo two more >> a.txt; echo new > src/new.txt; echo noise > x.log; \
                printf %s \"$OSTLER_LEASE_TOKEN\" > token.txt";
    let agent = agent(&ostler, "agent", does);
    let events = good(&ostler.says(&["run", "--worktree", "--process", &agent, "x", "--json"]));
    let run = id(&events);
    let warned = warnings(&events);
    assert!(warned.iter().any(|text| text.contains("1 path of")), "{warned:?}");
    assert_eq!(git(&work, &["status", "--porcelain"]), "?? open.txt\n", "nothing is changed here");

    let names = json(&ostler.says(&["diff", &run, "--json"]));
    let tree = PathBuf::from(names["worktree"].as_str().unwrap());
    assert!(tree.starts_with(ostler.instance.data()), "{}", tree.display());
    let files: Vec<_> =
        names["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(files, ["a.txt", "src/new.txt", "token.txt"]);
    assert_eq!(names["files"][0]["added"], 1);
    let token = fs::read_to_string(tree.join("token.txt")).unwrap();
    let diff = ostler.says(&["diff", &run]);
    assert!(token.len() > 20 && !diff.stdout.contains(&token), "{}", diff.stdout);
    // What is not a secret is the patch to the byte.
    fs::remove_file(tree.join("token.txt")).unwrap();
    let diff = ostler.says(&["diff", &run]);
    let patch = ostler.instance.root().join("patch");
    fs::write(&patch, &diff.stdout).unwrap();
    git(&work, &["apply", "--check", &patch.display().to_string()]);

    let applied = ostler.says(&["apply", &run]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert!(applied.stdout.contains(": merged 2 files into "), "{}", applied.stdout);
    assert!(applied.stdout.starts_with("applied "), "{}", applied.stdout);
    assert_eq!(fs::read_to_string(work.join("a.txt")).unwrap(), "one\ntwo\ntwo more\n");
    assert_eq!(git(&work, &["status", "--porcelain"]), "?? open.txt\n");
    assert_eq!(git(&work, &["log", "--format=%s"]), "x\nfirst\n");
    assert_eq!(git(&work, &["branch", "--format=%(refname:short)"]), "main\n");
    assert_eq!(git(&work, &["worktree", "list"]).lines().count(), 1);
    assert!(!tree.exists());
    let again = ostler.says(&["apply", &run]);
    assert_eq!(again.code, 13, "{}", again.stderr);
    assert_eq!(ostler.says(&["diff", &run]).stdout, diff.stdout, "it can still be looked at");
}

#[test]
fn a_secret_in_what_a_run_changed_is_not_shown_wherever_it_stands() {
    const SECRET: &str = "ruby-4f9a77-otter-lake";
    let ostler = with_repository();
    let does = |more: &str| {
        format!(
            "echo $SHIP_TOKEN > a.txt; echo x > name-$SHIP_TOKEN.txt; git init -q in-$SHIP_TOKEN; \
             echo x > in-$SHIP_TOKEN/file; {more}"
        )
    };
    let long = "yes a line that fills a patch | head -c 5000000 > long.txt";
    for (name, does) in [("short", does("true")), ("long", does(long))] {
        let config = serde_json::json!({ "adapters": { name: {
            "type": "process",
            "binary": agent(&ostler, name, &does),
            "env": { "SHIP_TOKEN": SECRET },
        } } });
        ostler.instance.write_config(&config.to_string());
        let run = id(&good(&ostler.says(&["run", name, "x", "--worktree", "--json"])));
        let names = ostler.says(&["diff", &run, "--json"]).stdout;
        let patch = ostler.says(&["diff", &run]).stdout;
        for (said, redacted) in
            [(&names, "name-[redacted:"), (&names, "in-[redacted:"), (&patch, "+[redacted:")]
        {
            assert!(said.contains(redacted), "{redacted} in {said:.2000}");
            assert!(!said.contains(SECRET), "{said:.2000}");
        }
    }
}

#[test]
fn a_patch_is_left_uncommitted_and_what_does_not_fit_changes_nothing() {
    let ostler = with_repository();
    let work = ostler.instance.work();
    let agent = agent(&ostler, "agent", "echo theirs > a.txt; echo new > new.txt");
    let run =
        |_| id(&good(&ostler.says(&["run", "--worktree", "--process", &agent, "x", "--json"])));
    let [first, second] = [0, 1].map(run);
    let applied = json(&ostler.says(&["apply", &first, "--patch", "--json"]));
    assert_eq!((&applied["how"], &applied["files"]), (&"patch".into(), &2.into()), "{applied}");
    let status = git(&work, &["status", "--porcelain"]);
    assert_eq!(status, " M a.txt\n?? new.txt\n");
    for how in ["--patch", "--merge"] {
        let refused = ostler.says(&["apply", &second, how]);
        assert_eq!(refused.code, 13, "{how}: {}", refused.stderr);
        assert!(refused.complaint().contains("a.txt is not committed"), "{}", refused.stderr);
        assert_eq!(git(&work, &["status", "--porcelain"]), status);
    }
    // A run of the person's own directory has nothing to bring back.
    let here = id(&good(&ostler.says(&["run", "demo", "hello", "--json"])));
    let refused = ostler.says(&["diff", &here]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.complaint().contains("not in a worktree"), "{}", refused.stderr);
}

#[test]
fn in_a_workspace_of_its_own_an_agent_may_write_without_being_told_so() {
    let ostler = with_repository();
    let agent = ostler.fake(r#"--tool write_file '{"path":"w.txt","content":"w"}'"#);
    let answered = |flags: &[&str]| {
        let args = [&["run", "--process", &agent, "x", "--json"], flags].concat();
        let events = good(&ostler.says(&args));
        let answer = events.iter().find(|event| event["kind"] == "tool_result").cloned();
        answer.expect("the tool is answered")["status"].clone()
    };
    assert_eq!(answered(&[]), "error", "a person's own directory is not to be written to");
    assert_eq!(answered(&["--worktree"]), "ok");
    assert_eq!(answered(&["--temporary"]), "ok");
    assert_eq!(answered(&["--worktree", "--permission", "deny"]), "error", "what is said counts");
}

#[test]
fn a_temporary_directory_is_gone_with_its_run_unless_it_is_kept() {
    let ostler = Ostler::new();
    let note = ostler.instance.root().join("cwd");
    let agent =
        agent(&ostler, "agent", &format!("ls -A | wc -l; pwd > {}; echo x > f", note.display()));
    let cwd = |flags: &[&str]| {
        let args = [&["run", "--temporary", "--process", &agent, "x", "--json"], flags].concat();
        good(&ostler.says(&args));
        PathBuf::from(fs::read_to_string(&note).unwrap().trim())
    };
    let gone = cwd(&[]);
    assert!(gone.starts_with(ostler.instance.data()));
    testkit::until("the directory to be removed", 60_000, || (!gone.exists()).then_some(()));
    assert!(cwd(&["--keep"]).join("f").exists());
    let outside = ostler.says(&["run", "--worktree", "--process", &agent, "x"]);
    assert_eq!(outside.code, 3, "{}", outside.stderr);
    assert!(outside.complaint().contains("not in a git repository"), "{}", outside.stderr);
}

#[test]
fn a_conversation_goes_on_in_the_worktree_that_it_was_held_in() {
    let ostler = with_repository();
    let root = ostler.instance.root().display().to_string();
    let recording =
        format!("{}/../runtimes/src/gemini/recordings/hello", env!("CARGO_MANIFEST_DIR"));
    let script = ostler.instance.root().join("gemini.sh");
    let fake = testkit::fake_agent();
    let text = format!(
        "#!/bin/sh\npwd >> {root}/cwds; echo on >> on.txt; cat > /dev/null\nexec {} --again {recording}\n",
        fake.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let config = serde_json::json!({
        "adapters": { "g": { "type": "cli", "runtime": "gemini", "binary": script } },
        "agents": { "mine": { "adapter": "g", "workspace": "worktree" } },
    });
    ostler.instance.write_config(&config.to_string());
    let first = id(&good(&ostler.says(&["run", "mine", "first", "--json"])));
    good(&ostler.says(&["run", "mine", "second", "--continue", "--json"]));
    good(&ostler.says(&["run", "mine", "third", "--resume", &first, "--json"]));
    good(&ostler.says(&["run", "mine", "apart", "--json"]));
    let cwds = fs::read_to_string(format!("{root}/cwds")).unwrap();
    let cwds: Vec<_> = cwds.lines().collect();
    assert_eq!((cwds[1], cwds[2]), (cwds[0], cwds[0]), "{cwds:?}");
    assert_ne!(cwds[3], cwds[0], "one that goes on from none has its own");
    assert!(!ostler.instance.work().join("on.txt").exists());
    let diff = ostler.says(&["diff", &first]);
    assert!(diff.stdout.contains("+on\n+on\n+on\n"), "{}", diff.stdout);
}

#[test]
fn two_runs_in_one_directory_are_told_and_go_on_and_worktrees_do_not_meet() {
    let ostler = with_repository();
    let waits = ostler.fake("--wait-shutdown");
    let mut first = ostler.starts(&["run", "--process", &waits, "x", "--json"]);
    let begun = first.event("the agent to run", |event| event["phase"] == "running");
    let first_id = begun["run_id"].as_str().unwrap().to_owned();
    let quick = ostler.fake("--burst 1");
    let run = |flags: &[&str]| {
        let args = [&["run", "--process", &quick, "x", "--json"], flags].concat();
        good(&ostler.says(&args))
    };
    let events = run(&[]);
    let warned = warnings(&events);
    assert_eq!(warned.len(), 1, "{warned:?}");
    let digits = &first_id[first_id.len() - 8..];
    assert!(warned[0].starts_with("1 other run works in this directory ("), "{warned:?}");
    assert!(warned[0].contains(&format!(" {digits})")), "{warned:?}");
    assert_eq!(result(&events)["outcome"], "succeeded");
    let below = ostler.instance.work().join("src");
    assert_eq!(warnings(&run(&["--cwd", below.to_str().unwrap()])).len(), 1, "below it, too");
    let beside = ostler.instance.root().join("tmp");
    assert_eq!(warnings(&run(&["--cwd", beside.to_str().unwrap()])), [""; 0], "beside it");
    assert_eq!(warnings(&run(&["--worktree"])), [""; 0]);
    assert_eq!(ostler.says(&["stop", &first_id]).code, 0);
    first.finish();
    assert_eq!(warnings(&run(&[])), [""; 0]);
}

/// Moments at which a host dies that makes a worktree.
const MOMENTS: u64 = 12;

#[test]
fn a_host_killed_while_it_makes_a_worktree_leaves_nothing_that_the_next_one_does_not_remove() {
    let ostler = with_repository();
    let work = ostler.instance.work();
    // Large enough for filling it to take a while.
    for n in 0..1500 {
        let dir = work.join(format!("many/{}", n % 40));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{n}.txt")), "x".repeat(200)).unwrap();
    }
    git(&work, &["add", "."]);
    git(&work, &["commit", "-qm", "many"]);
    let shown = || {
        let words = ["status --porcelain", "branch", "worktree list", "fsck"];
        words.map(|words| git(&work, &words.split(' ').collect::<Vec<_>>()))
    };
    let before = shown();
    let agent = agent(&ostler, "agent", "true");
    let mut half = 0;
    for moment in 0..MOMENTS {
        let mut run: Running =
            ostler.starts(&["run", "--worktree", "--process", &agent, "x", "--json"]);
        testkit::until("it to be begun", 60_000, || (!trees(&ostler).is_empty()).then_some(()));
        std::thread::sleep(Duration::from_millis(moment * 9));
        signal(run.child.id() as i32, Signal::KILL);
        run.child.wait().unwrap();
        let record =
            |tree: &PathBuf| fs::read_to_string(tree.join("tree.json")).unwrap_or_default();
        half +=
            trees(&ostler).iter().filter(|tree| !record(tree).contains("\"made\":true")).count();
        // Runs that came to be have their worktrees: they are brought back, or were not begun.
        let rows = json(&ostler.says(&["runs", "--json"]));
        for row in rows.as_array().unwrap() {
            let run = row["id"].as_str().unwrap();
            ostler.says(&["watch", run]);
            ostler.says(&["apply", run]);
        }
        let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(serve.line().starts_with("listening on "));
        let given_back = |tree: &PathBuf| record(tree).contains("given_back");
        testkit::until("what was left to be removed", 60_000, || {
            trees(&ostler).iter().all(given_back).then_some(())
        });
        for tree in trees(&ostler) {
            fs::remove_dir_all(tree).unwrap();
        }
        signal(serve.child.id() as i32, Signal::TERM);
        assert_eq!(serve.finish().code, 0);
        assert_eq!(shown(), before, "moment {moment}");
    }
    eprintln!("{half} of {MOMENTS} worktrees were half made");
    assert!(half > 0, "no host died early enough");
}

fn branches(ostler: &Ostler) -> String {
    git(&ostler.instance.work(), &["branch", "--format=%(refname:short)"])
}

#[test]
fn delete_refuses_a_run_with_unapplied_work() {
    let ostler = with_repository();
    let agent = agent(&ostler, "agent", "echo theirs > a.txt; echo new > new.txt");
    let run = id(&good(&ostler.says(&["run", "--worktree", "--process", &agent, "x", "--json"])));
    let refused = ostler.says(&["runs", "delete", &run]);
    assert_eq!(refused.code, 13, "{}", refused.stderr);
    for said in ["2 changed files (a.txt, new.txt)", "ostler diff", "ostler apply", "--force"] {
        assert!(refused.stderr.contains(said), "{said} in {}", refused.stderr);
    }
    let discard = ostler.says(&["worktrees", "discard", &run]);
    assert_eq!(discard.code, 13, "{}", discard.stderr);
    let pruned = json(&ostler.says(&["worktrees", "prune", "--json"]));
    assert_eq!((&pruned["removed"], &pruned["kept"]), (&serde_json::json!([]), &1.into()));
    let diff = ostler.says(&["diff", &run]);
    assert!(diff.stdout.contains("+theirs"), "the work is still there: {}", diff.stdout);

    assert_eq!(ostler.says(&["runs", "delete", &run, "--force"]).code, 0);
    assert_eq!(branches(&ostler), "main\n");
    assert_eq!(trees(&ostler), [] as [PathBuf; 0]);
}

#[test]
fn unchanged_worktree_goes_with_its_run() {
    let ostler = with_repository();
    let agent = agent(&ostler, "agent", "echo noise > build.log");
    let said = ostler.says(&["run", "--worktree", "--process", &agent, "x"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert!(told.contains("no files changed in the worktree"), "{told}");
    assert!(!told.contains("ostler apply"), "{told}");
    testkit::until("the worktree to be removed", 60_000, || {
        (branches(&ostler) == "main\n").then_some(())
    });
    let rows = json(&ostler.says(&["runs", "--json"]));
    let run = rows[0]["id"].as_str().unwrap();
    let diff = ostler.says(&["diff", run]);
    assert_eq!((diff.code, diff.stdout.trim()), (0, ""), "{}", diff.stderr);
    let applied = ostler.says(&["apply", run]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert!(applied.stdout.contains("nothing was changed"), "{}", applied.stdout);
    assert_eq!(json(&ostler.says(&["worktrees", "--json"])), serde_json::json!([]));
    assert_eq!(ostler.says(&["runs", "delete", run]).code, 0);
}

#[test]
fn worktrees_are_listed_discarded_and_pruned() {
    let ostler = with_repository();
    let agent = agent(&ostler, "agent", "echo theirs > a.txt");
    let run =
        |_| id(&good(&ostler.says(&["run", "--worktree", "--process", &agent, "x", "--json"])));
    let [first, second] = [0, 1].map(run);
    let waits = ostler.fake("--wait-shutdown");
    let mut live = ostler.starts(&["run", "--worktree", "--process", &waits, "x", "--json"]);
    let begun = live.event("the agent to run", |event| event["phase"] == "running");
    let live_id = begun["run_id"].as_str().unwrap().to_owned();
    let rows = json(&ostler.says(&["worktrees", "list", "--json"]));
    let states: Vec<_> = rows.as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["live", "unapplied", "unapplied"], "{rows}");
    assert_eq!(rows[1]["files"], 1);
    let refused = ostler.says(&["worktrees", "discard", &live_id, "--force"]);
    assert_eq!(refused.code, 13, "{}", refused.stderr);
    let table = ostler.says(&["worktrees"]).stdout;
    assert!(table.contains("unapplied work") && table.contains("1 file"), "{table}");

    let discarded = ostler.says(&["worktrees", "discard", &second, "--force"]);
    assert_eq!(discarded.code, 0, "{}", discarded.stderr);
    assert!(discarded.stdout.contains("1 changed file"), "{}", discarded.stdout);
    // Undone by hand, the other is unchanged.
    let directory = rows[2]["directory"].as_str().unwrap();
    git(std::path::Path::new(directory), &["checkout", "-q", "."]);
    let pruned = json(&ostler.says(&["worktrees", "prune", "--json"]));
    assert_eq!(pruned["removed"][0]["run_id"], first, "{pruned}");
    assert_eq!(pruned["kept"], 1, "{pruned}");
    assert_eq!(ostler.says(&["stop", &live_id]).code, 0);
    live.finish();
    testkit::until("all worktrees to be removed", 60_000, || {
        (branches(&ostler) == "main\n").then_some(())
    });
    assert_eq!(ostler.says(&["worktrees", "discard", &second]).code, 16);
}

#[test]
fn resumed_run_gets_its_unchanged_worktree_again() {
    let ostler = with_repository();
    let root = ostler.instance.root().display().to_string();
    let recording =
        format!("{}/../runtimes/src/gemini/recordings/hello", env!("CARGO_MANIFEST_DIR"));
    let script = ostler.instance.root().join("gemini.sh");
    let fake = testkit::fake_agent();
    let text = format!(
        "#!/bin/sh\npwd >> {root}/cwds; cat > /dev/null\nexec {} --again {recording}\n",
        fake.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let config = serde_json::json!({
        "adapters": { "g": { "type": "cli", "runtime": "gemini", "binary": script } },
        "agents": { "mine": { "adapter": "g", "workspace": "worktree" } },
    });
    ostler.instance.write_config(&config.to_string());
    let first = id(&good(&ostler.says(&["run", "mine", "first", "--json"])));
    good(&ostler.says(&["run", "mine", "second", "--continue", "--json"]));
    good(&ostler.says(&["run", "mine", "third", "--resume", &first, "--json"]));
    let cwds = fs::read_to_string(format!("{root}/cwds")).unwrap();
    let cwds: Vec<_> = cwds.lines().collect();
    assert_eq!((cwds[1], cwds[2]), (cwds[0], cwds[0]), "{cwds:?}");
    testkit::until("the worktree to be removed", 60_000, || {
        (branches(&ostler) == "main\n").then_some(())
    });
}
