//! A `serve` takes over from a `run` that hosts; the run goes on as a client and notices nothing.

use crate::ostler::{BOUND_MS, Ostler, assert_gap_free, result, signal};
use rustix::process::Signal;
use testkit::{find_marked, until};

#[test]
fn a_server_takes_over_from_a_run_that_hosts_and_the_run_goes_on() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--burst 20 --sleep-ms 4000 --tool list_files {} --burst 20");
    let mut run = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    let mut seen = vec![run.event("the run to begin", |_| true)];
    while seen.last().is_some_and(|event| event["phase"] != "running") {
        seen.push(run.event("the agent to run", |_| true));
    }
    let id = seen[0]["run_id"].as_str().unwrap().to_owned();
    let watch = ostler.starts(&["watch", &id, "--json"]);

    let mut serve = ostler.starts(&["serve", "--listen", "127.0.0.1:0"]);
    let line = serve.line();
    let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| {
        let pid = serve.child.id() as i32;
        signal(pid, Signal::KILL);
        panic!("{line:?}")
    });
    // A server does not make room for another, whatever its address.
    let second = ostler.says(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 13, "{second:?}");
    assert!(second.stderr.contains(address), "{second:?}");
    let taken = ostler.says(&["serve", "--listen", address.trim_start_matches("http://")]);
    assert_eq!(taken.code, 13, "{taken:?}");

    let (ran, watched) = (run.finish(), watch.finish());
    assert_eq!((ran.code, watched.code), (0, 0), "{}\n{}", ran.stderr, watched.stderr);
    seen.extend(ran.events());
    assert_gap_free(&seen);
    assert_eq!(seen, watched.events(), "both saw everything once");
    assert_eq!(seen, ostler.events(&["show", &id, "--json"]));
    assert_eq!(result(&seen)["outcome"], "succeeded");
    assert!(seen.iter().any(|event| event["phase"] == "adopted"), "{seen:#?}");
    signal(serve.child.id() as i32, Signal::TERM);
    assert_eq!(serve.finish().code, 0);
    until("everyone to be gone", BOUND_MS, || {
        find_marked(&ostler.instance.mark()).is_empty().then_some(())
    });
}

#[test]
fn a_port_that_is_taken_costs_no_host_its_place() {
    let ostler = Ostler::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let agent = ostler.fake("--burst 5 --sleep-ms 1500");
    let mut run = ostler.starts(&["run", "--process", &agent, "x", "--json"]);
    run.event("the agent to run", |event| event["phase"] == "running");
    let said = ostler.says(&["serve", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert_eq!(said.code, 14, "{said:?}");
    let said = run.finish();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.events().iter().all(|event| event["phase"] != "adopted"));
}
