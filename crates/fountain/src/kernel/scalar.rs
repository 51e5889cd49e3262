//! Kernel for any CPU, and the reference for the others. It has no tables and no branches on data, only shifts and XORs
//! of words.
//!
//! With c = Σ_b c_b·x^b, the dot product is Σ_b x^b · Σ_i c_b,i·s_i: the inner sums are plain XORs of the sources whose coefficient has bit
//! b, and Horner's rule combines them with seven multiplications by x per word. Compilers turn the inner loop into the vector instructions
//! of the compilation target.

/// Number of eight-byte words processed together.
const WORDS: usize = 4;
const BYTES: usize = 8 * WORDS;

/// Computes `outputs[j] = Σ_i coefficients[j][i] · sources[i]`; panics for shapes other than those of [`Kernel::dot`](super::Kernel::dot).
pub(super) fn dot(sources: &[&[u8]], coefficients: &[&[u8]], outputs: &mut [&mut [u8]]) {
    let len = outputs.first().map_or(0, |output| output.len());
    assert!(sources.iter().all(|source| source.len() == len) && outputs.iter().all(|output| output.len() == len));
    for (output, coefficients) in outputs.iter_mut().zip(coefficients) {
        for (k, strip) in output.chunks_mut(BYTES).enumerate() {
            let at = k * BYTES;
            let mut planes = [[0; WORDS]; 8];
            for (source, c) in sources.iter().zip(*coefficients) {
                add_planes(&mut planes, *c, load(&source[at..at + strip.len()]));
            }
            store(join(planes), strip);
        }
    }
}

/// Computes `target += Σ_r factors[r] · row r`; the caller has checked the shapes.
pub(super) fn accumulate(rows: &[u8], factors: &[u8], target: &mut [u8]) {
    for (row, c) in rows.chunks_exact(target.len()).zip(factors) {
        mul_add(target, *c, row);
    }
}

/// Adds to each row the multiple of `pivot_row` by the row's own byte in `column`.
pub(super) fn eliminate(rows: &mut [u8], pivot_row: &[u8], column: usize) {
    for row in rows.chunks_exact_mut(pivot_row.len()) {
        mul_add(row, row[column], pivot_row);
    }
}

/// Computes `output += c · source`, both of the same length.
pub(super) fn mul_add(output: &mut [u8], c: u8, source: &[u8]) {
    for (output, source) in output.chunks_mut(BYTES).zip(source.chunks(BYTES)) {
        let mut planes = [[0; WORDS]; 8];
        planes[0] = load(output);
        add_planes(&mut planes, c, load(source));
        store(join(planes), output);
    }
}

/// Adds `words` to the plane of each bit that is set in `c`.
#[inline(always)]
fn add_planes(planes: &mut [[u64; WORDS]; 8], c: u8, words: [u64; WORDS]) {
    for (b, plane) in planes.iter_mut().enumerate() {
        let mask = u64::from(c >> b & 1).wrapping_neg();
        for (sum, word) in plane.iter_mut().zip(words) {
            *sum ^= word & mask;
        }
    }
}

/// Computes Σ_b x^b · planes\[b\].
#[inline(always)]
fn join(planes: [[u64; WORDS]; 8]) -> [u64; WORDS] {
    planes.into_iter().rev().fold([0; WORDS], |sum, plane| core::array::from_fn(|w| double(sum[w]) ^ plane[w]))
}

/// Multiplies each of eight bytes by x.
#[inline(always)]
const fn double(bytes: u64) -> u64 {
    const TOP_BITS: u64 = 0x8080_8080_8080_8080;
    let carries = (bytes & TOP_BITS) >> 7;
    // x⁸ reduces to 0x1D = 0b11101.
    ((bytes & !TOP_BITS) << 1) ^ carries ^ (carries << 2) ^ (carries << 3) ^ (carries << 4)
}

/// Loads up to [`BYTES`] bytes, and pads them with zeros.
#[inline(always)]
fn load(bytes: &[u8]) -> [u64; WORDS] {
    let mut padded = [0; BYTES];
    padded[..bytes.len()].copy_from_slice(bytes);
    let (words, _) = padded.as_chunks::<8>();
    core::array::from_fn(|w| u64::from_le_bytes(words[w]))
}

#[inline(always)]
fn store(words: [u64; WORDS], bytes: &mut [u8]) {
    let mut padded = [0; BYTES];
    for (chunk, word) in padded.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *chunk = word.to_le_bytes();
    }
    bytes.copy_from_slice(&padded[..bytes.len()]);
}
