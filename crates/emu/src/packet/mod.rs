//! IP packets and superpackets, sans I/O.

mod checksum;
mod ecn;
mod flow;
mod frame;
mod layout;
mod segment;
#[cfg(test)]
pub(crate) mod testing;
mod vnet;

pub(crate) use flow::Flows;
pub(crate) use frame::{Binding, Frame};
pub(crate) use layout::TCP;
pub(crate) use segment::{Run, Segment};
pub(crate) use vnet::VNET_BYTES;
