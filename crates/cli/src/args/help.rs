//! The layout of the help: commands in groups, examples for each command, exit codes from the fault
//! table. The words of commands and arguments are their doc comments beside this file. Tests hold
//! the tables here against the command line: every command is in one group, every example parses.

use super::Arguments;
use crate::config::did_you_mean;
use clap::{Command, CommandFactory as _};
use contract::{Code, Fault};
use std::collections::BTreeMap;

/// The commands in the order in which a new user meets them.
pub(super) const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Run",
        &[
            "run",
            "runs",
            "status",
            "show",
            "watch",
            "say",
            "interrupt",
            "stop",
            "diff",
            "apply",
            "worktrees",
            "replay",
            "export",
        ],
    ),
    ("Hand over", &["task", "agents", "approvals", "answer"]),
    ("Money", &["costs", "quotas", "prices"]),
    ("Serve", &["serve", "mcp", "remote", "token", "backup"]),
    ("Build an agent", &["conformance", "record"]),
    ("Set up", &["doctor", "runtimes", "init", "config", "completions", "help"]),
];

/// Examples by command; the empty path is `ostler` itself.
#[rustfmt::skip]
pub(super) const EXAMPLES: &[(&str, &[&str])] = &[
    ("", &[
        "ostler doctor",
        "ostler run claude \"fix the failing test\"",
        "ostler run codex --worktree \"add a changelog\"",
        "git diff | ostler run gemini \"review this\"",
    ]),
    ("run", &[
        "ostler run claude \"fix the failing test\"",
        "ostler run codex --worktree --budget-usd 2 \"add a changelog\"",
        "git diff | ostler run gemini --quiet \"review this\"",
    ]),
    ("runs", &["ostler runs --here", "ostler runs --agent claude --failed --since 7d"]),
    ("runs delete", &["ostler runs delete 4623aa26", "ostler runs delete 4623aa26 --force"]),
    ("status", &["ostler status", "ostler status --json"]),
    ("show", &["ostler show", "ostler show 4623aa26 --raw"]),
    ("watch", &["ostler watch", "ostler watch 4623aa26"]),
    ("replay", &["ostler replay last", "ostler replay 4623aa26 --speed 10"]),
    ("export", &["ostler export last", "ostler export 4623aa26 > run.jsonl"]),
    ("diff", &["ostler diff", "ostler diff 4623aa26"]),
    ("apply", &["ostler apply", "ostler apply 4623aa26 --patch"]),
    ("worktrees", &["ostler worktrees", "ostler worktrees prune"]),
    ("worktrees list", &["ostler worktrees list", "ostler worktrees list --json"]),
    ("worktrees discard", &["ostler worktrees discard 4623aa26", "ostler worktrees discard 4623aa26 --force"]),
    ("worktrees prune", &["ostler worktrees prune", "ostler worktrees prune --json"]),
    ("stop", &["ostler stop", "ostler stop 4623aa26 --now"]),
    ("say", &[
        "ostler say \"use the existing helper\"",
        "ostler say 4623aa26 \"only the parser, please\"",
    ]),
    ("interrupt", &["ostler interrupt", "ostler interrupt 4623aa26"]),
    ("approvals", &["ostler approvals", "ostler approvals --json"]),
    ("answer", &["ostler answer 9db09c1e allow", "ostler answer 9db09c1e deny"]),
    ("task", &[
        "ostler task",
        "ostler task add \"update the dependencies\" --agent claude",
    ]),
    ("task add", &[
        "ostler task add \"update the dependencies\" --agent claude",
        "ostler task add \"write release notes\" --after deps --budget-usd 2",
    ]),
    ("task list", &["ostler task list", "ostler task list --state review"]),
    ("task show", &["ostler task show 4623aa26", "ostler task show deps --json"]),
    ("task cancel", &["ostler task cancel 4623aa26", "ostler task cancel deps"]),
    ("task retry", &["ostler task retry 4623aa26", "ostler task retry deps"]),
    ("task reopen", &["ostler task reopen 4623aa26", "ostler task reopen deps"]),
    ("task comment", &[
        "ostler task comment 4623aa26 \"the port is 8080\"",
        "ostler task comment deps \"@scout please look\"",
    ]),
    ("task approve", &["ostler task approve 4623aa26", "ostler task approve deps"]),
    ("task reject", &[
        "ostler task reject 4623aa26 \"the test is missing\"",
        "ostler task reject deps \"keep the old API\"",
    ]),
    ("task budget", &[
        "ostler task budget 4623aa26 --usd 5",
        "ostler task budget deps --tokens unlimited",
    ]),
    ("agents", &["ostler agents", "ostler agents hire scout --adapter claude --budget month=80"]),
    ("agents list", &["ostler agents list", "ostler agents list --all"]),
    ("agents show", &["ostler agents show scout", "ostler agents show scout --json"]),
    ("agents hire", &[
        "ostler agents hire scout --adapter claude",
        "ostler agents hire night --adapter codex --workspace worktree --budget day=5",
    ]),
    ("agents edit", &[
        "ostler agents edit scout --model sonnet",
        "ostler agents edit scout --unset model",
    ]),
    ("agents pause", &["ostler agents pause scout", "ostler agents pause scout --json"]),
    ("agents resume", &["ostler agents resume scout", "ostler agents resume scout --json"]),
    ("agents retire", &["ostler agents retire scout", "ostler agents retire scout --json"]),
    ("costs", &["ostler costs --since 7d", "ostler costs --by agent,model"]),
    ("quotas", &["ostler quotas", "ostler quotas clear claude"]),
    ("quotas clear", &["ostler quotas clear claude", "ostler quotas clear codex --json"]),
    ("prices", &["ostler prices", "ostler prices import model_prices_and_context_window.json"]),
    ("prices list", &["ostler prices list", "ostler prices list --model sonnet"]),
    ("prices import", &[
        "ostler prices import model_prices_and_context_window.json",
        "ostler prices import api.json",
    ]),
    ("serve", &["ostler serve", "ostler serve --listen 127.0.0.1:8080"]),
    ("mcp", &["ostler mcp", "claude mcp add ostler -- ostler mcp", "ostler mcp login github"]),
    ("mcp login", &["ostler mcp login github", "ostler mcp login github --scope repo"]),
    ("mcp logout", &["ostler mcp logout github", "ostler mcp logout github --json"]),
    ("remote", &[
        "ostler remote --agent claude --token-env OSTLER_TOKEN",
        "ostler remote --agent demo --no-auth --listen 127.0.0.1:0",
    ]),
    ("token", &["ostler token", "ostler token add --name ci --scope operator --expires 7d"]),
    ("token add", &[
        "ostler token add --name ci --scope operator",
        "ostler token add --name wall --scope viewer --expires 7d",
    ]),
    ("token list", &["ostler token list", "ostler token list --json"]),
    ("token revoke", &["ostler token revoke ci", "ostler token revoke 9db09c1e"]),
    ("backup", &["ostler backup ~/ostler-backup", "ostler --data ~/ostler-backup runs"]),
    ("conformance", &[
        "ostler conformance process -- ./my-agent",
        "ostler conformance acp -- my-agent --acp",
    ]),
    ("conformance agent", &[
        "ostler conformance agent my-agent",
        "ostler conformance agent my-agent --timeout 1m --json",
    ]),
    ("conformance process", &[
        "ostler conformance process -- ./my-agent",
        "ostler conformance process --patience 10s -- python3 agent.py",
    ]),
    ("conformance acp", &[
        "ostler conformance acp -- my-agent --acp",
        "ostler conformance acp --env MY_API_KEY -- my-agent --acp",
    ]),
    ("conformance http", &[
        "ostler conformance http http://127.0.0.1:7718",
        "ostler conformance http --token-env AGENT_TOKEN https://agent.example.org",
    ]),
    ("record", &[
        "ostler record --name hello -- my-agent \"say hello\"",
        "ostler record --out recordings --timeout 1m -- my-agent \"say hello\"",
    ]),
    ("doctor", &["ostler doctor", "ostler doctor claude"]),
    ("runtimes", &["ostler runtimes", "ostler runtimes claude", "ostler runtimes codex --models"]),
    ("init", &["ostler init", "ostler init --config ./team.json"]),
    ("config", &["ostler config", "ostler config check"]),
    ("config path", &["ostler config path", "cat \"$(ostler config path)\""]),
    ("config edit", &["ostler config edit", "EDITOR=nano ostler config edit"]),
    ("config check", &["ostler config check", "ostler config check --config ./team.json"]),
    ("config show", &["ostler config show", "ostler config show --config ./team.json"]),
    ("config schema", &["ostler config schema", "ostler config schema > ostler.schema.json"]),
    ("completions", &[
        "ostler completions bash > ~/.local/share/bash-completion/completions/ostler",
        "ostler completions fish > ~/.config/fish/completions/ostler.fish",
    ]),
    ("help", &["ostler help run", "ostler help exit-codes"]),
];

/// The topic of `ostler help` that is no command.
const EXIT_CODES: &str = "exit-codes";

const POLICIES: &str = "\
Permission policies:
  deny         deny everything that needs permission
  ask          ask you (the default at a terminal, and under `ostler serve`)
  allow-reads  allow reading, deny the rest (the default without a terminal)
  allow-all    allow everything (the default with --worktree and --temporary)";

const PIPED_INPUT: &str = "\
Piped input is appended to the prompt in a fenced block, whenever the program before the pipe writes
it. A pipe that only a CI runner or another starting program holds open is waited for 10 s, then the
run starts without it; `< /dev/null` starts at once.";

const EXIT_STATUS: &str = "\
Exit status: 0 when the agent succeeded; see `ostler help exit-codes`.";

const ONE_TURN: &str = "\
Most agents run headless: their whole run is one turn, so an interrupt ends the run. To stop a run
for certain, use `ostler stop`.";

const SHELLS: &str = "\
Where to put the script:
  bash  ~/.local/share/bash-completion/completions/ostler
  zsh   a file named _ostler in a directory of $fpath, such as ~/.zfunc
        (with `fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit` in ~/.zshrc)
  fish  ~/.config/fish/completions/ostler.fish
Start a new shell afterwards.";

/// The command line with its help laid out.
pub fn command() -> Command {
    let command = Arguments::command();
    let groups = groups(&command);
    let examples = examples("").unwrap_or_default();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\n{examples}\n\n\
         Global options:\n{{options}}\n\n\
         `ostler help COMMAND` explains a command, `ostler help {EXIT_CODES}` exit codes.\n\
         Settings are in ~/.config/ostler/ostler.json; `ostler init` writes a first one."
    );
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command.help_template(template), |command, name| {
        command.mut_subcommand(&name, |sub| with_examples(sub, &name))
    })
}

/// Adds the closing sections to a command and to those below it.
fn with_examples(command: Command, path: &str) -> Command {
    let own = match path {
        "run" => Some(format!("{POLICIES}\n\n{PIPED_INPUT}\n\n{EXIT_STATUS}")),
        "interrupt" => Some(ONE_TURN.to_owned()),
        "completions" => Some(SHELLS.to_owned()),
        _ => None,
    };
    let sections: Vec<String> = own.into_iter().chain(examples(path)).collect();
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command.after_help(sections.join("\n\n")), |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(&name, |sub| with_examples(sub, &path))
    })
}

fn examples(path: &str) -> Option<String> {
    let (_, examples) = EXAMPLES.iter().find(|(of, _)| *of == path)?;
    let lines: Vec<String> = examples.iter().map(|example| format!("  {example}")).collect();
    Some(format!("Examples:\n{}", lines.join("\n")))
}

fn groups(command: &Command) -> String {
    let about = |name: &str| {
        let found = command.get_subcommands().find(|sub| sub.get_name() == name);
        found.and_then(|sub| sub.get_about()).map(ToString::to_string).unwrap_or_default()
    };
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let group = |(title, names): &(&str, &[&str])| {
        let line = |name: &&str| format!("  {name:<width$}  {}\n", about(name));
        format!("{title}:\n{}", names.iter().map(line).collect::<String>())
    };
    GROUPS.iter().map(group).collect::<Vec<_>>().join("\n")
}

/// The help of a command, by the words after `ostler help`.
pub fn of(words: &[String]) -> Result<String, Fault> {
    rendered(command(), words)
}

pub(super) fn rendered(mut root: Command, words: &[String]) -> Result<String, Fault> {
    if let [topic] = words
        && topic == EXIT_CODES
    {
        return Ok(exit_codes());
    }
    // Names and global arguments reach the commands below only then.
    root.build();
    let mut found = &mut root;
    for word in words {
        let names: Vec<String> = found
            .get_subcommands()
            .flat_map(|sub| sub.get_name_and_visible_aliases())
            .map(str::to_owned)
            .collect();
        found = found.find_subcommand_mut(word).ok_or_else(|| {
            let known = names.iter().map(String::as_str).chain([EXIT_CODES]);
            let hint = did_you_mean(word, known)
                .unwrap_or_else(|| "`ostler help` lists the commands".to_owned());
            let asked = words.join(" ");
            Fault::new(Code::Usage, format!("no help for '{asked}'")).with_hint(hint)
        })?;
    }
    // Clap leaves blanks at the ends of some lines.
    let text = found.render_help().to_string();
    Ok(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned())
}

/// The exit codes of the fault table, each with the faults that it stands for.
fn exit_codes() -> String {
    let mut by_exit: BTreeMap<u8, Vec<Code>> = BTreeMap::new();
    for code in Code::ALL {
        by_exit.entry(code.row().exit).or_default().push(*code);
    }
    let mut lines = vec!["Exit codes:".to_owned(), "    0  success".to_owned()];
    for (exit, codes) in by_exit {
        for (i, code) in codes.iter().enumerate() {
            let exit = if i == 0 { exit.to_string() } else { String::new() };
            lines.push(format!("  {exit:>3}  {:<22} {}", code.word(), code.row().message));
        }
    }
    lines.push(String::new());
    lines.push("With --json the code is in `code` of the error and of the result.".to_owned());
    lines.join("\n")
}

const UPDATE: &str = "`git pull` and `cargo install --locked --path crates/cli` in your checkout of Ostler; \
                      `ostler --version` shows what you have";

/// Words of other tools, and what does the same here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("open", "`ostler show RUN` or `ostler watch RUN`"),
    ("tail", "`ostler watch`"),
    ("history", "`ostler runs`"),
    ("top", "`ostler status`"),
    ("up", "`ostler serve`"),
    ("start", "`ostler run AGENT \"PROMPT\"`, or `ostler serve` for the queue"),
    ("exec", "`ostler run AGENT \"PROMPT\"`"),
    ("resume", "`ostler run AGENT --resume RUN \"PROMPT\"`"),
    ("continue", "`ostler run AGENT --continue \"PROMPT\"`"),
    ("ask", "`ostler run AGENT \"PROMPT\"`"),
    ("questions", "`ostler approvals`"),
    ("approve", "`ostler answer ID allow`, or `ostler task approve TASK`"),
    ("deny", "`ostler answer ID deny`"),
    ("reject", "`ostler answer ID deny`, or `ostler task reject TASK \"WHY\"`"),
    ("add", "`ostler task add \"TITLE\"`"),
    ("rm", "`ostler runs delete RUN`"),
    ("delete", "`ostler runs delete RUN`"),
    ("merge", "`ostler apply RUN`"),
    ("usage", "`ostler costs`, or `ostler quotas`"),
    ("login", "log in with the agent's own command; `ostler doctor` checks it"),
    ("models", "`ostler prices list`"),
    ("adapters", "`ostler runtimes`"),
    ("edit", "`ostler config edit`"),
    ("update", UPDATE),
    ("upgrade", UPDATE),
];

/// The hint for a word that is not a command of `path`, such as `nope` in `ostler config nope`.
pub fn instead_of(path: &[String], given: &str) -> String {
    let top = path.is_empty().then(|| ELSEWHERE.iter().find(|(word, _)| *word == given)).flatten();
    if let Some((_, instead)) = top {
        return format!("use {instead}");
    }
    let root = Arguments::command();
    let parent = path.iter().try_fold(&root, |at, word| at.find_subcommand(word));
    let visible = parent.into_iter().flat_map(Command::get_subcommands);
    let visible = visible.filter(|sub| !sub.is_hide_set()).map(Command::get_name);
    did_you_mean(given, visible).unwrap_or_else(|| format!("{} lists the commands", help_of(path)))
}

/// The call that prints the help of a command.
pub fn help_of(path: &[String]) -> String {
    match path.is_empty() {
        true => "`ostler help`".to_owned(),
        false => format!("`ostler help {}`", path.join(" ")),
    }
}

/// The command that a command line names, such as `config check` in `--json config check --nope`.
pub fn path_in(words: impl Iterator<Item = String>) -> Vec<String> {
    let root = Arguments::command();
    let (mut at, mut path) = (&root, Vec::new());
    let mut words = words.take_while(|word| word != "--");
    while let Some(word) = words.next() {
        if matches!(word.as_str(), "--data" | "--config") {
            words.next();
        } else if !word.starts_with('-') {
            let Some(next) = at.find_subcommand(&word) else { break };
            path.push(next.get_name().to_owned());
            at = next;
        }
    }
    path
}
