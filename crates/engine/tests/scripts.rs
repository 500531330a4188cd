//! The run machine by scripts: each file under `scripts` is one subject, each script one rule.

mod script;

#[test]
fn a_run_begins_runs_and_ends_once() {
    script::check("life.txt");
}

#[test]
fn a_broken_policy_and_an_unanswered_greeting_end_a_run() {
    script::check("policy.txt");
}

#[test]
fn the_outcome_follows_the_evidence() {
    script::check("outcome.txt");
}

#[test]
fn a_stop_is_kept_and_only_shortened() {
    script::check("stop.txt");
}

#[test]
fn clocks_run_out_only_when_the_agent_owes_a_sound() {
    script::check("clocks.txt");
}

#[test]
fn a_budget_warns_once_and_then_stops() {
    script::check("budget.txt");
}

#[test]
fn each_relayed_call_is_answered_once() {
    script::check("tools.txt");
}

#[test]
fn wishes_reach_an_agent_that_takes_them() {
    script::check("wishes.txt");
}

#[test]
fn a_lost_lease_ends_the_run_as_lost() {
    script::check("lease.txt");
}

#[test]
fn a_question_is_asked_once_and_decided_once() {
    script::check("asks.txt");
}

#[test]
fn an_agent_waits_for_its_provider_no_longer_than_its_patience() {
    script::check("limited.txt");
}

#[test]
fn a_conversation_is_kept_after_a_good_turn_and_an_unknown_one_started_afresh() {
    script::check("session.txt");
}
