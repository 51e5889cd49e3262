//! One connection of an endpoint: what its handle, its driver task and the endpoint share.

mod batch;
pub(crate) mod driver;
mod inbox;
mod shared;

pub(crate) use inbox::{InboxBudget, Received, Run};
pub(crate) use shared::{Path, Shared, StreamHandle};
