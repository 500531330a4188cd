//! `ostler approvals` as a table: who asks, how long the answer is waited for, and what the question
//! is; below it how to answer. Questions are the words of agents, so they are cleaned and cut like any.

use super::clean::one_line;
use super::figures;
use super::money::{left, right, table};
use super::table::tail;
use super::tone::{Colour, Tone};
use contract::Timestamp;
use host::ops::ask::OpenAsk;
use std::collections::BTreeSet;

/// A question, and who asks it as far as that is known.
pub struct AskRow {
    pub ask: OpenAsk,
    pub agent: String,
}

/// The whole table and how to answer, without a newline at its end.
pub fn asks_table(rows: &[AskRow], now: Timestamp, columns: usize, colour: Colour) -> String {
    let heads = vec![left("ID"), left("AGENT"), left("RUN"), right("TIME LEFT"), left("REQUEST")];
    let cells = rows.iter().map(|AskRow { ask, agent }| {
        vec![
            tail(&ask.ask_id.to_string()).to_owned(),
            one_line(agent),
            tail(&ask.run_id.to_string()).to_owned(),
            figures::elapsed(ask.until.since(now)),
            one_line(&ask.title),
        ]
    });
    let mut lines = vec![table(heads, cells.collect(), columns, colour), String::new()];
    for AskRow { ask, .. } in rows {
        let id = ask.ask_id.to_string();
        let own = ask.options.iter().map(|option| one_line(&option.id));
        let own = own.filter(|id| id != "allow" && id != "deny").map(|id| format!("\"{id}\""));
        let always = ask.always.as_ref().map(|_| "always".to_owned());
        let choices: Vec<String> = ["allow".to_owned()]
            .into_iter()
            .chain(always)
            .chain(["deny".to_owned()])
            .chain(own)
            .collect();
        let line = format!("ostler answer {} {}", tail(&id), choices.join(" | "));
        lines.push(colour.paint(Tone::Gray, &line));
    }
    // The table has one line for each; a watcher is shown all of it and can answer by one key.
    let runs: BTreeSet<_> = rows.iter().map(|row| row.ask.run_id.to_string()).collect();
    for run in runs {
        let line = format!("ostler watch {}   to see what would be done", tail(&run));
        lines.push(colour.paint(Tone::Gray, &line));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_question_says_who_asks_what_and_how_it_is_answered() {
        let ask = |n: u8, title: &str, options: &[&str]| {
            let options: Vec<_> = options
                .iter()
                .map(|id| json!({ "id": id, "kind": "allow_once", "name": id }))
                .collect();
            let ask = json!({
                "ask_id": format!("ask_0000000000000000000000000000000{n}"),
                "run_id": "run_00000000000000000000000000000abc",
                "title": title,
                "options": options,
                "until": "2026-11-16T15:10:00.000Z",
            });
            AskRow { ask: serde_json::from_value(ask).unwrap(), agent: "scout".to_owned() }
        };
        let rows = [
            ask(1, "may it use write_file on a.txt?", &["allow", "deny"]),
            ask(2, "ship\u{1b}[31m it?", &["ship", "wait a day", "deny"]),
        ];
        let until = rows[0].ask.until;
        let now = until.plus_ms(-570_000);
        insta::assert_snapshot!(asks_table(&rows, now, usize::MAX, Colour::Off), @r#"
        ID        AGENT  RUN        TIME LEFT  REQUEST
        00000001  scout  00000abc  9 min 30 s  may it use write_file on a.txt?
        00000002  scout  00000abc  9 min 30 s  ship it?

        ostler answer 00000001 allow | deny
        ostler answer 00000002 allow | deny | "ship" | "wait a day"
        ostler watch 00000abc   to see what would be done
        "#);
    }
}
