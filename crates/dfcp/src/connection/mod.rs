//! One connection of an endpoint: what its handles and the endpoint's thread share.

mod handle;
mod held_streams;
mod messages;
mod send_ends;
mod serve;
mod session;
mod shared;
mod story;
mod wakers;

pub(crate) use handle::StreamHandle;
pub(crate) use held_streams::Half;
pub(crate) use serve::Next;
pub(crate) use shared::{Local, Path, Shared};
