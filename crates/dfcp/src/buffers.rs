//! Buffers for runs of datagrams. An endpoint takes a buffer only while it has bytes to hold, so that idle endpoints
//! hold none.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use crate::limits;

/// Unused buffers, as a stack: the last one returned is taken first, as it may still be in the processor's cache.
static KEPT: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

/// A buffer of [`limits::BUFFER_BYTES`] bytes, of arbitrary content.
#[derive(Debug)]
pub(crate) struct Buffer(Box<[u8]>);

impl Buffer {
    pub(crate) fn take() -> Self {
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self(kept.unwrap_or_else(|| vec![0; limits::BUFFER_BYTES].into_boxed_slice()))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < limits::BUFFERS_KEPT_MAX {
            kept.push(bytes);
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_buffers_are_kept_than_the_limit() {
        let buffers: Vec<_> = (0..2 * limits::BUFFERS_KEPT_MAX).map(|_| Buffer::take()).collect();
        assert!(buffers.iter().all(|buffer| buffer.len() == limits::BUFFER_BYTES));
        drop(buffers);
        let kept = KEPT.lock().unwrap().len();
        assert!((1..=limits::BUFFERS_KEPT_MAX).contains(&kept), "{kept} kept");
    }
}
