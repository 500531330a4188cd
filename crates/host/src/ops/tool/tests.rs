//! What each relayed tool answers, as rows of a table, and what it must not do.

use super::super::catalog;
use super::*;
use std::path::Path;

fn answer(tool: &str, args: Value) -> String {
    let dir = tempfile::tempdir().unwrap();
    answer_in(dir.path(), tool, args)
}

fn answer_in(root: &Path, tool: &str, args: Value) -> String {
    let work = root.join("work");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::write(work.join("a.txt"), "hello").unwrap();
    answer_of(&bench(root), tool, args)
}

fn bench(root: &Path) -> Bench {
    let work = root.join("work");
    Bench {
        run: crate::chance::run_id(),
        task: Arc::new(TaskSheet {
            id: "task_00000000000000000000000000000001".parse().unwrap(),
            run: "run_00000000000000000000000000000001".parse().unwrap(),
            agent: "a".to_owned(),
            title: "t".to_owned(),
            body: "b".to_owned(),
            prompt: "p".to_owned(),
            system_prompt: None,
            session: None,
            context: Map::new(),
        }),
        workspace: Arc::new(Workspace::open(&work).unwrap()),
        policy: Policy::AllowAll,
        store: Store::open(&root.join("store")).unwrap(),
        seal: Seal::new([("KEY".to_owned(), "hunter-2026".to_owned())]),
        upstream: Arc::default(),
    }
}

fn answer_of(bench: &Bench, tool: &str, args: Value) -> String {
    let call = ToolCall { tool_call_id: "1".to_owned(), tool: tool.to_owned(), args };
    let Outcome { answer, drafts, signals } = super::call(bench, &Standing::default(), &call);
    let answer = match answer {
        ToolAnswer::Value(value) => value.to_string(),
        ToolAnswer::Error { code, message } => format!("{code}: {message}"),
    };
    let kinds: Vec<_> = drafts.iter().map(|draft| draft.body.kind()).collect();
    format!("{answer} {kinds:?} {}", signals.len())
}

#[test]
fn what_is_larger_than_it_may_be_is_neither_written_nor_kept() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    let long = "x".repeat(limits::WRITE_FILE_BYTES_MAX - 1) + "\n";
    std::fs::write(work.join("long.txt"), &long).unwrap();
    std::fs::write(work.join("longer.txt"), format!("{long}x")).unwrap();
    let bench = bench(dir.path());
    let longer = format!("{long}x");
    let patched = |file: &str, hunk: &str| format!("--- a/{file}\n+++ b/{file}\n{hunk}");
    let grows = patched("long.txt", "@@ -1,0 +2 @@\n+more\n");
    let renamed = "diff --git a/longer.txt b/l.txt\nrename from longer.txt\nrename to l.txt\n";
    for (tool, args) in [
        ("write_file", json!({ "path": "n.txt", "content": longer })),
        ("apply_patch", json!({ "patch": grows })),
        ("apply_patch", json!({ "patch": renamed })),
        ("upload_asset", json!({ "name": "n.txt", "content": longer })),
    ] {
        let said = answer_of(&bench, tool, args);
        assert!(said.starts_with("too_large: "), "{tool}: {said:.200}");
    }
    let mut there: Vec<_> = std::fs::read_dir(&work).unwrap().flatten().collect();
    there.sort_by_key(std::fs::DirEntry::file_name);
    let there: Vec<_> = there.iter().map(|file| file.metadata().unwrap().len()).collect();
    assert_eq!(there, [long.len() as u64, longer.len() as u64]);
    assert_eq!(limits::ASSET_BYTES_MAX, limits::WRITE_FILE_BYTES_MAX);
    // At the limit it is taken.
    let said = answer_of(&bench, "write_file", json!({ "path": "n.txt", "content": long }));
    assert!(said.starts_with(r#"{"bytes":"#), "{said:.200}");
}

#[test]
fn an_asset_that_cannot_be_kept_or_is_of_no_type_is_not_said_to_be_kept() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("work")).unwrap();
    let bench = bench(dir.path());
    for odd in ["text/\u{1b}[2J".to_owned(), "x".repeat(ASSET_NAME_BYTES_MAX + 1)] {
        let args = json!({ "name": "a", "content": "a", "media_type": odd });
        let said = answer_of(&bench, "upload_asset", args);
        assert!(said.contains("media_type is not a media type"), "{said}");
    }
    let blobs = dir.path().join("store/blobs");
    std::fs::remove_dir_all(&blobs).unwrap();
    std::fs::write(&blobs, "").unwrap();
    let said = answer_of(&bench, "upload_asset", json!({ "name": "a", "content": "a" }));
    assert!(!said.starts_with('{') && said.ends_with("[] 0"), "{said}");
}

#[test]
fn each_tool_answers_what_its_row_says() {
    let rows = [
        ("get_budget", Value::Null, r#"{"remaining":{}} [] 0"#),
        ("report_progress", json!({"summary": "s"}), r#"{"noted":true} ["progress"] 0"#),
        (
            "report_progress",
            json!({}),
            "usage: the arguments of report_progress: missing field `summary` [] 0",
        ),
        ("comment", json!({"text": "t", "mentions": ["@x"]}), r#"{"noted":true} ["comment"] 0"#),
        ("mark_complete", json!({"output": {"a": 1}}), r#"{"noted":true} [] 1"#),
        ("mark_failed", json!({"reason": "no"}), r#"{"noted":true} [] 1"#),
        ("handoff", json!({"question": "which one?"}), r#"{"noted":true} [] 1"#),
        ("handoff", json!({}), "usage: the arguments of handoff: missing field `question` [] 0"),
        (
            "read_file",
            json!({"path": "a.txt"}),
            r#"{"bytes_in_all":5,"content":"hello","encoding":"utf-8","path":"a.txt","truncated":false} [] 0"#,
        ),
        (
            "read_file",
            json!({"path": "a.txt", "offset": 3}),
            r#"{"bytes_in_all":5,"content":"lo","encoding":"utf-8","path":"a.txt","truncated":false} [] 0"#,
        ),
        (
            "read_file",
            json!({"path": "a.txt", "offset": 9}),
            r#"{"bytes_in_all":5,"content":"","encoding":"utf-8","path":"a.txt","truncated":false} [] 0"#,
        ),
        (
            "read_file",
            json!({"path": "../a"}),
            "forbidden: '../a': it leads out of the workspace [] 0",
        ),
        ("read_file", json!({"path": "b"}), "not_found: 'b' is not in the workspace [] 0"),
        (
            "read_file",
            json!(7),
            "usage: the arguments of read_file: it must be an object, not the number 7 [] 0",
        ),
        (
            "list_files",
            Value::Null,
            r#"{"files":[{"kind":"file","path":"a.txt"}],"truncated":false} [] 0"#,
        ),
        (
            "write_file",
            json!({"path": "a.txt", "content": "bye"}),
            r#"{"bytes":3,"path":"a.txt"} ["diff"] 0"#,
        ),
        (
            "write_file",
            json!({"path": "b.bin", "content_base64": "/wA="}),
            r#"{"bytes":2,"path":"b.bin"} ["diff"] 0"#,
        ),
        (
            "write_file",
            json!({"path": "b.bin"}),
            "usage: the arguments of write_file: give either content or content_base64 [] 0",
        ),
        (
            "apply_patch",
            json!({"patch": "diff --git a/a.txt b/c/d.txt\nrename from a.txt\nrename to c/d.txt\n"}),
            r#"{"files":[{"change":"renamed","from":"a.txt","path":"c/d.txt"}]} ["diff"] 0"#,
        ),
        (
            "apply_patch",
            json!({"patch": "diff --git a/a.txt b/../d\nrename from a.txt\nrename to ../d\n"}),
            "forbidden: '../d': it leads out of the workspace [] 0",
        ),
        (
            "write_file",
            json!({"path": "../a", "content": ""}),
            "forbidden: '../a': it leads out of the workspace [] 0",
        ),
        (
            "apply_patch",
            json!({"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-hello\n\\ No newline\n+bye\n"}),
            r#"{"files":[{"change":"modified","path":"a.txt"}]} ["diff"] 0"#,
        ),
        (
            "apply_patch",
            json!({"patch": "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n"}),
            "conflict: 'a.txt' is already there [] 0",
        ),
        (
            "upload_asset",
            json!({"name": "r.txt", "content": "it was hunter-2026"}),
            r#"{"bytes":21,"hash":"#,
        ),
        (
            "upload_asset",
            json!({"name": "../r", "content": ""}),
            "usage: the arguments of upload_asset: name is not a plain file name [] 0",
        ),
        (
            "upload_asset",
            json!({"name": "r", "content_base64": "?"}),
            "usage: the arguments of upload_asset: content_base64: Invalid symbol 63, offset 0. [] 0",
        ),
        (
            "upload_asset",
            json!({"name": "r"}),
            "usage: the arguments of upload_asset: give either content or content_base64 [] 0",
        ),
        ("rm", Value::Null, "unknown_tool: no tool is called 'rm' [] 0"),
    ];
    for (tool, args, expected) in rows {
        let answer = answer(tool, args.clone());
        let same = answer == expected || (expected.ends_with(':') && answer.starts_with(expected));
        assert!(same, "{tool} {args}: {answer}");
    }
}

#[test]
fn a_long_text_is_read_in_parts_that_are_texts_and_any_bytes_in_base64() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    // The limit falls inside a character.
    let long = format!("x{}", "é".repeat(limits::READ_FILE_BYTES_MAX / 2 + 10));
    std::fs::write(work.join("long"), &long).unwrap();
    let (mut offset, mut read) = (json!(0), String::new());
    while !offset.is_null() {
        let args = json!({ "path": "long", "offset": offset });
        let answer = answer_in(dir.path(), "read_file", args);
        let part: Value = serde_json::from_str(answer.split(" []").next().unwrap()).unwrap();
        assert_eq!(
            (&part["encoding"], &part["bytes_in_all"]),
            (&json!("utf-8"), &json!(long.len()))
        );
        assert_eq!(part["truncated"] == true, part["next_offset"].is_u64());
        read.push_str(part["content"].as_str().unwrap());
        offset = part["next_offset"].clone();
    }
    assert_eq!(read, long);
    std::fs::write(work.join("bytes"), [0xff, 0, 1]).unwrap();
    let answer = answer_in(dir.path(), "read_file", json!({ "path": "bytes" }));
    let expected = r#"{"bytes_in_all":3,"content":"/wAB","encoding":"base64""#;
    assert!(answer.starts_with(expected), "{answer}");
}

#[test]
fn a_file_that_gets_another_name_keeps_what_it_may() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::write(work.join("run"), "one\n").unwrap();
    std::fs::set_permissions(work.join("run"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let patch = "diff --git a/run b/bin/go\nsimilarity index 50%\nrename from run\n\
                     rename to bin/go\n--- a/run\n+++ b/bin/go\n@@ -1 +1 @@\n-one\n+two\n";
    let answer = answer_in(dir.path(), "apply_patch", json!({ "patch": patch }));
    assert!(answer.contains(r#""change":"renamed""#), "{answer}");
    assert!(!work.join("run").exists());
    assert_eq!(std::fs::read_to_string(work.join("bin/go")).unwrap(), "two\n");
    let mode = work.join("bin/go").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o100, 0o100);
}

#[test]
fn an_asset_is_kept_without_what_must_be_kept_out() {
    let dir = tempfile::tempdir().unwrap();
    let args = json!({"name": "r.txt", "content": "it was hunter-2026"});
    let answer = answer_in(dir.path(), "upload_asset", args);
    let hash = answer.split('"').find(|part| part.len() == 64).unwrap();
    let kept = Store::open(&dir.path().join("store")).unwrap().blob(hash).unwrap().unwrap();
    assert_eq!(String::from_utf8(kept).unwrap(), "it was [redacted:KEY]");
}

#[test]
fn every_listed_tool_is_known() {
    for tool in catalog::ALL {
        let answer = answer(tool.name, Value::Null);
        assert!(!answer.starts_with("unknown_tool"), "{}", tool.name);
        assert_eq!(tool.schema()["type"], "object");
    }
}
