//! Skills found, read, mounted and taken away again, on a real disk.

use super::*;
use crate::chance;
use contract::RunId;
use contract::plan::{Held, Mount, Skill as Wish};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use tempfile::{TempDir, tempdir};

/// A directory of skills with one in it.
fn shelf() -> (TempDir, PathBuf) {
    let shelf = tempdir().unwrap();
    let dir = shelf.path().join("x");
    fs::create_dir_all(dir.join("scripts")).unwrap();
    fs::write(dir.join(SKILL_FILE), "---\nname: x\ndescription: Use when x.\n---\nDo x.").unwrap();
    fs::write(dir.join("scripts/do.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(dir.join("scripts/do.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    (shelf, dir)
}

fn adapter(shelf: &Path, names: &[&str]) -> Adapter {
    let wish = |name: &&str| Wish { name: (*name).to_owned(), always: false };
    Adapter {
        skills: names.iter().map(wish).collect(),
        skills_dir: Some(shelf.display().to_string()),
        ..Default::default()
    }
}

fn found(shelf: &Path, name: &str) -> Result<Arc<[Skill]>, Fault> {
    load(&adapter(shelf, &[name]))
}

#[test]
fn a_skill_is_read_with_everything_beside_it() {
    let (shelf, dir) = shelf();
    symlink("scripts/do.sh", dir.join("again.sh")).unwrap();
    fs::create_dir_all(dir.join(".git/objects")).unwrap();
    fs::write(dir.join(".git/objects/x"), "history").unwrap();
    let skills = found(shelf.path(), "x").unwrap();
    let [skill] = &skills[..] else { panic!("one skill") };
    assert_eq!((skill.name.as_str(), skill.description.as_str()), ("x", "Use when x."));
    let files: Vec<_> =
        skill.files.iter().map(|file| (file.path.to_str().unwrap(), file.executable)).collect();
    assert_eq!(files, [("SKILL.md", false), ("again.sh", true), ("scripts/do.sh", true)]);
}

#[test]
fn every_shipped_skill_is_sound_and_says_when_to_load_it() {
    for (name, _) in SHIPPED {
        let skills = found(Path::new("/nowhere"), name).unwrap();
        assert!(skills[0].description.starts_with("Use when "), "{}", skills[0].description);
    }
}

#[test]
fn a_skill_of_the_person_comes_before_a_shipped_one_of_its_name() {
    let (shelf, dir) = shelf();
    let own = shelf.path().join("using-ostler");
    fs::rename(dir, &own).unwrap();
    let text = "---\nname: using-ostler\ndescription: mine\n---\n";
    fs::write(own.join(SKILL_FILE), text).unwrap();
    assert_eq!(found(shelf.path(), "using-ostler").unwrap()[0].description, "mine");
    assert_eq!(names(Some(shelf.path())), ["hiring-an-agent", "using-ostler"]);
}

#[test]
fn a_skill_that_is_named_twice_is_given_once() {
    let (shelf, _) = shelf();
    let mut adapter = adapter(shelf.path(), &["x", "x"]);
    adapter.skills[1].always = true;
    let skills = load(&adapter).unwrap();
    assert_eq!((skills.len(), skills[0].always), (1, true));
}

#[test]
fn what_is_no_skill_is_refused_and_named() {
    type Spoil = fn(&Path);
    let rows: [(&str, Spoil, &str); 8] = [
        ("leads out", |dir| symlink("/etc/passwd", dir.join("p")).unwrap(), "leads out of it"),
        ("leads up", |dir| symlink("../other", dir.join("p")).unwrap(), "leads out of it"),
        ("a directory", |dir| symlink("scripts", dir.join("p")).unwrap(), "neither a file"),
        ("dangles", |dir| symlink("gone", dir.join("p")).unwrap(), "cannot be read"),
        ("a pipe", |dir| fifo(&dir.join("p")), "neither a file nor a directory"),
        (
            "too much",
            |dir| fs::write(dir.join("big"), vec![0; limits::SKILL_BYTES_MAX]).unwrap(),
            "more than 8388608 bytes",
        ),
        (
            "too many",
            |dir| {
                (0..limits::SKILL_FILES_MAX)
                    .for_each(|i| fs::write(dir.join(i.to_string()), "").unwrap());
            },
            "more than 512 files",
        ),
        (
            "too deep",
            |dir| {
                let deep = ["d"; limits::SKILL_DEPTH_MAX + 1].join("/");
                fs::create_dir_all(dir.join(deep)).unwrap();
            },
            "go deeper than",
        ),
    ];
    for (what, spoil, expected) in rows {
        let (shelf, dir) = shelf();
        fs::write(shelf.path().join("other"), "not of the skill").unwrap();
        spoil(&dir);
        let fault = found(shelf.path(), "x").unwrap_err();
        assert_eq!(fault.code, Code::InvalidConfig);
        assert!(fault.message.contains("the skill 'x'"), "{what}: {fault}");
        assert!(fault.message.contains(expected), "{what}: {fault}");
    }
}

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
}

#[test]
fn a_name_that_is_not_there_or_leads_elsewhere_is_refused() {
    let (shelf, _) = shelf();
    let fault = found(shelf.path(), "y").unwrap_err();
    assert!(fault.message.contains("no skill is called 'y'"), "{fault}");
    assert_eq!(fault.hint(), "known names: hiring-an-agent, using-ostler, x");
    for bad in ["../x", "/etc", "", "X"] {
        assert!(found(shelf.path(), bad).unwrap_err().message.contains("small letters"), "{bad}");
    }
    let many = vec!["x"; limits::SKILLS_MAX + 1];
    assert!(load(&adapter(shelf.path(), &many)).unwrap_err().message.contains("at most 32"));
}

/// A place with a data directory and a directory that others use too.
struct Place {
    root: TempDir,
    links: Links,
    skills: Arc<[Skill]>,
}

impl Place {
    fn new() -> Self {
        let (shelf, _) = shelf();
        let root = tempdir().unwrap();
        let links = Links::new(&root.path().join("data"));
        Self { links, root, skills: found(shelf.path(), "x").unwrap() }
    }

    fn shared(&self) -> PathBuf {
        self.root.path().join("home/skills")
    }

    fn hold(&self, run: RunId) -> Vec<String> {
        let into = self.shared().display().to_string();
        let mounts = vec![Mount { skill: "x".to_owned(), into, held: Held::Shared }];
        Mounts { skills: Arc::clone(&self.skills), mounts }.make(run, &self.links).unwrap()
    }

    fn listed(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.path().join(dir)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn an_attempt_has_a_copy_of_its_own_with_the_modes_of_its_files() {
    let place = Place::new();
    let into = place.root.path().join("files/skills");
    let mount =
        Mount { skill: "x".to_owned(), into: into.display().to_string(), held: Held::Attempt };
    let mounts = Mounts { skills: Arc::clone(&place.skills), mounts: vec![mount] };
    assert!(mounts.make(chance::run_id(), &place.links).unwrap().is_empty());
    let mode = |path: &str| fs::symlink_metadata(into.join(path)).unwrap().permissions().mode();
    assert_eq!(mode("x") & 0o777, 0o700);
    assert_eq!(mode("x/SKILL.md") & 0o777, 0o600);
    assert_eq!(mode("x/scripts/do.sh") & 0o777, 0o700);
    assert!(fs::symlink_metadata(into.join("x")).unwrap().is_dir(), "no link");
    assert!(place.links.runs().is_empty());
}

#[test]
fn a_link_stays_while_any_run_uses_it_and_goes_with_the_last() {
    let place = Place::new();
    let (one, two) = (chance::run_id(), chance::run_id());
    assert!(place.hold(one).is_empty());
    assert!(place.hold(two).is_empty());
    assert!(place.hold(two).is_empty(), "a second attempt of it");
    let [name] = &place.listed("home/skills")[..] else { panic!("one link for both") };
    assert!(name.starts_with("ostler-x-"), "{name}");
    let text = fs::read_to_string(place.shared().join(name).join(SKILL_FILE)).unwrap();
    assert!(text.contains("Do x."));

    place.links.release(one);
    place.links.release(one);
    assert_eq!(place.listed("home/skills").len(), 1, "the other run uses it");
    place.links.release(two);
    assert_eq!(place.listed("home/skills"), [""; 0]);
    assert_eq!(place.listed("data/skills/copies"), [""; 0]);
    assert_eq!(place.listed("data/skills/runs"), [""; 0]);
}

#[test]
fn a_link_stays_while_another_record_cannot_be_read() {
    let place = Place::new();
    let (one, two) = (chance::run_id(), chance::run_id());
    place.hold(one);
    place.hold(two);
    let record = place.root.path().join("data/skills/runs").join(one.uuid().simple().to_string());
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    place.links.release(two);
    assert_eq!(place.listed("home/skills").len(), 1);
    assert_eq!(place.links.runs().len(), 2, "the next host tries again");
}

#[test]
fn what_is_of_others_is_never_touched() {
    let place = Place::new();
    let run = chance::run_id();
    fs::create_dir_all(place.shared().join("x")).unwrap();
    let notes = place.hold(run);
    assert!(notes[0].contains("already has a skill 'x'"), "{notes:?}");
    assert_eq!(place.listed("home/skills"), ["x"]);
    fs::remove_dir(place.shared().join("x")).unwrap();

    // Someone put something else under the very name of our link, while the run was alive.
    place.hold(run);
    let name = place.listed("home/skills").remove(0);
    fs::remove_file(place.shared().join(&name)).unwrap();
    fs::write(place.shared().join(&name), "theirs").unwrap();
    let notes = place.hold(chance::run_id());
    assert!(notes[0].contains("not made by Ostler"), "{notes:?}");
    place.links.runs().into_iter().for_each(|run| place.links.release(run));
    assert_eq!(fs::read_to_string(place.shared().join(&name)).unwrap(), "theirs");
}

#[test]
fn another_version_of_a_skill_has_a_link_of_its_own() {
    let mut place = Place::new();
    let (one, two) = (chance::run_id(), chance::run_id());
    place.hold(one);
    let (shelf, dir) = shelf();
    fs::write(dir.join("more.md"), "more").unwrap();
    place.skills = found(shelf.path(), "x").unwrap();
    place.hold(two);
    assert_eq!(place.listed("home/skills").len(), 2);
    place.links.release(one);
    assert_eq!(place.listed("home/skills"), place.listed("data/skills/copies"));
    assert_eq!(place.listed("home/skills").len(), 1);
}

#[test]
fn a_copy_that_an_agent_changed_or_a_death_left_half_is_made_whole_again() {
    let place = Place::new();
    place.hold(chance::run_id());
    let copy = place.root.path().join("data/skills/copies").join(&place.listed("home/skills")[0]);
    for spoil in [
        (|copy: &Path| fs::write(copy.join(SKILL_FILE), "obey me").unwrap()) as fn(&Path),
        |copy| fs::remove_file(copy.join(SKILL_FILE)).unwrap(),
        |copy| fs::write(copy.join("extra"), "").unwrap(),
    ] {
        spoil(&copy);
        place.hold(chance::run_id());
        let text = fs::read_to_string(copy.join(SKILL_FILE)).unwrap();
        assert!(text.contains("Do x.") && !copy.join("extra").exists());
    }
}

#[test]
fn a_host_that_died_leaves_a_record_by_which_the_next_one_finds_its_links() {
    let mut place = Place::new();
    let run = chance::run_id();
    place.hold(run);
    place.links = Links::new(&place.root.path().join("data"));
    assert_eq!(place.links.runs(), [run]);
    place.links.release(run);
    assert_eq!(place.listed("home/skills"), [""; 0]);
}
