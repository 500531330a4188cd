//! What holds for any sequence of inputs, in any order: one result and it is the last, no success
//! without closing evidence, one answer for each call, and a state that can be stored at any point.

use contract::command::{Command, Wish};
use contract::event::{Body, Outcome, PermissionOption, StopReason, Usage};
use contract::money::Basis;
use contract::plan::Clocks;
use contract::speech::{Ending, Limited, Question, Signal, ToolAnswer, ToolCall};
use contract::{AskId, Code, NanoUsd, Reset, RunState, Timestamp, Tokens};
use engine::{Booked, Covers, Effect, Input, Machine, Now, RunBudget, Step, Terms, Testimony};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn terms() -> Terms {
    Terms {
        wall_ms: Some(40_000),
        silence_ms: Some(9_000),
        first_output_ms: Some(6_000),
        budget: RunBudget {
            nanousd: Some(NanoUsd(1_000)),
            tokens: Some(10_000),
            turns: Some(3),
            ms: Some(30_000),
        },
        tools: ["known", "asked", "person"].map(str::to_owned).to_vec(),
        asks: ["asked", "person"].map(str::to_owned).to_vec(),
        answered: vec!["person".to_owned()],
        ..Terms::from(&Clocks::default(), 7, 1)
    }
}

fn code() -> impl Strategy<Value = Code> {
    prop::sample::select(Code::ALL)
}

fn call_id() -> impl Strategy<Value = String> {
    (0..4).prop_map(|n| format!("c{n}"))
}

fn ending() -> impl Strategy<Value = Ending> {
    (prop::option::of(code()), prop::option::of("[a-z]{0,4}")).prop_map(|(code, text)| Ending {
        code,
        text,
        output: None,
        detail: Some("detail".to_owned()),
    })
}

fn spent() -> impl Strategy<Value = (u64, Option<i64>, Option<&'static str>, Basis)> {
    let models = prop::sample::select(vec![None, Some("a"), Some("b")]);
    let bases = [Basis::Increment, Basis::Increment, Basis::RunTotal, Basis::SessionTotal];
    let bases = prop::sample::select(bases.to_vec());
    (0..500_u64, prop::option::of(0..100_i64), models, bases)
}

fn signal() -> impl Strategy<Value = Signal> {
    let stops = [StopReason::EndTurn, StopReason::MaxTokens, StopReason::Refusal];
    prop_oneof![
        1 => any::<(bool, bool)>()
            .prop_map(|(message, interrupt)| Signal::Accepts { message, interrupt }),
        1 => Just(Signal::TurnStarted),
        1 => prop::sample::select(stops.to_vec()).prop_map(|stop| Signal::TurnEnded { stop }),
        1 => call_id().prop_map(|tool_call_id| Signal::ToolOpened { tool_call_id }),
        1 => call_id().prop_map(|tool_call_id| Signal::ToolClosed { tool_call_id, denied: false }),
        4 => (
            call_id(),
            prop::sample::select(vec!["known", "unknown", "asked", "person"]),
            prop::sample::select(vec![Value::Null, json!({ "text": "may it?" })]),
        ).prop_map(
            |(tool_call_id, tool, args)| {
                let tool = tool.to_owned();
                Signal::ToolCalled(ToolCall { tool_call_id, tool, args })
            }
        ),
        1 => Just(Signal::ModelAnswer),
        4 => (spent(), any::<bool>()).prop_map(|((output, nanousd, model, basis), guessed)| {
            Signal::Spent(Usage {
                approximate: guessed.then_some(true),
                model: model.map(str::to_owned),
                basis,
                tokens: Some(Tokens { output, ..Tokens::default() }),
                effective_nanousd: nanousd.map(NanoUsd),
                ..Usage::default()
            })
        }),
        1 => code().prop_map(|code| Signal::ModelError { code }),
        2 => question().prop_map(Signal::Asked),
        1 => (0..4).prop_map(|n| Signal::AskWithdrawn { request: format!("q{n}") }),
        1 => (0..2).prop_map(|n| Signal::Session { id: format!("s{n}") }),
        1 => Just(Signal::SessionUnknown),
        1 => (any::<bool>(), prop::option::of(0..9_000_u64)).prop_map(|(terminal, wait_ms)| {
            let code = Code::RateLimited;
            Signal::Limited(Limited { code, terminal, wait_ms, resets_at: None })
        }),
        1 => Just(Signal::LimitLifted),
        1 => any::<u64>().prop_map(|ms| Signal::Resets(Reset::After { ms })),
        1 => ending().prop_map(Signal::Ended),
        1 => ending().prop_map(Signal::Result),
        1 => ending().prop_map(Signal::ResultAtExit),
        1 => Just(Signal::Forced),
        1 => Just(Signal::Greeted),
        1 => Just(Signal::FinalText),
        1 => Just(Signal::PolicyBroken { what: "an edit".to_owned() }),
    ]
}

fn question() -> impl Strategy<Value = Question> {
    let kinds = ["allow_once", "allow_always", "reject_once", "reject_always", "odd"];
    let kinds = prop::collection::vec(prop::sample::select(kinds.to_vec()), 0..4);
    (0..4, any::<bool>(), kinds).prop_map(|(n, reads, kinds)| {
        let option = |kind: &&str| PermissionOption {
            id: format!("{kind} it"),
            kind: (*kind).to_owned(),
            name: String::new(),
        };
        Question {
            request: format!("q{n}"),
            tool_call_id: None,
            title: "may I?".to_owned(),
            reads,
            content: Default::default(),
            options: kinds.iter().map(option).collect(),
        }
    })
}

fn wish() -> impl Strategy<Value = Wish> {
    let ask_id: AskId = format!("ask_{:032x}", 1).parse().expect("an id");
    prop_oneof![
        any::<bool>().prop_map(|at_once| Wish::Stop { reason: Code::Cancelled, at_once }),
        Just(Wish::Say { text: "hello".to_owned() }),
        Just(Wish::Interrupt),
        Just(Wish::Answer { ask_id, option: "yes".to_owned(), by: None, reason: None }),
    ]
}

fn command() -> impl Strategy<Value = Input> {
    wish().prop_map(|wish| {
        Input::Command(Command {
            id: format!("cmd_{:032x}", 1).parse().expect("an id"),
            run_id: format!("run_{:032x}", 1).parse().expect("an id"),
            asked_at: Timestamp(0),
            wish,
        })
    })
}

fn answered() -> impl Strategy<Value = Input> {
    (call_id(), any::<bool>()).prop_map(|(tool_call_id, ok)| {
        let message = "no".to_owned();
        let answer = if ok {
            ToolAnswer::Value(json!({}))
        } else {
            ToolAnswer::Error { code: Code::InternalError, message }
        };
        Input::Answered { tool_call_id, answer, duration_ms: 1 }
    })
}

fn testimony() -> impl Strategy<Value = Testimony> {
    let asked_by = prop::sample::select(vec![None, Some("lease"), Some("output_limit")]);
    (prop::option::of(0..3), prop::option::of(9..16), asked_by, any::<bool>()).prop_map(
        |(exit_code, signal, asked_by, forced)| Testimony {
            exit_code,
            signal,
            asked_by: asked_by.map(str::to_owned),
            forced,
            stderr_tail: "last words".to_owned(),
            ..Testimony::default()
        },
    )
}

/// Anything but the end.
fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        1 => Just(Input::Begin),
        1 => Just(Input::Launched { pid: 1, isolation: "basic".to_owned() }),
        3 => Just(Input::Heard),
        20 => signal().prop_map(Input::Signal),
        2 => command(),
        4 => answered(),
        1 => "[a-c]".prop_map(|tool_call_id| Input::CallerLeft { tool_call_id }),
        1 => Just(Input::LetGo),
        1 => Just(Input::LeaseLost),
        3 => Just(Input::Tick),
    ]
}

fn end() -> impl Strategy<Value = Input> {
    prop_oneof![testimony().prop_map(Input::Ended), Just(Input::Lost { why: "gone".to_owned() }),]
}

/// Inputs with the time that passes before each: a run that begins, most of the time, an end
/// somewhere, and whatever may come after it.
fn story() -> impl Strategy<Value = Vec<(u64, Input)>> {
    let timed = || prop::collection::vec((0..4_000_u64, input()), 0..40);
    let begin = prop::sample::select(vec![true, true, true, false]);
    (begin, timed(), (0..4_000_u64, end()), timed()).prop_map(|(begin, before, end, after)| {
        let begin = begin.then_some((0, Input::Begin));
        // The first end may be that of an attempt only.
        let lost = (0, Input::Lost { why: "why".to_owned() });
        begin.into_iter().chain(before).chain([end]).chain(after).chain([lost]).collect()
    })
}

fn now(mono_ms: u64) -> Now {
    Now { wall: Timestamp(0), mono_ms }
}

/// What each input led to.
fn play(story: &[(u64, Input)]) -> Vec<Vec<Step>> {
    let mut machine = Machine::new(terms(), now(0));
    let mut mono_ms = 0;
    story
        .iter()
        .map(|(passed_ms, input)| {
            mono_ms += passed_ms;
            let mut out = Vec::new();
            machine.step(now(mono_ms), input.clone(), &mut out);
            out
        })
        .collect()
}

fn bodies(steps: &[Step]) -> impl Iterator<Item = &Body> {
    steps.iter().filter_map(|step| match step {
        Step::Append(draft) => Some(&draft.body),
        Step::Book(_) | Step::KeepSession(_) | Step::Do(_) => None,
    })
}

/// The books as a store keeps them: by provider, model and whether a total replaces the row.
type Books = BTreeMap<(String, String, bool), (Tokens, i64, bool, bool)>;

/// Keeps books as a store does, with what has a price and what has none.
fn book(books: &mut Books, booked: &Booked) {
    let is_of = |(provider, model, _): &(String, String, bool)| {
        (provider, model) == (&booked.provider, &booked.model)
    };
    books.retain(|key, _| match booked.replaces {
        Covers::Nothing => true,
        Covers::Model => !(key.2 && is_of(key)),
        Covers::Run => !key.2,
    });
    for (key, row) in books.iter_mut() {
        row.3 &= match booked.covers {
            Covers::Nothing => true,
            Covers::Model => !is_of(key),
            Covers::Run => false,
        };
    }
    let key = (booked.provider.clone(), booked.model.clone(), booked.approximate);
    let row = books.entry(key).or_default();
    row.0 = row.0.plus(&booked.tokens);
    row.1 += booked.nanousd.map_or(0, |amount| amount.0);
    row.2 |= booked.nanousd.is_some();
    row.3 |= booked.unpriced;
}

proptest! {
    #[test]
    fn there_is_one_result_and_it_is_the_last_event(story in story()) {
        let steps: Vec<_> = play(&story).into_iter().flatten().collect();
        let kinds: Vec<_> = bodies(&steps).map(Body::kind).collect();
        prop_assert_eq!(kinds.iter().filter(|kind| **kind == "result").count(), 1);
        prop_assert_eq!(&kinds[kinds.len() - 2..], ["lease", "result"]);
        prop_assert_eq!(steps.last(), Some(&Step::Do(Effect::Settle)));
        let settles = steps.iter().filter(|step| **step == Step::Do(Effect::Settle)).count();
        prop_assert_eq!(settles, 1);
    }

    #[test]
    fn nothing_follows_the_end(story in story()) {
        let steps = play(&story);
        let settled = steps.iter().position(|steps| steps.contains(&Step::Do(Effect::Settle)));
        let settled = settled.expect("every story ends");
        prop_assert!(steps[settled + 1..].iter().all(Vec::is_empty));
    }

    #[test]
    fn a_run_that_began_ends_with_its_process_and_not_before(story in story()) {
        let mut machine = Machine::new(terms(), now(0));
        for (_, input) in story {
            let live = matches!(machine.state(), RunState::Live | RunState::Stopping);
            let gone = matches!(input, Input::Ended(_) | Input::Lost { .. });
            let mut out = Vec::new();
            machine.step(now(0), input, &mut out);
            let again = out.contains(&Step::Do(Effect::Relaunch));
            prop_assert!(!live || gone == (machine.is_settled() || again));
        }
    }

    #[test]
    fn there_is_no_success_without_closing_evidence(story in story()) {
        let steps: Vec<_> = play(&story).into_iter().flatten().collect();
        let succeeded = bodies(&steps).any(|body| match body {
            Body::Result(result) => result.outcome == Outcome::Succeeded,
            _ => false,
        });
        let evidence = story.iter().any(|(_, input)| match input {
            Input::Signal(Signal::Ended(ending) | Signal::Result(ending)) => ending.code.is_none(),
            _ => false,
        });
        // An agent without a closing mark: what it said, and an exit of 0 that nobody asked for.
        let spoke = story.iter().any(|(_, input)| match input {
            Input::Signal(Signal::ResultAtExit(ending)) => ending.code.is_none(),
            _ => false,
        });
        let left_well = story.iter().any(|(_, input)| match input {
            Input::Ended(testimony) => {
                let Testimony { exit_code, signal, asked_by, .. } = testimony;
                *exit_code == Some(0) && signal.is_none() && asked_by.is_none()
            }
            _ => false,
        });
        prop_assert!(!succeeded || evidence || spoke && left_well);
    }

    #[test]
    fn each_call_that_was_heard_has_one_answer(story in story()) {
        let mut machine = Machine::new(terms(), now(0));
        let mut answers: BTreeMap<String, usize> = BTreeMap::new();
        let mut said: BTreeMap<String, usize> = BTreeMap::new();
        for (_, input) in story {
            let hears = matches!(machine.state(), RunState::Live | RunState::Stopping);
            if let (true, Input::Signal(Signal::ToolCalled(call))) = (hears, &input) {
                answers.entry(call.tool_call_id.clone()).or_default();
            }
            let mut out = Vec::new();
            machine.step(now(0), input, &mut out);
            for step in &out {
                match step {
                    // A process that starts afresh counts its calls afresh.
                    Step::Do(Effect::Relaunch) => {
                        prop_assert!(answers.values().all(|count| *count == 1), "{answers:?}");
                        (answers, said) = Default::default();
                    }
                    Step::Append(draft) => if let Body::ToolResult(result) = &draft.body {
                        *answers.entry(result.tool_call_id.clone()).or_default() += 1;
                    },
                    Step::Do(Effect::Say(contract::Utterance::ToolResult { tool_call_id, .. })) => {
                        *said.entry(tool_call_id.clone()).or_default() += 1;
                    }
                    Step::Book(_) | Step::KeepSession(_) | Step::Do(_) => {}
                }
            }
        }
        prop_assert!(answers.values().all(|count| *count == 1), "{answers:?}");
        prop_assert!(said.values().all(|count| *count == 1), "{said:?}");
    }

    #[test]
    fn each_question_that_was_asked_is_decided_once_and_its_agent_told_once(story in story()) {
        let steps: Vec<_> = play(&story).into_iter().flatten().collect();
        let mut decided: BTreeMap<AskId, usize> = BTreeMap::new();
        for body in bodies(&steps) {
            if let Body::Permission(asked) = body {
                *decided.entry(asked.ask_id).or_default() += usize::from(asked.decision.is_some());
            }
        }
        prop_assert!(decided.values().all(|count| *count == 1), "{decided:?}");
        let told = steps.iter().filter(|step| {
            matches!(step, Step::Do(Effect::Say(contract::Utterance::Decide { .. })))
        });
        prop_assert!(told.count() <= decided.len());
    }

    #[test]
    fn an_agent_is_launched_again_at_most_once(story in story()) {
        let steps: Vec<_> = play(&story).into_iter().flatten().collect();
        let again = steps.iter().filter(|step| **step == Step::Do(Effect::Relaunch)).count();
        prop_assert!(again <= 1);
    }

    #[test]
    fn saving_and_loading_at_any_point_changes_nothing(story in story()) {
        let mut machine = Machine::new(terms(), now(0));
        let mut mono_ms = 0;
        for ((passed_ms, input), expected) in story.iter().zip(play(&story)) {
            mono_ms += passed_ms;
            let saved = serde_json::to_vec(&machine).expect("a machine is data");
            machine = serde_json::from_slice(&saved).expect("its data is a machine");
            let mut out = Vec::new();
            machine.step(now(mono_ms), input.clone(), &mut out);
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn what_is_booked_adds_up_to_the_totals_of_the_result(story in story()) {
        let steps: Vec<_> = play(&story).into_iter().flatten().collect();
        let mut books = Books::new();
        let mut totals = None;
        for step in &steps {
            match step {
                Step::Book(booked) => book(&mut books, booked),
                Step::Append(draft) => if let Body::Result(result) = &draft.body {
                    totals = Some(result.totals);
                },
                Step::KeepSession(_) | Step::Do(_) => {}
            }
        }
        let totals = totals.expect("every story ends");
        let tokens = books.values().fold(Tokens::default(), |sum, row| sum.plus(&row.0));
        prop_assert_eq!(tokens, totals.tokens);
        let (priced, unpriced) =
            (books.values().any(|row| row.2), books.values().any(|row| row.3));
        let paid = NanoUsd(books.values().map(|row| row.1).sum());
        prop_assert_eq!((priced && !unpriced).then_some(paid), totals.effective_nanousd);
    }

    #[test]
    fn a_tick_matters_at_its_deadline_and_not_before(story in story()) {
        let mut machine = Machine::new(terms(), now(0));
        let mut mono_ms = 0;
        for (passed_ms, input) in story {
            mono_ms += passed_ms;
            machine.step(now(mono_ms), input, &mut Vec::new());
            let Some(deadline_ms) = machine.deadline_ms() else {
                prop_assert_ne!(machine.state(), RunState::Live, "a limited run is watched");
                continue;
            };
            let ticked = |at_ms| {
                let mut out = Vec::new();
                machine.clone().step(now(at_ms), Input::Tick, &mut out);
                out
            };
            prop_assert!(!ticked(deadline_ms).is_empty());
            prop_assert!(deadline_ms == 0 || ticked(deadline_ms - 1).is_empty());
        }
    }

    #[test]
    fn a_state_only_moves_forward(story in story()) {
        let mut machine = Machine::new(terms(), now(0));
        for (_, input) in story {
            let before = machine.state();
            machine.step(now(0), input, &mut Vec::new());
            let after = machine.state();
            prop_assert!(before == after || before.may_become(after), "{before:?} to {after:?}");
        }
    }
}

#[test]
fn the_state_of_an_unknown_version_is_refused() {
    let mut state = serde_json::to_value(Machine::new(terms(), now(0))).expect("data");
    assert!(serde_json::from_value::<Machine>(state.clone()).is_ok());
    state["version"] = json!(2);
    let refused = serde_json::from_value::<Machine>(state).expect_err("another version");
    assert_eq!(refused.to_string(), "the state of the run has version 2, and this program reads 1");
}
