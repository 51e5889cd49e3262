//! Opening (decryption) of datagrams: the receiver's side of one direction.

use std::fmt;

use ring::aead;
use thiserror::Error;

use super::{Chain, Cipher, EPOCH_SHIFT, EpochKey, Secret, TAG_BYTES, epoch_of};
use crate::role::Direction;

/// Number of datagrams into an epoch after which the key of the previous epoch is wiped. It is four times the replay
/// window, which refuses older numbers in any case.
pub const PREVIOUS_EPOCH_DATAGRAMS: u64 = 1 << 16;

/// Reason why a datagram could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The datagram is too short for a tag.
    #[error("a sealed datagram of {0} bytes is too short for its tag")]
    TooShort(usize),
    /// The number belongs to an epoch without a key: before the previous epoch, or after the next one.
    #[error("datagram number {0} belongs to a key epoch which is out of reach")]
    EpochOutOfReach(u64),
    /// The tag is wrong: the datagram is forged, damaged, or belongs to another connection.
    #[error("the datagram's authentication tag does not fit")]
    Forged,
    /// The limit of forgeries is reached: with more attempts, a forgery could succeed.
    #[error("too many forged datagrams; the connection must end")]
    ForgeryLimit,
}

/// Keys that open the datagrams of one direction.
pub struct OpenKeys {
    chain: Chain,
    /// Newest epoch of which a datagram was opened.
    epoch: u64,
    previous: Option<EpochKey>,
    current: EpochKey,
    /// Key of the next epoch, made when a datagram claims that epoch. It is kept even if the datagram is forged, so
    /// that forgeries cause one key derivation, not one per datagram.
    next: Option<EpochKey>,
    forged: u64,
}

impl fmt::Debug for OpenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain, epoch, previous, forged, .. } = self;
        f.debug_struct("OpenKeys")
            .field("cipher", &chain.cipher)
            .field("epoch", epoch)
            .field("previous", &previous.is_some())
            .field("forged", forged)
            .finish_non_exhaustive()
    }
}

impl OpenKeys {
    pub(crate) fn new(cipher: Cipher, direction: Direction, traffic: &Secret) -> Self {
        let mut chain = Chain::new(cipher, direction, traffic);
        let current = chain.next_key();
        Self { chain, epoch: 0, previous: None, current, next: None, forged: 0 }
    }

    /// Returns the cipher of the keys.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        self.chain.cipher
    }

    /// Returns the number of datagrams with a wrong tag so far.
    #[must_use]
    pub fn forged(&self) -> u64 {
        self.forged
    }

    /// Verifies the tag at the end of `buffer`, and decrypts the bytes before it in place. Returns the length of the
    /// plaintext at the start of `buffer`. Allocates memory only for the first datagram of an epoch.
    ///
    /// Replays are not detected here: check the number with a [`ReplayWindow`](crate::ReplayWindow) first.
    ///
    /// # Errors
    /// Fails with an [`OpenError`]. Only the count of forgeries changes. The bytes of `buffer` are lost after
    /// [`OpenError::Forged`], and unchanged after other errors. [`OpenError::ForgeryLimit`] is permanent.
    pub fn open(&mut self, number: u64, header: &[u8], buffer: &mut [u8]) -> Result<usize, OpenError> {
        if self.forged >= self.chain.cipher.forged_max() {
            return Err(OpenError::ForgeryLimit);
        }
        let length = buffer.len().checked_sub(TAG_BYTES).ok_or(OpenError::TooShort(buffer.len()))?;
        let key = self.key(epoch_of(number)).ok_or(OpenError::EpochOutOfReach(number))?;
        if key.key.open_in_place(key.nonce(number), aead::Aad::from(header), buffer).is_err() {
            self.forged += 1;
            return Err(OpenError::Forged);
        }
        self.commit(number);
        Ok(length)
    }

    fn key(&mut self, epoch: u64) -> Option<&EpochKey> {
        if epoch == self.epoch {
            Some(&self.current)
        } else if epoch == self.epoch + 1 {
            Some(self.next.get_or_insert_with(|| self.chain.next_key()))
        } else if epoch + 1 == self.epoch {
            self.previous.as_ref()
        } else {
            None
        }
    }

    /// Advances to the epoch of a datagram, and drops the key of a past epoch. Must be called only for opened
    /// datagrams.
    fn commit(&mut self, number: u64) {
        if epoch_of(number) > self.epoch {
            let next = self.next.take().unwrap_or_else(|| self.chain.next_key());
            self.previous = Some(std::mem::replace(&mut self.current, next));
            self.epoch += 1;
        }
        let into_epoch = number & ((1 << EPOCH_SHIFT) - 1);
        if self.previous.is_some() && epoch_of(number) == self.epoch && into_epoch >= PREVIOUS_EPOCH_DATAGRAMS {
            self.previous = None;
        }
    }

    #[cfg(test)]
    pub(super) fn epoch_and_previous(&self) -> (u64, bool) {
        (self.epoch, self.previous.is_some())
    }

    /// Returns true if the next epoch's key exists.
    #[cfg(test)]
    pub(super) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    #[cfg(test)]
    pub(super) fn secret(&self) -> [u8; 32] {
        self.chain.secret.0
    }

    #[cfg(test)]
    pub(super) fn set_forged(&mut self, forged: u64) {
        self.forged = forged;
    }
}
