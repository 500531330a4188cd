//! How strongly a family is held when the keeper itself is killed, and what the agent sees of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use keeper::door::{self, Spawned};
use keeper::mark;
use keeper::plan::Level;
use keeper::record::Isolation;
use rustix::process::{Pid, Signal, getuid, kill_process};

use crate::scene::{PATIENCE, Scene};

/// An agent with children in sessions of their own, one of them an orphan, all deaf to SIGTERM.
const ESCAPES: &str = "trap '' TERM
    setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' &
    (setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' &)
    sleep 0.2; echo ready; while :; do sleep 1; done";
/// Somebody nobody is: `nobody` by custom.
const STRANGER: u32 = 65_534;

fn at(level: Level, script: &str) -> Scene {
    Scene::with(script, |plan| plan.level = level)
}

fn gone(scene: &Scene) -> bool {
    comes_true(|| scene.family().is_empty())
}

fn comes_true(what: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// A keeper without privileges: as it is, or as a stranger where the tests run as root.
fn unprivileged(home: &Path, level: Level) -> Spawned {
    if !getuid().is_root() {
        return crate::scene::spawn(level);
    }
    let (program, start) = (home.join("keep-alone"), home.join("start"));
    fs::copy(env!("CARGO_BIN_EXE_keep-alone"), &program).unwrap();
    let script = format!(
        "#!/bin/sh\nexec setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups {} \"$@\"\n",
        program.display()
    );
    fs::write(&start, script).unwrap();
    for path in [&program, &start] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut waiting = vec![home.to_owned()];
    while let Some(path) = waiting.pop() {
        chown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    door::spawn(&start, level, None).unwrap()
}

/// A strict keeper, with privileges or without, unless neither way is open on this machine; then
/// nothing may have been started.
fn strict(script: &str) -> Option<Scene> {
    type Start = fn(&Path, Level) -> Spawned;
    let starts: [Start; 2] = [unprivileged, |_, level| crate::scene::spawn(level)];
    for start in starts {
        let mut scene = Scene::kept_by(start, script, |plan| plan.level = Level::Strict);
        if scene.hello.agent_pid.is_some() {
            return Some(scene);
        }
        let words = scene.end().spawn_error.unwrap();
        assert!(words.starts_with("isolation strict: strict: "), "{words}");
        assert!(scene.family().is_empty());
    }
    None
}

/// The keeper inside, as seen from here: the one child of the process that was started.
fn inner(scene: &Scene) -> Pid {
    let pid = scene.keeper.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    Pid::from_raw(children.trim().parse().unwrap()).unwrap()
}

#[test]
fn nothing_survives_a_strict_keeper_whichever_half_is_killed() {
    for kill_inner in [false, true] {
        let Some(mut scene) = strict(ESCAPES) else { return };
        scene.read_until_out("ready");
        assert!(scene.family().len() >= 3, "{:?}", scene.family());
        assert_eq!(scene.hello.isolation, Isolation::Strict);
        let target = if kill_inner { inner(&scene) } else { Pid::from_child(&scene.keeper) };
        kill_process(target, Signal::KILL).unwrap();
        scene.keeper.wait().unwrap();
        // The guard leaves after the last of them; only when it is killed itself is there a moment.
        assert!(if kill_inner { scene.family().is_empty() } else { gone(&scene) });
        assert!(!door::is_alive(&scene.dir()));
    }
}

#[test]
fn the_guard_says_alive_until_it_leaves_itself() {
    let Some(mut scene) = strict("echo ready; exec sleep 61.5") else { return };
    scene.read_until_out("ready");
    let guard = Pid::from_child(&scene.keeper);
    // One that stands still cannot leave, however dead the keeper is.
    kill_process(guard, Signal::STOP).unwrap();
    kill_process(inner(&scene), Signal::KILL).unwrap();
    assert!(gone(&scene));
    assert!(door::is_alive(&scene.dir()));
    kill_process(guard, Signal::CONT).unwrap();
    scene.keeper.wait().unwrap();
    assert!(!door::is_alive(&scene.dir()));
}

#[test]
fn what_a_killed_basic_keeper_leaves_is_found_by_its_mark() {
    let mut scene = at(Level::Basic, ESCAPES);
    scene.read_until_out("ready");
    assert_eq!(scene.hello.isolation, Isolation::Basic);
    scene.keeper.kill().unwrap();
    scene.keeper.wait().unwrap();
    assert!(!scene.family().is_empty(), "the hole of this level");
    let (name, value) = scene.plan.mark.clone();
    let ended = mark::end_leftovers(&scene.dir(), (&name, &value), 200).unwrap();
    assert!(ended >= 2, "{ended}");
    assert!(gone(&scene));
}

#[test]
fn a_group_holds_those_who_cleared_their_mark() {
    let script = "env -i setsid sleep 61.5 & sleep 0.2; echo ready $!; exec sleep 61.5";
    let mut scene = at(Level::Cgroup, script);
    if scene.hello.agent_pid.is_none() {
        // No place was delegated to whoever runs this test; then nothing may have been started.
        let words = scene.end().spawn_error.unwrap();
        assert!(words.starts_with("isolation cgroup: cgroup: "), "{words}");
        assert!(scene.family().is_empty());
        return;
    }
    scene.read_until_out("ready");
    assert_eq!(scene.hello.isolation, Isolation::Cgroup);
    let child = scene.out().trim().rsplit(' ').next().unwrap().to_owned();
    let group = fs::read_to_string(scene.dir().join("cgroup")).unwrap();
    let members = fs::read_to_string(Path::new(&group).join("cgroup.procs")).unwrap();
    assert!(members.lines().any(|pid| pid == child), "{child} in {members}");
    scene.keeper.kill().unwrap();
    scene.keeper.wait().unwrap();
    let (name, value) = scene.plan.mark.clone();
    mark::end_leftovers(&scene.dir(), (&name, &value), 200).unwrap();
    assert!(gone(&scene));
    let runs = || {
        fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|argv| argv.starts_with(b"sleep\0"))
    };
    let deadline = Instant::now() + PATIENCE;
    while runs() {
        assert!(Instant::now() < deadline, "{child} lives on");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!Path::new(&group).exists(), "the group is removed");
}

#[test]
fn a_level_is_taken_shown_and_explained() {
    // By name it is given or nothing starts; without a name what is there is taken, with a reason.
    let mut scene = Scene::kept_by(unprivileged, "cat", |plan| plan.level = Level::Auto);
    scene.stop(0, 0);
    scene.end();
    let begin = scene.begin();
    assert_eq!(begin.isolation, scene.hello.isolation);
    let why = begin.isolation_note.expect("a keeper without privileges is not strict by itself");
    assert!(why.starts_with("strict: making a PID namespace: "), "{why}");

    let mut scene = Scene::kept_by(unprivileged, "cat", |plan| plan.level = Level::Cgroup);
    match scene.hello.agent_pid {
        Some(_) => scene.stop(0, 0),
        None => assert_eq!(scene.hello.isolation, Isolation::Basic),
    }
    let refused = scene.end().spawn_error;
    assert_eq!(refused.is_some(), scene.hello.agent_pid.is_none(), "{refused:?}");
}

#[test]
fn the_strict_agent_is_itself_and_sees_its_family_alone() {
    let script = "id -u; id -g; echo $$ $(ls -d /proc/[0-9]* | wc -l) $(cat /proc/1/comm)
        touch mine; stat -c %u mine; cat";
    let Some(mut scene) = strict(script) else { return };
    scene.read_until(|heard| {
        heard.iter().flat_map(|h| &h.payload).filter(|b| **b == b'\n').count() >= 4
    });
    let out = scene.out();
    let lines: Vec<_> = out.lines().collect();
    use std::os::unix::fs::MetadataExt as _;
    let keeper = fs::metadata(format!("/proc/{}", scene.keeper.id())).unwrap().uid().to_string();
    assert_eq!((lines[0], lines[3]), (&*keeper, &*keeper), "{out}");
    let [pid, processes, ref first @ ..] = lines[2].split(' ').collect::<Vec<_>>()[..] else {
        panic!("{out}")
    };
    assert!(pid != "1" && processes.parse::<u32>().unwrap() < 8, "{out}");
    assert_eq!(first[0], "keep", "{out}");
    // What the server is told is the pid that the server sees.
    let seen = scene.hello.agent_pid.unwrap();
    assert_eq!(fs::read_to_string(format!("/proc/{seen}/comm")).unwrap(), "sh\n");
    assert_eq!(scene.hello.keeper_pid, scene.keeper.id() as i32);
    scene.say(1, "over the pipe\n");
    scene.read_until_out("over the pipe");
    kill_process(Pid::from_child(&scene.keeper), Signal::TERM).unwrap();
    assert_eq!(scene.end().asked_by.as_deref(), Some("signal"), "signals are passed on");
}

#[test]
fn a_strict_keeper_serves_one_server_after_another_and_testifies() {
    let mut scene = at(Level::Strict, "echo one; read go; echo two; exit 7");
    if scene.hello.agent_pid.is_none() {
        assert!(scene.end().spawn_error.unwrap().starts_with("isolation strict: strict: "));
        return;
    }
    scene.read_until_out("one");
    scene.hang_up();
    let reply = scene.dial(crate::scene::FENCE);
    assert_eq!(reply.isolation, Isolation::Strict);
    assert_eq!(reply.agent_pid, scene.hello.agent_pid);
    scene.say(1, "go\n");
    assert_eq!(scene.end().exit_code, Some(7));
    assert_eq!(scene.out(), "one\ntwo\n");
}

#[test]
fn a_keeper_that_hangs_is_ended_by_its_identity_and_nobody_in_its_place() {
    let mut scene = at(Level::Basic, "echo ready; exec sleep 61.5");
    scene.read_until_out("ready");
    kill_process(Pid::from_child(&scene.keeper), Signal::STOP).unwrap();
    assert!(mark::end_keeper(&scene.dir()));
    scene.keeper.wait().unwrap();
    assert!(gone(&scene));
    assert!(!mark::end_keeper(&scene.dir()), "it is gone");
    assert!(door::lock_out(&scene.dir()).unwrap().is_some());
}

#[test]
fn a_keeper_that_comes_late_to_a_locked_spool_starts_nothing() {
    let late = |home: &Path, level| {
        let spawned = crate::scene::spawn(level);
        let spool = home.join("x".repeat(120)).join("run-1.1");
        std::mem::forget(door::lock_out(&spool).unwrap().expect("nobody has it yet"));
        spawned
    };
    let refused = std::panic::catch_unwind(|| Scene::kept_by(late, "touch started", |_| {}));
    assert!(refused.is_err(), "there is no hello");
}

/// What the kernel says a process is called.
fn called(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

#[test]
fn a_spare_keeper_is_where_its_agent_will_be_and_a_signal_to_it_reaches_no_run() {
    let (ready, level) = ("spare keeper", Level::Auto);
    let spare = crate::scene::spawn(level);
    assert!(comes_true(|| called(spare.child.id()) == ready));
    let mut asked = crate::scene::spawn(level);
    assert!(comes_true(|| called(asked.child.id()) == ready));
    kill_process(Pid::from_child(&asked.child), Signal::TERM).unwrap();
    assert!(asked.child.wait().unwrap().success(), "it leaves in peace");

    let mut scene = Scene::kept_by(|_, _| spare, "echo here; cat", |plan| plan.level = level);
    scene.read_until_out("here");
    assert!(door::is_alive(&scene.dir()));
    let guarded = scene.hello.isolation == Isolation::Strict;
    let halves = [Some(scene.keeper.id()), guarded.then(|| inner(&scene).as_raw_pid() as u32)];
    for pid in halves.into_iter().flatten() {
        assert!(comes_true(|| called(pid).starts_with("keep ")), "{pid} is {:?}", called(pid));
    }
    scene.stop(0, 0);
    assert_eq!(scene.end().asked_by.as_deref(), Some("cancelled"));
}

#[test]
fn a_keeper_that_was_readied_for_another_level_starts_nothing() {
    let mut scene = Scene::kept_by(
        |_, _| crate::scene::spawn(Level::Basic),
        "touch started",
        |plan| plan.level = Level::Auto,
    );
    let words = scene.end().spawn_error.unwrap();
    assert_eq!(words, "isolation auto: its keeper was readied for basic");
    assert!(!scene.plan.cwd.join("started").exists());
}
