//! Fountain codes of DFCP. They make any number of encoding symbols from the source symbols of a block, and rebuild the
//! block from any sufficient subset.
//!
//! * [`random_linear`] — code id 1, of the *modern* profile: systematic, dense, over GF(256), up to 256 symbols.
//! * [`raptor`] — code id 0, of the *classic* profile: the thesis's Raptor code over bytes.
//! * [`kernel`] — the vector instructions used by both, chosen once at run time.
//! * [`gf256`] — the field.
//!
//! The crate is a pure function of its arguments: no clock, no randomness beyond a symbol's id, no I/O, no threads.
//! Without the feature `std` (on by default) it needs only an allocator, and uses the instruction sets that the
//! compilation target is known to have. The codes are specified in `spec/fountain-code.md` and
//! `spec/fountain-code-classic.md`, with test vectors.
//!
//! ```
//! use dfcp_fountain::{kernel::Kernel, random_linear::{BlockShape, Decoder, Encoder}};
//!
//! let block = b"any five symbols rebuild this block, with probability 99.6 %";
//! let shape = BlockShape::new(5, block.len())?;
//! let kernel = Kernel::detect();
//! let encoder = Encoder::new(kernel, shape, block)?;
//! let mut decoder = Decoder::new(kernel, shape);
//! let mut symbol = vec![0; shape.symbol_size()];
//! for esi in [0, 2, 3, 1000, 1001, 1002] {
//!     encoder.write_symbol(esi, &mut symbol)?;
//!     decoder.push(esi, &symbol)?;
//! }
//! assert_eq!(decoder.into_block().as_deref(), Some(&block[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod gf256;
pub mod kernel;
pub mod random_linear;
pub mod raptor;
