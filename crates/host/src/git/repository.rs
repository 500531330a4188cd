//! A repository as git may see it. What git keeps of it is found by reading files, and its
//! configuration is read as data, by the very parser of git but with nothing acting on it. Then a
//! directory of our own is made that git takes for the common one: objects, refs and the other things
//! that are only data are linked from the real one, the configuration is written by us, and hooks and
//! everything else are not there. It is removed with the value. `.git/config` can name what it likes.

use super::Git;
use super::call::Call;
use crate::cleanup;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is data in a common directory: nothing of it names a command.
const LINKED: &[&str] = &[
    "objects",
    "refs",
    "packed-refs",
    "logs",
    "worktrees",
    "shallow",
    "reftable",
    "info/exclude",
    "info/attributes",
];

/// A link to these is good also where they are not there yet.
const MADE_LATER: &[&str] = &["packed-refs", "worktrees"];

/// What is taken over from a repository's own configuration, and the words it may have.
const TAKEN: &[(&str, &[&str])] = &[
    ("core.filemode", BOOLEAN),
    ("core.symlinks", BOOLEAN),
    ("core.ignorecase", BOOLEAN),
    ("core.precomposeunicode", BOOLEAN),
    ("core.autocrlf", &["true", "false", "input"]),
    ("core.eol", &["lf", "crlf", "native"]),
    ("extensions.objectformat", &["sha1", "sha256"]),
    ("extensions.refstorage", &["files", "reftable"]),
];
const BOOLEAN: &[&str] = &["true", "false"];

/// Extensions without which a repository reads the same. One that is in no list is not guessed at.
const WITHOUT: &[&str] = &[
    "extensions.noop",
    "extensions.noop-v1",
    "extensions.partialclone",
    "extensions.preciousobjects",
    "extensions.relativeworktrees",
    "extensions.worktreeconfig",
];

/// A file that git keeps to say where something is.
const POINTER_BYTES_MAX: u64 = 16 * 1024;

/// A repository, seen from one checkout of it.
#[derive(Debug)]
pub struct Repository {
    git: Git,
    top: PathBuf,
    git_dir: PathBuf,
    common: PathBuf,
    shadow: Shadow,
    /// Its configuration, as data. The last value of a key counts.
    config: BTreeMap<String, String>,
    settings: [u8; 16],
}

/// The common directory that git is shown.
#[derive(Debug)]
struct Shadow {
    dir: PathBuf,
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // Links are removed, and not what they lead to.
        cleanup::remove_dir(&self.dir);
    }
}

impl Repository {
    /// Finds the repository that a directory belongs to. Blocking.
    pub fn open(git: &Git, dir: &Path) -> io::Result<Self> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "it is not in a git repository");
        let top = super::top(dir).ok_or_else(none)?.to_owned();
        let git_dir = git_dir(&top.join(".git"))?;
        let common = match pointer(&git_dir.join("commondir")) {
            Ok(common) => git_dir.join(common).canonicalize()?,
            // Only the entry of a worktree has such a file; the repository itself has none.
            Err(_) => git_dir.clone(),
        };
        let listed = listed(git, &common.join("config"))?;
        let (config, settings) = (by_key(&listed), digest(&listed));
        let shadow = Shadow::make(git, &common, &config)?;
        Ok(Self { git: git.clone(), top, git_dir, common, shadow, config, settings })
    }

    pub fn call(&self, words: &[&str]) -> Call<'_> {
        Call::of(self, words)
    }

    /// The directory of the checkout.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// What git keeps of this checkout alone.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// What it keeps for all checkouts.
    pub fn common(&self) -> &Path {
        &self.common
    }

    pub(super) fn shadow(&self) -> &Path {
        &self.shadow.dir
    }

    pub(super) fn git(&self) -> &Git {
        &self.git
    }

    /// The paths below a directory of the checkout that are tracked, or neither tracked nor ignored,
    /// from there, sorted. Those of repositories within that are not tracked end with a slash.
    pub fn names(&self, dir: &Path) -> io::Result<Vec<Vec<u8>>> {
        let words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = self.call(&words).from(dir).run()?;
        if !listed.done {
            return Err(io::Error::other("git does not list its files"));
        }
        let names = listed.out.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Those of these paths, relative to a directory of the checkout, that are ignored.
    pub fn ignored(&self, dir: &Path, paths: &[Vec<u8>]) -> io::Result<HashSet<Vec<u8>>> {
        if paths.is_empty() {
            return Ok(HashSet::new());
        }
        let call = self.call(&["check-ignore", "-z", "--stdin"]).from(dir);
        let asked: Vec<u8> =
            paths.iter().flat_map(|path| [b"./", path.as_slice(), b"\0"].concat()).collect();
        let answer = call.paths(asked).run()?;
        // It also fails when none of them is ignored, and then has nothing to complain of.
        if !answer.done && !answer.complaint.trim().is_empty() {
            answer.good("reading which paths are ignored")?;
            return Ok(HashSet::new());
        }
        let ignored = answer.out.split(|byte| *byte == 0);
        Ok(ignored.filter_map(|name| name.strip_prefix(b"./")).map(<[u8]>::to_vec).collect())
    }

    /// A hash of its configuration, without what git notes of branches.
    pub fn settings(&self) -> [u8; 16] {
        self.settings
    }

    /// In whose name the person commits here: what the repository says, else what is the person's
    /// own. Both are data.
    pub fn person(&self) -> Option<(String, String)> {
        let home = self.git.environment.get("HOME").map(Path::new);
        let xdg = self.git.environment.get("XDG_CONFIG_HOME").map(PathBuf::from);
        let xdg = xdg.or_else(|| home.map(|home| home.join(".config")));
        let own = [xdg.map(|xdg| xdg.join("git/config")), home.map(|home| home.join(".gitconfig"))];
        let mut found = self.config.clone();
        for file in own.into_iter().flatten().filter(|file| file.is_file()) {
            for (key, value) in config(&self.git, &file).unwrap_or_default() {
                found.entry(key).or_insert(value);
            }
        }
        let name = found.get("user.name").filter(|name| !name.trim().is_empty())?;
        Some((name.clone(), found.get("user.email").cloned().unwrap_or_default()))
    }
}

impl Shadow {
    fn make(git: &Git, common: &Path, config: &BTreeMap<String, String>) -> io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let dir = git.place.join(format!("{}.{n}", std::process::id()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&git.place)?;
        cleanup::remove_dir(&dir);
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
        let shadow = Self { dir };
        fs::create_dir(shadow.dir.join("info"))?;
        for name in LINKED {
            let target = common.join(name);
            if MADE_LATER.contains(name) || target.exists() {
                symlink(&target, shadow.dir.join(name))?;
            }
        }
        fs::write(shadow.dir.join("HEAD"), "ref: refs/heads/none\n")?;
        fs::write(shadow.dir.join("config"), ours(config)?)?;
        Ok(shadow)
    }
}

/// The configuration that git reads in the place of the repository's own.
fn ours(config: &BTreeMap<String, String>) -> io::Result<String> {
    let refused = |key: &str| {
        io::Error::other(format!(
            "the repository has the setting {key}, which Ostler \
         does not support"
        ))
    };
    let (mut core, mut extensions) = (String::new(), String::new());
    for (key, value) in config {
        let value = value.to_ascii_lowercase();
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        let taken = TAKEN.iter().find(|(taken, _)| taken == key);
        match (section, taken) {
            (_, Some((_, words))) if words.contains(&value.as_str()) => {
                let section = if section == "core" { &mut core } else { &mut extensions };
                section.push_str(&format!("\t{name} = {value}\n"));
            }
            ("extensions", _) if !WITHOUT.contains(&key.as_str()) => return Err(refused(key)),
            (_, _) => {}
        }
    }
    let version = if extensions.is_empty() { 0 } else { 1 };
    Ok(format!(
        "[core]\n\trepositoryformatversion = {version}\n\tbare = false\n{core}[extensions]\n{extensions}"
    ))
}

/// A file of configuration as data: nothing is included and nothing acts on it.
fn config(git: &Git, file: &Path) -> io::Result<BTreeMap<String, String>> {
    Ok(by_key(&listed(git, file)?))
}

/// Its entries, each ended by a NUL: the key, and the value in the next line.
fn listed(git: &Git, file: &Path) -> io::Result<Vec<u8>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let words = ["config", "--no-includes", "--null", "--list", "--file"];
    Ok(Call::alone(git, &words).arg(file).run()?.good("reading its configuration")?.out)
}

fn by_key(listed: &[u8]) -> BTreeMap<String, String> {
    let listed = String::from_utf8_lossy(listed);
    let entries = listed.split('\0').filter(|entry| !entry.is_empty());
    // A key without a value means yes.
    let entries = entries.map(|entry| entry.split_once('\n').unwrap_or((entry, "true")));
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A hash of all entries but those of branches: they name no command, and git changes them when
/// somebody pushes or checks out.
fn digest(listed: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for entry in listed.split_inclusive(|byte| *byte == 0) {
        if !entry.starts_with(b"branch.") {
            hasher.update(entry);
        }
    }
    let mut digest = [0; 16];
    hasher.finalize_xof().fill(&mut digest);
    digest
}

/// What `.git` stands for: itself, or what it points to.
fn git_dir(dot_git: &Path) -> io::Result<PathBuf> {
    if dot_git.is_dir() {
        return dot_git.canonicalize();
    }
    let text = pointer(dot_git)?;
    let target = text.strip_prefix("gitdir:").map(str::trim).ok_or_else(|| {
        io::Error::other(format!("{} does not name the repository", dot_git.display()))
    })?;
    dot_git.parent().unwrap_or(Path::new("/")).join(target).canonicalize()
}

fn pointer(file: &Path) -> io::Result<String> {
    if !file.symlink_metadata()?.is_file() {
        return Err(io::Error::other(format!("{} is no file", file.display())));
    }
    let mut text = String::new();
    fs::File::open(file)?.take(POINTER_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_configuration_only_words_that_are_known_are_taken() {
        let made =
            |key: &str, value: &str| ours(&BTreeMap::from([(key.to_owned(), value.to_owned())]));
        assert!(made("core.filemode", "FALSE").unwrap().contains("filemode = false"));
        // A value may have lines of its own, which git would read as keys.
        let odd = made("core.eol", "lf\n\tfsmonitor = rm").unwrap();
        assert!(!odd.contains("eol") && !odd.contains("fsmonitor"), "{odd}");
        assert!(made("extensions.objectformat", "sha256\n\tworktreeconfig = true").is_err());
        assert!(made("extensions.unheard", "true").is_err());
        assert!(made("extensions.noop", "true").is_ok());
    }

    #[test]
    fn only_a_file_points_to_a_repository() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "gitdir: elsewhere\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(pointer(&file).unwrap(), "gitdir: elsewhere");
        for odd in [link.as_path(), dir.path()] {
            let error = pointer(odd).unwrap_err();
            assert!(error.to_string().ends_with("is no file"), "{error}");
        }
    }
}
