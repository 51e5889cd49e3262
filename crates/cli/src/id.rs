//! `dfcp id`: prints the user's public key.

use dfcp_framing::printable;
use serde_json::json;

use crate::args::IdArgs;
use crate::identity::{ConfigDir, load_or_create};
use crate::output;

/// Prints this user's public key, its fingerprint and the path of the private key, which is created on first use.
///
/// # Errors
/// Fails if the key cannot be read or created.
pub fn run(args: &IdArgs) -> anyhow::Result<()> {
    let own = load_or_create(&ConfigDir::of_user()?)?;
    let public = own.key.public();
    let (fingerprint, path) = (public.fingerprint(), own.path.to_string_lossy());
    if args.json {
        output::json(&json!({
            "public_key": public.to_string(),
            "fingerprint": fingerprint.to_string(),
            "key_file": path,
            "created": own.created,
        }));
        return Ok(());
    }
    if own.created {
        output::note("a new key was made");
    }
    output::line(&format!("public key   {public}"));
    output::line(&format!("fingerprint  {fingerprint}"));
    output::line(&format!("key file     {}", printable(&path)));
    Ok(())
}
