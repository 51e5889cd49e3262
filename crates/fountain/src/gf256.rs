//! Arithmetic in GF(256) = GF(2)\[x\] / (x⁸ + x⁴ + x³ + x² + 1); bytes are polynomials with the lowest power in the lowest bit (RFC 6330
//! §5.7 uses the same field).
//!
//! This module is for single elements and for tables built at compile time; long vectors are processed by [`crate::kernel`].

/// Field polynomial, including x⁸.
pub const POLYNOMIAL: u16 = 0x11D;

/// Returns the product of `a` and `b`, by shifting and adding.
#[must_use]
pub const fn mul(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut product) = (a as u16, b, 0);
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= POLYNOMIAL;
        }
        b >>= 1;
    }
    product as u8
}

/// Returns the inverse of `a`, and 0 for 0, which has no inverse.
#[must_use]
pub const fn inverse(a: u8) -> u8 {
    INVERSES[a as usize]
}

const INVERSES: [u8; 256] = inverses();

const fn inverses() -> [u8; 256] {
    let mut table = [0; 256];
    let mut a = 1;
    while a < 256 {
        // The multiplicative group has 255 elements, so a⁻¹ = a²⁵⁴ = a² · a⁴ · … · a¹²⁸.
        let (mut square, mut product, mut i) = (a as u8, 1, 0);
        while i < 7 {
            square = mul(square, square);
            product = mul(product, square);
            i += 1;
        }
        table[a] = product;
        a += 1;
    }
    table
}

/// Products of one coefficient with all low and all high nibbles. The product with a byte is `low[b & 15] ^ high[b >>
/// 4]`; byte shuffles of SIMD units perform these lookups.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", test))]
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct NibbleProducts {
    pub(crate) low: [u8; 16],
    pub(crate) high: [u8; 16],
}

/// [`NibbleProducts`] of every coefficient: 8 KiB, which stay in the first-level cache.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", test))]
pub(crate) static NIBBLE_PRODUCTS: [NibbleProducts; 256] = nibble_products();

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", test))]
const fn nibble_products() -> [NibbleProducts; 256] {
    let mut tables = [const { NibbleProducts { low: [0; 16], high: [0; 16] } }; 256];
    let mut c = 0;
    while c < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            tables[c].low[nibble] = mul(c as u8, nibble as u8);
            tables[c].high[nibble] = mul(c as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        c += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_has_the_generator_two() {
        let mut seen = [false; 256];
        let mut power = 1;
        for _ in 0..255 {
            assert!(!core::mem::replace(&mut seen[usize::from(power)], true), "{power} came twice");
            power = mul(power, 2);
        }
        assert_eq!(power, 1);
        assert!(!seen[0]);
        assert_eq!(mul(0x80, 2), 0x1D);
    }

    #[test]
    fn every_non_zero_element_has_its_inverse() {
        assert_eq!(inverse(0), 0);
        for a in 1..=255 {
            assert_eq!(mul(a, inverse(a)), 1, "{a}");
        }
    }

    #[test]
    fn nibble_products_add_up_to_products() {
        for c in 0..=255_u8 {
            let table = &NIBBLE_PRODUCTS[usize::from(c)];
            for b in 0..=255_u8 {
                assert_eq!(table.low[usize::from(b & 15)] ^ table.high[usize::from(b >> 4)], mul(c, b), "{c}·{b}");
            }
        }
    }
}
