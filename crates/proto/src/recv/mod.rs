//! The receiving half of a connection: from symbols to the application's bytes.

pub(crate) mod classic;
pub(crate) mod modern;
pub(crate) mod reporter;
