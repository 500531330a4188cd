//! What must be kept out of a run's events, for a host that finds the run without its keeper: the
//! keeper ended with its agent while nobody was there, or was killed, and its memory is gone, but
//! what the agent said is in the spool. The values lie beside it, enciphered with a key that is
//! derived from the data directory's token and used for this one file, and go with the spool.
//! Nothing here decides what is a secret. See `docs/decisions/0009-secrets-outlive-their-keeper.md`.

use crate::data::write_private_unsynced;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

const NAME: &str = "keepsake";
/// More than all values of a run together may have.
const BYTES_MAX: u64 = 64 << 20;
const PROOF_BYTES: usize = blake3::OUT_LEN;

fn path(spool: &Path) -> PathBuf {
    spool.join(NAME)
}

/// Leaves the values in the spool's folder. The secret is used for nothing else.
pub fn leave(spool: &Path, secret: &str, values: &[(String, String)]) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(values)?;
    cover(secret, &mut bytes);
    let mut file = proof(secret, &bytes).as_bytes().to_vec();
    file.append(&mut bytes);
    // As little synced as the spool: both serve only for as long as the machine runs.
    write_private_unsynced(&path(spool), &file)
}

/// The values that were left; `None` when there are none, or they were tampered with.
pub fn find(spool: &Path, secret: &str) -> Option<Vec<(String, String)>> {
    let mut file = Vec::new();
    File::open(path(spool)).ok()?.take(BYTES_MAX).read_to_end(&mut file).ok()?;
    let (shown, bytes) = file.split_at_checked(PROOF_BYTES)?;
    let shown: [u8; PROOF_BYTES] = shown.try_into().ok()?;
    // Comparing two blake3 hashes takes the same time whatever they are.
    if proof(secret, bytes) != shown {
        return None;
    }
    let mut bytes = bytes.to_vec();
    cover(secret, &mut bytes);
    serde_json::from_slice(&bytes).ok()
}

/// Enciphers, or deciphers again: the key's own stream of bytes over these. The key is used once.
fn cover(secret: &str, bytes: &mut [u8]) {
    let key = blake3::derive_key("ostler 2026-11 keepsake cover", secret.as_bytes());
    let mut stream = vec![0; bytes.len()];
    blake3::Hasher::new_keyed(&key).finalize_xof().fill(&mut stream);
    bytes.iter_mut().zip(stream).for_each(|(byte, cover)| *byte ^= cover);
}

fn proof(secret: &str, bytes: &[u8]) -> blake3::Hash {
    let key = blake3::derive_key("ostler 2026-11 keepsake proof", secret.as_bytes());
    blake3::keyed_hash(&key, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_to_who_has_the_secret_and_to_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let values = vec![("TOKEN".to_owned(), "a-very-secret-value".to_owned())];
        leave(dir.path(), "mine", &values).unwrap();
        assert_eq!(find(dir.path(), "mine"), Some(values));
        assert_eq!(find(dir.path(), "theirs"), None);
        let kept = std::fs::read(path(dir.path())).unwrap();
        assert!(memchr::memmem::find(&kept, b"secret-value").is_none());
    }

    #[test]
    fn what_was_changed_or_cut_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        leave(dir.path(), "mine", &[("A".to_owned(), "b".repeat(40))]).unwrap();
        let whole = std::fs::read(path(dir.path())).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(path(dir.path()), &changed).unwrap();
            assert_eq!(find(dir.path(), "mine"), None, "byte {at}");
            std::fs::write(path(dir.path()), &whole[..at]).unwrap();
            assert_eq!(find(dir.path(), "mine"), None, "cut at {at}");
        }
        assert_eq!(find(&dir.path().join("gone"), "mine"), None);
    }
}
