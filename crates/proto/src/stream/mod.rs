//! A stream of a modern session: an ordered sequence of bytes, cut into blocks.

pub(crate) mod recv;
pub(crate) mod send;
pub(crate) mod table;
pub(crate) mod window;
