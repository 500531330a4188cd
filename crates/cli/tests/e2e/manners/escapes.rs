//! Every shape in which a child of an agent tries to outlive its run, as data, and every way in which
//! the run may end meanwhile. When the result is there nobody may be left: neither by the mark in the
//! environment, nor by the lock that everyone inherits, nor by name (`witness.rs` of the fake agent).
//! Each shape is played twice on every level of containment that the machine offers; with
//! `MANNERS=all` all shapes and ends in turn for ten thousand runs, or `MANNERS_ESCAPES` of them.

use super::page;
use super::stage::Stage;
use super::{Ends, SUCCESS, all};
use crate::ostler::{BOUND_MS, Running, assert_gap_free, keepers, result, signal};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use testkit::agent::escape::Shape;
use testkit::agent::witness;
use testkit::{find_called, find_marked, until};

/// Runs of the long row.
const RUNS_MANY: usize = 10_000;
const AT_ONCE: usize = 4;

/// A shape, and the flags of the fake agent that make it.
const SHAPES: [(&str, &str, &str); 29] = [
    ("a child in a session of its own", "--escape", "setsid"),
    ("a child in a group of its own", "--escape", "group"),
    ("an orphan", "--escape", "gone/stay"),
    ("an orphan in a session of its own", "--escape", "gone/setsid"),
    (
        "three below each other, each out of reach in another way",
        "--escape",
        "group/setsid/gone/setsid",
    ),
    ("nine below each other", "--escape", "setsid/gone/setsid/gone/group/gone/setsid/gone/stay"),
    ("an orphan that holds the output", "--escape", "gone+voice/stay+voice"),
    ("deaf to signals", "--escape", "gone/setsid+deaf"),
    ("slow to leave", "--escape", "gone/setsid+slow"),
    ("starts another when it is told to end", "--escape", "gone/setsid+breeds"),
    ("stopped by SIGSTOP", "--escape", "gone/setsid+stopped"),
    ("takes its session when its parent has died", "--escape", "gone/later"),
    ("starts others when the agent has died", "--escape", "later/setsid/gone/setsid"),
    ("closes every descriptor", "--escape", "gone/setsid+bare"),
    ("clears its environment", "--escape", "gone/setsid+unmarked"),
    ("works in another directory", "--escape", "gone/setsid+elsewhere"),
    ("all of these at once", "--escape", "gone/setsid+unmarked+bare+elsewhere+deaf"),
    ("has the name of a dead process", "--escape", "gone/setsid+renamed"),
    ("may not be looked into", "--escape", "gone/setsid+undumpable"),
    ("keeps its own orphans", "--escape", "setsid+reaper/gone/setsid"),
    ("a child of a thread", "--escape", "setsid+thread"),
    ("an orphan's child of a thread", "--escape", "gone/stay/setsid+thread"),
    ("a copy that runs no program", "--escape", "gone/setsid/fork"),
    ("a child in its parent's memory", "--escape", "gone/setsid/vfork"),
    ("a child of the keeper", "--escape", "sibling"),
    ("a child whose end is told to nobody", "--escape", "mute"),
    ("twenty, one every millisecond", "--fork-often", "20"),
    ("a family that forks on while it is killed", "--fork-on", "60"),
    ("a family in which each starts two", "--fork-bomb", "60"),
];

/// How the run ends while its children hide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Itself,
    Killed,
    Stopped,
    WithoutKeeper,
}

const ENDS: [End; 4] = [End::Itself, End::Killed, End::Stopped, End::WithoutKeeper];

impl End {
    fn words(self) -> &'static str {
        match self {
            Self::Itself => "the agent ends",
            Self::Killed => "the agent is killed by the system",
            Self::Stopped => "someone stops it, and the agent closed its input",
            Self::WithoutKeeper => "its keeper is killed",
        }
    }

    /// What the agent does when its children have taken their shape.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Itself => &[],
            Self::Killed => &["--kill-self"],
            Self::Stopped => &["--close-stdin", "--echo-env", "HOME", "--wait-shutdown"],
            Self::WithoutKeeper => &["--echo-env", "HOME", "--wait-shutdown"],
        }
    }

    fn ends(self) -> Ends {
        match self {
            Self::Itself => SUCCESS,
            Self::Killed => Ends(10, "failed", Some("process_killed")),
            Self::Stopped => Ends(130, "cancelled", Some("cancelled")),
            Self::WithoutKeeper => Ends(10, "lost", Some("process_lost")),
        }
    }
}

/// What was seen of one run; `level` is missing where the level was not offered.
struct Played {
    level: Option<String>,
    ends: (i32, String, Option<String>),
}

/// A host with an adapter for each shape and each end.
fn stage(level: &str) -> Stage {
    Stage::with(level, |_| {
        let mut adapters = Map::new();
        for (n, (_, flag, value)) in SHAPES.iter().enumerate() {
            for end in ENDS {
                let args = [&["--witness", *flag, *value], end.flags()].concat();
                let binary = testkit::fake_agent().display().to_string();
                let adapter =
                    json!({ "type": "process", "binary": binary, "args": args, "graceSec": 1 });
                adapters.insert(adapter_of(n, end), adapter);
            }
        }
        adapters
    })
}

fn adapter_of(shape: usize, end: End) -> String {
    format!("shape-{shape}-{}", end as u8)
}

/// How many processes must have lived, so that a shape which was never taken is seen.
fn lived_least((_, flag, value): (&str, &str, &str)) -> usize {
    match flag {
        "--escape" => Shape::read(value).expect("a shape").sure(),
        "--fork-on" => 2,
        "--fork-bomb" => 1,
        // Nobody waits for them.
        _ => 0,
    }
}

/// One run, and nobody left of it.
fn play(stage: &Stage, shape: usize, end: End) -> Played {
    let (name, ..) = SHAPES[shape];
    let what = format!("{name}, and {}", end.words());
    let agent = adapter_of(shape, end);
    let mut run = Running::of(&mut stage.ostler.command(&["run", &agent, "x", "--json"]));
    let mut events = vec![run.event("the run to begin", |_| true)];
    let id = events[0]["run_id"].as_str().expect("an event names its run").to_owned();
    if matches!(end, End::Stopped | End::WithoutKeeper) {
        let over = |event: &Value| event["summary"] == "env HOME" || event["kind"] == "result";
        while events.last().is_some_and(|event| !over(event)) {
            events.push(run.event(&what, |_| true));
        }
        if end == End::Stopped {
            stage.ostler.says(&["stop", &id]);
        } else {
            keepers(&id).into_iter().for_each(|pid| signal(pid, Signal::KILL));
        }
    }
    let said = run.finish();
    events.extend(said.events());
    assert_gap_free(&events);
    let word = |name: &str| result(&events)[name].as_str().map(str::to_owned);
    let ends = (said.code, word("outcome").unwrap_or_default(), word("code"));
    let level = events.iter().find_map(|event| event["isolation"].as_str().map(str::to_owned));
    if level.is_none() {
        return Played { level, ends };
    }
    let path = witness::of_run(&stage.ostler.instance.work(), &id);
    // The result is there, so the family is gone: no waiting here.
    let left = [find_marked(&id), find_called(&path.display().to_string())].concat();
    assert!(left.is_empty(), "{what}: left {left:?}");
    let free = || witness::is_free(&path).expect("there is a witness");
    // Where the keeper was killed, with the guard of its namespace, the family is seen to run no more
    // a moment before the kernel has closed its files.
    let patient = end == End::WithoutKeeper;
    match patient {
        true => until("the lock", BOUND_MS, || free().then_some(())),
        false => assert!(free(), "{what}: someone holds the lock"),
    }
    let lived = witness::noted(&path).expect("there is a witness");
    assert!(lived.len() >= lived_least(SHAPES[shape]), "{what}: only {lived:?} lived");
    std::fs::remove_file(&path).expect("the witness can be removed");
    let Ends(exit, outcome, code) = end.ends();
    let wanted = (exit, outcome.to_owned(), code.map(str::to_owned));
    assert_eq!(ends, wanted, "{what}: {:?}", events.last());
    Played { level, ends }
}

/// Whether nobody can be left on this level. On basic a dead keeper's family is found by its mark, and
/// one that has none is not found (`ARCHITECTURE.md`, invariant 10).
fn holds(level: &str, shape: usize, end: End) -> bool {
    let words = SHAPES[shape].2;
    let unseen = words.contains("unmarked")
        || (words.contains("undumpable") && !rustix::process::geteuid().is_root());
    level != "basic" || end != End::WithoutKeeper || !unseen
}

/// Plays these, several at once, and gives how each end came out by level.
fn play_all(stage: &Stage, plays: &[(usize, End)]) -> Vec<(End, Played)> {
    let (next, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((shape, end)) = plays.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let played = play(stage, *shape, *end);
                    seen.lock().unwrap().push((*end, played));
                }
            });
        }
    });
    seen.into_inner().unwrap()
}

#[test]
fn no_shape_of_escape_leads_out_of_any_level_however_the_run_ends() {
    let mut came = BTreeMap::new();
    for (turn, wanted) in ["basic", "cgroup", "strict"].into_iter().enumerate() {
        let stage = stage(wanted);
        let shapes = 0..SHAPES.len();
        // Each ends by itself once, and once in another way, which differs from level to level.
        let other = |shape: usize| ENDS[1 + (shape + turn) % (ENDS.len() - 1)];
        let plays: Vec<_> = shapes
            .flat_map(|shape| [(shape, End::Itself), (shape, other(shape))])
            .filter(|(shape, end)| holds(wanted, *shape, *end))
            .collect();
        let played = play_all(&stage, &plays);
        let held: Vec<_> = played.iter().filter(|(_, played)| played.level.is_some()).collect();
        let refused = played.len() - held.len();
        eprintln!("{wanted}: {} runs held, {refused} not offered here", held.len());
        assert!(wanted != "basic" || refused == 0, "basic is always there");
        assert!(held.is_empty() || refused == 0, "a level is offered or it is not");
        for (end, played) in held {
            assert_eq!(played.level.as_deref(), Some(wanted));
            came.insert(*end, played.ends.clone());
        }
        stage.close();
    }
    page::assert_shown("escapes", &shapes_as_table());
    page::assert_shown("ends", &ends_as_table(&came));
}

fn shapes_as_table() -> String {
    let rows = SHAPES.iter().map(|(name, flag, value)| format!("| {name} | `{flag} {value}` |"));
    let head = ["| shape | flags |", "|---|---|"].into_iter().map(str::to_owned);
    head.chain(rows).collect::<Vec<_>>().join("\n")
}

fn ends_as_table(came: &BTreeMap<End, (i32, String, Option<String>)>) -> String {
    let rows = came.iter().map(|(end, (exit, outcome, code))| {
        let code = code.as_deref().map_or(String::new(), |code| format!("`{code}`"));
        format!("| {} | {outcome} | {code} | {exit} |", end.words())
    });
    let head = ["| meanwhile | outcome | code | exit |", "|---|---|---|---|"];
    head.into_iter().map(str::to_owned).chain(rows).collect::<Vec<_>>().join("\n")
}

#[test]
fn there_are_more_than_twenty_shapes_and_no_two_are_the_same() {
    let names: BTreeSet<_> = SHAPES.iter().map(|(name, ..)| name).collect();
    let flags: BTreeSet<_> = SHAPES.iter().map(|(_, flag, value)| (flag, value)).collect();
    assert_eq!((names.len(), flags.len()), (SHAPES.len(), SHAPES.len()));
    assert!(SHAPES.len() > 20);
}

/// Minutes: only with `MANNERS=all`.
#[test]
fn nobody_is_left_of_ten_thousand_runs_whose_children_hide() {
    let wished = std::env::var("MANNERS_ESCAPES").ok();
    let runs = match wished {
        Some(wished) => wished.parse().expect("MANNERS_ESCAPES is a number of runs"),
        None if all() => RUNS_MANY,
        None => return eprintln!("not asked for: MANNERS=all plays it"),
    };
    let stage = stage("auto");
    let level = play(&stage, 0, End::Itself).level.expect("auto is always offered");
    let pairs = ENDS.iter().flat_map(|end| (0..SHAPES.len()).map(move |shape| (shape, *end)));
    let pairs: Vec<_> = pairs.filter(|(shape, end)| holds(&level, *shape, *end)).collect();
    let plays: Vec<_> = pairs.iter().cycle().take(runs).copied().collect();
    let began = Instant::now();
    let played = play_all(&stage, &plays);
    assert_eq!(played.len(), runs, "every run was played");
    eprintln!(
        "{runs} runs of {} shapes in {} ends on {level}, {AT_ONCE} at once, in {} s: 0 processes left",
        SHAPES.len(),
        ENDS.len(),
        began.elapsed().as_secs()
    );
    stage.close();
}
