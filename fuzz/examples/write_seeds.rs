//! Writes the seed files `seeds/`: `cargo run -p dfcp-fuzz --example write_seeds`.

use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for seed in dfcp_fuzz::seeds::all() {
        let folder = root.join(seed.target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(seed.name), seed.bytes)?;
    }
    Ok(())
}
