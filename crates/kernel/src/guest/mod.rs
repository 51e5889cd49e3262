//! Within the kernel: what the process does which it starts as init.

pub mod init;
pub mod network;
