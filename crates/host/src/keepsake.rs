//! What must be kept out of a run's events, for a host that finds the run without its keeper: the
//! keeper ended with its agent while nobody was there, or was killed, and its memory is gone, but
//! what the agent said is in the spool. The values lie beside it, encrypted with a key that is
//! derived from the data directory's token and used for this one file, and are removed with the spool.
//! Nothing here decides what is a secret. See `docs/decisions/0009-secrets-outlive-their-keeper.md`.

use crate::aead::Purpose;
use crate::data::write_private_unsynced;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

const NAME: &str = "keepsake";
/// More than all values of a run together may have.
const BYTES_MAX: u64 = 64 << 20;
/// The beginning of a file whose values are encrypted with AES-256-GCM. A nonce, the ciphertext and its
/// tag follow. A file of an earlier version begins with a hash instead (`earlier`).
const MAGIC: &[u8] = b"ostler secrets 2";
const PURPOSE: Purpose = Purpose { context: "ostler 2026-11 keepsake key", magic: MAGIC };

fn path(spool: &Path) -> PathBuf {
    spool.join(NAME)
}

/// Leaves the values in the spool's folder. The secret is used for nothing else.
pub fn leave(spool: &Path, secret: &str, values: &[(String, String)]) -> io::Result<()> {
    let file = PURPOSE.encrypt(secret, serde_json::to_vec(values)?)?;
    // As little synced as the spool: both serve only for as long as the machine runs.
    write_private_unsynced(&path(spool), &file)
}

/// The values that were left; `None` when there are none, or the file was tampered with.
pub fn find(spool: &Path, secret: &str) -> Option<Vec<(String, String)>> {
    let mut file = Vec::new();
    File::open(path(spool)).ok()?.take(BYTES_MAX).read_to_end(&mut file).ok()?;
    let bytes = match file.starts_with(MAGIC) {
        true => PURPOSE.decrypt(secret, &file)?,
        false => earlier::decrypted(secret, &file)?,
    };
    serde_json::from_slice(&bytes).ok()
}

/// Files of version 0.1 and before: a keyed hash of the ciphertext, and the ciphertext, which is the
/// values under the output of a keyed hash as a stream. Only read.
mod earlier {
    const PROOF_BYTES: usize = blake3::OUT_LEN;

    pub fn decrypted(secret: &str, file: &[u8]) -> Option<Vec<u8>> {
        let (shown, bytes) = file.split_at_checked(PROOF_BYTES)?;
        let shown: [u8; PROOF_BYTES] = shown.try_into().ok()?;
        // Comparing two blake3 hashes takes the same time whatever they are.
        if proof(secret, bytes) != shown {
            return None;
        }
        let mut bytes = bytes.to_vec();
        cover(secret, &mut bytes);
        Some(bytes)
    }

    pub fn cover(secret: &str, bytes: &mut [u8]) {
        let key = blake3::derive_key("ostler 2026-11 keepsake cover", secret.as_bytes());
        let mut stream = vec![0; bytes.len()];
        blake3::Hasher::new_keyed(&key).finalize_xof().fill(&mut stream);
        bytes.iter_mut().zip(stream).for_each(|(byte, cover)| *byte ^= cover);
    }

    pub fn proof(secret: &str, bytes: &[u8]) -> blake3::Hash {
        let key = blake3::derive_key("ostler 2026-11 keepsake proof", secret.as_bytes());
        blake3::keyed_hash(&key, bytes)
    }
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

    #[test]
    fn files_of_earlier_versions_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let values = vec![("TOKEN".to_owned(), "a-very-secret-value".to_owned())];
        let mut bytes = serde_json::to_vec(&values).unwrap();
        earlier::cover("mine", &mut bytes);
        let file = [earlier::proof("mine", &bytes).as_bytes().as_slice(), &bytes].concat();
        std::fs::write(path(dir.path()), file).unwrap();
        assert_eq!(find(dir.path(), "mine"), Some(values));
        assert_eq!(find(dir.path(), "theirs"), None);
    }

    #[test]
    fn the_same_values_are_never_encrypted_alike() {
        let values = vec![("TOKEN".to_owned(), "a-very-secret-value".to_owned())];
        let files = [(); 2].map(|()| {
            let dir = tempfile::tempdir().unwrap();
            leave(dir.path(), "mine", &values).unwrap();
            std::fs::read(path(dir.path())).unwrap()
        });
        assert_ne!(files[0], files[1]);
    }
}
