//! Opening: the receiver's side of one direction.

use std::fmt;

use ring::aead;
use thiserror::Error;

use super::{Chain, Cipher, EPOCH_SHIFT, EpochKey, Secret, TAG_BYTES, epoch_of};
use crate::role::Direction;

/// Datagrams into an epoch after which the key of the one before is wiped: four times the replay window, which refuses
/// older numbers anyway.
pub const PREVIOUS_EPOCH_DATAGRAMS: u64 = 1 << 16;

/// A datagram could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// It has no room for a tag.
    #[error("a sealed datagram of {0} bytes is too short for its tag")]
    TooShort(usize),
    /// Its number names an epoch whose key is not at hand: long past, or further ahead than the next one.
    #[error("datagram number {0} belongs to a key epoch which is out of reach")]
    EpochOutOfReach(u64),
    /// The tag does not fit: it is forged, damaged, or of another connection.
    #[error("the datagram's authentication tag does not fit")]
    Forged,
    /// Enough forgeries were tried for the next one to have a chance.
    #[error("too many forged datagrams; the connection must end")]
    ForgeryLimit,
}

/// The keys which open one direction.
pub struct OpenKeys {
    chain: Chain,
    /// The newest epoch of which a datagram was opened.
    epoch: u64,
    previous: Option<EpochKey>,
    current: EpochKey,
    /// Made when a datagram names the next epoch, and kept even if that is forged: a forger makes its victim derive a key
    /// once, and not for each datagram.
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

    /// The cipher in use.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        self.chain.cipher
    }

    /// Datagrams whose tag did not fit.
    #[must_use]
    pub fn forged(&self) -> u64 {
        self.forged
    }

    /// Verifies the tag at the end of `buffer` and decrypts what is before it, in place. Returns the plaintext's
    /// length: it is at the start of `buffer`. Allocates nothing but when an epoch is named first.
    ///
    /// Does not know which numbers came before: ask a [`ReplayWindow`](crate::ReplayWindow) first.
    ///
    /// # Errors
    /// [`OpenError`]. But for the count of forgeries nothing is changed; the bytes of `buffer` are lost after
    /// [`OpenError::Forged`], and untouched after the others. [`OpenError::ForgeryLimit`] stays.
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

    /// Moves on to the epoch of an opened datagram, and drops the keys of the one that is over. For opened datagrams only.
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

    /// True once the next epoch's key has been made.
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
