//! Opening of recorded datagrams: datagrams of a packet capture, with keys from a key log (`spec/security.md` §6).

use std::collections::VecDeque;
use std::fmt;

use ring::aead;

use super::{Cipher, EpochKey, OpenError, Secret, TAG_BYTES, epoch_of};
use crate::role::{Direction, Role};
use crate::schedule;

/// Number of epochs whose secrets are kept: 16 epochs cover 2³¹ datagrams on either side of the highest number, and as
/// many again are a reserve.
const EPOCHS_KEPT: usize = 32;

/// Keys that open the recorded datagrams of one direction of a connection.
///
/// A live receiver's [`OpenKeys`](crate::OpenKeys) only move forward from epoch to epoch. A capture may start in any of
/// the first 16 epochs (2³² datagrams), lack datagrams, and be read in any order. So these keys are derived for
/// whichever epoch a datagram's number requires. Forgeries are not counted, because a capture cannot be attacked
/// online.
pub struct RecordedKeys {
    cipher: Cipher,
    direction: Direction,
    /// Secrets of consecutive epochs, from `first_epoch` on.
    secrets: VecDeque<Secret>,
    first_epoch: u64,
    /// Key used last, with its epoch: neighbouring datagrams of a capture share it.
    latest: Option<(u64, EpochKey)>,
    /// Highest number that was opened. Further numbers are expected near it.
    highest: u64,
}

impl fmt::Debug for RecordedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedKeys")
            .field("cipher", &self.cipher)
            .field("highest", &self.highest)
            .finish_non_exhaustive()
    }
}

impl RecordedKeys {
    /// Makes keys for the datagrams sent by `sender`, from the sender's traffic secret.
    #[must_use]
    pub fn new(cipher: Cipher, sender: Role, traffic: &[u8; 32]) -> Self {
        let direction = sender.sends();
        let first = Secret(*schedule::expand(traffic, "epoch 0", &[direction as u8, cipher.id()]));
        Self { cipher, direction, secrets: VecDeque::from([first]), first_epoch: 0, latest: None, highest: 0 }
    }

    /// Reconstructs the 64-bit number of a datagram from the lower half in its header (\[keylog-3\]).
    fn number(&self, low: u32) -> u64 {
        let forward = low.wrapping_sub(self.highest as u32);
        if forward <= u32::MAX / 2 {
            return self.highest.saturating_add(forward.into());
        }
        let back = u64::from(self.highest as u32) + (1 << 32) - u64::from(low);
        // Before the first success, the number may be anywhere below 2³².
        self.highest.checked_sub(back % (1 << 32)).unwrap_or_else(|| low.into())
    }

    /// Verifies the tag at the end of `buffer`, and decrypts the bytes before it in place. Returns the length of the
    /// plaintext at the start of `buffer`. `low` is the lower half of the datagram's number, from its header.
    ///
    /// # Errors
    /// Fails with an [`OpenError`]. The bytes of `buffer` are lost after [`OpenError::Forged`], and unchanged after
    /// other errors.
    pub fn open(&mut self, low: u32, header: &[u8], buffer: &mut [u8]) -> Result<usize, OpenError> {
        let length = buffer.len().checked_sub(TAG_BYTES).ok_or(OpenError::TooShort(buffer.len()))?;
        let number = self.number(low);
        let key = self.key(epoch_of(number)).ok_or(OpenError::EpochOutOfReach(number))?;
        let opened = key.key.open_in_place(key.nonce(number), aead::Aad::from(header), buffer);
        opened.map_err(|_| OpenError::Forged)?;
        self.highest = self.highest.max(number);
        Ok(length)
    }

    fn key(&mut self, epoch: u64) -> Option<&EpochKey> {
        if self.latest.as_ref().is_none_or(|&(latest, _)| latest != epoch) {
            let (cipher, context) = (self.cipher, [self.direction as u8, self.cipher.id()]);
            let key = EpochKey::new(cipher, self.secret(epoch)?, &context);
            self.latest = Some((epoch, key));
        }
        self.latest.as_ref().map(|(_, key)| key)
    }

    /// Returns the secret of an epoch, which is derived if it is a future one; `None` if the epoch is too far in the
    /// past.
    fn secret(&mut self, epoch: u64) -> Option<&Secret> {
        let context = [self.direction as u8, self.cipher.id()];
        let index = epoch.checked_sub(self.first_epoch)?;
        for _ in self.secrets.len() as u64..=index {
            let next = Secret(*schedule::expand(&self.secrets.back()?.0, "next epoch", &context));
            self.secrets.push_back(next);
            if self.secrets.len() > EPOCHS_KEPT {
                self.secrets.pop_front();
                self.first_epoch += 1;
            }
        }
        self.secrets.get(usize::try_from(epoch - self.first_epoch).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{EPOCH_SHIFT, SealKeys};
    use super::*;

    const EPOCH: u64 = 1 << EPOCH_SHIFT;
    const HEADER: [u8; 24] = [0x5A; 24];
    const TRAFFIC: [u8; 32] = [9; 32];

    fn pair(cipher: Cipher, sender: Role) -> (SealKeys, RecordedKeys) {
        let direction = sender.sends();
        (SealKeys::new(cipher, direction, &Secret(TRAFFIC)), RecordedKeys::new(cipher, sender, &TRAFFIC))
    }

    fn sealed(keys: &mut SealKeys, number: u64) -> Vec<u8> {
        let mut buffer = number.to_be_bytes().to_vec();
        let mut tag = [0; TAG_BYTES];
        keys.seal(number, &HEADER, &mut buffer, &mut tag).unwrap();
        [&buffer[..], &tag].concat()
    }

    fn open(keys: &mut RecordedKeys, number: u64, datagram: &[u8]) -> Result<u64, OpenError> {
        let mut buffer = datagram.to_vec();
        let length = keys.open(number as u32, &HEADER, &mut buffer)?;
        assert_eq!(length, 8);
        Ok(u64::from_be_bytes(*buffer.first_chunk().unwrap()))
    }

    #[test]
    fn every_epoch_opens_and_the_number_s_upper_half_is_found() {
        for (cipher, sender) in Cipher::ALL.into_iter().zip([Role::Initiator, Role::Responder, Role::Initiator]) {
            let (mut seals, mut opens) = pair(cipher, sender);
            for epoch in 0..40 {
                let number = epoch * EPOCH + epoch;
                let datagram = sealed(&mut seals, number);
                assert_eq!(open(&mut opens, number, &datagram), Ok(number), "{cipher:?}, epoch {epoch}");
            }
            assert!(opens.secrets.len() <= EPOCHS_KEPT);
        }
    }

    #[test]
    fn a_capture_may_begin_in_any_of_the_first_epochs_and_go_back() {
        for epoch in 0..16 {
            let (mut seals, mut opens) = pair(Cipher::Aes128Gcm, Role::Initiator);
            let datagrams: Vec<_> =
                (0..=epoch).map(|epoch| (epoch * EPOCH, sealed(&mut seals, epoch * EPOCH))).collect();
            for (number, datagram) in datagrams.iter().rev().take(8) {
                assert_eq!(open(&mut opens, *number, datagram), Ok(*number));
            }
        }
    }

    #[test]
    fn forgeries_and_what_is_too_short_change_nothing() {
        let (mut seals, mut opens) = pair(Cipher::ChaCha20Poly1305, Role::Initiator);
        let datagram = sealed(&mut seals, 5);
        for number in [6, EPOCH + 5, 8 * EPOCH, 15 * EPOCH, u64::from(u32::MAX)] {
            assert_eq!(open(&mut opens, number, &datagram), Err(OpenError::Forged));
        }
        for length in 0..TAG_BYTES {
            assert_eq!(open(&mut opens, 5, &datagram[..length]), Err(OpenError::TooShort(length)));
        }
        assert_eq!((open(&mut opens, 5, &datagram), opens.highest), (Ok(5), 5));
        let (_, mut others) = pair(Cipher::ChaCha20Poly1305, Role::Responder);
        assert_eq!(open(&mut others, 5, &datagram), Err(OpenError::Forged), "the direction is part of the key");
    }

    proptest! {
        /// Numbers in the order of sending, with gaps below half the range of the header's field.
        #[test]
        fn numbers_are_found_across_wraps(steps in prop::collection::vec(1..EPOCH, 1..80), cut: u32) {
            let (mut seals, mut opens) = pair(Cipher::Aes256Gcm, Role::Responder);
            let mut number = u64::from(cut) % EPOCH;
            for step in steps {
                let datagram = sealed(&mut seals, number);
                prop_assert_eq!(open(&mut opens, number, &datagram), Ok(number));
                number += step;
            }
        }

        #[test]
        fn random_bytes_are_refused(low: u32, header in prop::collection::vec(any::<u8>(), 0..70), mut buffer in prop::collection::vec(any::<u8>(), 0..1600)) {
            let (_, mut opens) = pair(Cipher::Aes128Gcm, Role::Initiator);
            prop_assert!(opens.open(low, &header, &mut buffer).is_err());
            prop_assert_eq!(opens.highest, 0);
        }
    }
}
