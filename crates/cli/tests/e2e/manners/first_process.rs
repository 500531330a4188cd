//! Ostler as the first process of a PID namespace, as in a container without an init: strangers who
//! lose their parents become its children. And a namespace with so few pids that they are used
//! again and again: nobody who merely has the number of someone gone is ended.
//! Where namespaces cannot be made the tests say so and check nothing.

use super::all;
use super::stage::children;
use crate::ostler::{BOUND_MS, Ostler, Running, result, signal};
use rustix::process::Signal;
use testkit::until;

/// Strangers that lose their parents.
const ORPHANS: u32 = 300;
const ORPHANS_MANY: u32 = 10_000;
/// Pids in the namespace; after the first time round only those above 300 are given out again.
const PIDS: u32 = 600;
/// Processes that must not be ended by anyone but themselves.
const BYSTANDERS: u32 = 150;

/// A command as the first process of a PID namespace with a `/proc` of its own, which the namespace
/// leaves with.
pub fn first(ostler: &Ostler, before: &str, args: &str) -> Option<Running> {
    let mut words = vec!["--pid", "--fork", "--mount-proc", "--kill-child"];
    if !rustix::process::getuid().is_root() {
        words.extend(["--user", "--map-root-user"]);
    }
    let can = ostler.instance.command("unshare").args(&words).arg("true").output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("PID namespaces cannot be made here, so nothing was checked: {can:?}");
        return None;
    }
    let script = format!("{before} exec {} {args}", crate::ostler::program().display());
    let mut command = ostler.instance.command("unshare");
    command.args(&words).args(["sh", "-c", &script]).stdin(std::process::Stdio::null());
    Some(Running::of(&mut command))
}

/// The first process as seen from here: the one child of `unshare`.
pub fn inner(running: &Running) -> u32 {
    until("the first process", BOUND_MS, || {
        children(running.child.id()).first().map(|(pid, _)| *pid)
    })
}

/// Runs a script inside the namespace of a process.
pub fn inside(ostler: &Ostler, pid: u32, script: &str) -> std::process::Command {
    let mut command = ostler.instance.command("nsenter");
    let target = pid.to_string();
    command.args(["--target", &target, "--pid", "--mount", "--user", "--preserve-credentials"]);
    if rustix::process::getuid().is_root() {
        command = ostler.instance.command("nsenter");
        command.args(["--target", &target, "--pid", "--mount"]);
    }
    command.args(["sh", "-c", script]).stdin(std::process::Stdio::null());
    command
}

#[test]
fn as_the_first_process_it_reaps_whoever_comes_to_it_and_leaves_when_told() {
    let ostler = Ostler::new();
    let Some(mut serve) = first(&ostler, "", "serve --listen 127.0.0.1:0") else { return };
    assert!(serve.line().starts_with("listening on "));
    let pid = inner(&serve);
    let count = if all() { ORPHANS_MANY } else { ORPHANS };
    let script = format!("i=0; while [ $i -lt {count} ]; do (true & ) ; i=$((i+1)); done");
    let done = inside(&ostler, pid, &script).output().expect("nsenter runs");
    assert!(done.status.success(), "{done:?}");
    let agent = ostler.fake("--double-fork --orphan");
    let run = format!("{} run --process '{agent}' x --json", crate::ostler::program().display());
    let ran = inside(&ostler, pid, &run).output().expect("nsenter runs");
    let events = crate::ostler::Said::from(ran).events();
    assert_eq!(result(&events)["outcome"], "succeeded");
    until("every zombie to be reaped", BOUND_MS, || children(pid).is_empty().then_some(()));
    signal(i32::try_from(pid).unwrap(), Signal::TERM);
    assert_eq!(serve.finish().code, 0, "it leaves in peace");
}

#[test]
fn as_the_first_process_a_run_passes_sigterm_on_and_exits() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--double-fork --wait-shutdown");
    let args = format!("run --process '{agent}' x --json");
    let Some(mut run) = first(&ostler, "", &args) else { return };
    run.event("the agent to run", |event| event["phase"] == "running");
    signal(i32::try_from(inner(&run)).unwrap(), Signal::TERM);
    let said = run.finish();
    let events = said.events();
    let last = events.last().expect("a result");
    assert_eq!((said.code, &last["outcome"]), (130, &"cancelled".into()), "{last}");
    assert!(testkit::find_marked(&ostler.instance.mark()).is_empty());
}

#[test]
fn nobody_is_ended_for_having_the_number_of_someone_gone() {
    let ostler = Ostler::new();
    // On the level where families and bystanders share their numbers.
    let before =
        format!("echo {PIDS} > /proc/sys/kernel/pid_max || exit 77; OSTLER_ISOLATION=basic");
    let Some(mut serve) = first(&ostler, &before, "serve --listen 127.0.0.1:0") else { return };
    if !serve.line().starts_with("listening on ") {
        eprintln!("this kernel has one pid_max for all, so nothing was checked");
        return;
    }
    let pid = inner(&serve);
    let program = crate::ostler::program().display();
    let agent = ostler.fake("--fork-often 20 --orphan --double-fork");
    let runs = if all() { 60 } else { 6 };
    let script = format!(
        "export OSTLER_ISOLATION=basic; i=0; while [ $i -lt {runs} ]; do
           {program} run --process '{agent}' x --json | grep -q '\"outcome\":\"succeeded\"' || echo failed
           i=$((i+1)); done"
    );
    let mut runs = inside(&ostler, pid, &script);
    let runs = std::thread::spawn(move || runs.output().expect("nsenter runs"));
    // Each lives a moment among numbers that are used up and given out again, then is ended by this
    // script: 143 is SIGTERM, anything else was someone else.
    let script = "while :; do
           sleep 60 & p=$!; (true); (true); (true); (true); (true); (true); (true); (true)
           echo $p; kill $p; wait $p; s=$?; [ $s = 143 ] || echo \"lost $p: $s\"; done";
    let mut crowd = Running::of(&mut inside(&ostler, pid, script));
    let (mut met, mut numbers) = (0, std::collections::BTreeSet::new());
    while met < BYSTANDERS || !runs.is_finished() {
        let line = crowd.line();
        assert!(!line.starts_with("lost"), "{line}");
        met += 1;
        numbers.insert(line);
    }
    let ran = runs.join().expect("the runs end");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "", "{ran:?}");
    eprintln!("{met} bystanders, {} numbers", numbers.len());
    assert!(numbers.len() < met as usize, "numbers were used again");
    signal(i32::try_from(pid).unwrap(), Signal::TERM);
    assert_eq!(serve.finish().code, 0);
    let _ = crowd.child.kill();
    let _ = crowd.child.wait();
}
