//! Panic-free reading and writing of byte slices.

use crate::EncodeError;

/// Reader that takes fields from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes left.
    pub(crate) const fn left(&self) -> usize {
        self.0.len()
    }

    /// Returns the rest, without consuming it.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Takes the next `N` bytes; `None` if fewer are left.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// Takes the next `len` bytes; `None` if fewer are left.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }
}

/// Writer that appends fields to a slice.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    pub(crate) const fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    /// Returns the number of bytes written.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of bytes that can still be written.
    pub(crate) const fn left(&self) -> usize {
        self.out.len() - self.len
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let have = self.out.len();
        let need = self.len.saturating_add(bytes.len());
        let Some(place) = self.out.get_mut(self.len..need) else {
            return Err(EncodeError::BufferTooSmall { have, need });
        };
        place.copy_from_slice(bytes);
        self.len = need;
        Ok(())
    }

    /// Returns the byte written last.
    pub(crate) fn last_mut(&mut self) -> Option<&mut u8> {
        self.out.get_mut(self.len.checked_sub(1)?)
    }
}
