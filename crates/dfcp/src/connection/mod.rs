//! One connection of an endpoint: what its handles and the endpoint's thread share.

mod handle;
mod messages;
mod send_ends;
mod serve;
mod session;
mod shared;
mod story;
mod streams;

pub(crate) use handle::StreamHandle;
pub(crate) use send_ends::SendEndWatch;
pub(crate) use serve::{Next, Waiters};
pub(crate) use shared::{Local, Path, Shared};
pub(crate) use streams::Half;
