//! What the demo agent says and does. The prompt's words choose the story: `fail`, `slow`, `tools`
//! and `big` each show one side of a run; anything else is greeted. Everything it reports is what
//! it did, except for the cost, which it calls play money.

use super::{Left, Wire};
use serde_json::{Value, json};
use std::io::Write;

type Told = Result<(), Left>;

/// The whole story, from the first line to the last.
pub fn tell<W: Write>(wire: &mut Wire<W>) -> Told {
    wire.say("hello", json!({ "accepts": ["message", "interrupt"] }))?;
    wire.event("session", json!({ "model": "demo", "resumed": false }))?;
    let prompt = match wire.call("read_task", json!({}))? {
        Ok(task) => task["prompt"].as_str().unwrap_or_default().trim().to_owned(),
        Err(why) => return fail(wire, "no_task", &format!("the task could not be read: {why}")),
    };
    wire.event("turn", json!({ "phase": "started", "n": 1 }))?;
    let asked_for = |word: &str| {
        prompt.split(|c: char| !c.is_alphanumeric()).any(|given| given.eq_ignore_ascii_case(word))
    };
    if asked_for("fail") {
        failing(wire)
    } else if asked_for("slow") {
        slow(wire)
    } else if asked_for("tools") {
        tools(wire)
    } else if asked_for("ask") {
        asking(wire)
    } else if asked_for("big") {
        big(wire)
    } else {
        greeting(wire, &prompt)
    }
}

/// After an interrupted turn: another one if there is something to talk about, else the end.
pub fn after_interrupt<W: Write>(wire: &mut Wire<W>) -> Told {
    let cancelled = json!({ "phase": "ended", "n": 1, "stop_reason": "cancelled" });
    wire.event("turn", cancelled)?;
    let Some(message) = wire.message(wire.pace.patience_ms)? else {
        return complete(wire, "I was interrupted, and nobody said what to do instead.");
    };
    wire.event("turn", json!({ "phase": "started", "n": 2 }))?;
    let answer = format!("Of course. You said: {}.", quoted(&message));
    speak(wire, "assistant_text", "again", &answer)?;
    end_turn(wire, 2)?;
    complete(wire, &answer)
}

fn greeting<W: Write>(wire: &mut Wire<W>, prompt: &str) -> Told {
    let thought = "Someone is at the door. I will answer, look around, and touch nothing.";
    speak(wire, "thinking", "thought", thought)?;
    let greeting = format!(
        "Good day! You said: {}.\n\nI am the demo agent. I have no model and no opinions, but I run \
         like any other agent, so here is how a run looks.",
        quoted(prompt),
    );
    speak(wire, "assistant_text", "greeting", &greeting)?;
    plan(wire, 0)?;
    let seen = look_around(wire)?;
    wire.beat()?;
    let budget = match wire.call("get_budget", json!({}))? {
        Ok(budget) if budget["remaining"]["nanousd"].is_i64() => {
            "there is a budget, and I kept to it"
        }
        Ok(_) => "there is no limit on what I spend, so I was modest",
        // The refusal is part of the story.
        Err(_) => "nobody would tell me what I may spend, so I was modest",
    };
    plan(wire, 2)?;
    wire.beat()?;
    let progress = json!({
        "summary": "looked around",
        "beliefs": [seen.trim_end_matches('.'), budget],
        "attempted": wire.tried,
        "cost": play_money(prompt, &greeting),
    });
    wire.say("progress", progress)?;
    wire.beat()?;
    speak(wire, "assistant_text", "seen", &format!("{seen} As for money: {budget}."))?;
    answer_messages(wire)?;
    let goodbye = "That was the demo. Nothing was changed, and the cost is play money.";
    wire.say("comment", json!({ "text": goodbye, "mentions": [] }))?;
    end_turn(wire, 1)?;
    let last = format!("Good day! You said: {}. {seen}", quoted(prompt));
    complete(wire, &last)
}

/// Lists the workspace and reads one small, harmless file of it; says what was seen.
fn look_around<W: Write>(wire: &mut Wire<W>) -> Result<String, Left> {
    let files = match wire.call("list_files", json!({ "path": "." }))? {
        Ok(listing) => listing["files"].as_array().cloned().unwrap_or_default(),
        Err(why) => return Ok(format!("I could not look around: {why}.")),
    };
    wire.beat()?;
    let Some(path) = readable(&files) else {
        return Ok(match files.len() {
            0 => "This directory is empty, which is a fine place to start.".to_owned(),
            n => format!("I see {} here and nothing that asks to be read.", things(n)),
        });
    };
    Ok(match wire.call("read_file", json!({ "path": path }))? {
        Ok(file) => {
            let content = file["content"].as_str().unwrap_or_default();
            let first = content.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
            format!("I see {} here; {path} begins with {}.", things(files.len()), quoted(first))
        }
        Err(why) => {
            format!("I see {} here, but {path} would not open: {why}.", things(files.len()))
        }
    })
}

fn things(count: usize) -> String {
    if count == 1 { "one thing".to_owned() } else { format!("{count} things") }
}

/// A file that is meant to be read by strangers.
fn readable(files: &[Value]) -> Option<&str> {
    let mut paths: Vec<&str> = files
        .iter()
        .filter(|file| file["kind"] != "directory")
        .filter_map(|file| file.as_str().or_else(|| file["path"].as_str()))
        .filter(|path| !path.starts_with('.'))
        .filter(|path| [".md", ".txt", ".toml"].iter().any(|end| path.ends_with(end)))
        .collect();
    paths.sort_by_key(|path| (!path.starts_with("README"), *path));
    paths.first().copied()
}

fn failing<W: Write>(wire: &mut Wire<W>) -> Told {
    speak(wire, "thinking", "thought", "I am asked to fail. That much I can do.")?;
    let missing = wire.call("read_file", json!({ "path": "the-file-that-is-not-there" }))?;
    let text = match missing {
        Ok(_) => "I looked for a file that should not exist, and found it. I give up.",
        // The refusal is what was wanted.
        Err(_) => "I looked for a file that does not exist, and it did not. I give up.",
    };
    speak(wire, "assistant_text", "failing", text)?;
    end_turn(wire, 1)?;
    fail(wire, "asked_to_fail", "the prompt asked me to fail, and I did my best")
}

/// Wants to write, which needs someone's leave under most policies.
fn asking<W: Write>(wire: &mut Wire<W>) -> Told {
    speak(wire, "assistant_text", "asking", "I would like to leave a note here, if I may.")?;
    let note = json!({ "path": NOTE, "content": "The demo agent was here, with your leave.\n" });
    let text = match wire.call("write_file", note)? {
        Ok(_) => format!("Thank you. I wrote {NOTE}; you may throw it away."),
        Err(why) => format!("I may not, and that is fine: {why}."),
    };
    speak(wire, "assistant_text", "asked", &text)?;
    end_turn(wire, 1)?;
    complete(wire, &text)
}

const NOTE: &str = "note-from-the-demo.txt";

fn slow<W: Write>(wire: &mut Wire<W>) -> Told {
    const LINES: u32 = 66;
    for n in 1..=LINES {
        let line = match n {
            1 => "I will count slowly. Stop me whenever you like.\n".to_owned(),
            LINES => "That was all.\n".to_owned(),
            n => format!("{n} of {LINES}\n"),
        };
        let delta = json!({ "text": line, "block": "count", "delta": true });
        wire.event("assistant_text", delta)?;
        wire.rest(wire.pace.slow_ms)?;
        answer_messages(wire)?;
    }
    end_turn(wire, 1)?;
    complete(wire, "I counted slowly to the end, and nobody stopped me.")
}

fn tools<W: Write>(wire: &mut Wire<W>) -> Told {
    speak(wire, "assistant_text", "tools", "Tools, then. First those that are relayed for me:")?;
    let calls = [
        ("list_files", json!({ "path": ".", "depth": 2 })),
        ("read_file", json!({ "path": "the-file-that-is-not-there" })),
        ("get_budget", json!({})),
        ("report_progress", json!({ "summary": "half of the tools are tried" })),
        ("comment", json!({ "text": "Hello from a tool." })),
        ("juggle", json!({ "balls": 3 })),
    ];
    let mut refused = Vec::new();
    for (tool, args) in calls {
        if let Err(why) = wire.call(tool, args)? {
            refused.push(format!("{tool} ({why})"));
        }
        wire.beat()?;
    }
    let seen = look_around(wire)?;
    speak(wire, "assistant_text", "own", "And now some that would be my own:")?;
    native(wire, "own_1", "think_of_a_number", json!({ "at_most": 10 }), "ok", "7")?;
    let many: String = (1..=12).map(|n| format!("wave {n}\n")).collect();
    native(wire, "own_2", "watch_the_sea", json!({ "where": "the beach" }), "ok", &many)?;
    native(wire, "own_3", "divide", json!({ "a": 1, "b": 0 }), "error", "nothing divides by 0")?;
    let patch = "--- a/imaginary.txt\n+++ b/imaginary.txt\n-a thought\n+a better thought\n";
    wire.event("diff", json!({ "path": "imaginary.txt", "patch": patch }))?;
    let summary = format!("Refused: {}. {seen}", refused.join(", "));
    speak(wire, "assistant_text", "summary", &summary)?;
    end_turn(wire, 1)?;
    complete(wire, &summary)
}

fn big<W: Write>(wire: &mut Wire<W>) -> Told {
    const TEXT_BYTES: usize = 100_000;
    const TOOL_BYTES: usize = 64 * 1024;
    const BURST: usize = 2_000;
    let line = "All work and no play makes a demo a dull thing, so it counts sheep instead.\n";
    let text = line.repeat(TEXT_BYTES / line.len() + 1);
    wire.event("assistant_text", json!({ "text": text, "block": "big", "delta": false }))?;
    let sheep = "sheep ".repeat(TOOL_BYTES / 6 + 1);
    native(wire, "own_1", "count_sheep", json!({ "flock": sheep }), "ok", &sheep)?;
    for n in 1..=BURST {
        wire.event("log", json!({ "text": format!("sheep {n} of {BURST}") }))?;
    }
    end_turn(wire, 1)?;
    complete(wire, "I wrote a long text, used a large tool, and counted 2,000 sheep in a burst.")
}

/// A call of a tool of the agent's own, with its result.
fn native<W: Write>(
    wire: &mut Wire<W>,
    id: &str,
    name: &str,
    input: Value,
    status: &str,
    output: &str,
) -> Told {
    wire.event("tool_use", json!({ "tool_call_id": id, "name": name, "input": input }))?;
    wire.beat()?;
    let result = json!({ "tool_call_id": id, "status": status, "output": output });
    wire.event("tool_result", result)
}

/// Says a text a few words at a time.
fn speak<W: Write>(wire: &mut Wire<W>, kind: &str, block: &str, text: &str) -> Told {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    for words in words.chunks(5) {
        let delta = words.concat();
        wire.event(kind, json!({ "text": delta, "block": block, "delta": true }))?;
        wire.beat()?;
    }
    Ok(())
}

fn plan<W: Write>(wire: &mut Wire<W>, done: usize) -> Told {
    let steps = ["Look around", "Ask what may be spent", "Say goodbye"];
    let entries: Vec<Value> = steps
        .iter()
        .enumerate()
        .map(|(i, step)| {
            let status = match i.cmp(&done) {
                std::cmp::Ordering::Less => "completed",
                std::cmp::Ordering::Equal => "in_progress",
                std::cmp::Ordering::Greater => "pending",
            };
            json!({ "text": step, "status": status })
        })
        .collect();
    wire.event("plan", json!({ "entries": entries }))
}

fn answer_messages<W: Write>(wire: &mut Wire<W>) -> Told {
    while let Some(message) = wire.messages.pop_front() {
        let answer = format!("Noted: {}.\n", quoted(&message));
        speak(wire, "assistant_text", "noted", &answer)?;
    }
    Ok(())
}

fn end_turn<W: Write>(wire: &mut Wire<W>, n: u32) -> Told {
    wire.event("turn", json!({ "phase": "ended", "n": n, "stop_reason": "end_turn" }))
}

fn complete<W: Write>(wire: &mut Wire<W>, text: &str) -> Told {
    let cost = json!({ "usd": 0.0001 });
    wire.say("complete", json!({ "output": { "text": text }, "cost": cost }))
}

fn fail<W: Write>(wire: &mut Wire<W>, reason: &str, details: &str) -> Told {
    wire.say("failed", json!({ "reason": reason, "details": details }))
}

/// A cost with every part a cost can have. Four letters are taken for a token.
fn play_money(read: &str, written: &str) -> Value {
    json!({
        "model": "demo",
        "inputTokens": 200 + read.len() / 4,
        "outputTokens": 20 + written.len() / 4,
        "usd": 0.001,
        "extras": [{ "label": "play money", "usd": 0.0002 }],
    })
}

/// What someone said, short enough to be said again.
fn quoted(text: &str) -> String {
    const LETTERS_MAX: usize = 160;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut letters = line.chars();
    let short: String = letters.by_ref().take(LETTERS_MAX).collect();
    let more = if letters.next().is_some() { "…" } else { "" };
    format!("“{short}{more}”")
}
