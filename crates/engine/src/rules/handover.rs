//! What an agent is told of work that another conversation began, when that conversation cannot be
//! taken up: the task, how far it came, its last answer, the files it changed, what is open.
//! A rule, not a call of a model: the same past always gives the same words.

/// Longest text of each part; the end of an answer says more than its beginning.
const PART_CHARS_MAX: usize = 4_000;
const FILES_MAX: usize = 50;

/// What is known of the earlier work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    pub task: String,
    pub progress: Option<String>,
    pub answer: Option<String>,
    /// In the order in which they were changed, each once.
    pub files: Vec<String>,
    /// Questions that were still open at its end.
    pub questions: Vec<String>,
    /// Why its last run ended before its work was done.
    pub ended: Option<String>,
}

impl Past {
    /// Whether nothing came of the work.
    pub fn is_empty(&self) -> bool {
        let Self { task: _, progress, answer, files, questions, ended: _ } = self;
        progress.is_none() && answer.is_none() && files.is_empty() && questions.is_empty()
    }
}

/// The words before the new prompt.
pub fn handover(past: &Past, prompt: &str) -> String {
    let mut words = String::from(
        "You are continuing work from an earlier conversation, which cannot be resumed. This is \
         what is known about it.\n",
    );
    part(&mut words, "Its task", Some(past.task.as_str()));
    part(&mut words, "Its last report of progress", past.progress.as_deref());
    part(&mut words, "Its last answer", past.answer.as_deref());
    if !past.files.is_empty() {
        words.push_str("\nFiles it changed:\n");
        for file in past.files.iter().take(FILES_MAX) {
            words.push_str(&format!("- {file}\n"));
        }
        if let more @ 1.. = past.files.len().saturating_sub(FILES_MAX) {
            words.push_str(&format!("- and {more} more\n"));
        }
    }
    if !past.questions.is_empty() {
        words.push_str("\nQuestions without an answer:\n");
        for question in &past.questions {
            words.push_str(&format!("- {question}\n"));
        }
    }
    part(&mut words, "How it ended", past.ended.as_deref());
    words.push_str("\nYour task now:\n\n");
    words.push_str(prompt);
    words
}

fn part(words: &mut String, head: &str, text: Option<&str>) {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return };
    let beyond = text.chars().count().saturating_sub(PART_CHARS_MAX);
    let kept: String = text.chars().skip(beyond).collect();
    let cut = if beyond > 0 { "… " } else { "" };
    words.push_str(&format!("\n{head}:\n{cut}{kept}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_told_and_what_is_not_is_left_out() {
        let past = Past {
            task: "mend the gate".to_owned(),
            progress: Some("half way".to_owned()),
            answer: None,
            files: vec!["gate.rs".to_owned()],
            questions: vec!["may it use write_file?".to_owned()],
            ended: Some("process_crashed: the agent exited with 3".to_owned()),
        };
        insta::assert_snapshot!(handover(&past, "go on"), @r"
        You are continuing work from an earlier conversation, which cannot be resumed. This is what is known about it.

        Its task:
        mend the gate

        Its last report of progress:
        half way

        Files it changed:
        - gate.rs

        Questions without an answer:
        - may it use write_file?

        How it ended:
        process_crashed: the agent exited with 3

        Your task now:

        go on
        ");
    }

    #[test]
    fn a_long_answer_is_told_by_its_end() {
        let answer = format!("{}THE END", "x".repeat(10_000));
        let past = Past { answer: Some(answer), ..Past::default() };
        let words = handover(&past, "go on");
        assert!(words.contains("THE END") && words.chars().count() < PART_CHARS_MAX + 500);
    }
}
