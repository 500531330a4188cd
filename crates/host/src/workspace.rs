//! The directory an agent works in, checked before anything is started, and the one way into it for
//! relayed tools: every path is opened beneath it by the kernel, so neither `..`, an absolute path,
//! a link nor a race leads out. What Ostler keeps for itself stays shut even where it lies inside.
//! Writing is `workspace/change.rs`.

mod change;

pub use change::{Change, Was};

use contract::{Code, Fault};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A directory, held open.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    /// None when it was no longer there as a run was taken over: then nothing is in it.
    root: Option<OwnedFd>,
    /// Directories of Ostler's own.
    private: Vec<PathBuf>,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub bytes: Vec<u8>,
    /// Whether there is more behind it.
    pub more: bool,
    pub bytes_in_all: u64,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    File { bytes: u64, executable: bool },
    Link { target: String },
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
        Ok(Self { path: canonical, root: Some(root), private: Vec::new() })
    }

    /// The workspace of a run that is taken over, by the path that `open` found. An agent may have
    /// removed it meanwhile, or put a link in its place: then nothing is in it, and no tool is led
    /// anywhere else.
    pub fn again(path: &Path) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok();
        Self { path: path.to_owned(), root, private: Vec::new() }
    }

    /// A workspace that cannot be opened: nothing is in it.
    pub fn gone(path: &Path) -> Self {
        Self { path: path.to_owned(), root: None, private: Vec::new() }
    }

    /// The same, but these directories are shut to every tool, wherever they lie.
    pub fn without(mut self, private: &[&Path]) -> Self {
        // One that Ostler made for the agent inside its own directory is the agent's.
        let outside = private
            .iter()
            .filter(|private| self.path == **private || !self.path.starts_with(private));
        self.private = outside.map(|private| private.to_path_buf()).collect();
        self
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directories in the workspace that are shut, relative to it.
    pub(crate) fn private_within(&self) -> impl Iterator<Item = &Path> {
        self.private.iter().filter_map(|private| private.strip_prefix(&self.path).ok())
    }

    /// The first `bytes_max` bytes of a regular file, and whether there is more.
    pub fn read(&self, path: &str, bytes_max: usize) -> Result<(Vec<u8>, bool), Fault> {
        let Part { bytes, more, .. } = self.read_from(path, 0, bytes_max)?;
        Ok((bytes, more))
    }

    /// A part of a regular file from an offset on, of at most `bytes_max` bytes.
    pub fn read_from(&self, path: &str, offset: u64, bytes_max: usize) -> Result<Part, Fault> {
        let failed = |error: std::io::Error| refused(path, &error.to_string());
        let mut file = self.regular(path)?;
        let bytes_in_all = file.metadata().map_err(failed)?.len();
        file.seek(SeekFrom::Start(offset.min(bytes_in_all))).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        let more = bytes.len() > bytes_max;
        bytes.truncate(bytes_max);
        Ok(Part { bytes, more, bytes_in_all })
    }

    /// Whether a regular file may be executed by its owner.
    pub fn is_executable(&self, path: &str) -> Result<bool, Fault> {
        let metadata = self.regular(path)?.metadata();
        let metadata = metadata.map_err(|error| refused(path, &error.to_string()))?;
        Ok(metadata.mode() & 0o100 != 0)
    }

    /// What there is at a path, without following it. None when it is neither a file nor a link, is
    /// not ours to give, or is not there.
    pub(crate) fn look(&self, path: &str) -> Option<Found> {
        let fd = self.beneath(path, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
        let stat = fstat(&fd).ok()?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(Found::File {
                bytes: u64::try_from(stat.st_size).unwrap_or(0),
                executable: stat.st_mode & 0o100 != 0,
            }),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&fd, "", Vec::new()).ok()?;
                let target = target.into_string().ok()?;
                let into = |private: &PathBuf| Path::new(&target).starts_with(private);
                // A link of ours tells where we keep things, and leads nowhere elsewhere.
                (!self.private.iter().any(into)).then_some(Found::Link { target })
            }
            _ => None,
        }
    }

    /// Every path beneath the workspace but for directories, what git keeps for itself and what is
    /// shut. No link is followed.
    pub(crate) fn walk(
        &self,
        depth_max: usize,
        mut each: impl FnMut(String) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut waiting = vec![(".".to_owned(), depth_max)];
        while let Some((dir, depth)) = waiting.pop() {
            // What may not be looked into, or has gone meanwhile, does not hide the rest.
            for (name, kind) in self.names(&dir).unwrap_or_default() {
                if name == ".git" {
                    continue;
                }
                let path = if dir == "." { name } else { format!("{dir}/{name}") };
                match kind {
                    FileType::Directory if depth > 1 => waiting.push((path, depth - 1)),
                    FileType::Directory => {}
                    _ => each(path)?,
                }
            }
        }
        Ok(())
    }

    pub(crate) fn regular(&self, path: &str) -> Result<File, Fault> {
        // Not blocking, so that a FIFO in the repository cannot hold us.
        let fd = self.beneath(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        match file_type(&fd, path)? {
            FileType::RegularFile => Ok(File::from(fd)),
            _ => Err(refused(path, "not a regular file")),
        }
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
            let names = match self.names(&dir) {
                // What may not be looked into, or has gone meanwhile, does not hide the rest.
                Err(_) if dir != start => continue,
                names => names?,
            };
            for (name, kind) in names {
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
        let absent =
            || Fault::new(Code::NotFound, format!("'{}' is not in the workspace", shown(path)));
        let root = self.root.as_ref().ok_or_else(absent)?;
        let opened = openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), change::resolve());
        let fd = opened.map_err(|error| match error {
            rustix::io::Errno::NOENT => absent(),
            rustix::io::Errno::XDEV => refused(path, "it leads out of the workspace"),
            error => refused(path, &std::io::Error::from(error).to_string()),
        })?;
        match self.is_private(&fd).map_err(|error| refused(path, &error.to_string()))? {
            true => Err(refused(path, "it is reserved for Ostler")),
            false => Ok(fd),
        }
    }

    /// Whether this is Ostler's own: by where it lies, or by another name for the same file.
    fn is_private(&self, fd: &OwnedFd) -> std::io::Result<bool> {
        if self.private.is_empty() {
            return Ok(false);
        }
        let real = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if self.private.iter().any(|private| real.starts_with(private)) {
            return Ok(true);
        }
        let stat = fstat(fd)?;
        let linked =
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink > 1;
        Ok(linked && self.private.iter().any(|private| holds(private, &stat)))
    }
}

/// Whether a file is one of those right inside a directory: token, store and address are.
fn holds(dir: &Path, stat: &Stat) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files = entries.filter_map(|entry| entry.metadata().ok());
    files.any(|file| (file.dev(), file.ino()) == (stat.st_dev, stat.st_ino))
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
mod race;

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
        rustix::fs::mkfifoat(workspace.root.as_ref().unwrap(), "pipe", Mode::RUSR | Mode::WUSR)
            .unwrap();
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
    fn what_ostler_keeps_for_itself_is_shut_even_inside_the_workspace() {
        let (dir, _) = place();
        let (home, data) = (dir.path(), dir.path().join("work/data"));
        std::fs::create_dir_all(data.join("blobs")).unwrap();
        std::fs::write(data.join("token"), "secret").unwrap();
        std::fs::hard_link(data.join("token"), home.join("work/twin")).unwrap();
        std::fs::hard_link(home.join("work/src/a.rs"), home.join("work/a-twin")).unwrap();
        symlink("data", home.join("work/way")).unwrap();
        let workspace = Workspace::open(&home.join("work")).unwrap().without(&[&data]);
        for path in ["data/token", "way/token", "twin", "data/../data/token", "src/../twin"] {
            let fault = workspace.read(path, 100).unwrap_err();
            assert_eq!(fault.code, Code::Forbidden, "{path}: {fault}");
        }
        assert_eq!(workspace.list("data", 1, 9).unwrap_err().code, Code::Forbidden);
        let new = |path: &str| Change {
            path: path.to_owned(),
            was: Was::Anything,
            becomes: Some(b"mine".to_vec()),
            executable: false,
        };
        for path in ["data/token", "data/new", "data/blobs/new", "way/token"] {
            assert_eq!(workspace.change(&[new(path)]).unwrap_err().code, Code::Forbidden, "{path}");
        }
        // A second name is taken away from the file, and the file stays as it was.
        workspace.change(&[new("twin")]).unwrap();
        assert_eq!(std::fs::read_to_string(data.join("token")).unwrap(), "secret");
        // Another file with two names is just a file, and the listing goes on around what is shut.
        assert_eq!(workspace.read("a-twin", 100).unwrap().0, b"fn a() {}");
        let (entries, _) = workspace.list("", 9, 100).unwrap();
        let paths: Vec<_> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert!(paths.contains(&"src/deep/b.rs") && paths.contains(&"data"), "{paths:?}");
        assert!(!paths.contains(&"data/token"), "{paths:?}");
        // What Ostler made for the agent inside its own directory is open to it.
        let own = Workspace::open(&home.join("work/src")).unwrap().without(&[&home.join("work")]);
        assert_eq!(own.read("a.rs", 100).unwrap().0, b"fn a() {}");
        let data_itself = Workspace::open(&data).unwrap().without(&[&data]);
        assert_eq!(data_itself.read("token", 100).unwrap_err().code, Code::Forbidden);
    }

    #[test]
    fn a_workspace_that_went_away_is_empty_and_not_the_whole_machine() {
        let (dir, workspace) = place();
        let path = workspace.path().to_owned();
        assert_eq!(Workspace::again(&path).read("src/a.rs", 100).unwrap().0, b"fn a() {}");
        std::fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        for in_its_place in ["nothing", "a link to the root", "a file"] {
            match in_its_place {
                "nothing" => {}
                "a file" => {
                    std::fs::remove_file(&path).unwrap();
                    std::fs::write(&path, "").unwrap();
                }
                _ => symlink("/", &path).unwrap(),
            }
            let again = Workspace::again(&path);
            for tried in ["etc/passwd", "src/a.rs", "."] {
                let fault = again.read(tried, 100).unwrap_err();
                assert_eq!(fault.code, Code::NotFound, "{in_its_place}, {tried}: {fault}");
            }
            assert_eq!(again.list("", 1, 9).unwrap_err().code, Code::NotFound, "{in_its_place}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_bad_workspace() {
        let fault = Workspace::open(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(fault.code, Code::BadWorkspace);
    }
}
