//! One connection of an endpoint: what its handles and the endpoint's thread share.

mod serve;
mod shared;
mod story;

pub(crate) use serve::{Next, Waiters};
pub(crate) use shared::{Path, Shared, StreamHandle};
