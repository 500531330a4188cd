//! Every tool that takes a path, a patch or a name × every way to write one that leads out, blocks,
//! or is another file's second name. The tools are those of the catalogue, so one that is added
//! later is covered. What lies outside is the same afterwards, byte for byte.

use super::Tally;
use crate::mcp::Guest;
use crate::ostler::Ostler;
use host::ops::catalog;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

/// What only the outside says.
const HIDDEN: &str = "h1dden-outside";

/// How a path must be met.
#[derive(Clone, Copy, PartialEq)]
enum Met {
    /// No tool takes it.
    Refused,
    /// It is just an odd name of a file inside.
    Harmless,
}

/// A workspace with a trap of every kind in it.
fn traps(ostler: &Ostler, work: &Path) {
    let root = ostler.instance.root();
    std::fs::create_dir_all(root.join("outside/deep")).unwrap();
    for file in ["outside/secret", "outside/deep/secret"] {
        std::fs::write(root.join(file), HIDDEN).unwrap();
    }
    std::fs::create_dir_all(work.join("src")).unwrap();
    std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
    std::fs::write(work.join("src/a"), "inside\n").unwrap();
    for (target, name) in [
        ("../outside", "way"),
        ("../outside/secret", "link"),
        ("loop", "loop"),
        ("/dev/zero", "zero"),
        ("/proc/self/environ", "environ"),
        ("/", "src/top"),
        ("../../outside/deep", "src/deeper"),
    ] {
        symlink(target, work.join(name)).unwrap();
    }
    std::fs::hard_link(ostler.instance.data().join("token"), work.join("twin")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, work.join("pipe"), mode).unwrap();
    drop(std::os::unix::net::UnixListener::bind(work.join("sock")).unwrap());
    // Only root may make a device; without it `zero` is the device there is, and this is a socket.
    let device = rustix::fs::makedev(1, 5);
    let kind = rustix::fs::FileType::CharacterDevice;
    let path = work.join("device");
    if rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, device).is_err() {
        drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    }
}

fn tricks(root: &Path) -> Vec<(String, Met)> {
    let secret = root.join("outside/secret").display().to_string();
    let long = "a".repeat(4096);
    let deep = vec!["d"; 5000].join("/");
    let refused = [
        "..",
        "../",
        ".",
        "",
        "/",
        "//",
        "../outside/secret",
        "src/../../outside/secret",
        "./.././outside/secret",
        "src/../../../../../../../../etc/passwd",
        "way/secret",
        "way/new",
        "way/../secret",
        "link",
        "src/deeper/secret",
        "src/top/etc/passwd",
        "loop",
        "loop/x",
        "zero",
        "environ",
        "pipe",
        "pipe/x",
        "sock",
        "device",
        "device/x",
        "src/a/x",
        &secret,
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/Cargo.toml",
        "/proc/self/fd/0",
        "//etc/passwd",
        "a\0b",
        "\0",
        "way\0",
        "src/",
        "src/.",
        "src/..",
        &long,
        &deep,
        ".git/hooks/post-checkout",
        ".git/config",
        ".GIT/hooks/x",
        "src/../.git/config",
        "src/.git/config",
        "new/.git/hooks/x",
    ];
    let harmless = [
        "..%2foutside%2fsecret",
        "%2e%2e/outside/secret",
        "..%252foutside",
        "..\\outside\\secret",
        "C:\\Windows\\x",
        "\\\\server\\share",
        "~/x",
        "$HOME/x",
        "file:///etc/passwd",
        "．．/outside/secret",
        "..\u{2215}outside",
        "cafe\u{301}",
        "caf\u{e9}",
        "SRC/A",
        "CON",
        "-rf",
        "a\nb",
        "a\u{1b}[2Jb",
        "a\u{202e}b",
        " ",
        "...",
        ".. /outside/secret",
        "twin",
        "src//a",
        "./src/./a",
    ];
    let refused = refused.iter().map(|path| ((*path).to_owned(), Met::Refused));
    refused.chain(harmless.iter().map(|path| ((*path).to_owned(), Met::Harmless))).collect()
}

/// The calls of one tool with this in the place of what names a file; none if nothing does.
fn calls(tool: &catalog::Tool, path: &str) -> Vec<Value> {
    let schema = tool.schema();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let mut base = json!({});
    for (name, property) in &properties {
        let required = schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
        if required && property["type"] == "string" {
            base[name] = "seen".into();
        }
    }
    let patches = [
        format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{HIDDEN}\n+seen\n"),
        format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+seen\n"),
        format!("--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{HIDDEN}\n"),
    ];
    let mut made = Vec::new();
    for name in ["path", "name", "file", "dir", "cwd"] {
        if properties.contains_key(name) {
            base["content"] = "seen".into();
            base[name] = path.into();
            made.push(base.clone());
        }
    }
    if properties.contains_key("patch") {
        made.extend(patches.map(|patch| json!({ "patch": patch })));
    }
    made
}

/// Everything of the instance that no tool may touch, as it is now.
fn outside(ostler: &Ostler) -> BTreeMap<PathBuf, (Vec<u8>, u32, i64)> {
    let (data, work) = (ostler.instance.data(), ostler.instance.work());
    let files = ostler.files().into_iter();
    // The store goes on while the tools are called; its token stays what it was.
    let files = files.filter(|path| {
        !path.starts_with(&work)
            && !path.starts_with(ostler.instance.runtime())
            && (!path.starts_with(&data) || path.ends_with("token"))
    });
    files
        .map(|path| {
            let found = std::fs::metadata(&path).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            (path, (bytes, found.mode(), found.mtime_nsec()))
        })
        .collect()
}

#[test]
fn no_tool_is_led_out_held_up_or_given_what_is_ours() {
    let ostler = Ostler::new();
    let guest = Guest::new(&ostler, &["--permission", "allow-all"]);
    let work = ostler.instance.work();
    traps(&ostler, &work);
    let token = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
    let before = outside(&ostler);
    assert!(before.len() >= 4, "{before:?}");
    let mut tally = Tally::new("paths of tools");
    // A proposal waits for a person, who reads its words: nothing is opened by them.
    for tool in catalog::ALL.iter().filter(|tool| tool.name != "propose_agent") {
        for (path, met) in tricks(ostler.instance.root()) {
            for args in calls(tool, &path) {
                // A name of an asset is no path: it is refused unless it is plain.
                let met = if args.get("name").is_some() { Met::Harmless } else { met };
                let lists = tool.name == "list_files";
                let is_here = ["", ".", "src/", "src/.", "src/.."].contains(&path.as_str());
                let answer = guest.call(tool.name, &args);
                let at = || format!("{} {path:?}: {answer:?}", tool.name);
                tally.row(answer.is_err() || met == Met::Harmless || (lists && is_here), at);
                let said = format!("{answer:?}");
                tally.row(!said.contains(HIDDEN) && !said.contains(token.trim()), at);
            }
        }
    }
    let (after, differ) =
        (outside(&ostler), |path: &PathBuf| format!("{} differs", path.display()));
    for (path, was) in &before {
        tally.row(after.get(path) == Some(was), || differ(path));
    }
    for path in after.keys() {
        tally.row(before.contains_key(path), || differ(path));
    }
    // The instrument sees what a tool does inside, and what someone does outside.
    let written = guest.call("write_file", &json!({ "path": "src/a", "content": "changed" }));
    assert!(written.is_ok(), "{written:?}");
    std::fs::write(ostler.instance.root().join("outside/secret"), "changed").unwrap();
    assert_ne!(outside(&ostler), before);
    guest.finish();
    tally.close(500);
}

#[test]
fn a_workspace_that_holds_the_data_directory_does_not_open_it() {
    let ostler = Ostler::new();
    let home = ostler.instance.root().to_owned();
    let flags = "--tool read_file {\"path\":\"data/ostler/token\"} \
                 --tool list_files {\"path\":\"data/ostler\"} \
                 --tool write_file {\"path\":\"data/ostler/token\",\"content\":\"\"}";
    let agent = ostler.fake(&flags.replace('{', "'{").replace('}', "}'"));
    let home = home.display().to_string();
    let args = ["run", "--process", &agent, "x", "--json", "--cwd", &home];
    let said = ostler.says(&[&args[..], &["--permission", "allow-all"]].concat());
    let token = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
    assert_eq!(token.trim().len(), 64);
    assert!(!said.stdout.contains(token.trim()), "{}", said.stdout);
    let events = said.events();
    let results: Vec<_> = events.iter().filter(|event| event["kind"] == "tool_result").collect();
    assert_eq!(results.len(), 3, "{}", said.stdout);
    for result in results {
        assert_eq!(result["status"], "error", "{result}");
        assert!(result.to_string().contains("forbidden"), "{result}");
    }
}
