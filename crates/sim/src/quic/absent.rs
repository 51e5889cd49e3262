//! Placeholder for QUIC in builds without the feature `quic`. No QUIC flow can be created, so its ends have no values.

use dfcp_time::Time;

use super::{QuicConfig, QuicError};

/// End of a QUIC flow, which cannot exist in this build.
#[derive(Debug)]
pub enum QuicEnd {}

impl QuicEnd {
    pub(crate) fn pair(config: QuicConfig, _bytes: Option<u64>, _seed: u64) -> Result<[Self; 2], QuicError> {
        config.validate()?;
        Err(QuicError::NotBuilt)
    }

    pub(crate) fn handle_datagram(&mut self, _now: Time, _from: u16, _bytes: &[u8]) {
        match *self {}
    }

    pub(crate) fn handle_timeout(&mut self, _now: Time) {
        match *self {}
    }

    pub(crate) fn sends_to(&self) -> u16 {
        match *self {}
    }

    pub(crate) fn poll_transmit(&mut self, _now: Time, _out: &mut Vec<u8>) -> Option<u32> {
        match *self {}
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        match *self {}
    }

    pub(crate) fn delivered_bytes(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        match *self {}
    }

    pub(crate) fn failure(&self) -> Option<String> {
        match *self {}
    }
}
