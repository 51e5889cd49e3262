//! Generation of static keys.

use std::io;

use dfcp_proto::StaticKey;

/// Generates a static key from the system's random number generator.
///
/// # Errors
/// The system's random number generator failed.
///
/// ```
/// let key = dfcp::generate_key()?;
/// println!("public key for clients: {}", key.public());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn generate_key() -> io::Result<StaticKey> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(StaticKey::from_seed(&seed))
}
