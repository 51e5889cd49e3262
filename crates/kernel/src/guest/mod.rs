//! The guest's side: what init does within the kernel, and the network which it builds there.

pub mod init;
pub mod network;
