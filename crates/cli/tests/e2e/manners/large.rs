//! Lines and outputs of great size: nothing of them is lost up to the limit of a line, and the memory
//! of the host stays within a bound whatever an agent says.

use super::stage::{Stage, assert_ends, memory_kb};
use super::{Ends, Row, SUCCESS, all, nothing_else};
use contract::limits::{LINE_BYTES_MAX, OUTPUT_BYTES_MAX};

/// The most that a host may have had, in kilobytes, after lines of ten million bytes.
const PEAK_KB_MAX: u64 = 200_000;
/// The same after a line as long as a line may be: five times the line.
const PEAK_KB_MAX_LONGEST: u64 = 330_000;

const TEN_MILLION: &[&str] = &["--line-bytes", "10000000"];

const ROWS: &[Row] =
    &[Row::fake("a line of ten million bytes", TEN_MILLION, SUCCESS, nothing_else)];

const LONG: &[Row] = &[
    Row::fake(
        "the longest line there may be",
        &["--line-bytes", "67108864"],
        SUCCESS,
        nothing_else,
    ),
    Row::fake(
        "a line that is one byte too long",
        &["--line-bytes", "67108866"],
        SUCCESS,
        nothing_else,
    ),
    Row::fake(
        "a billion bytes without a newline",
        &["--endless", "1000000000"],
        Ends(10, "failed", Some("output_limit")),
        nothing_else,
    ),
    Row::fake("a million tiny lines", &["--tiny", "1000000"], SUCCESS, |seen| {
        assert_eq!(seen.counts(), "1000000 log (unrecognised), 1 progress");
    }),
];

/// What a line of the burst of one holds, when its whole is put back in place.
fn text_of(stage: &Stage, id: &str) -> String {
    let events = stage.ostler.events(&["show", id, "--full", "--json"]);
    let texts = events.iter().filter(|event| event["kind"] == "assistant_text");
    texts.filter_map(|event| event["text"].as_str()).collect()
}

#[test]
fn a_line_of_ten_million_bytes_is_kept_whole_and_costs_no_more_memory_than_allowed() {
    let stage = Stage::of(ROWS);
    let seen = stage.play(ROWS);
    assert_ends(ROWS, &seen);
    let peak_kb = memory_kb(stage.host_pid(), "VmHWM");
    eprintln!("the host had at most {peak_kb} kB");
    let id = seen[0].events[0]["run_id"].as_str().unwrap();
    let text = text_of(&stage, id);
    assert!(text.starts_with("00000001 ..") && text.len() > 9_999_000, "{}", text.len());
    assert!(peak_kb < PEAK_KB_MAX, "{peak_kb} kB");
    stage.close();
}

/// Minutes: only with `MANNERS=all`.
#[test]
fn the_longest_lines_and_outputs_stay_within_their_limits() {
    if !all() {
        eprintln!("not asked for: MANNERS=all plays it");
        return;
    }
    assert_eq!((LINE_BYTES_MAX, OUTPUT_BYTES_MAX), (67_108_864, 536_870_912), "the rows say so");
    for row in LONG {
        let rows = std::slice::from_ref(row);
        let stage = Stage::of(rows);
        let began = std::time::Instant::now();
        let seen = stage.play(rows);
        let peak_kb = memory_kb(stage.host_pid(), "VmHWM");
        eprintln!(
            "{}: {} in {} s, host at most {peak_kb} kB; {}",
            row.name,
            seen[0].ends.1,
            began.elapsed().as_secs(),
            seen[0].counts()
        );
        assert_ends(rows, &seen);
        assert!(peak_kb < PEAK_KB_MAX_LONGEST, "{}: {peak_kb} kB", row.name);
        stage.close();
    }
}
