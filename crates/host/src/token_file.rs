//! The token of a remote that stands in a file (`auth.tokenFile`): read when a session begins and kept no
//! longer than that start, so that a new token counts for the next session without a restart. What the
//! run's seal keeps of it ends with the run. A file that others may read or write is refused.

use crate::blocking::{self, Bulkhead};
use contract::limits::TOKEN_FILE_BYTES_MAX;
use contract::plan::{Adapter, FILE_TOKEN_ENV};
use contract::{Code, Fault};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The bits by which a group or others may read, write or run a file.
const OTHERS: u32 = 0o077;

/// Puts the token of the adapter's file into the environment of a session; nothing where it has none.
pub(crate) async fn fill(
    adapter: &Adapter,
    environment: &mut BTreeMap<String, String>,
) -> Result<(), Fault> {
    let file = adapter.remote.as_ref().and_then(|remote| remote.auth.token_file());
    let Some(file) = file.map(str::to_owned) else { return Ok(()) };
    let token = read_aside(file).await?;
    environment.insert(FILE_TOKEN_ENV.to_owned(), token);
    Ok(())
}

/// Reads a token without holding up the caller's thread.
pub(crate) async fn read_aside(file: String) -> Result<String, Fault> {
    let read = blocking::spawn(Bulkhead::Data, "read token file", move || read(Path::new(&file)));
    read.await.map_err(|error| {
        Fault::new(Code::InternalError, format!("reading the token of a remote: {error}"))
    })?
}

/// The token in a file. It blocks on the file system.
pub fn read(path: &Path) -> Result<String, Fault> {
    let shown = path.display();
    let refused = |why: String, hint: String| {
        Err(Fault::new(Code::AuthRequired, format!("the token file {shown} {why}")).with_hint(hint))
    };
    let failed = |error: std::io::Error| {
        Fault::new(Code::AuthRequired, format!("the token file {shown} cannot be read: {error}"))
            .with_hint("write the token into the file that `auth.tokenFile` names")
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    // Asked of the open file, so that it is the one that is read.
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return refused("is no regular file".to_owned(), "name a file".to_owned());
    }
    let mode = meta.mode() & 0o777;
    if mode & OTHERS != 0 {
        let why = format!("has the mode {mode:o}, so that others can read or change it");
        return refused(why, format!("run `chmod 600 {shown}`"));
    }
    let mut text = String::new();
    let bound = TOKEN_FILE_BYTES_MAX as u64 + 1;
    file.take(bound).read_to_string(&mut text).map_err(failed)?;
    if text.len() > TOKEN_FILE_BYTES_MAX {
        let why = format!("is longer than {TOKEN_FILE_BYTES_MAX} bytes");
        return refused(why, "write the token alone into it".to_owned());
    }
    let token = text.trim();
    if token.is_empty() || token.chars().any(|c| c.is_control() || c.is_whitespace()) {
        let why = "does not hold one token".to_owned();
        return refused(why, "write the token alone into it, on one line".to_owned());
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_token_file_is_read_only_when_it_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let long = "x".repeat(TOKEN_FILE_BYTES_MAX + 1);
        for (text, mode, expected) in [
            ("secret-1\n", 0o600, Ok("secret-1")),
            ("secret-2", 0o400, Ok("secret-2")),
            ("secret", 0o640, Err("chmod 600")),
            ("secret", 0o604, Err("chmod 600")),
            ("", 0o600, Err("alone")),
            ("two words", 0o600, Err("alone")),
            (&long, 0o600, Err("alone")),
        ] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match (read(&path), expected) {
                (Ok(token), Ok(expected)) => assert_eq!(token, expected),
                (Err(fault), Err(hint)) => {
                    assert_eq!(fault.code, Code::AuthRequired);
                    assert!(fault.hint().contains(hint), "{fault:?}");
                    assert!(!format!("{fault:?}").contains("secret"), "{fault:?}");
                }
                (found, expected) => panic!("{text:?} {mode:o}: {found:?}, not {expected:?}"),
            }
            std::fs::remove_file(&path).unwrap();
        }
        assert!(read(&path).unwrap_err().message.contains("cannot be read"));
    }
}
