//! A stream of a modern session: an ordered sequence of bytes, cut into blocks (`spec/protocol.md` \[stream-7\]).

pub(crate) mod recv;
pub(crate) mod send;
pub(crate) mod table;
pub(crate) mod window;
