//! A repository that names a command wherever git can be told one: in its configuration and what that
//! includes, in hooks, in drivers that its attributes choose, in submodules, in alternates, and in a
//! repository inside it. Every command leaves a marker of its name. Whatever the product does with
//! such a repository leaves none; git as anyone calls it leaves dozens, so the trap works.

use crate::ostler::{Ostler, Running, signal};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const AGENT: &str = include_str!("hostile.py");

/// Keys whose value is a command, a program, or a directory of them: those of `git help --config`, and
/// those that only the pages of git's commands name. The parts in the middle are the repository's own
/// choice, and its attributes and urls use them.
const KEYS: &[&str] = &[
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.sshCommand",
    "core.gitProxy",
    "core.askPass",
    "core.alternateRefsCommand",
    "core.attributesFile",
    "sequence.editor",
    "credential.helper",
    "credential.https://example.invalid.helper",
    "diff.external",
    "diff.evil.command",
    "diff.conv.textconv",
    "merge.evil.driver",
    "merge.tool",
    "mergetool.evil.cmd",
    "mergetool.meld.path",
    "difftool.evil.cmd",
    "difftool.meld.path",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.proc.process",
    "filter.lfs.process",
    "filter.lfs.clean",
    "filter.lfs.smudge",
    "gpg.program",
    "gpg.openpgp.program",
    "gpg.ssh.program",
    "gpg.x509.program",
    "gpg.ssh.defaultKeyCommand",
    "interactive.diffFilter",
    "pager.log",
    "pager.diff",
    "pager.status",
    "pager.ls-files",
    "pager.diff-tree",
    "alias.evil",
    "alias.read-tree",
    "alias.worktree",
    "alias.status",
    "alias.apply",
    "browser.evil.cmd",
    "browser.firefox.path",
    "man.evil.cmd",
    "man.woman.path",
    "trailer.evil.cmd",
    "trailer.older.command",
    "uploadpack.packObjectsHook",
    "gc.recentObjectsHook",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "remote.other.vcs",
    "sendemail.sendmailCmd",
    "sendemail.toCmd",
    "sendemail.ccCmd",
    "sendemail.headerCmd",
    "sendemail.smtpServer",
    "imap.tunnel",
    "guitool.evil.cmd",
    "submodule.evil.update",
    "tar.evil.command",
    "tar.tar.command",
    "instaweb.httpd",
    "instaweb.browser",
    "web.browser",
    "help.browser",
    "hook.evil.command",
    "cvsexportcommit.cvsdir",
    "http.proxy",
    "remote.other.proxy",
    "init.templateDir",
];

const HOOKS: &[&str] = &[
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "reference-transaction",
    "post-index-change",
    "post-rewrite",
    "pre-auto-gc",
    "fsmonitor-watchman",
    "p4-changelist",
    "sendemail-validate",
];

/// What anyone might type, and what is then typed into it.
const PLAIN: &[(&str, &str)] = &[
    ("status", ""),
    ("diff d.txt", ""),
    ("diff plain.md", ""),
    ("diff --no-ext-diff c.txt", ""),
    ("add a.txt p.txt", ""),
    ("-c color.ui=always add -p plain.md", "q\n"),
    ("commit -qm x plain.md", ""),
    ("commit --allow-empty", ""),
    ("commit -S --allow-empty -m s", ""),
    ("-c gpg.format=ssh commit -S --allow-empty -m s", ""),
    ("-c gpg.format=ssh -c user.signingKey=/x commit -S --allow-empty -m s", ""),
    ("-c gpg.format=x509 commit -S --allow-empty -m s", ""),
    ("stash", ""),
    ("rebase -i HEAD~1", ""),
    ("rebase --abort", ""),
    ("merge side -m z", ""),
    ("mergetool -y -t evil", ""),
    ("merge --abort", ""),
    ("difftool -y -t evil HEAD~1", ""),
    ("evil", ""),
    ("included", ""),
    ("archive --format=evil HEAD", ""),
    ("interpret-trailers --trailer evil:x", "x\n"),
    ("fetch origin", ""),
    ("fetch ssh", ""),
    ("fetch proxied", ""),
    ("fetch ext", ""),
    ("push origin HEAD:refs/heads/q", ""),
    ("credential fill", "protocol=https\nhost=x.invalid\n\n"),
    ("web--browse -t evil x", ""),
    ("worktree add ../plain-worktree HEAD", ""),
    ("checkout -q -f HEAD~1", ""),
    ("apply --index ../no-such-patch", ""),
];

/// Keys of which a marker must be found after all that, for the trap to count.
const FIRED_MIN: usize = 20;

struct Trap {
    ostler: Ostler,
    evil: PathBuf,
    marks: PathBuf,
}

impl Trap {
    fn repo(&self) -> PathBuf {
        self.ostler.instance.work()
    }

    /// git as anyone calls it.
    fn plain(&self, args: &[&str], input: &str) -> bool {
        let mut command = self.ostler.instance.command("git");
        command.args(args).env("GIT_CONFIG_NOSYSTEM", "1").env("TERM", "dumb");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "t").env(format!("GIT_{role}_EMAIL"), "t@x");
        }
        ended(&mut command, input)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.repo().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A command that leaves a marker of this name.
    fn command(&self, name: &str) -> String {
        let file = name.replace('/', "_");
        let path = self.evil.join(&file);
        let then = match name.split_once(['.', ' ']) {
            Some(("filter", _)) => "exec cat",
            Some((_, last)) if last.ends_with("textconv") => "exec cat",
            // Those that fail would keep others from being run.
            Some(("hook", _)) => "exit 0",
            _ => "exit 1",
        };
        let mark = self.marks.join(&file);
        fs::write(&path, format!("#!/bin/sh\n: > '{}'\n{then}\n", mark.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    fn marks(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.marks).unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn touch(&self) {
        for name in ["a.txt", "p.txt", "d.txt", "c.txt", "plain.md"] {
            self.write(name, "touched behind git's back\n");
        }
    }

    fn new() -> Self {
        let ostler = Ostler::new();
        let root = ostler.instance.root().to_owned();
        let trap = Self { evil: root.join("evil"), marks: root.join("marks"), ostler };
        fs::create_dir_all(&trap.evil).unwrap();
        fs::create_dir_all(&trap.marks).unwrap();
        trap.fill();
        trap.set();
        assert_eq!(trap.marks(), BTreeSet::new(), "nothing ran while it was set");
        trap
    }

    /// What is committed: attributes that choose the drivers, submodules of bad names, and files by which
    /// other programs are told what to run.
    fn fill(&self) {
        let must = |args: &[&str]| assert!(self.plain(args, ""), "git {args:?}");
        must(&["init", "-q", "-b", "main"]);
        for name in ["a.txt", "p.txt", "d.txt", "c.txt", "m.txt", "l.txt", "plain.md"] {
            self.write(name, "first\n");
        }
        self.write(
            ".gitattributes",
            "a.txt filter=evil\np.txt filter=proc\nd.txt diff=evil\nc.txt diff=conv\n\
             m.txt merge=evil\nl.txt filter=lfs diff=lfs merge=lfs\n",
        );
        self.write(
            ".gitmodules",
            "[submodule \"evil\"]\n\tpath = sub\n\turl = ext::sh -c evil\n\tupdate = none\n\
             [submodule \"../../escape\"]\n\tpath = escape\n\turl = -u./evil\n",
        );
        for (name, text) in SINKS {
            let command = self.command(&format!("sink {name}"));
            self.write(name, &text.replace("{command}", &command));
        }
        must(&["add", "-A"]);
        must(&["commit", "-qm", "first"]);
        must(&["branch", "side"]);
        for branch in ["side", "main"] {
            must(&["checkout", "-q", branch]);
            self.write("m.txt", branch);
            must(&["commit", "-qam", branch]);
        }
        let head = fs::read_to_string(self.repo().join(".git/refs/heads/main")).unwrap();
        let link = format!("160000,{},sub", head.trim());
        must(&["update-index", "--add", "--cacheinfo", &link]);
        must(&["commit", "-qm", "with a submodule"]);
    }

    /// What is not committed: the configuration, hooks and alternates.
    fn set(&self) {
        let included = self.evil.join("included.config");
        fs::write(&included, format!("[alias]\n\tincluded = \"!{}\"\n", self.command("included")))
            .unwrap();
        // By file, and not by `git config` one after the other: the first of them would run already.
        let mut config = fs::read_to_string(self.repo().join(".git/config")).unwrap();
        for key in KEYS {
            let command = self.command(key);
            let shell = key.starts_with("alias.") || key.starts_with("submodule.");
            let value = if shell { format!("!{command}") } else { command };
            config += &entry(key, &value);
        }
        let repo = self.repo().display().to_string();
        for (key, value) in [
            ("include.path", included.display().to_string()),
            ("remote.origin.url", repo.clone()),
            ("remote.ssh.url", "ssh://x.invalid/r".to_owned()),
            ("remote.proxied.url", "git://x.invalid/r".to_owned()),
            ("remote.ext.url", format!("ext::{}", self.command("remote.ext.url"))),
            ("protocol.ext.allow", "always".to_owned()),
            ("filter.evil.required", "true".to_owned()),
            ("submodule.evil.url", repo),
            ("submodule.evil.active", "true".to_owned()),
            ("submodule.recurse", "true".to_owned()),
            ("log.showSignature", "true".to_owned()),
            ("core.worktree", self.repo().display().to_string()),
            ("extensions.worktreeConfig", "true".to_owned()),
        ] {
            config += &entry(key, &value);
        }
        let own = format!("[core]\n\tfsmonitor = {}\n", self.command("config.worktree"));
        fs::write(self.repo().join(".git/config.worktree"), own).unwrap();
        for hook in HOOKS {
            let command = self.command(&format!("hook {hook}"));
            fs::copy(command, self.repo().join(".git/hooks").join(hook)).unwrap();
        }
        for nested in ["nested.fsmonitor", "nested.clean"] {
            self.command(nested);
        }
        let other = self.evil.join("objects");
        fs::create_dir_all(&other).unwrap();
        let alternates = self.repo().join(".git/objects/info/alternates");
        fs::write(alternates, format!("{}\n", other.display())).unwrap();
        fs::write(self.repo().join(".git/config"), config).unwrap();
    }
}

/// Files in which a repository names commands for shells, editors, package managers, agents and us.
const SINKS: &[(&str, &str)] = &[
    (".envrc", "{command}\n"),
    (
        ".vscode/tasks.json",
        r#"{ "version": "2.0.0", "tasks": [{ "label": "x", "type": "shell",
        "command": "{command}", "runOptions": { "runOn": "folderOpen" } }] }"#,
    ),
    (".mcp.json", MCP),
    (".cursor/mcp.json", MCP),
    (".gemini/settings.json", MCP),
    (
        ".claude/settings.json",
        r#"{ "hooks": { "SessionStart": [{ "hooks": [{ "type": "command",
        "command": "{command}" }] }] }, "apiKeyHelper": "{command}" }"#,
    ),
    (".codex/config.toml", "[mcp_servers.x]\ncommand = \"{command}\"\nnotify = [\"{command}\"]\n"),
    ("opencode.json", r#"{ "mcp": { "x": { "type": "local", "command": ["{command}"] } } }"#),
    ("package.json", r#"{ "scripts": { "preinstall": "{command}", "test": "{command}" } }"#),
    ("Makefile", "all:\n\t{command}\n"),
    (".husky/pre-commit", "{command}\n"),
    (
        ".pre-commit-config.yaml",
        "repos: [{ repo: local, hooks: [{ id: x, entry: '{command}' }] }]\n",
    ),
    ("ostler.json", OURS),
    (".ostler/ostler.json", OURS),
    ("ostler/ostler.json", OURS),
];
const MCP: &str = r#"{ "mcpServers": { "x": { "command": "{command}" } } }"#;
const OURS: &str = r#"{ "mcpServers": { "x": { "command": "{command}" } },
    "adapters": { "demo": { "type": "process", "binary": "{command}" } },
    "notify": { "command": ["{command}"] } }"#;

/// One key as a section of its own.
fn entry(key: &str, value: &str) -> String {
    let (head, name) = key.rsplit_once('.').unwrap();
    match head.split_once('.') {
        Some((section, middle)) => format!("[{section} \"{middle}\"]\n\t{name} = \"{value}\"\n"),
        None => format!("[{head}]\n\t{name} = \"{value}\"\n"),
    }
}

/// Whether it ended well; what it says is nobody's.
fn ended(command: &mut Command, input: &str) -> bool {
    use std::io::Write as _;
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("git starts");
    // One that reads nothing has ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait().expect("git ends").success()
}

fn agent(trap: &Trap, n: u32) -> String {
    let script = trap.ostler.instance.root().join("hostile.py");
    fs::write(&script, AGENT).unwrap();
    format!("python3 {} {} {n}", script.display(), trap.evil.display())
}

fn good(trap: &Trap, args: &[&str]) -> String {
    let said = trap.ostler.says(args);
    assert_eq!(said.code, 0, "{args:?}: {}\n{}", said.stderr, said.stdout);
    assert_eq!(trap.marks(), BTreeSet::new(), "{args:?}");
    said.stdout
}

fn run(trap: &Trap, n: u32) -> String {
    let args = ["run", "--worktree", "--process", &agent(trap, n), "x", "--json"];
    let events = good(trap, &args);
    let first: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    first["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn nothing_that_a_repository_names_is_run_by_anything_that_the_product_does_with_it() {
    assert!(KEYS.len() >= 60, "{}", KEYS.len());
    let trap = Trap::new();

    // Made, worked in, given as a snapshot, looked at, merged, removed.
    let merged = run(&trap, 1);
    let patch = good(&trap, &["diff", &merged]);
    assert!(patch.contains("+changed by the agent 1"), "{patch}");
    let names: Value = serde_json::from_str(&good(&trap, &["diff", &merged, "--json"])).unwrap();
    assert_eq!(names["files"].as_array().unwrap().len(), 6, "{names}");
    assert_eq!(names["nested"][0], "inner/", "{names}");
    good(&trap, &["apply", &merged]);
    let read = |name: &str| fs::read_to_string(trap.repo().join(name)).unwrap();
    assert_eq!(
        (read("a.txt"), read("new-1.txt")),
        ("changed by the agent 1\n".into(), "new\n".into())
    );

    // The same by a patch, while the person's branch went on; then one that does not fit.
    let patched = run(&trap, 2);
    good(&trap, &["apply", "--patch", &patched]);
    assert_eq!(read("p.txt"), "changed by the agent 2\n");
    let refused = run(&trap, 3);
    let said = trap.ostler.says(&["apply", &refused]);
    assert_eq!(said.code, 13, "{}", said.stderr);
    assert_eq!(trap.marks(), BTreeSet::new(), "a refused apply");

    // A worktree that is left half made is removed by the next host.
    let mut half = Running::of(&mut trap.ostler.command(&[
        "run",
        "--worktree",
        "--process",
        &agent(&trap, 4),
        "x",
        "--json",
    ]));
    let trees = trap.ostler.instance.data().join("trees");
    let there = || fs::read_dir(&trees).map_or(0, |entries| entries.flatten().count());
    testkit::until("a worktree to be begun", 60_000, || (there() > 3).then_some(()));
    signal(half.child.id() as i32, Signal::KILL);
    half.child.wait().unwrap();
    good(&trap, &["runs", "--json"]);
    assert_eq!(trap.marks(), BTreeSet::new(), "in the end");

    // The trap works: git as anyone calls it walks into it.
    trap.touch();
    for (words, input) in PLAIN {
        trap.plain(&words.split(' ').collect::<Vec<_>>(), input);
    }
    let marks = trap.marks();
    let keys: Vec<_> = KEYS.iter().filter(|key| marks.contains(&key.replace('/', "_"))).collect();
    let hooks = marks.iter().filter(|mark| mark.starts_with("hook ")).count();
    eprintln!("plain git ran {} of {} keys and {hooks} hooks", keys.len(), KEYS.len());
    assert!(keys.len() >= FIRED_MIN, "only {} keys were run: {marks:?}", keys.len());
    assert!(hooks >= 5, "{marks:?}");
}
