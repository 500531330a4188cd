//! The family's control group: entered before the agent's first instruction, killed as a whole.
//!
//! Only version 2 has a file that kills, and only where someone delegated a place to us can a group
//! be made; both are found out by trying. The keeper itself stays outside. The group's path is noted in
//! the spool directory, so that the next server can end the family of a keeper that was killed.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};

use crate::limits::FAMILY_PIDS_MAX;

/// Name of the note in the spool directory.
pub const NOTE_NAME: &str = "cgroup";
/// What the name of every group of ours begins with.
const PREFIX: &str = "ostler-";

pub struct Group {
    path: PathBuf,
    entrance: OwnedFd,
}

impl Group {
    /// Makes the group of a family below our own, and notes it in `spool`.
    pub fn of_family(name: &str, spool: &OwnedFd) -> io::Result<Self> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let own = own_group(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        let own = own.ok_or_else(|| missing("no version 2 hierarchy is mounted"))?;
        let group = Self::make(&own, name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let note = openat(spool, NOTE_NAME, flags, Mode::RUSR | Mode::WUSR)?;
        io::Write::write_all(&mut fs::File::from(note), group.path.as_os_str().as_encoded_bytes())?;
        Ok(group)
    }

    fn make(own: &Path, name: &str) -> io::Result<Self> {
        let path = own.join(format!("{PREFIX}{name}"));
        let at =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        fs::create_dir(&path).map_err(at)?;
        let made = || {
            if !path.join("cgroup.kill").exists() {
                return Err(missing("the kernel has no file that kills a group"));
            }
            // Where the number of processes can be bounded it is; where not, the rest still holds.
            let _ = fs::write(own.join("cgroup.subtree_control"), "+pids");
            let _ = fs::write(path.join("pids.max"), FAMILY_PIDS_MAX.to_string());
            Ok(OwnedFd::from(fs::File::options().write(true).open(path.join("cgroup.procs"))?))
        };
        match made() {
            Ok(entrance) => Ok(Self { path, entrance }),
            Err(error) => {
                // The error that is returned says why there is no group; one that stays is empty.
                let _ = fs::remove_dir(&path);
                Err(at(error))
            }
        }
    }

    pub fn entrance(&self) -> BorrowedFd<'_> {
        self.entrance.as_fd()
    }

    /// Kills everyone in it, however fast they fork.
    pub fn kill(&self) {
        // The sweep by signals, which follows, ends those whom this does not.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Removes the group. It is empty by then, but the kernel may need a moment to see it.
    pub fn remove(&self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    for _ in 0..100 {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(crate::limits::SWEEP_PAUSE_MS));
            }
            _ => return,
        }
    }
}

/// Ends the family of a keeper that is dead, by the note it left in its spool directory.
pub fn end_noted(spool: &Path) {
    let Ok(path) = fs::read_to_string(spool.join(NOTE_NAME)).map(PathBuf::from) else { return };
    let ours =
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    if ours && is_group(&path) {
        // The sweep by the mark, which follows, ends those whom this does not.
        let _ = fs::write(path.join("cgroup.kill"), "1");
        remove(&path);
    }
}

fn is_group(path: &Path) -> bool {
    const CGROUP2_MAGIC: u64 = 0x6367_7270;
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 == CGROUP2_MAGIC)
}

/// Our own group's directory, by the two files in which the kernel tells it.
fn own_group(mountinfo: &str, cgroup: &str) -> Option<PathBuf> {
    let within = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = Path::new(within).strip_prefix(root).ok()?;
        Some(Path::new(point).join(below))
    })
}

fn missing(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_group_is_found_by_mount_and_membership() {
        let unified = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
        let user = "0::/user.slice/user-1000.slice/app.scope\n";
        let hybrid = "30 25 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                      31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw";
        let cut = "30 25 0:26 /a/b /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        for (mountinfo, cgroup, found) in [
            (unified, user, Some("/sys/fs/cgroup/user.slice/user-1000.slice/app.scope")),
            (unified, "0::/\n", Some("/sys/fs/cgroup/")),
            (hybrid, "4:memory:/x\n0::/init\n", Some("/sys/fs/cgroup/unified/init")),
            (cut, "0::/a/b/c\n", Some("/sys/fs/cgroup/c")),
            (cut, "0::/elsewhere\n", None),
            ("", user, None),
            (unified, "4:memory:/x\n", None),
        ] {
            assert_eq!(own_group(mountinfo, cgroup), found.map(PathBuf::from), "{cgroup}");
        }
    }

    #[test]
    fn a_place_without_the_file_that_kills_is_left_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        let Err(error) = Group::make(place.path(), "x") else {
            panic!("a plain folder is no group")
        };
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_note_that_leads_outside_the_hierarchy_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("ostler-x");
        fs::create_dir(&target).unwrap();
        fs::write(place.path().join(NOTE_NAME), target.as_os_str().as_encoded_bytes()).unwrap();
        end_noted(place.path());
        assert!(target.exists() && !target.join("cgroup.kill").exists());
    }
}
