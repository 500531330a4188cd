//! What a kill left of the store, before anyone mends it. Looked at in a copy: even who only reads
//! makes an index of the database's log, and the next server is to find what the dead one left.

use super::said;
use std::path::Path;

const DATABASE: &str = "ostler.db";
const BLOBS: &str = "blobs";

/// Whether anyone of this house was told anything before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promised {
    Nothing,
    Something,
}

/// Everything that does not hold of the store of a dead server, whose keepers may live.
pub fn broken(data: &Path, promised: Promised) -> Vec<String> {
    let said = match (looked_at(data), promised) {
        (Ok(said), _) => said,
        // Its schema may be half made.
        (Err(_), Promised::Nothing) => Vec::new(),
        (Err(error), Promised::Something) => vec![format!("it cannot be read: {error}")],
    };
    said.into_iter().map(|said| format!("the store after a kill: {said}")).collect()
}

fn looked_at(data: &Path) -> Result<Vec<String>, String> {
    if !data.join(DATABASE).exists() {
        return Err("there is none".to_owned());
    }
    let copy = tempfile::tempdir_in(data.parent().unwrap_or(data))
        .map_err(said("making a folder for a copy of the store"))?;
    for name in [DATABASE, &format!("{DATABASE}-wal")] {
        let from = data.join(name);
        if from.exists() {
            std::fs::copy(from, copy.path().join(name)).map_err(said("copying the store"))?;
        }
    }
    std::os::unix::fs::symlink(data.join(BLOBS), copy.path().join(BLOBS))
        .map_err(said("linking to the blobs"))?;
    store::check(copy.path()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_store_that_a_kill_left_broken_is_seen_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        assert_eq!(broken(&data, Promised::Nothing), [""; 0]);
        let none = "the store after a kill: it cannot be read: there is none";
        assert_eq!(broken(&data, Promised::Something), [none]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        drop(runtime.block_on(async { store::Store::open(&data) }).unwrap());
        assert_eq!(broken(&data, Promised::Something), [""; 0]);
        Connection::open(data.join(DATABASE))
            .unwrap()
            .execute("INSERT INTO events (run, seq, bytes) VALUES (7, 1, x'7b7d')", [])
            .unwrap();
        let before = names(&data);
        let said = broken(&data, Promised::Something).join("; ");
        assert!(said.contains("every event belongs to a run"), "{said}");
        assert_eq!((names(&data), names(dir.path())), (before, vec!["data".to_owned()]));
    }
}
