//! Plays the `console` blocks of a page as its reader would: every command is typed in order, in one
//! instance, and the lines that the page shows under it must be what is printed. The page's ids are
//! bound to the real ones where they are first seen; durations are not compared, and `…` stands for any
//! text. A command that only reads is repeated until it prints what the page shows, because a reader
//! takes longer between two commands than a test does.

use crate::ostler::{BOUND_MS, Ostler, program};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testkit::until;

/// Commands that change nothing, and may be typed again.
const LOOKS: [&str; 7] = [
    "ostler task list",
    "ostler task show",
    "ostler approvals",
    "ostler agents\n",
    "ostler costs",
    "ostler quotas",
    "ostler diff",
];

/// A command of the page, and the lines under it.
#[derive(Debug, PartialEq)]
pub struct Step {
    pub command: String,
    pub promised: Vec<String>,
}

/// The commands in the page's `console` blocks, in order.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line.strip_prefix("$ ")) {
            (false, _) => inside = line == "```console",
            (true, _) if line == "```" => inside = false,
            (true, Some(command)) => {
                steps.push(Step { command: command.to_owned(), promised: Vec::new() });
            }
            (true, None) => {
                let step = steps.last_mut().expect("a block begins with a command");
                step.promised.push(line.to_owned());
            }
        }
    }
    steps
}

/// The page's ids, and what they really are.
pub type Ids = BTreeMap<String, String>;

/// A line as words, without how long something took or how long ago it was.
fn words(line: &str) -> Vec<String> {
    let given: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let (mut words, mut at) = (Vec::new(), 0);
    while at < given.len() {
        let time = |at: usize| {
            given.get(at).is_some_and(|word| number(word))
                && given.get(at + 1).is_some_and(|unit| ["ms", "s", "min", "h"].contains(unit))
        };
        if !time(at) {
            words.push(given[at].to_owned());
            at += 1;
            continue;
        }
        while time(at) {
            at += 2;
        }
        match given.get(at) {
            Some(&"ago") => {
                words.push("now".to_owned());
                at += 1;
            }
            Some(_) | None => words.push("(time)".to_owned()),
        }
    }
    words
}

/// Whether what was said is what was promised; what is learnt of ids is kept.
pub fn fits(promised: &[String], said: &[String], ids: &mut Ids) -> bool {
    let Some((first, rest)) = promised.split_first() else { return said.is_empty() };
    if first == "…" {
        return (0..=said.len()).any(|skipped| fits(rest, &said[skipped..], ids));
    }
    let Some((line, more)) = said.split_first() else { return false };
    let mut learnt = ids.clone();
    let whole = line_fits(&words(first), &words(line), &mut learnt);
    if whole && fits(rest, more, &mut learnt) {
        *ids = learnt;
        return true;
    }
    false
}

fn line_fits(promised: &[String], said: &[String], ids: &mut Ids) -> bool {
    let Some((first, rest)) = promised.split_first() else { return said.is_empty() };
    if first == "…" {
        return (0..=said.len()).any(|skipped| line_fits(rest, &said[skipped..], ids));
    }
    let Some((word, more)) = said.split_first() else { return false };
    word_fits(first, word, ids) && line_fits(rest, more, ids)
}

fn word_fits(promised: &str, said: &str, ids: &mut Ids) -> bool {
    const HERE: &str = "http://127.0.0.1:";
    if promised.starts_with(HERE) {
        return said.starts_with(HERE);
    }
    if let Some((before, after)) = promised.split_once('…') {
        return said.starts_with(before) && said.ends_with(after);
    }
    match (id(promised), id(said)) {
        (Some(page), Some(real)) if promised.replace(page, "") == said.replace(real, "") => {
            ids.entry(page.to_owned()).or_insert_with(|| real.to_owned()) == real
        }
        (_, _) => promised == said,
    }
}

/// The eight digits in a word, if it has some.
fn id(word: &str) -> Option<&str> {
    let mut parts = word.split(|c: char| !c.is_ascii_alphanumeric());
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    parts.find(|part| part.len() == 8 && part.bytes().all(digit))
}

/// A reader at a terminal who types the commands of a page into one instance.
pub struct Reader<'a> {
    ostler: &'a Ostler,
    /// Variables of the reader's shell beside those of the instance.
    env: Vec<(String, String)>,
    cwd: PathBuf,
    ids: Ids,
    behind: Vec<Child>,
}

impl<'a> Reader<'a> {
    pub fn new(ostler: &'a Ostler, env: Vec<(String, String)>) -> Self {
        let home = ostler.instance.root().join("home");
        std::fs::write(home.join(".gitconfig"), "[user]\nname = p\nemail = p@example.invalid\n")
            .unwrap();
        Self { ostler, env, cwd: ostler.instance.work(), ids: Ids::new(), behind: Vec::new() }
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = self.ostler.instance.command("sh");
        let beside = program().parent().unwrap_or(Path::new("/")).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let linked = self.ostler.instance.root().join("bin").display().to_string();
        command.env("PATH", format!("{beside}:{linked}:{path}")).current_dir(&self.cwd);
        command.envs(self.env.iter().cloned());
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    /// Types a command with the real ids, and gives the lines of what it said.
    pub fn types(&mut self, command: &str) -> Vec<String> {
        if let Some(command) = command.strip_suffix(" &") {
            let mut child =
                self.shell(&format!("exec {command}")).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            let stdout = child.stdout.take().expect("piped");
            BufReader::new(stdout).read_line(&mut line).expect("it writes lines");
            self.behind.push(child);
            return vec![line.trim_end().to_owned()];
        }
        let place = self.ostler.instance.root().join("cwd");
        let script = format!("{command}\ncode=$?; pwd > '{}'; exit $code", place.display());
        let output = self.shell(&script).output().expect("a shell starts");
        self.cwd = std::fs::read_to_string(place).unwrap().trim_end().into();
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        said.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    pub fn plays(&mut self, step: &Step) {
        let mut command = step.command.clone();
        for (page, real) in &self.ids {
            command = command.replace(page, real);
        }
        let looks = LOOKS.iter().any(|look| format!("{command}\n").starts_with(look));
        let mut ids = self.ids.clone();
        let mut said = self.types(&command);
        let mut right = fits(&step.promised, &said, &mut ids);
        if looks && !right {
            let what = format!("`{command}` to show\n{}", step.promised.join("\n"));
            (said, right) = until(&what, BOUND_MS, || {
                ids = self.ids.clone();
                let said = self.types(&command);
                fits(&step.promised, &said, &mut ids).then_some((said, true))
            });
        }
        let (promised, said) = (step.promised.join("\n"), said.join("\n"));
        assert!(right, "`{command}` promises\n{promised}\n\nand says\n{said}");
        self.ids = ids;
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        for child in &mut self.behind {
            // One that is gone already needs no end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn what_is_promised_is_told_from_what_is_not() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let page = "4f37eab4  now  ? review\nrun  700 ms\n…\nanswer 4f37eab4";
    let mut ids = Ids::new();
    let good = "00000001   2 min ago  ? review\nrun  1.2 s\na\nb\nanswer 00000001";
    assert!(fits(&lines(page), &lines(good), &mut ids));
    assert_eq!(ids["4f37eab4"], "00000001");
    for wrong in [
        good.replace("review", "done"),
        good.replace("answer 00000001", "answer 00000002"),
        good.replace("run  1.2 s\n", ""),
        format!("{good}\nmore"),
    ] {
        assert!(!fits(&lines(page), &lines(&wrong), &mut Ids::new()), "{wrong}");
    }
}
