//! A snapshot as a reader of tar files finds it, and what is never in one. The reader is a small one
//! of our own, that shares nothing with the writer; the end-to-end tests use Python's.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// Name, kind (the flag of the format), mode, and content or target.
type Item = (String, char, u32, Vec<u8>);

fn number(field: &[u8]) -> u64 {
    let text = std::str::from_utf8(field).unwrap();
    u64::from_str_radix(text.trim_end_matches(['\0', ' ']), 8).unwrap()
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn unpacked(tar: &[u8]) -> Vec<Item> {
    let mut items = Vec::new();
    let (mut at, mut name, mut target) = (0, None, None);
    while tar[at] != 0 {
        let head = &tar[at..at + 512];
        assert_eq!(&head[257..263], b"ustar\0");
        let bytes = number(&head[124..135]) as usize;
        let body = tar[at + 512..at + 512 + bytes].to_vec();
        at += 512 + bytes.next_multiple_of(512);
        if head[156] == b'x' {
            for line in String::from_utf8(body).unwrap().lines() {
                let (key, value) = line.split_once(' ').unwrap().1.split_once('=').unwrap();
                match key {
                    "path" => name = Some(value.to_owned()),
                    _ => target = Some(value.to_owned()),
                }
            }
            continue;
        }
        let flag = char::from(head[156]);
        let linked = target.take().unwrap_or_else(|| text(&head[157..257]));
        let content = if flag == '2' { linked.into_bytes() } else { body };
        let mode = number(&head[100..107]) as u32;
        items.push((name.take().unwrap_or_else(|| text(&head[..100])), flag, mode, content));
    }
    assert_eq!(&tar[at..], &[0; 1024], "two empty blocks and no more");
    items
}

/// A git whose own files lie beside the workspace.
fn git(work: &Workspace) -> Git {
    Git::new(work.path().with_file_name("of-git"), &Default::default())
}

fn taken(dir: &Path) -> Result<Snapshot, Fault> {
    let work = work(dir);
    let git = git(&work);
    Snapshot::of(Arc::new(work), &git)
}

fn snapshot(workspace: Workspace) -> (Snapshot, Vec<u8>) {
    let git = git(&workspace);
    let snapshot = Snapshot::of(Arc::new(workspace), &git).unwrap();
    let mut reader = snapshot.clone().reader();
    let mut tar = Vec::new();
    while let Some(piece) = reader.piece().unwrap() {
        tar.extend(piece);
    }
    assert_eq!(tar.len() as u64, snapshot.bytes, "as long as it was said to be");
    let digest = format!("blake3:{}", blake3::hash(&tar).to_hex());
    assert_eq!(snapshot.digest().unwrap(), digest);
    (snapshot, tar)
}

fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    fs::create_dir_all(work.join("src")).unwrap();
    fs::write(dir.path().join("outside"), "secret").unwrap();
    fs::write(work.join("a"), "hello").unwrap();
    fs::write(work.join("empty"), "").unwrap();
    fs::write(work.join("src/large"), vec![7; 600_000]).unwrap();
    fs::write(work.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(work.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(work.join("n".repeat(150)), "long").unwrap();
    fs::write(work.join("café"), "é").unwrap();
    symlink("../outside", work.join("out")).unwrap();
    symlink("src", work.join("way")).unwrap();
    symlink(format!("/{}", "t".repeat(120)), work.join("far")).unwrap();
    dir
}

fn work(dir: &Path) -> Workspace {
    Workspace::open(&dir.join("work")).unwrap()
}

#[test]
fn a_snapshot_holds_every_file_once_and_links_as_links() {
    let dir = place();
    let (_, tar) = snapshot(work(dir.path()));
    let items = unpacked(&tar);
    let file = |name: &str, mode, content: &[u8]| (name.to_owned(), '0', mode, content.to_vec());
    let link = |name: &str, target: String| (name.to_owned(), '2', 0o777, target.into_bytes());
    let mut expected = [
        file("a", 0o644, b"hello"),
        file("empty", 0o644, b""),
        file("src/large", 0o644, &vec![7; 600_000]),
        file("run.sh", 0o755, b"#!/bin/sh\n"),
        file(&"n".repeat(150), 0o644, b"long"),
        file("café", 0o644, "é".as_bytes()),
        link("out", "../outside".to_owned()),
        link("way", "src".to_owned()),
        link("far", format!("/{}", "t".repeat(120))),
    ];
    expected.sort();
    assert_eq!(items, expected);
}

#[test]
fn the_same_files_give_the_same_digest_and_another_byte_another() {
    let (one, two) = (place(), place());
    let digest = |dir: &Path| snapshot(work(dir)).0.digest().unwrap();
    assert_eq!(digest(one.path()), digest(two.path()));
    fs::write(two.path().join("work/a"), "hellO").unwrap();
    assert_ne!(digest(one.path()), digest(two.path()));
}

#[test]
fn what_git_or_ostler_keeps_for_itself_and_what_is_no_file_is_never_in_it() {
    let dir = place();
    let root = dir.path().join("work");
    let data = root.join("data");
    for (name, text) in
        [("data/token", "t0ken"), ("data/blobs/x", "t0ken"), ("sub/.git/config", "c")]
    {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), text).unwrap();
    }
    fs::hard_link(data.join("token"), root.join("twin")).unwrap();
    symlink(data.join("token"), root.join("link")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), mode).unwrap();
    drop(std::os::unix::net::UnixListener::bind(root.join("sock")).unwrap());
    let (_, tar) = snapshot(work(dir.path()).without(&[&data]));
    let names: Vec<_> = unpacked(&tar).into_iter().map(|item| item.0).collect();
    for kept in ["data/token", "data/blobs/x", "sub/.git/config", "twin", "link", "pipe", "sock"] {
        assert!(!names.contains(&kept.to_owned()), "{kept}: {names:?}");
    }
    assert!(!tar.windows(5).any(|window| window == b"t0ken"));
    assert_eq!(names.len(), 9);
}

#[test]
fn a_file_that_changes_while_it_is_read_keeps_its_length_and_loses_the_digest() {
    let dir = place();
    let snapshot = taken(dir.path()).unwrap();
    let digest = snapshot.digest().unwrap();
    let root = dir.path().join("work");
    fs::write(root.join("src/large"), "short").unwrap();
    fs::remove_file(root.join("a")).unwrap();
    fs::write(root.join("run.sh"), vec![b'x'; 9_000]).unwrap();
    let mut reader = snapshot.clone().reader();
    let mut tar = Vec::new();
    while let Some(piece) = reader.piece().unwrap() {
        tar.extend(piece);
    }
    assert_eq!(tar.len() as u64, snapshot.bytes);
    let items = unpacked(&tar);
    let content = |name: &str| &items.iter().find(|item| item.0 == name).unwrap().3;
    assert_eq!(content("a"), &[0; 5]);
    assert_eq!(
        (content("src/large").len(), &content("src/large")[..6]),
        (600_000, &b"short\0"[..])
    );
    assert_eq!(content("run.sh"), b"xxxxxxxxxx");
    assert_ne!(snapshot.digest().unwrap(), digest);
}

#[test]
fn a_workspace_of_too_many_files_or_bytes_is_refused() {
    let (files, bytes) = (limits::SNAPSHOT_FILES_MAX, limits::SNAPSHOT_BYTES_MAX);
    for (files, bytes, fits) in [(files, bytes, true), (files + 1, 0, false), (0, bytes + 1, false)]
    {
        assert_eq!(
            within(files, bytes).map_err(|fault| fault.code),
            match fits {
                true => Ok(()),
                false => Err(Code::TooLarge),
            }
        );
    }
    // A file that only claims to be large is believed before it is read.
    let dir = place();
    let large = fs::File::create(dir.path().join("work/sparse")).unwrap();
    large.set_len(bytes + 1).unwrap();
    let fault = taken(dir.path()).unwrap_err();
    assert_eq!(fault.code, Code::TooLarge);
}

#[test]
fn a_repository_that_git_cannot_list_is_not_given_whole() {
    let dir = place();
    fs::create_dir(dir.path().join("work/.git")).unwrap();
    let fault = taken(dir.path()).unwrap_err();
    assert_eq!(fault.code, Code::BadWorkspace);
}
