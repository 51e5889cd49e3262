//! Sizes of classic blocks with redundancy.

/// Encoded bytes in a full data segment of either profile.
pub(super) const SYMBOL_BYTES: f64 = 1420.0;

/// Application bytes in a classic block.
const BLOCK_BYTES: f64 = 63_536.0;

/// Number of segments that decode a classic block: about 5 % more than the block, as in the source documents.
const DECODING_SEGMENTS: usize = 47;

/// Returns the encoded bytes sent for a block at redundancy `epsilon`, rounded up to whole segments.
pub(super) fn encoded_bytes(epsilon: f64) -> f64 {
    // The tolerance cancels rounding errors in an epsilon that was computed from a number of segments.
    ((1.0 + epsilon) * BLOCK_BYTES / SYMBOL_BYTES - 1e-6).ceil() * SYMBOL_BYTES
}

/// Returns the least redundancy at which 95 % of blocks decode without a retransmission, at loss probability `loss`.
pub(super) fn optimal_epsilon(loss: f64) -> f64 {
    optimal_segments(loss) * SYMBOL_BYTES / BLOCK_BYTES - 1.0
}

/// Returns the least number of segments to send so that [`DECODING_SEGMENTS`] arrive with a probability of 95 %.
fn optimal_segments(loss: f64) -> f64 {
    let loss = loss.clamp(0.0, 0.9);
    for sent in DECODING_SEGMENTS.. {
        // Probability of losing exactly `lost` of `sent` segments, computed from the previous one.
        let mut term = (1.0 - loss).powi(sent as i32);
        let mut enough = 0.0;
        for lost in 0..=sent - DECODING_SEGMENTS {
            enough += term;
            term *= (sent - lost) as f64 / (lost + 1) as f64 * loss / (1.0 - loss);
        }
        if enough >= 0.95 {
            return sent as f64;
        }
    }
    DECODING_SEGMENTS as f64
}
