//! How an account is paid for decides what dollars of a budget mean: what is included is held against
//! the run's own budget alone, at list price.

use contract::event::{Body, Usage};
use contract::plan::Clocks;
use contract::speech::Signal;
use contract::{Billing, NanoUsd, RunState, Timestamp, Tokens};
use engine::{Input, Machine, MustCount, Now, RunBudget, Step, Terms};

const NOW: Now = Now { wall: Timestamp(1), mono_ms: 1 };

/// A run that may spend 100 nano-dollars: of its own budget, or of what was set aside of a shared one.
fn begun(own: bool, known: Option<Billing>) -> Machine {
    let budget = RunBudget { nanousd: Some(NanoUsd(100)), ..RunBudget::default() };
    let terms = Terms {
        budget,
        own_nanousd: own.then_some(NanoUsd(100)),
        must_count: MustCount { dollars: true, tokens: false },
        billing: known,
        ..Terms::from(&Clocks::default(), 1, 1)
    };
    let mut machine = Machine::new(terms, NOW);
    machine.step(NOW, Input::Begin, &mut Vec::new());
    machine.step(NOW, Input::Launched { pid: 1, isolation: "basic".to_owned() }, &mut Vec::new());
    machine
}

fn spend(machine: &mut Machine, nanousd: Option<i64>) {
    let usage = Usage {
        tokens: Some(Tokens { output: 5, ..Tokens::default() }),
        effective_nanousd: nanousd.map(NanoUsd),
        ..Usage::default()
    };
    machine.step(NOW, Input::Signal(Signal::Spent(usage)), &mut Vec::new());
}

#[test]
fn included_use_is_held_by_the_own_budget_alone() {
    let told = |billing| Some(Signal::Billing { billing });
    for (why, own, known, signal, paid, stops) in [
        ("nothing is known", false, None, None, Some(200), true),
        ("metered", false, None, told(Billing::Metered), Some(200), true),
        ("a way of a newer version", false, None, told(Billing::Unknown), Some(200), true),
        ("a shared budget", false, None, told(Billing::Subscription), Some(200), false),
        ("its own budget", true, None, told(Billing::Subscription), Some(200), true),
        ("free", false, None, told(Billing::Free), Some(200), false),
        (
            "the configuration counts",
            false,
            Some(Billing::Metered),
            told(Billing::Free),
            Some(200),
            true,
        ),
        ("no price, included", false, None, told(Billing::Subscription), None, false),
        ("no price, billed", false, None, None, None, true),
    ] {
        let mut machine = begun(own, known);
        if let Some(signal) = signal {
            machine.step(NOW, Input::Signal(signal), &mut Vec::new());
        }
        spend(&mut machine, paid);
        assert_eq!(machine.state() == RunState::Stopping, stops, "{why}");
    }
}

#[test]
fn the_first_word_on_billing_counts() {
    let mut machine = begun(false, None);
    for billing in [Billing::Subscription, Billing::Metered] {
        machine.step(NOW, Input::Signal(Signal::Billing { billing }), &mut Vec::new());
    }
    assert_eq!(machine.report().billing, Some(Billing::Subscription));
    assert!(machine.is_included());
}

#[test]
fn the_result_has_the_report() {
    let mut machine = begun(false, Some(Billing::Subscription));
    let model = "the-model".to_owned();
    machine.step(NOW, Input::Signal(Signal::Model { model }), &mut Vec::new());
    let mut out = Vec::new();
    machine.step(NOW, Input::Lost { why: "gone".to_owned() }, &mut out);
    let result = out.into_iter().find_map(|step| match step {
        Step::Append(draft) => match draft.body {
            Body::Result(result) => Some(result),
            _ => None,
        },
        _ => None,
    });
    let written = serde_json::to_value(Body::Result(result.unwrap())).unwrap();
    assert_eq!(
        (&written["model"], &written["billing"]),
        (&"the-model".into(), &"subscription".into())
    );
    assert_eq!(written.get("usage"), Some(&serde_json::Value::Null), "nothing was reported");
}
