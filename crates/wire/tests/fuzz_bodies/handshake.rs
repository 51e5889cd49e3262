//! Fuzz body: arbitrary bytes as the payload of a modern SYN or SYNACK.

use dfcp_wire::handshake::{PARAMETERS_BYTES, Parameters};

/// Decodes `data`, and checks that the parameters survive a round trip. Panics if the decoder does.
pub(crate) fn run(data: &[u8]) {
    if let Ok(parameters) = Parameters::decode(data) {
        let mut out = [0; PARAMETERS_BYTES];
        let length = parameters.encode(&mut out).expect("decoded values encode");
        assert!(length <= data.len(), "the canonical form is the shortest");
        assert_eq!(Parameters::decode(&out[..length]), Ok(parameters));
    }
}
