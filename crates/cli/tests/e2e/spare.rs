//! The keeper that a server has in hand: it is taken by the next run, followed by another, replaced
//! when it died, and never outlives its server. A command that hosts its one run keeps none.

use crate::manners::first_process::{first, inner, inside};
use crate::ostler::{BOUND_MS, Ostler, Running, Said, program, result, signal};
use rustix::process::Signal;
use std::fs;
use testkit::until;

const SPARE: &str = "spare keeper";

fn serve(ostler: &Ostler) -> (Running, u32) {
    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(serve.line().starts_with("listening on "));
    let pid = serve.child.id();
    (serve, pid)
}

fn named(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// The children of a process that live, with their names.
fn children(pid: u32) -> Vec<(u32, String)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let text = lists.map(Result::unwrap_or_default).collect::<String>();
    let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.filter_map(|pid| Some((pid, named(pid)?))).collect()
}

/// The spare of a server that is not `other`.
fn spare(server: u32, other: Option<u32>) -> u32 {
    until("a spare keeper", BOUND_MS, || {
        let mut spares = children(server).into_iter().filter(|(_, name)| name == SPARE);
        spares.find(|(pid, _)| Some(*pid) != other).map(|(pid, _)| pid)
    })
}

fn gone(pid: u32) {
    until("the spare keeper to be gone", BOUND_MS, || named(pid).is_none().then_some(()));
}

#[test]
fn a_run_takes_the_spare_keeper_and_another_takes_its_place() {
    let ostler = Ostler::new();
    let (serve, server) = serve(&ostler);
    let before = spare(server, None);
    let agent = ostler.fake("--burst 5 --wait-shutdown");
    let mut run = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    run.event("the agent to run", |event| event["phase"] == "running");
    until("the spare to be the run's keeper", BOUND_MS, || {
        named(before)?.starts_with("keep ").then_some(())
    });
    let after = spare(server, Some(before));
    // It was told nothing and holds nothing of its server's.
    if let Ok(held) = fs::read_dir(format!("/proc/{after}/fd")) {
        let held = held.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        let data = ostler.instance.root();
        let ours: Vec<_> = held.filter(|path| path.starts_with(data)).collect();
        assert!(ours.is_empty(), "{ours:?}");
    }
    signal(i32::try_from(server).unwrap(), Signal::TERM);
    assert_eq!(serve.finish().code, 0, "it leaves in peace");
    assert!(named(after).is_none(), "a server waits for its spare");
    assert!(named(before).is_some(), "and for no keeper that has a run");
    let run = run.event("its end or its next host", |_| true);
    ostler.says(&["stop", run["run_id"].as_str().unwrap()]);
    gone(before);
}

#[test]
fn a_spare_that_was_killed_is_replaced_and_no_run_meets_it() {
    let ostler = Ostler::new();
    let (serve, server) = serve(&ostler);
    let agent = ostler.fake("--burst 5");
    let mut before = None;
    for _ in 0..3 {
        let now = spare(server, before);
        signal(i32::try_from(now).unwrap(), Signal::KILL);
        // At once, and not after anyone had the time to notice.
        let events = ostler.events(&["run", "--process", &agent, "x", "--json"]);
        assert_eq!(result(&events)["outcome"], "succeeded");
        before = Some(now);
    }
    // Also without any run, and nobody is left as a zombie.
    let last = spare(server, before);
    signal(i32::try_from(last).unwrap(), Signal::KILL);
    spare(server, Some(last));
    gone(last);
    signal(i32::try_from(server).unwrap(), Signal::TERM);
    assert_eq!(serve.finish().code, 0);
}

#[test]
fn a_spare_outlives_no_server_however_that_ends() {
    let ostler = Ostler::new();
    let (serve, server) = serve(&ostler);
    let spare = spare(server, None);
    signal(i32::try_from(server).unwrap(), Signal::KILL);
    serve.finish();
    gone(spare);
}

#[test]
fn a_command_that_hosts_its_own_run_keeps_no_spare() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--burst 5 --sleep-ms 300");
    let mut run = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    run.event("the agent to run", |event| event["phase"] == "running");
    while run.child.try_wait().unwrap().is_none() {
        let spares: Vec<_> =
            children(run.child.id()).into_iter().filter(|(_, name)| name == SPARE).collect();
        assert!(spares.is_empty(), "{spares:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(run.finish().code, 0);
}

#[test]
fn an_agent_sees_what_was_mounted_after_its_keeper_was_started() {
    let ostler = Ostler::new();
    let Some(mut serve) = first(&ostler, "", "serve --listen 127.0.0.1:0") else { return };
    assert!(serve.line().starts_with("listening on "));
    let server = inner(&serve);
    spare(server, None);
    let work = ostler.instance.work().join("mounted");
    fs::create_dir_all(&work).unwrap();
    let script = format!(
        r#"mount -t tmpfs none {0} && cd {0} && echo '{{"type":"complete"}}' >seen &&
           exec {1} run --process 'cat seen' x --json"#,
        work.display(),
        program().display(),
    );
    let ran = inside(&ostler, server, &script).output().expect("nsenter runs");
    let events = Said::from(ran).events();
    assert_eq!(result(&events)["outcome"], "succeeded", "{events:?}");
    signal(i32::try_from(server).unwrap(), Signal::TERM);
    assert_eq!(serve.finish().code, 0);
}
