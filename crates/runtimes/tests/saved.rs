//! The state of a conversation is kept with a version, and one of another version is refused: what a
//! runtime of today makes of yesterday's state would be a guess. The host ends such a run as lost.

use contract::Code;
use runtimes::registry;
use serde_json::Value;
use testkit::recorded::spec;

#[test]
fn a_state_of_an_older_or_newer_version_is_refused_by_every_runtime() {
    let mut older = 0;
    for runtime in registry::all() {
        let card = runtime.card();
        let lane = *card.lanes.first().expect("a lane");
        let saved = runtime.dialect(&spec(*runtime, lane)).save();
        assert!(runtime.restore(&saved).is_ok(), "{}: its own state", card.id);
        let saved: Value = serde_json::from_slice(&saved).expect("a state is JSON");
        let version = saved["version"].as_u64().expect("a state has a version");
        for other in (0..version).chain([version + 1]) {
            let mut state = saved.clone();
            state["version"] = other.into();
            let refused = runtime.restore(state.to_string().as_bytes()).err();
            let fault = refused.unwrap_or_else(|| panic!("{}: version {other}", card.id));
            assert_eq!(fault.code, Code::ProcessLost, "{}", card.id);
            let named = [other, version].iter().all(|n| fault.message.contains(&n.to_string()));
            assert!(named, "{}: {}", card.id, fault.message);
        }
        older += usize::from(version > 1);
    }
    assert!(older >= 4, "the states of {older} runtimes have had another version");
}
