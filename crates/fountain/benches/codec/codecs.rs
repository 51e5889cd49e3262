//! Codecs with the two measured operations.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use dfcp_fountain::{
    kernel::Kernel,
    random_linear::{BlockShape, Decoder, Encoder},
};
use raptorq::{EncodingPacket, ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::{K, SYMBOL_SIZE};

/// Number of blocks timed together, so that the cost of reading the clock is negligible.
pub(crate) const BATCH: u32 = 4;

/// Closure that processes [`BATCH`] blocks and returns the time.
pub(crate) type Work<'a> = Box<dyn FnMut() -> Duration + 'a>;

pub(crate) trait Codec {
    fn name(&self) -> &str;
    /// Encodes `block` into its source symbols and `repairs` repair symbols, including the set-up.
    fn encode<'a>(&self, block: &'a [u8], repairs: usize) -> Work<'a>;
    /// Decodes `block` from its source symbols without the `lost` ones, and as many repair symbols as are lost.
    /// Includes the set-up and the output of the block's bytes in one piece. `None` if the codec does not support this
    /// case.
    fn decode<'a>(&self, block: &'a [u8], lost: &[usize]) -> Option<Work<'a>>;
}

fn timed_batch<'a>(mut once: impl FnMut() + 'a) -> Work<'a> {
    Box::new(move || {
        let start = Instant::now();
        (0..BATCH).for_each(|_| once());
        start.elapsed()
    })
}

fn received(lost: &[usize]) -> impl Iterator<Item = usize> {
    (0..K).filter(|i| !lost.contains(i))
}

pub(crate) struct Memcpy;

impl Codec for Memcpy {
    fn name(&self) -> &'static str {
        "memcpy"
    }

    fn encode<'a>(&self, block: &'a [u8], _repairs: usize) -> Work<'a> {
        let mut out = vec![0; block.len()];
        timed_batch(move || black_box(&mut out).copy_from_slice(black_box(block)))
    }

    fn decode<'a>(&self, block: &'a [u8], _lost: &[usize]) -> Option<Work<'a>> {
        Some(self.encode(block, 0))
    }
}

pub(crate) struct Ours {
    kernel: Kernel,
    name: String,
}

impl Ours {
    pub(crate) fn new(kernel: Kernel) -> Self {
        Self { kernel, name: format!("ours, {}", kernel.name()) }
    }
}

fn shape() -> BlockShape {
    BlockShape::new(K, K * SYMBOL_SIZE).expect("K and the symbol size are in range")
}

fn encode_ours(kernel: Kernel, block: &[u8], out: &mut [u8]) {
    let encoder = Encoder::new(kernel, shape(), block).expect("the block has the shape's length");
    let (sources, repairs) = out.split_at_mut(K * SYMBOL_SIZE);
    for (esi, symbol) in (0..).zip(sources.chunks_exact_mut(SYMBOL_SIZE)) {
        encoder.write_symbol(esi, symbol).expect("the room is one symbol");
    }
    encoder.write_repairs(K as u32, repairs).expect("the room is whole symbols");
}

fn decode_ours(kernel: Kernel, symbols: &[(u32, Vec<u8>)]) -> Option<Vec<u8>> {
    let mut decoder = Decoder::new(kernel, shape());
    for (esi, symbol) in symbols {
        decoder.push(*esi, symbol).expect("the symbol has the symbol size");
    }
    decoder.into_block()
}

impl Codec for Ours {
    fn name(&self) -> &str {
        &self.name
    }

    fn encode<'a>(&self, block: &'a [u8], repairs: usize) -> Work<'a> {
        let (kernel, mut out) = (self.kernel, vec![0; (K + repairs) * SYMBOL_SIZE]);
        timed_batch(move || encode_ours(kernel, black_box(block), black_box(&mut out)))
    }

    fn decode<'a>(&self, block: &'a [u8], lost: &[usize]) -> Option<Work<'a>> {
        let kernel = self.kernel;
        let mut encoded = vec![0; 3 * block.len()];
        encode_ours(kernel, block, &mut encoded);
        let symbol = |esi: usize| (esi as u32, encoded[esi * SYMBOL_SIZE..][..SYMBOL_SIZE].to_vec());
        let mut symbols: Vec<_> = received(lost).chain(K..K + lost.len()).map(symbol).collect();
        while decode_ours(kernel, &symbols).is_none() {
            symbols.push(symbol(K + symbols.len()));
        }
        assert!(decode_ours(kernel, &symbols).as_deref() == Some(block));
        Some(timed_batch(move || drop(black_box(decode_ours(kernel, black_box(&symbols))))))
    }
}

pub(crate) struct RaptorQ;

fn raptorq_config() -> ObjectTransmissionInformation {
    ObjectTransmissionInformation::new((K * SYMBOL_SIZE) as u64, SYMBOL_SIZE as u16, 1, 1, 4)
}

/// Encodes with raptorq, which reuses the encoding plan for a number of symbols from one block to the next.
fn encode_raptorq(block: &[u8], repairs: usize) -> Vec<EncodingPacket> {
    let encoder = SourceBlockEncoder::new(0, &raptorq_config(), block);
    let mut packets = encoder.source_packets();
    packets.append(&mut encoder.repair_packets(0, repairs as u32));
    packets
}

fn decode_raptorq(packets: Vec<EncodingPacket>) -> Option<Vec<u8>> {
    SourceBlockDecoder::new(0, &raptorq_config(), (K * SYMBOL_SIZE) as u64).decode(packets)
}

impl Codec for RaptorQ {
    fn name(&self) -> &'static str {
        "raptorq 2"
    }

    fn encode<'a>(&self, block: &'a [u8], repairs: usize) -> Work<'a> {
        timed_batch(move || drop(black_box(encode_raptorq(black_box(block), repairs))))
    }

    fn decode<'a>(&self, block: &'a [u8], lost: &[usize]) -> Option<Work<'a>> {
        let mut all = encode_raptorq(block, 2 * K);
        let mut spare = all.split_off(K);
        let mut packets: Vec<_> = received(lost).map(|i| all[i].clone()).collect();
        packets.extend(spare.drain(..lost.len()));
        while decode_raptorq(packets.clone()).is_none() {
            packets.push(spare.remove(0));
        }
        assert!(decode_raptorq(packets.clone()).as_deref() == Some(block));
        Some(Box::new(move || {
            // The decoder consumes its packets. The copy for the next round is not timed.
            let decode_once = |_| {
                let packets = packets.clone();
                let start = Instant::now();
                let block = black_box(decode_raptorq(black_box(packets)));
                let elapsed = start.elapsed();
                drop(block);
                elapsed
            };
            (0..BATCH).map(decode_once).sum()
        }))
    }
}

pub(crate) struct ReedSolomonSimd;

/// Encodes with reed-solomon-simd, whose encoder is made once and reset for every block, as that crate advises.
fn encode_reed_solomon(encoder: &mut ReedSolomonEncoder, block: &[u8], repairs: usize, out: &mut [u8]) {
    encoder.reset(K, repairs, SYMBOL_SIZE).expect("the shape is supported");
    for symbol in block.chunks_exact(SYMBOL_SIZE) {
        encoder.add_original_shard(symbol).expect("the symbol has the shard size");
    }
    out[..block.len()].copy_from_slice(block);
    let result = encoder.encode().expect("all symbols are there");
    for (out, repair) in out[block.len()..].chunks_exact_mut(SYMBOL_SIZE).zip(result.recovery_iter()) {
        out.copy_from_slice(repair);
    }
}

impl Codec for ReedSolomonSimd {
    fn name(&self) -> &'static str {
        "reed-solomon-simd 3"
    }

    fn encode<'a>(&self, block: &'a [u8], repairs: usize) -> Work<'a> {
        let mut encoder = ReedSolomonEncoder::new(K, repairs, SYMBOL_SIZE).expect("the shape is supported");
        let mut out = vec![0; (K + repairs) * SYMBOL_SIZE];
        timed_batch(move || encode_reed_solomon(&mut encoder, black_box(block), repairs, black_box(&mut out)))
    }

    fn decode<'a>(&self, block: &'a [u8], lost: &[usize]) -> Option<Work<'a>> {
        if lost.is_empty() {
            return None;
        }
        let repairs = lost.len();
        let mut encoder = ReedSolomonEncoder::new(K, repairs, SYMBOL_SIZE).expect("the shape is supported");
        let mut encoded = vec![0; (K + repairs) * SYMBOL_SIZE];
        encode_reed_solomon(&mut encoder, block, repairs, &mut encoded);
        let sources: Vec<_> = received(lost).collect();
        let mut decoder = ReedSolomonDecoder::new(K, repairs, SYMBOL_SIZE).expect("the shape is supported");
        let mut decode = move || {
            decoder.reset(K, repairs, SYMBOL_SIZE).expect("the shape is supported");
            let mut out = vec![0; K * SYMBOL_SIZE];
            let mut encoded = black_box(&encoded).chunks_exact(SYMBOL_SIZE);
            let symbols: Vec<_> = encoded.by_ref().take(K).collect();
            for i in &sources {
                decoder.add_original_shard(*i, symbols[*i]).expect("the symbol has the shard size");
                out[i * SYMBOL_SIZE..][..SYMBOL_SIZE].copy_from_slice(symbols[*i]);
            }
            for (i, symbol) in encoded.enumerate() {
                decoder.add_recovery_shard(i, symbol).expect("the symbol has the shard size");
            }
            for (i, symbol) in decoder.decode().expect("enough symbols are there").restored_original_iter() {
                out[i * SYMBOL_SIZE..][..SYMBOL_SIZE].copy_from_slice(symbol);
            }
            out
        };
        assert!(decode() == block);
        Some(timed_batch(move || drop(black_box(decode()))))
    }
}
