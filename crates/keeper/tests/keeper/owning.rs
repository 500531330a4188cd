//! Who may speak to a keeper, and what a new owner is told.

use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use keeper::record::Kind;
use keeper::spool::Reader;
use keeper::wire::{Order, Refusal, Report, Stage, VERSION};
use keeper::{door, packet};

use crate::scene::{FENCE, PATIENCE, SECRET, Scene};

fn refusal(error: &std::io::Error) -> Refusal {
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    *error.get_ref().unwrap().downcast_ref().unwrap()
}

#[test]
fn an_agent_goes_on_without_a_server_and_the_next_one_reads_the_rest() {
    let mut scene = Scene::sh("echo one; read go; echo two; sleep 0.1; echo three");
    scene.read_until_out("one");
    let pid = scene.hello.agent_pid;
    scene.hang_up();
    let reply = scene.dial(FENCE + 1);
    assert_eq!((reply.agent_pid, reply.stage), (pid, Stage::Running));
    assert_eq!((reply.fence, reply.last_said, reply.held), (FENCE + 1, 0, None));
    assert_eq!(reply.secrets, [("API_KEY".to_owned(), "hunter2".to_owned())]);
    assert!(scene.hello.secrets.is_empty(), "who sent the plan knows them");
    scene.say(1, "go\n");
    scene.await_report(|report| *report == Report::Exit);
    scene.end();
    assert_eq!(scene.out(), "one\ntwo\nthree\n");
}

#[test]
fn a_wrong_secret_and_a_lower_fence_are_refused() {
    let mut scene = Scene::sh("cat");
    let wrong = door::dial(&scene.dir(), "0123", FENCE).unwrap_err();
    assert_eq!(refusal(&wrong), Refusal::Secret);
    let empty = door::dial(&scene.dir(), "", FENCE).unwrap_err();
    assert_eq!(refusal(&empty), Refusal::Secret);
    let low = door::dial(&scene.dir(), SECRET, FENCE - 1).unwrap_err();
    assert_eq!(refusal(&low), Refusal::Fence);
    scene.say(1, "still the owner\n");
    scene.await_report(|report| *report == Report::SaidAck { n: 1 });
    scene.stop(0, 0);
    scene.end();
}

#[test]
fn the_newest_hello_takes_over_and_the_older_owner_is_cut_off() {
    let mut scene = Scene::sh("cat");
    let (mut first, _) = door::dial(&scene.dir(), SECRET, FENCE + 1).unwrap();
    while scene.take_reports() {}
    let (second, _) = door::dial(&scene.dir(), SECRET, FENCE + 2).unwrap();
    std::mem::swap(scene.control.as_mut().unwrap(), &mut first);
    while scene.take_reports() {}
    scene.control = Some(second);
    let late = door::dial(&scene.dir(), SECRET, FENCE + 1).unwrap_err();
    assert_eq!(refusal(&late), Refusal::Fence);
    scene.say(1, "mine\n");
    scene.await_report(|report| *report == Report::SaidAck { n: 1 });
    scene.read_until_out("mine");
    scene.stop(0, 0);
    scene.end();
}

/// Someone who has come to the door and said nothing.
fn at_the_door(path: &Path) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let dir = std::fs::File::open(path).unwrap();
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/sock", dir.as_raw_fd())).unwrap();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let newcomer =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let until = std::time::Instant::now() + PATIENCE;
    while let Err(error) = rustix::net::connect(&newcomer, &address) {
        assert_eq!(error, rustix::io::Errno::AGAIN);
        assert!(std::time::Instant::now() < until, "nobody is let in");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    newcomer
}

#[test]
fn of_servers_that_came_while_a_keeper_stood_still_the_last_one_owns_it() {
    let mut scene = Scene::sh("cat");
    let hello = Order::Hello { secret: SECRET.to_owned(), fence: FENCE, version: VERSION };
    let keeper = rustix::process::Pid::from_child(&scene.keeper);
    rustix::process::kill_process(keeper, rustix::process::Signal::STOP).unwrap();
    scene.hang_up();
    let mut servers = Vec::new();
    for _ in 0..3 {
        let server = at_the_door(&scene.dir());
        for packet in hello.packets() {
            packet::send(&server, &packet).unwrap();
        }
        servers.push(server);
    }
    // The others died before they were answered, as servers do that are killed one after the other.
    let last = servers.pop();
    drop(servers);
    rustix::process::kill_process(keeper, rustix::process::Signal::CONT).unwrap();
    scene.control = last;
    scene.await_report(|report| matches!(report, Report::Hello(_)));
    scene.say(1, "mine\n");
    scene.await_report(|report| *report == Report::SaidAck { n: 1 });
    scene.read_until_out("mine");
    scene.stop(0, 0);
    scene.end();
}

#[test]
fn silent_connections_do_not_keep_a_server_out() {
    let mut scene = Scene::sh("cat");
    let path = scene.dir();
    let _silent: Vec<OwnedFd> = (0..20).map(|_| at_the_door(&path)).collect();
    scene.dial(FENCE);
    scene.stop(0, 0);
    scene.end();
}

#[test]
fn a_keeper_is_alive_until_its_testimony_is_written() {
    let mut scene = Scene::sh("cat");
    assert!(door::is_alive(&scene.dir()));
    scene.stop(0, 0);
    scene.end();
    let gone = door::dial(&scene.dir(), SECRET, FENCE).unwrap_err();
    assert!(matches!(gone.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused), "{gone}");
}

#[test]
fn a_server_that_never_reads_is_no_hindrance() {
    let mut scene = Scene::sh("for i in $(seq 3000); do echo $i; done; echo end");
    scene.read_until_out("end");
    assert_eq!(scene.end().exit_code, Some(0));
}

#[test]
fn servers_that_come_and_go_lose_no_byte_and_hear_none_twice() {
    let mut scene = Scene::sh("i=0; while [ $i -lt 4000 ]; do i=$((i + 1)); echo line $i; done");
    let (mut offset, mut heard, mut over) = (0, Vec::new(), false);
    while !over {
        scene.hang_up();
        let alive = door::dial(&scene.dir(), SECRET, FENCE);
        let mut reader = Reader::open(&scene.dir(), offset).unwrap();
        for _ in 0..60 {
            let Some(record) = reader.next().unwrap() else { break };
            over |= record.kind == Kind::Exit;
            if record.kind == Kind::Out {
                heard.extend_from_slice(record.payload);
            }
        }
        offset = reader.offset();
        assert!(alive.is_ok() || !scene.dir().join("sock").exists() || over);
    }
    scene.end();
    let expected: String = (1..=4_000).map(|i| format!("line {i}\n")).collect();
    assert!(heard == expected.as_bytes());
}

#[test]
fn a_poke_follows_what_was_spooled() {
    let mut scene = Scene::sh("read a; echo pong; cat");
    scene.say(1, "ping\n");
    scene.await_report(|report| *report == Report::SaidAck { n: 1 });
    scene.await_report(|report| *report == Report::Poke);
    scene.read_until_out("pong");
    scene.stop(0, 0);
    scene.end();
}
