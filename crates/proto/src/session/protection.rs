//! The seals of an open connection (`spec/security.md` §3).

use dfcp_secure::{
    Cipher, Established, OpenError, OpenKeys, Pattern, PublicKey, SealError, SealKeys, TAG_BYTES, epoch_of,
};
use dfcp_wire::Header;

/// What a handshake has established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// How the two ends knew each other.
    pub pattern: Pattern,
    /// The static key which the peer has proven; `None` with a pre-shared key.
    pub peer: Option<PublicKey>,
    /// The same at both ends of this connection, and of no other: a name to which protocols above can bind themselves.
    /// Not secret.
    pub handshake_hash: [u8; 32],
    /// What datagrams are sealed with.
    pub cipher: Cipher,
}

/// The keys of both directions, and who the peer is.
#[derive(Debug)]
pub(crate) struct Protection {
    seal: SealKeys,
    open: OpenKeys,
    identity: Identity,
}

/// The header's epoch bits of a datagram number.
pub(crate) fn epoch_bits(number: u64) -> u8 {
    (epoch_of(number) & 3) as u8
}

impl Protection {
    pub(crate) fn new(established: Established, cipher: Cipher) -> Self {
        let (pattern, peer) = (established.pattern(), established.peer());
        let identity = Identity { pattern, peer, handshake_hash: established.handshake_hash(), cipher };
        let (seal, open) = established.into_keys(cipher);
        Self { seal, open, identity }
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Datagrams which did not authenticate.
    pub(crate) fn forged(&self) -> u64 {
        self.open.forged()
    }

    /// Seals the datagram of this number whose header takes the first `header` and whose payload ends before byte
    /// `end` of `out`; returns its length.
    pub(crate) fn seal(&mut self, number: u64, out: &mut [u8], header: usize, end: usize) -> Result<usize, SealError> {
        let length = end + TAG_BYTES;
        let have = out.len();
        let Some((header, rest)) = out.get_mut(..length).and_then(|datagram| datagram.split_at_mut_checked(header))
        else {
            return Err(SealError::TooLong(have));
        };
        let Some((payload, tag)) = rest.split_last_chunk_mut::<TAG_BYTES>() else {
            return Err(SealError::TooLong(have));
        };
        self.seal.seal(number, header, payload, tag)?;
        Ok(length)
    }

    /// Opens a datagram in place: `sealed` is what lies behind its header. Returns the payload's length.
    pub(crate) fn open(&mut self, number: u64, header: &[u8], sealed: &mut [u8]) -> Result<usize, OpenError> {
        self.open.open(number, header, sealed)
    }
}

/// Whether a header's epoch is that of its number ([seal-2]).
pub(crate) fn epoch_fits(header: &Header, number: u64) -> bool {
    header.epoch == epoch_bits(number)
}
