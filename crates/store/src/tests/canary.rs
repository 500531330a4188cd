//! A planted secret, said in every way the house can hear it, is in none of the store's files.

use super::envelope;
use crate::conformance::{Holder, NOW, claim_of, new_task, next_uuid, wish};
use crate::*;
use contract::event::{Body, Text, Totals};
use contract::limits::TEXT_BYTES_MAX;
use contract::{CommandId, TaskState, Wish};
use serde_json::json;
use std::fs;
use tempfile::TempDir;

const SECRET: &str = "canary/7f\"3a+yellow bird";
/// `SECRET` in base64 and percent encoding.
const DISGUISED: [&str; 2] =
    ["Y2FuYXJ5LzdmIjNhK3llbGxvdyBiaXJk", "canary%2F7f%223a%2Byellow%20bird"];

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn bodies() -> Vec<Body> {
    let said = format!("{SECRET} {}", DISGUISED.join(" "));
    let text = |text: String| Body::AssistantText(Text { text, block: None, delta: false });
    let json = |value| serde_json::from_value(value).unwrap();
    vec![
        text(said.clone()),
        text(said.repeat(TEXT_BYTES_MAX / 40)),
        json(
            json!({"kind": "tool_use", "tool_call_id": SECRET, "name": "sh", "input": {SECRET: [said]}}),
        ),
        json(json!({"kind": "tool_result", "tool_call_id": "1", "status": "ok",
            "output": json!({"inner": json!({"deep": SECRET}).to_string()}).to_string()})),
    ]
}

#[tokio::test]
async fn a_planted_secret_is_in_no_file_of_the_store() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let seal = Seal::new([("CANARY".to_owned(), SECRET.to_owned())]);
    let task = NewTask { prompt: seal.given(SECRET), body: seal.given(SECRET), ..new_task() };
    let task = store.enqueue(task).await.unwrap();
    let plan = seal.view(&json!({"args": [SECRET], "env": {"X": SECRET}}));
    let claim = Claim { plan, ..claim_of(task, "one") };
    let run = claim.run;
    let fence = store.claim(claim).await.unwrap().fence;
    let mut held = Holder { task, run, fence, head_seq: 0 };
    let say = seal.json(&Wish::Say { text: SECRET.into() });
    let id = CommandId::new(next_uuid());
    store.command(NewCommand { id, run, asked_at: NOW, wish: say }).await.unwrap();
    store.command(wish(run, Wish::Interrupt)).await.unwrap();
    let mut batch = held.batch(&[]);
    batch.events = (1..)
        .zip(bodies())
        .map(|(seq, body)| seal.event(&envelope(&held, seq), &body, None))
        .collect();
    batch.machine = seal.json(&json!({"held": SECRET, SECRET: 1}));
    batch.effects_todo = vec![Effect { n: 1, bytes: seal.json(&json!([SECRET])) }];
    held.head_seq = store.commit(batch).await.unwrap().head_seq;
    let mut end = held.settling(TaskState::Failed, Totals::default());
    end.settle.as_mut().unwrap().message = seal.line(SECRET.as_bytes());
    store.commit(end).await.unwrap();

    let mut found = Vec::new();
    files(dir.path(), &mut found);
    assert!(found.len() >= 3, "a database, its log and a blob: {found:?}");
    let mut marks = 0;
    for path in found {
        let bytes = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        marks += bytes.matches("[redacted:CANARY]").count();
        for trace in ["yellow", "canary", DISGUISED[0], DISGUISED[1], "7f%22", "llbGxvdy"] {
            assert!(!bytes.contains(trace), "{trace} in {}", path.display());
        }
    }
    assert!(marks > 10, "the secret was there to be redacted");
    super::sound(dir.path());
}
