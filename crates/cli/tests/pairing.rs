//! Tests of pairing codes against their specification.

use dfcp_cli::pairing::Code;

/// The low byte of a code's bits selects its second word.
#[test]
fn the_list_of_words_is_that_of_the_specification() {
    let mut lines = String::new();
    for bits in 0..256 {
        lines.push_str(Code::from_bits(bits).to_string().strip_prefix("0-acorn-").unwrap());
        lines.push('\n');
    }
    let hash = ring::digest::digest(&ring::digest::SHA256, lines.as_bytes());
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "bbdc021bd36e53ba791915a9faebaa8e66dfa67867462d0a9e88693b9aa3ac59");
    let page = include_str!("../../../spec/pairing.md");
    assert!(page.contains(&hex), "[code-1] names the list by its hash");
}
