//! The seal from outside: whole events in, canonical bytes out.

use super::*;
use contract::event::*;
use contract::limits::{PREVIEW_BYTES, TEXT_BYTES_MAX, TOOL_BYTES_MAX};
use contract::{RunId, Timestamp};
use serde_json::{Value, json};

fn seal() -> Seal {
    Seal::new([
        ("MY_KEY".to_owned(), "hunter2-hunter2".to_owned()),
        ("PIN".to_owned(), "73310042".to_owned()),
        ("ODD".to_owned(), "a\"b\\c\nd/e".to_owned()),
    ])
}

fn envelope() -> Envelope {
    let run_id = RunId::new(uuid::Uuid::from_u128(7));
    let ts = Timestamp(0);
    Envelope { run_id, seq: 3, ts, attempt: 1, fence: 2, origin: Origin::Agent }
}

fn text(text: &str) -> Body {
    Body::AssistantText(Text { text: text.into(), block: None, delta: false })
}

fn tool_use(input: Value) -> Body {
    let body = json!({"kind": "tool_use", "tool_call_id": "call_1", "name": "sh", "input": input});
    serde_json::from_value(body).unwrap()
}

fn sealed(body: &Body) -> String {
    seal().event(&envelope(), body, None).bytes.text()
}

#[test]
fn an_event_without_secrets_is_its_envelope_and_body() {
    let raw = Raw { stream: Stream::Stdout, line: 4 };
    let event = seal().event(&envelope(), &text("hello"), Some(raw));
    insta::assert_snapshot!(event.bytes.text(), @r##"{"v":1,"run_id":"run_00000000000000000000000000000007","seq":3,"ts":"1970-01-01T00:00:00.000Z","attempt":1,"fence":2,"origin":"agent","kind":"assistant_text","text":"hello","delta":false,"raw":{"stream":"stdout","line":4}}"##);
    let read: Event = serde_json::from_slice(event.bytes.bytes()).unwrap();
    assert_eq!((read.body, read.raw), (text("hello"), Some(raw)));
}

#[test]
fn an_event_is_redacted_by_value_by_name_and_by_form() {
    let rows = [
        text("the key is hunter2-hunter2, in base64 aHVudGVyMi1odW50ZXIy"),
        text("odd: a\"b\\c\nd/e; as JSON: \"a\\\"b\\\\c\\nd/e\""),
        text("export GITHUB_TOKEN=abcdefgh && curl -H 'Authorization: Bearer 0123456789'"),
        tool_use(
            json!({"api_key": "x", "keys": ["Xk29fLq8wZ", 1, {"b": "c"}], "tokens": 5, "cmd": "ls"}),
        ),
        tool_use(json!({"hunter2-hunter2": "hunter2-hunter2", "n": 73310042, "m": 733100420})),
        tool_use(json!({"body": "{\"password\": \"hush\"}", "key": "$HOME"})),
        Body::Progress(Progress {
            summary: "key: fine".into(),
            beliefs: vec![json!({"secret": "s"})],
            attempted: vec![json!("API_KEY=abcdefgh")],
        }),
    ];
    let out: Vec<String> = rows
        .iter()
        .map(|row| {
            let line = sealed(row);
            serde_json::from_str::<Event>(&line).unwrap();
            line.split_once("\"agent\",").unwrap().1.to_owned()
        })
        .collect();
    insta::assert_snapshot!(out.join("\n"), @r##"
"kind":"assistant_text","text":"the key is [redacted:MY_KEY], in base64 [redacted:MY_KEY]","delta":false}
"kind":"assistant_text","text":"odd: [redacted:ODD]; as JSON: \"[redacted:ODD]\"","delta":false}
"kind":"assistant_text","text":"export GITHUB_TOKEN=[redacted] && curl -H 'Authorization: Bearer [redacted]'","delta":false}
"kind":"tool_use","tool_call_id":"call_1","name":"sh","input":{"api_key":"[redacted]","cmd":"ls","keys":["[redacted]",1,{"b":"c"}],"tokens":5},"via":"native"}
"kind":"tool_use","tool_call_id":"call_1","name":"sh","input":{"[redacted:MY_KEY]":"[redacted:MY_KEY]","m":733100420,"n":"[redacted:PIN]"},"via":"native"}
"kind":"tool_use","tool_call_id":"call_1","name":"sh","input":{"body":"{\"password\": \"[redacted]\"}","key":"$HOME"},"via":"native"}
"kind":"progress","summary":"key: fine","beliefs":[{"secret":"[redacted]"}],"attempted":["API_KEY=[redacted]"]}
"##);
}

#[test]
fn a_value_in_colours_is_found_in_an_event_and_in_a_line() {
    let painted: String = "hunter2-hunter2"
        .chars()
        .map(|c| format!("{c}\u{1b}[0m\u{1b}[3{}m", c as u32 % 8))
        .collect();
    let line = sealed(&text(&format!("colours: {painted}.")));
    assert!(line.contains("colours: [redacted:MY_KEY]") && !line.contains("-\\u001b"), "{line}");
    let line = seal().line(format!("colours: {painted}.").as_bytes()).text();
    assert!(line.contains("colours: [redacted:MY_KEY]"), "{line}");
}

#[test]
fn a_line_whose_writer_escapes_every_letter_is_read_before_it_is_judged() {
    let escaped: String =
        "hunter2-hunter2".chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    let line = format!(r#"{{"text":"{escaped}"}}"#);
    assert_eq!(seal().line(line.as_bytes()).text(), r#"{"text":"[redacted:MY_KEY]"}"#);
}

#[test]
fn vendors_keys_are_kept_out_of_our_own_state_too() {
    let state = json!({"last_text": format!("use ghp_{}", "a1B2".repeat(9)), "token": "mine"});
    assert_eq!(seal().json(&state).text(), r#"{"last_text":"use [redacted]","token":"mine"}"#);
}

#[test]
fn ordinary_events_come_out_as_they_went_in() {
    for body in [
        text("token count: 5, monkey=banana, MAX_TOKENS=4096, the key point"),
        tool_use(json!({"max_tokens": 4096, "keyboard": "qwerty", "nested": {"n": 1.50}})),
        Body::Usage(Usage { tokens: Some(contract::Tokens::default()), ..Usage::default() }),
    ] {
        let plain = serde_json::to_string(&body).unwrap();
        assert!(sealed(&body).ends_with(&plain[1..]), "{plain}");
    }
}

#[test]
fn a_text_that_is_too_long_becomes_a_preview_and_a_blob() {
    let long = format!("é{} hunter2-hunter2", "x".repeat(TEXT_BYTES_MAX));
    let event = seal().event(&envelope(), &text(&long), None);
    let read: Value = serde_json::from_slice(event.bytes.bytes()).unwrap();
    let shown = read["text"].as_str().unwrap();
    assert_eq!(shown.len(), PREVIEW_BYTES);
    assert_eq!(read["truncated"], true);
    let [blob] = event.blobs.as_slice() else { panic!("one blob") };
    assert_eq!(blob.bytes.text(), long.replace("hunter2-hunter2", "[redacted:MY_KEY]"));
    assert_eq!(
        read["text_blob"],
        json!({"hash": blake3::hash(blob.bytes.bytes()).to_hex().as_str(), "bytes": blob.bytes.bytes().len()})
    );
    assert!(serde_json::from_value::<Event>(read).is_ok());
}

#[test]
fn a_tool_input_that_is_too_long_becomes_a_preview_and_its_json_a_blob() {
    let body = tool_use(json!({"lines": vec!["word"; TOOL_BYTES_MAX / 7 + 1], "token": "t"}));
    let event = seal().event(&envelope(), &body, None);
    let read: Value = serde_json::from_slice(event.bytes.bytes()).unwrap();
    assert!(read["input"].as_str().unwrap().starts_with(r#"{"lines":["word","#));
    assert_eq!(read["input_blob"]["as"], "json");
    let whole: Value = serde_json::from_slice(event.blobs[0].bytes.bytes()).unwrap();
    assert_eq!(whole["token"], "[redacted]");
}

#[test]
fn a_halved_character_is_not_shown() {
    let long = "é".repeat(TEXT_BYTES_MAX);
    let event = seal().event(&envelope(), &text(&format!("x{long}")), None);
    let read: Value = serde_json::from_slice(event.bytes.bytes()).unwrap();
    assert!(read["text"].as_str().unwrap().ends_with('é'));
}

#[test]
fn state_keeps_its_shape_and_loses_known_values_only() {
    let state =
        json!({"token": "mine", "held": "x hunter2-hunter2", "n": 73310042, "o": "a\"b\\c\nd/e"});
    insta::assert_snapshot!(seal().json(&state).text(), @r##"{"held":"x [redacted:MY_KEY]","n":73310042,"o":"[redacted:ODD]","token":"mine"}"##);
    insta::assert_snapshot!(seal().view(&state).text(), @r##"{"held":"x [redacted:MY_KEY]","n":"[redacted:PIN]","o":"[redacted:ODD]","token":"[redacted]"}"##);
}

#[test]
fn a_raw_line_is_redacted_as_what_it_is() {
    let rows: [&[u8]; 4] = [
        br#"{"type":"x","secret":"s","text":"hunter2-hunter2 \n"}"#,
        b"plain hunter2-hunter2 API_KEY=abcdefgh",
        b"cut {\"password\": \"hush",
        b"\xff hunter2-hunter2 \xfe",
    ];
    let out: Vec<String> = rows.iter().map(|row| seal().line(row).text()).collect();
    insta::assert_snapshot!(out.join("\n"), @r##"
{"type":"x","secret":"[redacted]","text":"[redacted:MY_KEY] \n"}
plain [redacted:MY_KEY] API_KEY=[redacted]
cut {"password": "[redacted]
� [redacted:MY_KEY] �
"##);
}

#[test]
fn a_line_with_pieces_of_a_text_is_kept_without_them() {
    let line = br#"{"type":"delta","text":"hunter2-hu","n":1,"secret":"s"}"#;
    let kept = seal().line_without(line, &["hunter2-hu"]).text();
    assert_eq!(kept, r#"{"type":"delta","text":"[delta]","n":1,"secret":"[redacted]"}"#);
    // A piece that is not there as it is may be there in another form.
    assert_eq!(seal().line_without(line, &["HUNTER2"]).text(), "[delta]");
    assert_eq!(seal().line_without(b"no JSON hunter2-hu", &["x"]).text(), "[delta]");
}

#[test]
fn the_head_of_a_line_holds_no_value_that_lies_across_an_escape() {
    let seal = Seal::new([("SHORT".to_owned(), "abcabd".to_owned())]);
    let line = format!(r#"{{"\u00abcabd4":"{}"}}"#, "x".repeat(4_000));
    let head = seal.head(line.as_bytes()).text();
    assert!(head.starts_with('{') && !head.contains("abcabd"), "{}", &head[..40]);
}

#[test]
fn the_head_of_a_line_does_not_end_in_half_a_secret() {
    let whole = format!("{} hunter2-hunter2", "é".repeat(200));
    for end in whole.len() - 20..=whole.len() {
        let head = seal().head(&whole.as_bytes()[..end]).text();
        assert!(!head.contains("hun") && !head.contains('\u{fffd}'), "{head}");
    }
}

#[test]
fn secrets_that_are_words_of_the_contract_do_not_make_an_event_unreadable() {
    let words = ["result", "failed", "agent_failed", "explicit", "budget", "succeeded", "session"];
    let seal = Seal::new(words.map(|word| ("W".to_owned(), word.to_owned())));
    let result = json!({
        "kind": "result", "outcome": "failed", "code": "agent_failed", "message": "it failed",
        "duration_ms": 1, "totals": {"tokens": {}}, "evidence": {"end": "explicit", "note": "explicit"}
    });
    let budget = json!({"kind": "budget", "scope": "session", "level": "ok", "remaining": {}});
    for body in [result, budget] {
        let body: Body = serde_json::from_value(body).unwrap();
        let event = seal.event(&envelope(), &body, None);
        let read: Event = serde_json::from_slice(event.bytes.bytes()).unwrap();
        assert_eq!(read.body.kind(), body.kind());
        assert!(event.bytes.text().contains("[redacted:W]"));
    }
}

proptest::proptest! {
    #[test]
    fn no_known_value_comes_through_and_json_stays_json(
        parts in proptest::collection::vec("hunter2-hunter2|[a-z\"\\\\\n{}:,é=]{0,6}|KEY=|\"token\":\"", 0..12),
        key in "[a-z\"]{0,4}|token",
    ) {
        let text = parts.concat();
        let input = json!({ &key: text, "nested": [{ &key: [text.clone()] }] });
        let line = sealed(&tool_use(input));
        proptest::prop_assert!(!line.contains("hunter2-hunter2"), "{}", line);
        proptest::prop_assert!(serde_json::from_str::<Event>(&line).is_ok(), "{}", line);
    }
}

#[test]
fn a_file_that_is_no_text_loses_known_values_too() {
    let seal = Seal::new([("K".to_owned(), "hunter-2026-value".to_owned())]);
    let blob = seal.asset(b"\xff\xfe\x00hunter-2026-value\x00\xff");
    assert!(std::str::from_utf8(blob.bytes.bytes()).is_err(), "it still is none");
    assert!(memchr::memmem::find(blob.bytes.bytes(), b"hunter").is_none(), "{:?}", blob.bytes);
    assert_eq!(blob.hash, blake3::hash(blob.bytes.bytes()).to_hex().as_str());
}
