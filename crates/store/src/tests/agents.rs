//! Hired agents in the store: a name is given once, and a change is made to what was seen.

use crate::*;
use contract::state::AgentState;
use contract::{AgentId, Code, Timestamp};
use tempfile::TempDir;

fn new(name: &str, n: u128) -> NewAgent {
    NewAgent {
        id: AgentId::new(uuid::Uuid::from_u128(n)),
        name: name.to_owned(),
        state: AgentState::Active,
        spec: Some(Seal::default().given(r#"{"adapter":"demo"}"#)),
        by: "operator".to_owned(),
        at: Timestamp(1),
    }
}

fn change(name: &str, version: u64, state: AgentState) -> AgentChange {
    AgentChange { name: name.to_owned(), version, state, spec: None, at: Timestamp(2) }
}

#[tokio::test]
async fn a_name_is_given_once_and_a_change_is_made_only_to_what_was_seen() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for (name, n) in [("b", 1), ("a", 2)] {
        store.put_agent(new(name, n)).await.unwrap();
    }
    let again = store.put_agent(new("a", 3)).await.unwrap_err();
    assert_eq!(again.code(), Code::Conflict);
    let names = |rows: Vec<AgentRow>| rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
    assert_eq!(names(store.agents("", 10).await.unwrap()), ["a", "b"]);
    assert_eq!(names(store.agents("a", 10).await.unwrap()), ["b"]);

    // Two saw the first version; the second of them is refused.
    store.change_agent(change("a", 1, AgentState::Paused)).await.unwrap();
    let late = store.change_agent(change("a", 1, AgentState::Active)).await.unwrap_err();
    assert_eq!(late.code(), Code::Conflict);
    let row = store.agent("a").await.unwrap().unwrap();
    assert_eq!((row.state, row.version, row.spec), (AgentState::Paused, 2, None));

    // Who is retired stays so.
    store.change_agent(change("a", 2, AgentState::Retired)).await.unwrap();
    let back = store.change_agent(change("a", 3, AgentState::Active)).await.unwrap_err();
    assert_eq!(back.code(), Code::Conflict);
    assert_eq!(store.agent("nobody").await.unwrap(), None);
}
