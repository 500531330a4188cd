//! A skill's directory, read whole within its limits. Links are followed only to files of the same
//! directory; what is no file and no directory is refused. A history of versions (`.git`) is left out.

use super::SkillFile;
use contract::limits::{SKILL_BYTES_MAX, SKILL_DEPTH_MAX, SKILL_FILES_MAX, SKILL_NAME_BYTES_MAX};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Every file of the directory, by its path in it.
pub fn directory(dir: &Path) -> Result<Vec<SkillFile>, String> {
    // The directory itself may be a link: where a person keeps their skills is their own affair.
    let root = dir.canonicalize().map_err(|error| format!("cannot be read: {error}"))?;
    let mut reading = Reading { root: &root, files: Vec::new(), bytes: 0 };
    reading.directory(Path::new(""), 0)?;
    reading.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(reading.files)
}

struct Reading<'a> {
    root: &'a Path,
    files: Vec<SkillFile>,
    bytes: usize,
}

impl Reading<'_> {
    fn directory(&mut self, inner: &Path, depth: usize) -> Result<(), String> {
        if depth > SKILL_DEPTH_MAX {
            return Err(format!("its directories go deeper than {SKILL_DEPTH_MAX}"));
        }
        let unread = |error: io::Error| format!("{}: cannot be read: {error}", shown(inner));
        for entry in fs::read_dir(self.root.join(inner)).map_err(unread)? {
            let name = entry.map_err(unread)?.file_name();
            if name == ".git" {
                continue;
            }
            let path = inner.join(name);
            let kind = fs::symlink_metadata(self.root.join(&path)).map_err(unread)?.file_type();
            if kind.is_dir() {
                self.directory(&path, depth + 1)?;
            } else if kind.is_symlink() {
                let target = self.root.join(&path).canonicalize().map_err(unread)?;
                if !target.starts_with(self.root) {
                    return Err(format!("{} is a link that leads out of it", shown(&path)));
                }
                self.file(path, &target)?;
            } else {
                let target = self.root.join(&path);
                self.file(path, &target)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: PathBuf, target: &Path) -> Result<(), String> {
        let unread = |error: io::Error| format!("{}: cannot be read: {error}", shown(&path));
        // Looked at before it is opened: opening a pipe would wait for somebody at its other end.
        let metadata = fs::symlink_metadata(target).map_err(unread)?;
        if !metadata.is_file() {
            return Err(format!("{} is neither a file nor a directory", shown(&path)));
        }
        if self.files.len() >= SKILL_FILES_MAX {
            return Err(format!("it has more than {SKILL_FILES_MAX} files"));
        }
        let room = SKILL_BYTES_MAX - self.bytes;
        let mut bytes = Vec::new();
        let file = fs::File::open(target).map_err(unread)?;
        file.take(room as u64 + 1).read_to_end(&mut bytes).map_err(unread)?;
        if bytes.len() > room {
            return Err(format!("its files have more than {SKILL_BYTES_MAX} bytes"));
        }
        self.bytes += bytes.len();
        let executable = metadata.permissions().mode() & 0o100 != 0;
        self.files.push(SkillFile { path, bytes, executable });
        Ok(())
    }
}

fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    text.escape_debug().take(SKILL_NAME_BYTES_MAX * 2).collect()
}
