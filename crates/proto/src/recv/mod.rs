//! The receiving half of a modern connection: from symbols to the application's bytes.

pub(crate) mod collector;
pub(crate) mod modern;
pub(crate) mod reporter;
