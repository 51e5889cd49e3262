//! Sealing (encryption) of datagrams: the sender's side of one direction.

use std::fmt;

use ring::aead;
use thiserror::Error;

use super::{Chain, Cipher, EpochKey, SEALED_BYTES_MAX, Secret, TAG_BYTES, epoch_of};
use crate::role::Direction;

/// Reason why a datagram could not be sealed. All but a failure of the cipher are errors of the caller. The datagram
/// must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    /// This number or a higher one was used before.
    #[error("datagram number {number} was used before; the next one must be at least {least}")]
    NumberUsed {
        /// Number passed by the caller.
        number: u64,
        /// Lowest permitted number.
        least: u64,
    },
    /// The number skips a whole epoch, so the peer could not derive its key.
    #[error("datagram number {0} skips a key epoch")]
    EpochSkipped(u64),
    /// Header, plaintext and tag exceed [`SEALED_BYTES_MAX`].
    #[error("a datagram of {0} bytes is too long to be sealed; at most {SEALED_BYTES_MAX} are")]
    TooLong(usize),
    /// The cipher's library failed.
    #[error("the cipher failed; the datagram must not be sent")]
    Cipher,
    /// All 2⁶⁴ numbers were used.
    #[error("all datagram numbers are used; the connection must end")]
    Exhausted,
}

/// Keys that seal the datagrams of one direction.
pub struct SealKeys {
    chain: Chain,
    epoch: u64,
    key: EpochKey,
    /// Lowest permitted number; `None` after the last number.
    least: Option<u64>,
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain, epoch, least, .. } = self;
        let mut shown = f.debug_struct("SealKeys");
        shown.field("cipher", &chain.cipher).field("epoch", epoch).field("least", least).finish_non_exhaustive()
    }
}

impl SealKeys {
    pub(crate) fn new(cipher: Cipher, direction: Direction, traffic: &Secret) -> Self {
        let mut chain = Chain::new(cipher, direction, traffic);
        let key = chain.next_key();
        Self { chain, epoch: 0, key, least: Some(0) }
    }

    /// Returns the cipher of the keys.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        self.chain.cipher
    }

    /// Encrypts `buffer` in place, and writes the tag that authenticates `buffer` and `header`. Allocates memory only
    /// at the first datagram of an epoch, whose key replaces and wipes the previous one.
    ///
    /// `number` must be above the numbers of all earlier calls. Gaps are permitted unless they skip a whole epoch.
    ///
    /// # Errors
    /// Fails with a [`SealError`], and the datagram must not be sent. The number counts as used after
    /// [`SealError::Cipher`], but not after other errors.
    pub fn seal(
        &mut self,
        number: u64,
        header: &[u8],
        buffer: &mut [u8],
        tag_out: &mut [u8; TAG_BYTES],
    ) -> Result<(), SealError> {
        let least = self.least.ok_or(SealError::Exhausted)?;
        if number < least {
            return Err(SealError::NumberUsed { number, least });
        }
        let bytes = header.len().saturating_add(buffer.len()).saturating_add(TAG_BYTES);
        if bytes > SEALED_BYTES_MAX {
            return Err(SealError::TooLong(bytes));
        }
        match epoch_of(number) - self.epoch {
            0 => {}
            1 => {
                self.key = self.chain.next_key();
                self.epoch += 1;
            }
            _ => return Err(SealError::EpochSkipped(number)),
        }
        self.least = number.checked_add(1);
        let tag = self.key.key.seal_in_place_separate_tag(self.key.nonce(number), aead::Aad::from(header), buffer);
        tag_out.copy_from_slice(tag.map_err(|_| SealError::Cipher)?.as_ref());
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Returns the output of this key for a fixed block, by which tests distinguish keys.
    #[cfg(test)]
    pub(super) fn key_bytes(&self) -> Vec<u8> {
        let mut block = vec![0; 32];
        let nonce = aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN]);
        self.key.key.seal_in_place_append_tag(nonce, aead::Aad::empty(), &mut block).unwrap();
        block
    }

    #[cfg(test)]
    pub(crate) fn nonce_bytes(&self, number: u64) -> [u8; aead::NONCE_LEN] {
        self.key.nonce_bytes(number)
    }
}
