//! A connection of an endpoint: state shared by its handles and the endpoint's driver.

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
