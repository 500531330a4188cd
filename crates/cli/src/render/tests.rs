//! Runs as people see them: whole screens of 80 columns, plain, as the specification of the look.
//! Colours are told by name in one test.

mod ends;
mod known_run;
use super::measure::width;
use super::*;
use contract::{Billing, NanoUsd, Outcome, RunId, Timestamp};
use serde_json::{Value, json};

fn event(body: Value) -> Event {
    let mut whole = json!({
        "v": 1, "run_id": "run_0190c8f2a1b47c3d8e9f00112233abcd", "seq": 1,
        "ts": "2026-01-01T00:00:00.000Z", "attempt": 1, "fence": 1, "origin": "agent",
    });
    whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

fn printed(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::End => "\n".to_owned(),
    };
    pieces.iter().map(text).collect()
}

fn played(mut renderer: Renderer, bodies: &[Value]) -> String {
    let mut screen = String::new();
    for body in bodies {
        screen += &printed(&renderer.event(&event(body.clone())));
    }
    screen += &printed(&renderer.finish());
    let ended = bodies.iter().any(|body| body["kind"] == "result");
    if ended { screen + &renderer.summary(None) } else { screen }
}

fn screen(bodies: &[Value]) -> String {
    let screen = played(Renderer::new(80, Colour::Off, Detail::Usual), bodies);
    for line in screen.lines() {
        assert!(width(line) <= 80, "{} columns: {line}", width(line));
        assert_eq!(line, line.trim_end(), "no blanks at the end of a line");
    }
    screen
}

fn ended(outcome: &str, more: Value) -> Value {
    let mut result = json!({
        "kind": "result", "outcome": outcome, "duration_ms": 4200,
        "totals": { "tokens": { "input_uncached": 1200, "output": 340 }, "effective_nanousd": 4_200_000 },
        "evidence": { "end": "explicit" },
    });
    result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    result
}

#[test]
fn a_run_with_tools() {
    let long = "The failing test expects the parser to keep empty fields. I will read the test \
                first, then the parser, and change as little as I can.";
    let output: String = (1..=14).map(|i| format!("line {i}\n")).collect();
    insta::assert_snapshot!(screen(&[
        json!({"kind": "lifecycle", "phase": "starting"}),
        json!({"kind": "session", "model": "model-1", "tools": 12, "cwd": "/srv/ada/parser", "resumed": false}),
        json!({"kind": "turn", "phase": "started", "n": 1}),
        json!({"kind": "user_text", "text": "fix the failing test"}),
        json!({"kind": "thinking", "text": "A parser test fails. ", "block": "t1", "delta": true}),
        json!({"kind": "thinking", "text": "Look at the test first.", "block": "t1", "delta": true}),
        json!({"kind": "assistant_text", "text": &long[..30], "block": "a1", "delta": true}),
        json!({"kind": "usage", "tokens": {"input_uncached": 5}}),
        json!({"kind": "assistant_text", "text": &long[30..], "block": "a1", "delta": true}),
        json!({"kind": "plan", "entries": [
            {"text": "Read the test", "status": "completed"},
            {"text": "Read the parser", "status": "in_progress"},
            {"text": "Mend it", "status": "pending"},
        ]}),
        json!({"kind": "tool_use", "tool_call_id": "1", "name": "Read", "input": {"file_path": "tests/fields.rs", "limit": 40}}),
        json!({"kind": "tool_result", "tool_call_id": "1", "status": "ok", "output": output}),
        json!({"kind": "tool_use", "tool_call_id": "2", "name": "Bash", "input": {"command": ["cargo", "test", "--quiet"]}}),
        json!({"kind": "tool_use", "tool_call_id": "3", "name": "Task", "input": {"description": "look for other callers", "depth": 2}}),
        json!({"kind": "tool_use", "tool_call_id": "4", "name": "Grep", "input": {"pattern": "split_fields"}, "parent": "3"}),
        json!({"kind": "tool_result", "tool_call_id": "4", "status": "ok", "output": [{"type": "text", "text": "src/lib.rs:7"}]}),
        json!({"kind": "tool_result", "tool_call_id": "2", "status": "error", "output": {"error": "error: test failed, to rerun pass `--test fields` and look at the output of the failing case"}, "duration_ms": 2340}),
        json!({"kind": "diff", "path": "src/lib.rs", "patch": "--- a\n+++ b\n-old\n+new\n+newer\n"}),
        json!({"kind": "tool_use", "tool_call_id": "5", "name": "delete_everything", "input": {"a": 1, "b": [true]}}),
        json!({"kind": "tool_result", "tool_call_id": "5", "status": "error", "denied": true, "output": null}),
        json!({"kind": "tool_use", "tool_call_id": "6", "name": "report_progress", "input": {"summary": "tests are green"}, "via": "relayed"}),
        json!({"kind": "progress", "summary": "tests are green", "beliefs": [], "attempted": []}),
        json!({"kind": "tool_result", "tool_call_id": "6", "status": "ok", "output": {"noted": true}}),
        json!({"kind": "progress", "summary": "all is well", "beliefs": [], "attempted": []}),
        json!({"kind": "comment", "text": "Ready for a look, please.", "mentions": ["@ada"]}),
        json!({"kind": "assistant_text", "text": "Done:\n\n    keep_empty(true)\n\nis what the parser needed.\n", "block": "a2", "delta": false}),
        json!({"kind": "turn", "phase": "ended", "n": 1, "stop_reason": "end_turn"}),
        json!({"kind": "lease", "action": "released"}),
        ended("succeeded", json!({})),
    ]), @r#"
    ◆ run 2233abcd · model-1 · /srv/ada/parser

    › fix the failing test

    ∴ A parser test fails. Look at the test first.

    ● The failing test expects the parser to keep empty fields. I will read the test
      first, then the parser, and change as little as I can.

    ≡ plan
      ✓ Read the test
      ▸ Read the parser
      · Mend it

    → Read tests/fields.rs
      ✓ line 1  +13 lines
    → Bash cargo test --quiet
    → Task look for other callers
      → Grep split_fields
      ✓ src/lib.rs:7
      ✗ Bash: error: test failed, to rerun pass `--test fields` and look at…  2.3 s
    ± src/lib.rs  +2 −1
    → delete_everything {"a":1,"b":[true]}
      ✗ denied
    → report_progress tests are green
      ▸ tests are green
      ✓ noted

    ▸ all is well
    ✎ Ready for a look, please.

    ● Done:

          keep_empty(true)

      is what the parser needed.

    ✓ succeeded · 4.2 s · 1,540 tokens · $0.0042
      ostler show 2233abcd
    "#);
}

#[test]
fn a_run_that_fails() {
    insta::assert_snapshot!(screen(&[
        json!({"kind": "session", "model": "model-1", "resumed": true}),
        json!({"kind": "assistant_text", "text": "Let me", "block": "a", "delta": true}),
        json!({"kind": "log", "stream": "stderr", "text": "warning: the key expires soon\n\u{1b}[31merror: 401\u{1b}[0m"}),
        json!({"kind": "log", "stream": "stdout", "text": "{\"unknown\": true}", "level": "unrecognised"}),
        json!({"kind": "assistant_text", "text": " try it.", "block": "a", "delta": true}),
        json!({"kind": "quota", "provider": "example", "windows": [{"id": "week", "used_percent": 92.4, "exhausted": false}], "rate_limited": true}),
        json!({"kind": "budget", "scope": "run", "level": "soft", "remaining": {"nanousd": 30_000_000, "turns": 2}}),
        json!({"kind": "error", "code": "auth_failed", "message": "the credentials were refused: key ending in …x7", "retryable": false, "hint": "log in again with `agent login`", "detail": "POST /v1/messages\n401 Unauthorized\n"}),
        ended("failed", json!({
            "code": "auth_failed",
            "message": "the credentials were refused: the key that ends in …x7 is not known to it any more",
            "exit_code": 1,
            "totals": {"tokens": {"input_uncached": 12}, "effective_nanousd": null},
            "evidence": {"end": "exit"},
        })),
    ]), @r"
    ◆ run 2233abcd · model-1 · resumed

    ● Let me try it.

    ! quota of example: limited · week 92 %
    ! budget (run): $0.03 · 2 turns left

    ✗ failed · 4.2 s · 12 tokens · unpriced
      auth_failed: the credentials were refused: the key that ends in …x7 is not
      known to it any more
      → log in again with `agent login`
      it exited with 1
      ┆ warning: the key expires soon
      ┆ error: 401
      1 line of the agent was not understood: ostler show 2233abcd --debug
      ostler show 2233abcd
    ");
}

#[test]
fn a_taken_over_run_goes_on_without_a_word() {
    let bodies = [
        json!({"kind": "assistant_text", "text": "a peb", "block": "a", "delta": true}),
        json!({"kind": "lifecycle", "phase": "adopted"}),
        json!({"kind": "lease", "action": "renewed"}),
        json!({"kind": "assistant_text", "text": "ble", "block": "a", "delta": true}),
    ];
    assert_eq!(screen(&bodies).lines().last(), Some("● a pebble"));
    let debug = played(Renderer::new(80, Colour::Off, Detail::Debug), &bodies);
    assert!(debug.contains("· taken over from an earlier host"), "{debug}");
}

#[test]
fn a_workspace_that_was_not_compared_is_told_at_the_end() {
    let with = |state: &str, note: &str| {
        let evidence = json!({"end": "explicit", "workspace": state, "workspace_note": note});
        screen(&[ended("succeeded", json!({"evidence": evidence}))])
    };
    let shown = with("not_compared", "it has too many files");
    let told = "\n  the workspace was not compared with its beginning: it has too many files\n";
    assert!(shown.contains("✓ succeeded") && shown.contains(told), "{shown}");
    let shown = with("changed_beside_other_run", "1 file changed: a (new)");
    assert!(shown.contains("\n  1 file changed: a (new); it is not counted"), "{shown}");
    assert!(!with("compared", "").contains("workspace"));
}

#[test]
fn a_run_that_is_stopped() {
    insta::assert_snapshot!(screen(&[
        json!({"kind": "permission", "ask_id": "ask_0190c8f2a1b47c3d8e9f00112233abcd", "title": "Run `rm -rf build`?", "options": [
            {"id": "allow_once", "kind": "allow_once", "name": "Allow once"},
            {"id": "reject", "kind": "reject_once", "name": "Reject"},
        ]}),
        json!({"kind": "permission", "ask_id": "ask_0190c8f2a1b47c3d8e9f00112233abcd", "title": "Run `rm -rf build`?", "options": [], "decision": "deny", "decided_by": "person"}),
        json!({"kind": "assistant_text", "text": "Then I will wait for", "block": "a", "delta": true}),
        json!({"kind": "lifecycle", "phase": "stopping", "why": "cancelled"}),
        json!({"kind": "turn", "phase": "ended", "n": 1, "stop_reason": "cancelled"}),
        ended("cancelled", json!({
            "code": "cancelled",
            "duration_ms": 65_000,
            "totals": {"tokens": {}},
            "signal": 9,
            "evidence": {"end": "signal", "stopped_by": "person", "forced": true, "salvaged": true},
        })),
    ]), @r#"
    ◆ run 2233abcd

    ? Run `rm -rf build`?
      ✗ denied by you

    ● Then I will wait for

    ■ cancelled · 1 min 05 s
      cancelled: stopped by a person
      it did not obey and was killed
      what it had said before was kept
      ostler show 2233abcd
    "#);
}

#[test]
fn a_run_in_many_scripts() {
    insta::assert_snapshot!(screen(&[
        json!({"kind": "assistant_text", "text": "漢字かな交じり文は空白なしで書かれるので、どこでも折り返すことができますが、句読点は行頭に置きません。そうでしょう？ はい。", "delta": false}),
        json!({"kind": "thinking", "text": "Cafe\u{301}, naïve, Ωmega, שלום, مرحبا; \u{202e}desrever\u{202c} is not reversed.", "delta": false}),
        json!({"kind": "assistant_text", "text": "👩‍🚀 and 👍🏽 and 🇩🇪🇫🇷 are one each: 👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀", "delta": false}),
        json!({"kind": "tool_use", "tool_call_id": "1", "name": "検索\u{1b}]52;c;AAAA\u{7}", "input": {"query": "長い長い長い長い長い長い長い長い長い長い長い長い長い長い長い長い長い長い長い問い合わせ"}}),
        json!({"kind": "tool_result", "tool_call_id": "1", "status": "ok", "output": "見つかりました\u{1b}[2J\r\n二行目"}),
    ]), @r#"
    ◆ run 2233abcd

    ● 漢字かな交じり文は空白なしで書かれるので、どこでも折り返すことができますが、句
      読点は行頭に置きません。そうでしょう？ はい。

    ∴ Café, naïve, Ωmega, שלום, مرحبا; desrever is not reversed.

    ● 👩‍🚀 and 👍🏽 and 🇩🇪🇫🇷 are one each: 👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀
      👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀👩‍🚀

    → 検索 長い長い長い長い長い長い長い長い…い長い長い長い長い長い長い長い問い合わせ
      ✓ 見つかりました  +1 line
    "#);
}

#[test]
fn text_continues_on_its_line_and_bookkeeping_does_not_break_it() {
    let mut renderer = Renderer::new(80, Colour::Off, Detail::Usual);
    renderer.introduced = true;
    let mut say = |body: Value| printed(&renderer.event(&event(body)));
    let delta =
        |text: &str| json!({"kind": "assistant_text", "text": text, "block": "b", "delta": true});
    assert_eq!(say(delta("Good mor")), "● Good");
    assert_eq!(say(json!({"kind": "usage", "tokens": {"output": 3}})), "");
    assert_eq!(say(delta("ning, how ")), " morning, how");
    assert_eq!(say(delta("are you?\n")), " are you?");
    assert_eq!(say(delta("Fi")), "");
    assert_eq!(printed(&renderer.idle()), "\n  Fi", "nothing is held back for ever");
    assert_eq!(printed(&renderer.idle()), "");
    assert_eq!(printed(&renderer.event(&event(delta("ne.")))), "");
    assert_eq!(printed(&renderer.finish()), "ne.\n");
}

#[test]
fn an_agent_that_never_spoke_has_its_answer_shown() {
    let shown = screen(&[ended("succeeded", json!({"text": "42"}))]);
    assert!(shown.contains("\n● 42\n"), "{shown}");
}

#[test]
fn debug_shows_what_was_not_understood() {
    let bodies = [
        json!({"kind": "log", "stream": "stdout", "text": "garbage", "level": "unrecognised"}),
        json!({"kind": "lease", "action": "acquired"}),
        json!({"kind": "log", "stream": "ostler", "text": "a repeated call was not made twice"}),
    ];
    assert_eq!(screen(&bodies), "");
    let debug = played(Renderer::new(80, Colour::Off, Detail::Debug), &bodies);
    insta::assert_snapshot!(debug, @r#"
    ┆ garbage
    · lease acquired
    ┆ a repeated call was not made twice
    "#);
}

#[test]
fn each_speaker_has_a_colour() {
    let coloured = played(
        Renderer::new(80, Colour::On, Detail::Debug),
        &[
            json!({"kind": "session", "model": "m"}),
            json!({"kind": "thinking", "text": "hm", "delta": false}),
            json!({"kind": "assistant_text", "text": "hi", "delta": false}),
            json!({"kind": "tool_use", "tool_call_id": "1", "name": "t"}),
            json!({"kind": "tool_result", "tool_call_id": "1", "status": "error", "output": "no"}),
            json!({"kind": "log", "stream": "stdout", "text": "?"}),
        ],
    );
    let told = with_names_of_colours(&coloured);
    insta::assert_snapshot!(told, @r#"
    <blue>◆ run 2233abcd · m</>

    <dim italic>∴ hm</>

    ● hi

    <yellow>→ t</>
    <red>  ✗</><gray> no</>
    <gray>┆ ?</>
    "#);
}

#[test]
fn the_status_line_says_how_long_how_much_and_what() {
    let mut renderer = Renderer::new(60, Colour::Off, Detail::Usual);
    assert_eq!(renderer.status(0), "⠋ 0 s");
    let mut hear = |body: Value| drop(renderer.event(&event(body)));
    hear(
        json!({"kind": "usage", "tokens": {"input_uncached": 1500}, "effective_nanousd": 4_200_000}),
    );
    hear(
        json!({"kind": "tool_use", "tool_call_id": "1", "name": "Bash", "input": {"command": "cargo test --workspace --all-features"}}),
    );
    assert_eq!(
        renderer.status(12_340),
        "⠸ 12 s · 1,500 tokens · $0.0042 · Bash cargo test --worksp…"
    );
    let mut hear = |body: Value| drop(renderer.event(&event(body)));
    hear(json!({"kind": "usage", "tokens": {"output": 1}}));
    hear(json!({"kind": "thinking", "text": "x", "delta": false}));
    assert_eq!(renderer.status(61_000), "⠋ 1 min 01 s · 1,501 tokens · unpriced · thinking");
}

#[test]
fn a_run_that_is_left_early_says_how_to_come_back() {
    let mut renderer = Renderer::new(80, Colour::Off, Detail::Usual);
    renderer.event(&event(json!({"kind": "session", "model": "m"})));
    assert_eq!(
        renderer.summary(None),
        "  the run goes on: ostler watch run_0190c8f2a1b47c3d8e9f00112233abcd"
    );
}

#[test]
fn the_table_tells_included_free_and_silent_runs_apart() {
    let row = |tokens, cost: Option<i64>, billing| RunRow {
        id: RunId::new(uuid::Uuid::from_u128(7)),
        started_at: Timestamp(0),
        agent: "demo".to_owned(),
        outcome: Some(Outcome::Succeeded),
        place: None,
        duration_ms: 1_300,
        tokens,
        billing,
        effective_nanousd: cost.map(NanoUsd),
        prompt: "hello".to_owned(),
        dir: String::new(),
    };
    for (row, tokens, cost) in [
        (row(None, None, None), "–", "–"),
        (row(Some(0), None, None), "0", "–"),
        (row(None, Some(0), None), "–", "$0.00"),
        (row(Some(9), None, None), "9", "unpriced"),
        (row(Some(9), Some(420_000_000), Some(Billing::Metered)), "9", "$0.42"),
        (row(Some(9), Some(420_000_000), Some(Billing::Subscription)), "9", "included ($0.42)"),
        (row(Some(9), Some(420_000_000), Some(Billing::Free)), "9", "free ($0.42)"),
        (row(Some(9), None, Some(Billing::Subscription)), "9", "included"),
    ] {
        let table = runs_table(&[row], Timestamp(0), 100, Colour::Off);
        let line = table.lines().nth(1).expect("a run");
        let words: Vec<&str> =
            line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
        assert_eq!(words[words.len() - 3..], [tokens, cost, "hello"], "{table}");
    }
}

#[test]
fn runs_are_a_table() {
    let row = |n: u128, outcome, tokens, cost: Option<i64>, prompt: &str| RunRow {
        id: RunId::new(uuid::Uuid::from_u128(0x0190_c8f2_a1b4_7c3d_8e9f_0011_2233_0000 + n)),
        started_at: Timestamp(1_000_000 - n as i64 * 400_000),
        agent: "demo".to_owned(),
        outcome,
        place: None,
        duration_ms: 1_300 * n as u64,
        tokens: Some(tokens).filter(|tokens| *tokens > 0),
        billing: None,
        effective_nanousd: cost.map(NanoUsd),
        prompt: prompt.to_owned(),
        dir: "/srv/uu/project".to_owned(),
    };
    let rows = [
        RunRow { place: Some(3), ..row(0, None, 0, None, "patience") },
        row(1, None, 0, None, "hello"),
        row(
            2,
            Some(Outcome::Succeeded),
            1_540,
            Some(4_200_000),
            "fix the failing test\nand say what was wrong",
        ),
        row(3, Some(Outcome::TimedOut), 120, None, "漢字かな交じり文を書いてください"),
        RunRow {
            agent: "an-agent-with-a-long-name".into(),
            ..row(9, Some(Outcome::Failed), 0, None, "x")
        },
    ];
    let now = Timestamp(1_000_000);
    let table = runs_table(&rows, now, 100, Colour::Off);
    insta::assert_snapshot!(table, @r#"
    RUN       WHEN        AGENT             OUTCOME        TIME  TOKENS      COST  PROMPT
    22330000  now         demo              … waits, 3rd   0 ms       –         –  patience
    22330001  6 min ago   demo              ● live        1.3 s       –         –  hello
    22330002  13 min ago  demo              ✓ succeeded   2.6 s   1,540   $0.0042  fix the failing test…
    22330003  20 min ago  demo              ◷ timed out   3.9 s     120  unpriced  漢字かな交じり文を書…
    22330009  1 h ago     an-agent-with-a…  ✗ failed       11 s       –         –  x
    "#);
    for columns in [40, 80, 100] {
        for line in runs_table(&rows, now, columns, Colour::Off).lines() {
            assert!(width(line) <= columns, "{line}");
        }
    }
    assert_eq!(runs_table(&[], now, 80, Colour::Off), "no runs yet: ostler run demo \"hello\"");
}

proptest::proptest! {
    #[test]
    fn no_text_of_an_agent_reaches_the_terminal_as_a_command(text in "\\PC{0,20}[\\x00-\\x1f\\u{80}-\\u{9f}\\u{202e}]{1,3}\\PC{0,20}") {
        let shown = played(Renderer::new(40, Colour::Off, Detail::Debug), &[
            json!({"kind": "assistant_text", "text": text, "block": text, "delta": true}),
            json!({"kind": "thinking", "text": text, "delta": false}),
            json!({"kind": "user_text", "text": text}),
            json!({"kind": "session", "model": text, "cwd": text}),
            json!({"kind": "tool_use", "tool_call_id": text, "name": text, "input": {"x": text}, "title": text}),
            json!({"kind": "tool_result", "tool_call_id": text, "status": "ok", "output": {"content": [{"text": text}]}}),
            json!({"kind": "diff", "path": text}),
            json!({"kind": "plan", "entries": [{"text": text, "status": text}]}),
            json!({"kind": "comment", "text": text}),
            json!({"kind": "progress", "summary": text}),
            json!({"kind": "log", "stream": "stderr", "text": text}),
            json!({"kind": "log", "stream": "ostler", "text": text, "level": "warn"}),
            json!({"kind": "budget", "scope": text, "level": "hard", "remaining": {}}),
            json!({"kind": "quota", "provider": text, "windows": [{"id": text, "used_percent": 1.0}], "rate_limited": true}),
            json!({"kind": "lifecycle", "phase": "waiting", "why": text}),
            json!({"kind": "permission", "ask_id": "ask_0190c8f2a1b47c3d8e9f00112233abcd", "title": text, "options": [{"id": text, "kind": text, "name": text}]}),
            json!({"kind": "error", "code": "agent_failed", "message": text, "retryable": false, "hint": text, "detail": text}),
            ended("failed", json!({"code": "agent_failed", "message": text, "evidence": {"end": "none", "note": text}})),
        ]);
        let bad = |c: char| c != '\n' && c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
        proptest::prop_assert!(!shown.contains(bad), "{shown:?}");
        for line in shown.lines() {
            let of_ours = line.contains("ostler ");
            proptest::prop_assert!(of_ours || width(line) <= 40, "{line:?}");
        }
    }
}

/// A question as it waits, with what is asked for.
fn question(request: Value, title: &str) -> Value {
    json!({"kind": "permission", "ask_id": "ask_0190c8f2a1b47c3d8e9f00112233abcd", "tool_call_id": "1",
    "title": title, "request": request, "always": "all edits in the working directory, for this run",
    "rule": "--permission ask", "until": "2026-11-16T15:10:00.000Z", "options": [
        {"id": "allow", "kind": "allow_once", "name": "allow it this once"},
        {"id": "deny", "kind": "reject_once", "name": "deny it"},
    ]})
}

#[test]
fn question_shows_what_is_asked() {
    let mut renderer = Renderer::new(80, Colour::Off, Detail::Usual);
    renderer.takes_keys(true);
    let long: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    let diff = json!({"path": "/srv/ada/parser/src/lib.rs", "old_text": "fn a() {\n    1\n}\n", "new_text": "fn a() {\n    2\n}\n"});
    let rows = [
        json!({"kind": "session", "model": "model-1", "cwd": "/srv/ada/parser"}),
        question(
            json!({"tool": "Edit", "tool_kind": "edit", "diffs": [diff], "cwd": "/srv/ada/parser"}),
            "Edit: /srv/ada/parser/src/lib.rs",
        ),
        json!({"kind": "permission", "ask_id": "ask_0190c8f2a1b47c3d8e9f00112233abcd", "tool_call_id": "1", "title": "Edit", "options": [],
            "decision": "deny", "decided_by": "person", "by": "owner", "reason": "use a constant"}),
        question(
            json!({"tool": "Write", "diffs": [{"path": "/srv/ada/parser/big.txt", "new_text": long}]}),
            "Write: /srv/ada/parser/big.txt",
        ),
        question(
            json!({"tool": "Bash", "command": "cargo test\ncargo \u{1b}[31mdoc", "reason": "to see whether it still works"}),
            "Bash: cargo test",
        ),
        question(json!({"tool": "Bash", "command": "ls -l"}), "Bash: ls -l"),
    ];
    // Each question waits for a moment, as it does for a person.
    let mut show = |row| printed(&renderer.event(&event(row))) + &printed(&renderer.idle());
    let shown: String = rows.into_iter().map(&mut show).collect();
    insta::assert_snapshot!(shown, @r"
    ◆ run 2233abcd · model-1 · /srv/ada/parser

    ? Edit: src/lib.rs
      -     1
      +     2
      in /srv/ada/parser · asked by --permission ask
      [a] allow once   [A] allow all edits in the working directory, for this run
      [d] deny   [r] deny with a reason
      ✗ denied by you: use a constant
    ? Write: big.txt
      + line 1
      + line 2
      + line 3
      + line 4
      + line 5
      + line 6
      + line 7
      + line 8
      + line 9
      + line 10
      + line 11
      + line 12
      + line 13
      + line 14
      + line 15
      + line 16
      + line 17
      + line 18
      + line 19
      + line 20
      … +10 lines
      asked by --permission ask
      [a] allow once   [A] allow all edits in the working directory, for this run
      [d] deny   [r] deny with a reason   [v] view all
    ? Bash: cargo test
      $ cargo test
        cargo doc
      to see whether it still works
      asked by --permission ask
      [a] allow once   [A] allow all edits in the working directory, for this run
      [d] deny   [r] deny with a reason
    ? Bash: ls -l
      asked by --permission ask
      [a] allow once   [A] allow all edits in the working directory, for this run
      [d] deny   [r] deny with a reason
    ");
}

#[test]
fn denied_work_is_no_plain_success() {
    let call = json!({"kind": "tool_use", "tool_call_id": "1", "name": "Write", "input": {"file_path": "/srv/ada/parser/written.txt"}});
    let mut asked = question(json!({"tool": "Write"}), "Write: /srv/ada/parser/written.txt");
    asked["until"] = Value::Null;
    asked["rule"] = json!("--permission allow-reads");
    let mut denied = asked.clone();
    denied["decision"] = json!("deny");
    denied["decided_by"] = json!("policy");
    insta::assert_snapshot!(screen(&[
        json!({"kind": "session", "model": "model-1", "cwd": "/srv/ada/parser"}),
        call,
        asked,
        denied,
        json!({"kind": "tool_result", "tool_call_id": "1", "status": "error", "denied": true, "output": "This was not permitted."}),
        json!({"kind": "assistant_text", "text": "Wrote written.txt.", "delta": false}),
        ended("succeeded", json!({"denials": 1})),
    ]), @r"
    ◆ run 2233abcd · model-1 · /srv/ada/parser

    → Write written.txt
      ✗ denied by policy (--permission allow-reads)

    ● Wrote written.txt.

    ✓ succeeded, 1 request denied · 4.2 s · 1,540 tokens · $0.0042
      → let it work in a copy with --worktree, or allow everything with
        --permission allow-all
      ostler show 2233abcd
    ");
}

#[test]
fn failure_is_told_once_with_its_last_words() {
    insta::assert_snapshot!(screen(&[
        json!({"kind": "session", "model": "model-1"}),
        json!({"kind": "log", "stream": "stderr", "text": "loading\nTraceback (most recent call last):\nKeyError: 'x'"}),
        json!({"kind": "error", "code": "process_crashed", "message": "the agent's process crashed", "retryable": false, "detail": "Traceback (most recent call last):\nKeyError: 'x'"}),
        json!({"kind": "lease", "action": "released"}),
        ended("failed", json!({"code": "process_crashed", "message": "the agent's process crashed: exit code 1", "exit_code": 1, "evidence": {"end": "exit"}})),
    ]), @r"
    ◆ run 2233abcd · model-1

    ✗ failed · 4.2 s · 1,540 tokens · $0.0042
      process_crashed: the agent's process crashed: exit code 1
      ┆ loading
      ┆ Traceback (most recent call last):
      ┆ KeyError: 'x'
      ostler show 2233abcd
    ");
}

#[test]
fn paths_of_a_worktree_run_are_relative_and_keep_the_file_name() {
    let tree = "/srv/ada/.local/share/ostler/trees/01a1ef1250e073b1b763eb5144b00000";
    let deep = format!("{tree}/crates/a/very/long/way/down/to/the/place/where/the/file/is/main.rs");
    insta::assert_snapshot!(screen(&[
        json!({"kind": "session", "model": "model-1", "cwd": tree}),
        json!({"kind": "tool_use", "tool_call_id": "1", "name": "Read", "input": {"file_path": format!("{tree}/src/lib.rs")}}),
        json!({"kind": "tool_use", "tool_call_id": "2", "name": "Read", "input": {"file_path": deep}}),
        json!({"kind": "diff", "path": format!("{tree}/src/lib.rs"), "patch": "+a\n-b\n"}),
        ended("succeeded", json!({})),
    ]), @r#"
    ◆ run 2233abcd · model-1 · /srv/ada/.local/share/ost…1250e073b1b763eb5144b00000

    → Read src/lib.rs
    → Read crates/a/very/long/way/down/to/the/place/where/the/file/is/main.rs
    ± src/lib.rs  +1 −1

    ✓ succeeded · 4.2 s · 1,540 tokens · $0.0042
      ostler show 2233abcd
    "#);
}

#[test]
fn stderr_of_a_good_run_is_hidden_and_odd_lines_are_counted() {
    let shown = screen(&[
        json!({"kind": "log", "stream": "stderr", "text": "[STARTUP] Phase 'cleanup_ops' was started but never ended"}),
        json!({"kind": "log", "stream": "stdout", "text": "{\"type\":\"progres\"}", "level": "unrecognised"}),
        ended("succeeded", json!({"text": "42"})),
    ]);
    assert!(!shown.contains("STARTUP"), "{shown}");
    let odd = "1 line of the agent was not understood: ostler show 2233abcd --debug";
    assert!(shown.contains(odd), "{shown}");
}

#[test]
fn header_is_one_line_whichever_comes_first() {
    let prompt = json!({"kind": "user_text", "text": "fix it"});
    let warning =
        json!({"kind": "log", "stream": "ostler", "level": "warn", "text": "1 path has changes"});
    let session = json!({"kind": "session", "model": "model-1", "cwd": "/srv/ada/parser"});
    let answer = json!({"kind": "assistant_text", "text": "Done.", "delta": false});
    insta::assert_snapshot!(screen(&[prompt.clone(), warning, session, answer.clone()]), @r"
    ◆ run 2233abcd · model-1 · /srv/ada/parser

    › fix it

    ! 1 path has changes

    ● Done.
    ");
    insta::assert_snapshot!(screen(&[prompt.clone(), answer]), @r"
    ◆ run 2233abcd

    › fix it

    ● Done.
    ");
    // An agent that is slow to begin does not hide the run's name.
    let mut renderer = Renderer::new(80, Colour::Off, Detail::Usual);
    assert_eq!(printed(&renderer.event(&event(prompt))), "");
    let ticks: String = (0..EARLY_TICKS_MAX).map(|_| printed(&renderer.idle())).collect();
    assert_eq!(ticks, "◆ run 2233abcd\n\n› fix it\n");
}

#[test]
fn only_an_open_question_offers_answers() {
    let asked = question(json!({"tool": "Bash", "command": "ls -l"}), "Bash: ls -l");
    let decided = |decision: &str| {
        let mut decided = asked.clone();
        decided["decision"] = json!(decision);
        decided["decided_by"] = json!("person");
        decided
    };
    let past = screen(&[asked.clone(), decided("allow"), ended("succeeded", json!({}))]);
    assert!(past.contains("? Bash: ls -l") && !past.contains("ostler answer"), "{past}");
    let open = screen(std::slice::from_ref(&asked));
    assert!(open.contains("ostler answer 2233abcd allow|always|deny"), "{open}");
    // What came between is not taken for the question.
    let between =
        screen(&[asked.clone(), json!({"kind": "assistant_text", "text": "Hm.", "delta": false})]);
    assert!(
        between.ends_with("? Bash: ls -l\n  ostler answer 2233abcd allow|always|deny\n"),
        "{between}"
    );
    let result = json!({"kind": "tool_result", "tool_call_id": "1", "status": "error", "denied": true, "output": "This was not permitted."});
    let withdrawn = screen(&[asked.clone(), decided("cancelled"), result]);
    assert!(withdrawn.contains("✗ withdrawn") && !withdrawn.contains("denied"), "{withdrawn}");
}

#[test]
fn advice_takes_the_place_of_the_hint() {
    let mut renderer = Renderer::new(80, Colour::Off, Detail::Usual);
    let hint = "see its last lines, or the whole run with `ostler show`";
    renderer.event(&event(json!({"kind": "error", "code": "process_crashed", "message": "it crashed", "retryable": false, "hint": hint})));
    renderer.event(&event(ended("failed", json!({"code": "process_crashed"}))));
    assert!(!renderer.summary(None).contains('→'), "{}", renderer.summary(None));
    let advised = renderer.summary(Some("use `--env KEY`"));
    let (hint, show) = (advised.find("→ use `--env KEY`"), advised.find("ostler show"));
    assert!(hint.is_some() && hint < show, "{advised}");
}

#[test]
fn piped_input_is_folded() {
    let input: String = (1..=30).map(|n| format!("+line {n}\n")).collect();
    let text = format!("review{}```\n{input}```\n", crate::input::HEADING);
    insta::assert_snapshot!(screen(&[json!({"kind": "user_text", "text": text})]), @r"
    ◆ run 2233abcd

    › review

      Standard input:

      ```
      +line 1
      +line 2
      +line 3
      +line 4
      … +26 lines
      ```
    ");
    let short = format!("review{}```\n+a\n```\n", crate::input::HEADING);
    assert!(!screen(&[json!({"kind": "user_text", "text": short})]).contains('…'));
}

#[test]
fn question_fits_a_small_window_and_can_be_viewed_whole() {
    let long: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    let mut renderer = Renderer::new(40, Colour::Off, Detail::Usual);
    renderer.takes_keys(true);
    renderer.has_rows(Some(15));
    let asked = question(
        json!({"tool": "Write", "diffs": [{"path": "big.txt", "new_text": long}]}),
        "Write: big.txt",
    );
    let shown = printed(&renderer.event(&event(asked))) + &printed(&renderer.idle());
    insta::assert_snapshot!(shown, @r"
    ◆ run 2233abcd

    ? Write: big.txt
      + line 1
      + line 2
      + line 3
      + line 4
      + line 5
      + line 6
      … +24 lines
      asked by --permission ask
      [a] allow once
      [A] allow all edits in the working
      directory, for this run
      [d] deny   [r] deny with a reason
      [v] view all
    ");
    let lines_with_status = shown.lines().skip_while(|line| !line.starts_with('?')).count() + 1;
    assert!(lines_with_status <= 15, "{shown}");
    let whole = printed(&renderer.whole_question());
    assert!(whole.contains("+ line 30") && !whole.contains("view all"), "{whole}");
}

#[test]
fn question_shows_the_end_of_a_long_command() {
    let mut renderer = Renderer::new(40, Colour::Off, Detail::Usual);
    renderer.takes_keys(true);
    let command = "cargo build --release --workspace --all-targets && rm -rf /srv/backups";
    let asked = question(json!({"tool": "Bash", "command": command}), "Bash: build");
    let shown = printed(&renderer.event(&event(asked)));
    let rows: String = shown.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    assert!(rows.contains(command), "{shown}");
    assert!(shown.lines().all(|line| width(line) <= 40), "{shown}");
}

#[test]
fn the_same_trouble_is_told_once() {
    let limited = json!({"kind": "error", "code": "rate_limited", "message": "the provider limits the rate", "retryable": true});
    let shown = screen(&[
        limited.clone(),
        limited.clone(),
        limited,
        json!({"kind": "assistant_text", "text": "Done.", "delta": false}),
    ]);
    assert_eq!(shown.matches("rate_limited").count(), 1, "{shown}");
}

#[test]
fn a_person_who_stops_a_run_gets_no_advice_about_denials() {
    let shown = screen(&[ended("cancelled", json!({"code": "cancelled", "denials": 2}))]);
    assert!(
        shown.contains("cancelled, 2 requests denied") && !shown.contains("--worktree"),
        "{shown}"
    );
}

#[test]
fn changes_and_errors_of_tools_are_said_in_words() {
    let changes =
        json!({"changes": [{"kind": "add", "path": "a.txt"}, {"kind": "update", "path": "b.txt"}]});
    let error = r#"{"code":"permission_denied","message":"permission was denied"}"#;
    insta::assert_snapshot!(screen(&[
        json!({"kind": "tool_use", "tool_call_id": "1", "name": "apply_patch", "input": changes}),
        json!({"kind": "tool_result", "tool_call_id": "1", "status": "error", "output": error}),
        json!({"kind": "tool_use", "tool_call_id": "2", "name": "write_file", "input": {"path": "a.txt"}}),
        json!({"kind": "tool_result", "tool_call_id": "2", "status": "error", "denied": true, "output": "permission was denied"}),
    ]), @r"
    ◆ run 2233abcd

    → apply_patch a.txt b.txt
      ✗ permission was denied
    → write_file a.txt
      ✗ denied: permission was denied
    ");
}

#[test]
fn call_of_our_own_tool_is_told_once() {
    let input = json!({"path": "a.txt"});
    let native = json!({"kind": "tool_use", "tool_call_id": "n", "name": "ostler_read_file", "input": input});
    let relayed = json!({"kind": "tool_use", "tool_call_id": "r", "name": "read_file", "input": input, "via": "relayed"});
    let result =
        |id: &str| json!({"kind": "tool_result", "tool_call_id": id, "status": "ok", "output": id});
    for (first, second, told) in [(&native, &relayed, "n"), (&relayed, &native, "r")] {
        let shown = screen(&[first.clone(), second.clone(), result("r"), result("n")]);
        assert_eq!(shown.matches("→ ").count(), 1, "{shown}");
        assert_eq!(shown.matches("✓ ").count(), 1, "{shown}");
        assert!(shown.contains(&format!("✓ {told}")), "{shown}");
    }
    // The same call twice by one side is two calls.
    let again = json!({"kind": "tool_use", "tool_call_id": "m", "name": "ostler_read_file", "input": input});
    assert_eq!(screen(&[native, again]).matches("→ ").count(), 2);
}

/// What a colour is called, in place of its sequence.
fn with_names_of_colours(text: &str) -> String {
    let named = [
        ("\u{1b}[34m", "<blue>"),
        ("\u{1b}[32m", "<green>"),
        ("\u{1b}[33m", "<yellow>"),
        ("\u{1b}[36m", "<cyan>"),
        ("\u{1b}[1m", "<bold>"),
        ("\u{1b}[3m", "<italic>"),
        ("\u{1b}[2;3m", "<dim italic>"),
        ("\u{1b}[90m", "<gray>"),
        ("\u{1b}[31m", "<red>"),
        ("\u{1b}[0m", "</>"),
    ];
    named.iter().fold(text.to_owned(), |text, (code, name)| text.replace(code, name))
}

#[test]
fn markdown_of_an_answer_is_rendered() {
    let text = "## What I changed\n\nThe bug was an **off-by-one** in `split`.\n\n- first\n\n```\ngo();\n```\n\n| file | lines |\n|---|--:|\n| a.rs | 12 |\n";
    let bodies: Vec<Value> = text
        .as_bytes()
        .chunks(5)
        .map(|piece| json!({"kind": "assistant_text", "text": String::from_utf8_lossy(piece), "block": "a", "delta": true}))
        .collect();
    let coloured = played(Renderer::new(80, Colour::On, Detail::Usual), &bodies);
    insta::assert_snapshot!(with_names_of_colours(&coloured), @r"
    <blue>◆ run 2233abcd</>

    ● <bold>What I</><bold> changed</>

      The bug was an <bold>off-by-one</> in <cyan>split</>.

      • first

        <cyan>go();</>

      <bold>file</>  <bold>lines</>
      <gray>────  ─────</>
      a.rs     12
    ");
    insta::assert_snapshot!(screen(&bodies), @r"
    ◆ run 2233abcd

    ● ## What I changed

      The bug was an **off-by-one** in `split`.

      - first

      ```
      go();
      ```

      file  lines
      ────  ─────
      a.rs     12
    ");
}
