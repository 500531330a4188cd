//! How an agent comes into the world: with nothing it was not given.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use keeper::limits::AGENT_OOM_SCORE_ADJ;
use keeper::plan::{Level, Plan};
use keeper::wire::{Assembler, Order, Refusal, Report};
use keeper::{door, packet};

use crate::scene::{self, Scene};

#[test]
fn a_keeper_without_a_plan_leaves_when_its_socket_closes() {
    let mut spawned = scene::spawn(Level::Auto);
    std::thread::sleep(Duration::from_millis(50));
    assert!(spawned.child.try_wait().unwrap().is_none());
    drop(spawned.control);
    let deadline = Instant::now() + scene::PATIENCE;
    while spawned.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(spawned.child.wait().unwrap().success());
}

#[test]
fn a_spool_is_prepared_once() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("run-1.1");
    door::prepare_spool(&dir).unwrap();
    assert_eq!(door::prepare_spool(&dir).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_second_keeper_with_the_same_plan_launches_nothing() {
    let mut scene = Scene::sh("echo launched; cat");
    scene.read_until_out("launched");
    let mut second = scene::spawn(Level::Basic);
    send(&second, Order::Plan(Box::new(scene.plan.clone())));
    assert!(!second.child.wait().unwrap().success());
    let mut buffer = packet::buffer();
    let packet = packet::receive(&second.control, &mut buffer).unwrap().unwrap();
    let message = Assembler::default().push(packet).unwrap().unwrap();
    let refused = Report::Refused { n: 0, why: Refusal::Spool };
    assert_eq!(Report::from_message(message), Ok(refused));
    scene.stop(0, 0);
    scene.end();
    assert_eq!(scene.out(), "launched\n");
}

/// A keeper that has a plan and was not told to launch, in a spool of its own; it is ready.
fn with_a_plan(scene: &Scene, level: Level) -> (door::Spawned, std::path::PathBuf) {
    let spool_dir = scene.plan.cwd.join("waits.1");
    door::prepare_spool(&spool_dir).unwrap();
    let spawned = scene::spawn(level);
    let plan = Plan { spool_dir: spool_dir.clone(), level, ..scene.plan.clone() };
    send(&spawned, Order::Plan(Box::new(plan)));
    let deadline = Instant::now() + scene::PATIENCE;
    while !door::is_alive(&spool_dir) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    (spawned, spool_dir)
}

fn send(spawned: &door::Spawned, order: Order) {
    for packet in order.packets() {
        packet::send(&spawned.control, &packet).unwrap();
    }
}

#[test]
fn a_keeper_that_is_not_told_to_launch_starts_nothing_and_leaves_nothing() {
    for level in [Level::Basic, Level::Auto] {
        let mut scene = Scene::sh("touch started");
        scene.end();
        let started = scene.plan.cwd.join("started");
        std::fs::remove_file(&started).unwrap();
        let (mut waits, spool) = with_a_plan(&scene, level);
        // What was left beside the spool for a successor goes too.
        std::fs::write(spool.join("keepsake"), "").unwrap();
        drop(waits.control);
        assert!(waits.child.wait().unwrap().success());
        assert!(!spool.exists() && !started.exists(), "{level:?}");
    }
}

#[test]
fn a_keeper_that_has_its_plan_launches_when_it_is_told_to_and_obeys_nothing_else_before() {
    let mut scene = Scene::sh("touch started");
    scene.end();
    let started = scene.plan.cwd.join("started");
    std::fs::remove_file(&started).unwrap();
    let (mut waits, spool) = with_a_plan(&scene, Level::Basic);
    assert!(!started.exists());
    send(&waits, Order::Launch);
    assert!(waits.child.wait().unwrap().success());
    assert!(started.exists());
    std::fs::remove_file(&started).unwrap();

    std::fs::remove_dir_all(spool).unwrap();
    let (mut waits, _) = with_a_plan(&scene, Level::Basic);
    send(&waits, Order::Renew { fence: scene::FENCE, deadline_ms: u64::MAX });
    assert!(!waits.child.wait().unwrap().success());
    assert!(!started.exists());
}

#[test]
fn a_missing_program_is_testified() {
    let mut scene = Scene::with("", |plan| plan.program = "no-such-program".into());
    assert_eq!(scene.hello.agent_pid, None);
    scene.await_report(|report| *report == Report::Exit);
    let testimony = scene.end();
    assert_eq!(testimony.spawn_error.as_deref(), Some("program no-such-program: not found"));
    assert_eq!(testimony.spawn_errno, Some(2));
    assert_eq!((testimony.exit_code, testimony.signal), (None, None));
    assert_eq!(scene.begin().agent_pid, None);
}

#[test]
fn a_missing_working_directory_is_testified() {
    let mut scene = Scene::with("", |plan| plan.cwd = "/no/such/place".into());
    let words = scene.end().spawn_error.unwrap();
    assert_eq!(words, "working directory /no/such/place: not found");
}

#[test]
fn a_program_that_is_not_executable_is_testified() {
    let mut scene = Scene::with("", |plan| plan.program = "/etc/passwd".into());
    let words = scene.end().spawn_error.unwrap();
    assert_eq!(words, "program /etc/passwd: not permitted or not executable");
}

#[test]
fn a_file_that_is_no_program_is_testified_and_given_to_no_shell() {
    let home = tempfile::tempdir().unwrap();
    let (program, trace) = (home.path().join("words"), home.path().join("trace"));
    std::fs::write(&program, format!("touch {}\n", trace.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    for by_name in [false, true] {
        let mut scene = Scene::with("", |plan| {
            plan.program = if by_name { "words".into() } else { program.display().to_string() };
            plan.env.retain(|(name, _)| name != "PATH");
            plan.env.push(("PATH".into(), home.path().display().to_string()));
        });
        let testimony = scene.end();
        assert_eq!(testimony.spawn_errno, Some(8), "{testimony:?}");
        let words = testimony.spawn_error.unwrap();
        assert!(words.contains("words: not a program"), "{words}");
        assert!(!trace.exists(), "a shell ran it");
    }
}

#[test]
fn when_memory_runs_out_the_agent_goes_before_its_keeper() {
    let mut scene = Scene::sh("cat /proc/self/oom_score_adj; cat");
    scene.read_until_out("\n");
    let score = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    let keeper = format!("/proc/{}/oom_score_adj", scene.hello.keeper_pid);
    assert_eq!(std::fs::read_to_string(keeper).unwrap(), score, "the keeper keeps its place");
    let wanted = score.trim().parse::<i32>().unwrap().max(AGENT_OOM_SCORE_ADJ);
    scene.stop(0, 0);
    scene.end();
    assert_eq!(scene.out().trim(), wanted.to_string());
}

#[test]
fn the_environment_is_the_plans_and_nothing_else() {
    let mut scene = Scene::with("", |plan| {
        plan.program = "env".into();
        plan.args = Vec::new();
        plan.env.push(("GREETING".into(), "hello there".into()));
    });
    scene.end();
    let names: Vec<_> =
        scene.out().lines().map(|l| l.split('=').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["GREETING", "KEEPER_TEST_MARK", "PATH"]);
}

#[test]
fn no_descriptor_of_the_keeper_or_its_parents_is_inherited() {
    let mut scene = Scene::with("", |plan| {
        plan.program = "ls".into();
        plan.args = vec!["/proc/self/fd".into()];
    });
    scene.end();
    // The fourth is the one `ls` reads the directory with.
    assert_eq!(scene.out(), "0\n1\n2\n3\n");
}

#[test]
fn no_signal_is_blocked_or_ignored_for_the_agent() {
    // Not through a shell, for shells tidy up before they start a program.
    let mut scene = Scene::with("", |plan| {
        plan.program = "cat".into();
        plan.args = vec!["/proc/self/status".into()];
    });
    scene.end();
    let out = scene.out();
    let field = |name| out.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    // The C library may keep two signals of its own, above 31.
    for name in ["SigBlk:", "SigIgn:"] {
        let set = u64::from_str_radix(field(name), 16).unwrap();
        assert_eq!(set & 0x7fff_ffff, 0, "{name} {set:x}");
    }
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(own.contains(&format!("Umask:\t{}\n", field("Umask:"))), "{own}");
}

#[test]
fn the_agent_leads_its_own_group_in_the_keepers_session() {
    let mut scene = Scene::sh("cut -d' ' -f5,6 /proc/$$/stat");
    scene.end();
    let begin = scene.begin();
    let expected = format!("{} {}", begin.agent_pid.unwrap(), begin.keeper_pid);
    assert_eq!(scene.out().trim(), expected);
}

#[test]
fn what_a_keeper_writes_is_private() {
    let mut scene = Scene::sh("echo hi");
    scene.end();
    for entry in std::fs::read_dir(scene.dir()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{entry:?}");
    }
}

/// The policy by which the kernel gives a process its turn: `SCHED_OTHER` is 0, `SCHED_BATCH` 3.
fn policy(stat: &str) -> Option<&str> {
    let (_, fields) = stat.rsplit_once(')')?;
    // The 41st, of which two stand before.
    fields.split_whitespace().nth(38)
}

#[test]
fn a_keeper_goes_behind_others_and_its_agent_does_not() {
    let mut scene = Scene::sh("cat /proc/$$/stat; echo told; cat");
    scene.read_until_out("told");
    let stat = |who: &str| std::fs::read_to_string(format!("/proc/{who}/stat")).unwrap();
    let (keeper, ours) = (stat(&scene.hello.keeper_pid.to_string()), stat("self"));
    assert_eq!(policy(&scene.out()), policy(&ours));
    // Whoever started us by another policy has their reasons.
    if policy(&ours) == Some("0") {
        assert_eq!(policy(&keeper), Some("3"), "{keeper}");
    }
    scene.stop(0, 0);
    scene.end();
}
