//! The only reader of files and environment. `Surroundings` is gathered once, at the top of the
//! program; everything below is handed what it needs from it. A configuration comes from the place
//! a person named or from their own configuration directory, never from the current directory: a
//! repository must not name commands to run. The shape of the file is `contract::config`; `read` checks
//! against it, `resolve` makes something to run of a name, and `check` and `show` are what
//! `ostler config` prints.

mod check;
mod command_line;
mod expected;
mod hired;
mod init;
mod live;
pub mod log_level;
pub mod mistaken;
mod nearest;
mod patient;
mod placeholder;
mod read;
mod resolve;
mod show;
pub mod skills;
mod values;

pub use command_line::split as split_words;
pub use hired::Book;
pub use init::TEMPLATE;
pub use live::Live;
pub use nearest::{did_you_mean, nearest};
pub use read::{Finding, Level};
pub use resolve::{
    Config, Flags, Resolved, acp_adapter, http_adapter, names, process_adapter, program, resolve,
    resolve_adapter, resolve_with,
};
pub use show::{command_shown, show};
pub use values::shared_budgets;

pub use contract::config::{file, schema, words};
use contract::{Code, Fault, limits};
use host::ops::run::Where;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

/// The word of the file in the words of a request.
pub fn place(workspace: words::Workspace) -> Where {
    match workspace {
        words::Workspace::Here => Where::Here,
        words::Workspace::Worktree => Where::Worktree,
        words::Workspace::Temporary => Where::Temporary,
    }
}

/// What the program was started with, as far as it matters.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Variables whose name or value is not Unicode are left out.
    pub vars: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub stdin_is_terminal: bool,
    pub stdout_is_terminal: bool,
    pub stderr_is_terminal: bool,
    /// The width of the terminal, or 80.
    pub columns: usize,
}

impl Surroundings {
    /// The width that text is broken to fit; what a program reads is not broken.
    pub fn columns_to_fill(&self) -> usize {
        if self.stdout_is_terminal { self.columns } else { usize::MAX }
    }

    /// Looks around, once.
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the environment")]
    pub fn gather() -> Result<Self, Fault> {
        let cwd = std::env::current_dir().map_err(|error| {
            Fault::new(Code::BadWorkspace, format!("the current directory cannot be used: {error}"))
        })?;
        let vars: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Ok(Self {
            cwd,
            stdin_is_terminal: std::io::stdin().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
            columns: crate::terminal::columns(&vars),
            vars,
        })
    }
}

type Vars = BTreeMap<String, String>;

/// The configuration file: `--config`, else `$OSTLER_CONFIG`, else the one in the person's own
/// configuration directory when it is there.
pub fn locate(flag: Option<&Path>, vars: &Vars) -> Option<PathBuf> {
    let named = flag.map(Path::to_owned).or_else(|| set(vars, "OSTLER_CONFIG").map(PathBuf::from));
    named.or_else(|| default_path(vars).filter(|path| path.is_file()))
}

/// The hint for a configuration file in the current directory, which is not read unless `--config` or
/// `OSTLER_CONFIG` names it.
pub fn unread_here(flag: Option<&Path>, surroundings: &Surroundings) -> Option<&'static str> {
    let here = surroundings.cwd.join("ostler.json");
    let is_read = locate(flag, &surroundings.vars).is_some_and(|path| {
        surroundings.cwd.join(path).canonicalize().ok() == here.canonicalize().ok()
    });
    (here.is_file() && !is_read).then_some(
        "there is an ostler.json here; it is never read from the current directory, because a \
         repository must not name commands to run: use --config ./ostler.json, or move it to \
         ~/.config/ostler/ostler.json",
    )
}

/// Where `ostler init` puts a file when nobody says where.
pub fn default_path(vars: &Vars) -> Option<PathBuf> {
    Some(xdg(vars, "XDG_CONFIG_HOME", ".config")?.join("ostler").join("ostler.json"))
}

/// The data directory: `--data`, else the one in the person's own data directory.
pub fn data_dir(flag: Option<&Path>, vars: &Vars) -> Result<PathBuf, Fault> {
    if let Some(flag) = flag {
        return Ok(flag.to_owned());
    }
    let home = xdg(vars, "XDG_DATA_HOME", ".local/share").ok_or_else(|| {
        Fault::new(Code::Usage, "no data directory: neither XDG_DATA_HOME nor HOME is set")
            .with_hint("name one with --data DIR")
    })?;
    Ok(home.join("ostler"))
}

/// A directory of the XDG specification, by which a relative path counts as unset.
fn xdg(vars: &Vars, name: &str, under_home: &str) -> Option<PathBuf> {
    let absolute = |path: &str| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    set(vars, name)
        .and_then(absolute)
        .or_else(|| Some(set(vars, "HOME").and_then(absolute)?.join(under_home)))
}

fn set<'v>(vars: &'v Vars, name: &str) -> Option<&'v str> {
    vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

/// Reads a configuration. No path is an empty one.
pub fn load(path: Option<&Path>) -> Result<Config, Fault> {
    let Some(path) = path else { return Ok(Config::default()) };
    let text = text_of(path)?;
    let (file, findings) = check::formed(&text);
    match fault(path, &findings) {
        Some(fault) => Err(fault),
        // Whole, because what it names beside itself may be looked for by another process.
        None => Ok(Config { path: std::path::absolute(path).ok(), file }),
    }
}

/// The mistakes for which a file is not loaded.
pub fn mistakes(path: &Path) -> Result<Vec<Finding>, Fault> {
    let (_, findings) = check::formed(&text_of(path)?);
    Ok(findings.into_iter().filter(|finding| finding.level == Level::Error).collect())
}

/// The mistakes of form in a text.
pub fn formed(text: &str) -> Vec<Finding> {
    check::formed(text).1
}

/// Everything to be said about a file, errors first. `data` is the directory with imported prices.
pub fn check(path: &Path, vars: &Vars, data: Option<&Path>) -> Result<Vec<Finding>, Fault> {
    let text = text_of(path)?;
    let mut all = check::findings(&text, vars);
    let reading = read::read(&text);
    all.extend(skills::findings(path, &reading));
    all.extend(check::unpriced(&reading, |model| host::prices::has_cost_model(model, data)));
    all.sort_by_key(|finding| (finding.level, finding.at));
    Ok(all)
}

fn text_of(path: &Path) -> Result<String, Fault> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        Fault::new(Code::InvalidConfig, format!("{shown}: cannot be read: {error}"))
            .with_hint("name an existing file with --config, or make one with `ostler init`")
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    // One byte more than allowed is enough to know that there is too much.
    let bound = limits::CONFIG_BYTES_MAX as u64 + 1;
    file.take(bound).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > limits::CONFIG_BYTES_MAX {
        let message =
            format!("{shown}: longer than the {} bytes allowed", limits::CONFIG_BYTES_MAX);
        return Err(Fault::new(Code::InvalidConfig, message));
    }
    String::from_utf8(bytes)
        .map_err(|_| Fault::new(Code::InvalidConfig, format!("{shown}: not UTF-8 text")))
}

/// One fault for all errors among the findings: the first in the message, the others in the detail.
fn fault(path: &Path, findings: &[Finding]) -> Option<Fault> {
    let mut errors = findings.iter().filter(|finding| finding.level == Level::Error);
    let first = errors.next()?;
    let name = path.file_name().map_or(path.as_os_str(), |name| name).display().to_string();
    let mut fault = Fault::new(first.code, format!("{name}: {first}"));
    fault.hint = first.hint.clone();
    let others: Vec<String> = errors.map(|finding| format!("{name}: {finding}")).collect();
    if !others.is_empty() {
        fault.detail = Some(others.join("\n"));
    }
    Some(fault)
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match self.at {
            Some((line, column)) => write!(f, " (line {line}, column {column})"),
            None => Ok(()),
        }
    }
}

/// How strongly agents are held: `$OSTLER_ISOLATION`, for those who must know; else the strongest
/// that changes nothing else for them.
pub fn isolation(vars: &BTreeMap<String, String>) -> Result<keeper::plan::Level, Fault> {
    use keeper::plan::Level;
    match set(vars, "OSTLER_ISOLATION") {
        None => Ok(Level::Auto),
        Some(word) => Level::from_word(word).ok_or_else(|| {
            Fault::new(Code::InvalidConfig, format!("OSTLER_ISOLATION={word}: unknown level"))
                .with_hint("expected auto, basic, cgroup or strict")
        }),
    }
}

/// How long a host waits for whoever does not read: `$OSTLER_STALLED_MS`, for networks that are
/// slower, or tests that are quicker, than most.
pub fn stalled_ms(vars: &BTreeMap<String, String>) -> Result<Option<u64>, Fault> {
    let Some(given) = set(vars, "OSTLER_STALLED_MS") else { return Ok(None) };
    given.parse().map(Some).map_err(|error| {
        Fault::new(Code::InvalidConfig, format!("OSTLER_STALLED_MS={given}: {error}"))
            .with_hint("give milliseconds")
    })
}

#[cfg(test)]
mod tests;
