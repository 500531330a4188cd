//! The directory an agent works in, checked before anything is started, and the one way into it for
//! relayed tools: every path is opened beneath it by the kernel, so neither `..`, an absolute path,
//! a link nor a race leads out. Writing is `workspace/change.rs`.

mod change;

pub use change::{Change, Was};

use contract::{Code, Fault};
use rustix::fs::{FileType, Mode, OFlags, fstat, openat2};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// An existing directory, held open.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    root: OwnedFd,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    pub path: String,
    pub kind: &'static str,
}

impl Workspace {
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let unusable = |error: std::io::Error| {
            Fault::new(Code::BadWorkspace, format!("{}: {error}", path.display()))
        };
        let canonical = path.canonicalize().map_err(unusable)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&canonical, flags, Mode::empty())
            .map_err(|error| unusable(error.into()))?;
        Ok(Self { path: canonical, root })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first `bytes_max` bytes of a regular file, and whether there is more.
    pub fn read(&self, path: &str, bytes_max: usize) -> Result<(Vec<u8>, bool), Fault> {
        // Not blocking, so that a FIFO in the repository cannot hold us.
        let fd = self.beneath(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        if file_type(&fd, path)? != FileType::RegularFile {
            return Err(refused(path, "not a regular file"));
        }
        let mut bytes = Vec::new();
        File::from(fd)
            .take(bytes_max as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| refused(path, &error.to_string()))?;
        let more = bytes.len() > bytes_max;
        bytes.truncate(bytes_max);
        Ok((bytes, more))
    }

    /// The entries beneath a directory, sorted, at most `entries_max`, and whether there are more.
    /// Links are listed and never followed; what git keeps for itself is left out.
    pub fn list(
        &self,
        path: &str,
        depth: usize,
        entries_max: usize,
    ) -> Result<(Vec<Entry>, bool), Fault> {
        let start = if path.is_empty() { "." } else { path };
        let mut found = Vec::new();
        let mut waiting = vec![(start.to_owned(), depth)];
        while let Some((dir, depth)) = waiting.pop() {
            for (name, kind) in self.names(&dir)? {
                if name == ".git" {
                    continue;
                }
                let path = if dir == "." { name } else { format!("{dir}/{name}") };
                if found.len() == entries_max {
                    return Ok((sorted(found), true));
                }
                if kind == FileType::Directory && depth > 1 {
                    waiting.push((path.clone(), depth - 1));
                }
                found.push(Entry { path, kind: word(kind) });
            }
        }
        Ok((sorted(found), false))
    }

    fn names(&self, dir: &str) -> Result<Vec<(String, FileType)>, Fault> {
        let fd = self.beneath(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let unreadable =
            |error: rustix::io::Errno| refused(dir, &std::io::Error::from(error).to_string());
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&fd).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push((name, entry.file_type()));
            }
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(names)
    }

    fn beneath(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Fault> {
        openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), change::resolve())
            .map_err(|error| match error {
                rustix::io::Errno::NOENT => {
                    Fault::new(Code::NotFound, format!("'{}' is not in the workspace", shown(path)))
                }
                rustix::io::Errno::XDEV => refused(path, "it leads out of the workspace"),
                error => refused(path, &std::io::Error::from(error).to_string()),
            })
    }
}

fn file_type(fd: &OwnedFd, path: &str) -> Result<FileType, Fault> {
    fstat(fd)
        .map(|stat| FileType::from_raw_mode(stat.st_mode))
        .map_err(|error| refused(path, &std::io::Error::from(error).to_string()))
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries
}

fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "directory",
        FileType::RegularFile => "file",
        FileType::Symlink => "link",
        _ => "other",
    }
}

fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}

fn refused(path: &str, why: &str) -> Fault {
    Fault::new(Code::Forbidden, format!("'{}': {why}", shown(path)))
        .with_hint("give a path of a file inside the workspace, relative to it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn place() -> (tempfile::TempDir, Workspace) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("work/src/deep")).unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        std::fs::write(dir.path().join("work/src/a.rs"), "fn a() {}").unwrap();
        std::fs::write(dir.path().join("work/src/deep/b.rs"), "fn b() {}").unwrap();
        symlink("../secret", dir.path().join("work/out")).unwrap();
        symlink("src/a.rs", dir.path().join("work/inside")).unwrap();
        let workspace = Workspace::open(&dir.path().join("work")).unwrap();
        (dir, workspace)
    }

    #[test]
    fn a_path_that_leads_out_is_refused_however_it_is_written() {
        let (dir, workspace) = place();
        let absolute = dir.path().join("secret").display().to_string();
        rustix::fs::mkfifoat(&workspace.root, "pipe", Mode::RUSR | Mode::WUSR).unwrap();
        let tricks = [
            "../secret",
            "src/../../secret",
            "out",
            &absolute,
            "/proc/self/root/etc/passwd",
            "src",
            "pipe",
            "a\0b",
        ];
        for trick in tricks {
            let fault = workspace.read(trick, 100).unwrap_err();
            assert_eq!(fault.code, Code::Forbidden, "{trick}: {fault}");
        }
        assert_eq!(workspace.read("nothing", 100).unwrap_err().code, Code::NotFound);
        assert_eq!(workspace.read("inside", 100).unwrap().0, b"fn a() {}");
    }

    #[test]
    fn a_long_file_is_cut_and_says_so() {
        let (_dir, workspace) = place();
        assert_eq!(workspace.read("src/a.rs", 4).unwrap(), (b"fn a".to_vec(), true));
        assert_eq!(workspace.read("src/a.rs", 9).unwrap(), (b"fn a() {}".to_vec(), false));
    }

    #[test]
    fn a_listing_goes_as_deep_as_asked_and_no_link_is_followed() {
        let (_dir, workspace) = place();
        let paths = |depth| -> Vec<String> {
            workspace.list("", depth, 100).unwrap().0.into_iter().map(|entry| entry.path).collect()
        };
        assert_eq!(paths(1), ["inside", "out", "src"]);
        assert_eq!(paths(9), ["inside", "out", "src", "src/a.rs", "src/deep", "src/deep/b.rs"]);
        let (entries, more) = workspace.list("", 9, 2).unwrap();
        assert_eq!((entries.len(), more), (2, true));
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_bad_workspace() {
        let fault = Workspace::open(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(fault.code, Code::BadWorkspace);
    }
}
