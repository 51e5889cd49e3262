//! Identity of the user: the own key and the trusted keys, as files in the configuration directory, in the manner of `ssh`.
//!
//! | file | has | module |
//! |---|---|---|
//! | `key` | this user's private key, made on first use | [`key_file`] |
//! | `reset_key` | proves to peers that a restarted listener has lost their sessions, made on first use | [`key_file`]
//! |
//! | `known_hosts` | the keys of the hosts this user has connected to | [`known_hosts`] |
//! | `authorized_keys` | the keys admitted to this user's `receive` and `perf server` | [`authorized_keys`], [`authorized_list`] |
//!
//! A pre-shared key ([`load_psk`]) may be in any file. Every file is read up to a size limit (`limits.rs`). A secret is read only if no other
//! user can read it, and any file only if no user except root can write it or replace it in its directory (`guard.rs`). A malformed line is
//! an error with its number, never skipped: a lost line of `known_hosts` would look like a new host.
//!
//! Owners and modes are checked on Unix only; other systems rely on the access rights of the user's profile directory.

pub mod authorized_keys;
pub mod authorized_list;
pub mod config_dir;
mod error;
mod guard;
mod host_name;
pub mod key_file;
pub mod known_hosts;
pub mod paired_transfers;
mod read;
mod replace;
mod secret_file;
#[cfg(test)]
mod tests;

pub use authorized_keys::AuthorizedKeys;
pub use authorized_list::AuthorizedList;
pub use config_dir::ConfigDir;
pub use error::{ChangedKey, IdentityError};
pub use host_name::HostName;
pub use key_file::{OwnKey, load_or_create, load_or_create_reset_key, load_psk};
pub use known_hosts::{Added, KnownHosts, Lookup};
pub use paired_transfers::{PairedTransfer, PairedTransfers};
pub use replace::lock_path;
