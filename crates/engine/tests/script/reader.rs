//! Reads the lines of a script. A word stands for itself and `name=value` for a field; in a value
//! an underscore stands for a space where a sentence is meant.

use contract::command::{Command, Wish};
use contract::event::{PermissionOption, PermissionRequest};
use contract::event::{StopReason, Usage};
use contract::money::Basis;
use contract::speech::{Ending, Limited, Question, Signal, ToolAnswer, ToolCall};
use contract::{Code, CommandId, NanoUsd, RunId, Timestamp, Tokens};
use engine::{Greeting, Input, MustCount, SessionSpent, Terms, Testimony, WorkspaceCheck};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Where a script starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    Planned,
    /// The run has begun, and what follows from that is not written again.
    Live,
}

/// `live wall=60s silence=off usd=0.50 tokens=100 turns=3 tools=read_task,comment`
pub fn terms(line: &str, terms: &mut Terms) -> Given {
    for (name, value) in Words(line).fields() {
        match name {
            "wall" => terms.wall_ms = limit(value),
            "silence" => terms.silence_ms = limit(value),
            "first_output" => terms.first_output_ms = limit(value),
            "greeting" => {
                let limit_ms = limit(value).unwrap();
                terms.greeting = Some(Greeting { limit_ms, command: "agent acp".to_owned() });
            }
            "usd" => {
                terms.budget.nanousd = Some(usd(value));
                terms.must_count.dollars = true;
            }
            "tokens" => {
                terms.budget.tokens = Some(number(value));
                terms.must_count.tokens = true;
            }
            "turns" => terms.budget.turns = Some(number(value)),
            "best_effort" => {
                terms.budget_best_effort = value == "yes";
                terms.must_count = MustCount::default();
            }
            "uncertain" => terms.usage_is_uncertain = value == "yes",
            "policy" => terms.policy = word(value),
            "writes" => terms.writes = value.split(',').map(str::to_owned).collect(),
            "ask" => terms.ask_ms = limit(value).unwrap(),
            "patience" => terms.patience_ms = limit(value).unwrap(),
            "time" => terms.budget.ms = limit(value),
            "session_tokens" => terms.session_spent = vec![earlier(number(value))],
            "tools" => terms.tools = value.split(',').map(str::to_owned).collect(),
            unknown => panic!("no term is called {unknown}"),
        }
    }
    if Words(line).has("live") { Given::Live } else { Given::Planned }
}

/// `@60s tick`: the time is optional and stays until the next one.
pub fn input(line: &str) -> (Option<u64>, Input) {
    let (at, line) = match line.strip_prefix('@') {
        Some(line) => line.split_once(' ').map(|(at, rest)| (limit(at), rest)).unwrap(),
        None => (None, line),
    };
    let (verb, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let words = Words(rest);
    let input = match verb {
        "begin" => Input::Begin,
        "launched" => Input::Launched {
            pid: number(words.get("pid").unwrap()),
            isolation: "basic".to_owned(),
        },
        "heard" => Input::Heard,
        "let_go" => Input::LetGo,
        "tick" => Input::Tick,
        "lease_lost" => Input::LeaseLost,
        "lost" => Input::Lost { why: sentence(rest) },
        "answered" => Input::Answered {
            tool_call_id: words.bare(0).to_owned(),
            answer: answer(&words),
            duration_ms: 12,
        },
        "caller_left" => Input::CallerLeft { tool_call_id: words.bare(0).to_owned() },
        "ended" => Input::Ended(testimony(&words)),
        "command" => Input::Command(command(&words)),
        "signal" => Input::Signal(signal(&words)),
        unknown => panic!("nothing is called {unknown}"),
    };
    (at, input)
}

/// What the conversation had spent before, with no model named.
fn earlier(output: u64) -> SessionSpent {
    let tokens = Tokens { output, ..Tokens::default() };
    SessionSpent { provider: String::new(), model: String::new(), tokens, nanousd: None }
}

fn answer(words: &Words<'_>) -> ToolAnswer {
    match words.bare(1) {
        "ok" => ToolAnswer::Value(json!({ "ok": true })),
        word => ToolAnswer::Error { code: code(word), message: "it did not work".to_owned() },
    }
}

fn testimony(words: &Words<'_>) -> Testimony {
    Testimony {
        exit_code: words.get("exit").map(number),
        signal: words.get("signal").map(number),
        spawn_error: words.get("spawn_error").map(sentence),
        not_found: words.has("not_found"),
        asked_by: words.get("asked_by").map(str::to_owned),
        forced: words.has("forced"),
        stderr_tail: words.get("stderr").map(sentence).unwrap_or_default(),
        classified: words.get("classified").map(code),
        last_error: words.get("last_error").map(|told| {
            let (of, said) = told.split_once(':').unwrap_or_else(|| panic!("{told} has no words"));
            (code(of), sentence(said))
        }),
        workspace: words.get("changed").map(|what| WorkspaceCheck::Changed(sentence(what))),
    }
}

fn command(words: &Words<'_>) -> Command {
    let wish = match words.bare(0) {
        "stop" => Wish::Stop { reason: code(words.bare(1)), at_once: words.has("at_once") },
        "say" => Wish::Say { text: sentence(words.bare(1)) },
        "interrupt" => Wish::Interrupt,
        "answer" => {
            let ask_id = format!("ask_{:032x}", number::<u64>(words.bare(1))).parse().unwrap();
            let reason = words.get("reason").map(sentence);
            Wish::Answer { ask_id, option: words.bare(2).to_owned(), by: None, reason }
        }
        "budget" => Wish::Budget {
            remaining: contract::event::Remaining {
                nanousd: words.get("usd").map(usd),
                tokens: words.get("tokens").map(number),
                turns: words.get("turns").map(number),
                ms: words.get("ms").map(number),
            },
        },
        unknown => panic!("nobody wishes {unknown}"),
    };
    let asked_at = Timestamp(0);
    Command { id: id::<CommandId>("cmd_"), run_id: id::<RunId>("run_"), asked_at, wish }
}

fn signal(words: &Words<'_>) -> Signal {
    let tool_call_id = || words.bare(1).to_owned();
    match words.bare(0) {
        "accepts" => {
            Signal::Accepts { message: words.has("message"), interrupt: words.has("interrupt") }
        }
        "turn_started" => Signal::TurnStarted,
        "turn_ended" => Signal::TurnEnded { stop: word::<StopReason>(words.bare(1)) },
        "tool_opened" => Signal::ToolOpened { tool_call_id: tool_call_id() },
        "tool_closed" => {
            let denied = words.has("denied");
            Signal::ToolClosed { tool_call_id: tool_call_id(), denied }
        }
        "tool_called" => Signal::ToolCalled(ToolCall {
            tool_call_id: tool_call_id(),
            tool: words.bare(2).to_owned(),
            args: Value::Null,
        }),
        "asked" => Signal::Asked(question(words)),
        "ask_withdrawn" => Signal::AskWithdrawn { request: words.bare(1).to_owned() },
        "session" => Signal::Session { id: words.bare(1).to_owned() },
        "session_unknown" => Signal::SessionUnknown,
        "limited" => Signal::Limited(Limited {
            code: code(words.bare(1)),
            terminal: words.has("terminal"),
            wait_ms: words.get("wait").and_then(limit),
            resets_at: words.get("resets").and_then(limit).map(|ms| Timestamp(ms as i64)),
        }),
        "limit_lifted" => Signal::LimitLifted,
        "spent" => Signal::Spent(Usage {
            model: words.get("model").map(str::to_owned),
            tokens: words
                .get("tokens")
                .map(|count| Tokens { output: number(count), ..Tokens::default() }),
            effective_nanousd: words.get("usd").map(usd),
            basis: words.get("basis").map(word::<Basis>).unwrap_or_default(),
            approximate: words.has("approximate").then_some(true),
            ..Usage::default()
        }),
        "model_answer" => Signal::ModelAnswer,
        "model_error" => Signal::ModelError { code: code(words.bare(1)) },
        "ended" => Signal::Ended(ending(words)),
        "result" => Signal::Result(ending(words)),
        "result_at_exit" => Signal::ResultAtExit(ending(words)),
        "forced" => Signal::Forced,
        "greeted" => Signal::Greeted,
        "progress" => Signal::Progress,
        "final_text" => Signal::FinalText,
        "policy_broken" => Signal::PolicyBroken { what: sentence(words.bare(1)) },
        unknown => panic!("no signal is called {unknown}"),
    }
}

/// `asked q1 title=may_I? options=once:allow_once,no:reject_once reads call=c1`
fn question(words: &Words<'_>) -> Question {
    let option = |text: &str| {
        let (id, kind) = text.split_once(':').unwrap_or_else(|| panic!("{text} has no kind"));
        PermissionOption { id: id.to_owned(), kind: kind.to_owned(), name: id.to_owned() }
    };
    let options = words.get("options").filter(|options| *options != "none");
    Question {
        request: words.bare(1).to_owned(),
        tool_call_id: words.get("call").map(str::to_owned),
        title: words.get("title").map(sentence).unwrap_or_default(),
        reads: words.has("reads"),
        content: Box::new(PermissionRequest {
            tool_kind: words.get("kind").map(str::to_owned),
            command: words.get("command").map(sentence),
            paths: words.get("path").map(str::to_owned).into_iter().collect(),
            cwd: words.get("cwd").map(str::to_owned),
            ..PermissionRequest::default()
        }),
        options: options.into_iter().flat_map(|options| options.split(',')).map(option).collect(),
    }
}

fn ending(words: &Words<'_>) -> Ending {
    Ending {
        code: Some(words.bare(1)).filter(|word| *word != "ok").map(code),
        text: words.get("text").map(sentence),
        output: words.get("output").map(|value| json!(sentence(value))),
        detail: words.get("detail").map(sentence),
    }
}

/// The words of a line, by place or by name.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn fields(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.split_whitespace().filter_map(|word| word.split_once('='))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.fields().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    fn has(&self, name: &str) -> bool {
        self.0.split_whitespace().any(|word| word == name)
    }

    fn bare(&self, place: usize) -> &'a str {
        self.0
            .split_whitespace()
            .nth(place)
            .unwrap_or_else(|| panic!("'{}' has no word at {place}", self.0))
    }
}

fn limit(text: &str) -> Option<u64> {
    match (text, text.strip_suffix("ms"), text.strip_suffix('s')) {
        ("off", _, _) => None,
        (_, Some(ms), _) => Some(number(ms)),
        (_, None, Some(seconds)) => Some(number::<u64>(seconds) * 1000),
        (_, None, None) => panic!("{text} is no time: it has no unit"),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

fn usd(text: &str) -> NanoUsd {
    NanoUsd::from_usd(number(text)).unwrap_or_else(|| panic!("{text} is no amount of dollars"))
}

fn code(word: &str) -> Code {
    Code::from_word(word).unwrap_or_else(|| panic!("{word} is no code"))
}

fn word<T: DeserializeOwned>(word: &str) -> T {
    serde_json::from_value(json!(word)).unwrap_or_else(|error| panic!("{word}: {error}"))
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(prefix: &str) -> T {
    format!("{prefix}{:032x}", 7).parse().expect("an id")
}

fn sentence(text: &str) -> String {
    text.replace('_', " ")
}
