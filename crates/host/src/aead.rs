//! Encryption of secrets at rest: AES-256-GCM with a random nonce and a key that is derived for one
//! purpose. See `docs/decisions/0031-kept-secrets-are-encrypted-by-an-aead.md`.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use std::io;

/// What a ciphertext is for: the context of its key, and the beginning of its file, which is
/// authenticated with it.
pub(crate) struct Purpose {
    pub context: &'static str,
    pub magic: &'static [u8],
}

impl Purpose {
    fn key(&self, secret: &str) -> Result<RandomizedNonceKey, Unspecified> {
        let key = blake3::derive_key(self.context, secret.as_bytes());
        RandomizedNonceKey::new(&AES_256_GCM, &key)
    }

    /// The magic, a nonce, the ciphertext and its tag.
    pub fn encrypt(&self, secret: &str, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let encrypted = self.key(secret).and_then(|key| {
            let nonce = key.seal_in_place_append_tag(Aad::from(self.magic), &mut bytes)?;
            Ok([self.magic, nonce.as_ref(), &bytes].concat())
        });
        encrypted.map_err(|_unspecified| io::Error::other("encrypting secrets failed"))
    }

    /// What was encrypted; none for another purpose or secret, and for bytes that were changed.
    pub fn decrypt(&self, secret: &str, file: &[u8]) -> Option<Vec<u8>> {
        let (nonce, bytes) = file.strip_prefix(self.magic)?.split_at_checked(NONCE_LEN)?;
        // The library tells no reason why something does not decrypt, so that no one learns from it.
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = bytes.to_vec();
        let key = self.key(secret).ok()?; // the same
        Some(key.open_in_place(nonce, Aad::from(self.magic), &mut bytes).ok()?.to_vec()) // the same
    }
}
