use proptest::prelude::*;

use super::*;
use crate::estimate::trace::tests::simulated;

/// Arrival time in ns, length, and captured bytes of a packet.
type Seen = (u64, u32, usize);

/// Returns all packets, and true if the capture is complete.
fn all(bytes: &[u8]) -> Result<(Vec<Seen>, bool), CaptureError> {
    let mut packets = Vec::new();
    let is_whole = read(bytes, |captured| {
        packets.push((captured.at.as_ns(), captured.wire_bytes, captured.bytes.len()));
        Ok::<_, CaptureError>(())
    })?;
    Ok((packets, is_whole))
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

/// Section header, and a raw-IP interface with this `if_tsresol`.
fn head(resolution: u8) -> Vec<u8> {
    let section = [&0x1A2B_3C4D_u32.to_le_bytes()[..], &1_u32.to_le_bytes(), &[0xFF; 8]].concat();
    let interface = [&101_u32.to_le_bytes()[..], &[0; 4], &[9, 0, 1, 0, resolution, 0, 0, 0], &[0; 4]].concat();
    [block(0x0A0D_0D0A, &section), block(1, &interface)].concat()
}

/// Enhanced Packet Block with four bytes of data.
fn packet(interface: u32, ticks: u64, captured_bytes: u32) -> Vec<u8> {
    let words = [interface, (ticks >> 32) as u32, ticks as u32, captured_bytes, 1_500];
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain([0x45, 0, 0, 0]).collect();
    block(6, &body)
}

#[test]
fn the_simulator_s_captures_are_read_packet_by_packet() {
    let (bytes, captured) = simulated(6);
    let (packets, is_whole) = all(&bytes).unwrap();
    assert_eq!((packets.len() as u64, is_whole), (captured.packets, true));
    assert!(packets.len() > 500 && packets.is_sorted_by_key(|packet| packet.0));
    assert!(packets.iter().all(|&(at_ns, wire_bytes, kept)| at_ns < 6_000_000_000 && kept <= wire_bytes as usize));
}

#[test]
fn the_pieces_of_a_capture_are_all_of_it() {
    let (bytes, captured) = simulated(1);
    let (mut copy, mut frames) = (Vec::new(), 0);
    let is_whole = pieces(&bytes[..], |piece| {
        copy.extend_from_slice(piece.bytes);
        if let Some(frame) = piece.frame {
            frames += 1;
            assert_eq!(piece.bytes[frame.range][0] >> 4, 4, "it begins with the header of IPv4");
        }
        Ok::<_, CaptureError>(())
    });
    assert_eq!((is_whole.unwrap(), frames), (true, captured.packets));
    assert_eq!(copy, bytes);
}

#[test]
fn a_capture_that_was_broken_off_is_read_to_its_last_whole_packet() {
    let (bytes, _) = simulated(1);
    let (whole, _) = all(&bytes).unwrap();
    for cut in 1..40 {
        let (packets, is_whole) = all(&bytes[..bytes.len() - cut]).unwrap();
        assert!(!is_whole && packets.len() == whole.len() - 1, "{cut}: {}", packets.len());
    }
}

#[test]
fn resolutions_are_powers_of_ten_and_of_two() {
    for (resolution, ticks, at_ns) in [
        (6, 1_500_000, 1_500_000_000),
        (9, 7, 7),
        (0x80 | 10, 1_536, 1_500_000_000),
        (0, 2, 2_000_000_000),
        (0x7F, 2, 2_000_000_000),
    ] {
        let bytes = [head(resolution), packet(0, ticks, 4)].concat();
        assert_eq!(all(&bytes).unwrap(), (vec![(at_ns, 1_500, 4)], true), "{resolution}");
    }
}

#[test]
fn pcap_is_read_in_both_orders_and_resolutions() {
    let file = |is_big: bool, magic: u32, fraction: u32| {
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| if is_big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
        };
        let version = if is_big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
        [&words(&[magic])[..], &version, &words(&[0, 0, 65_535, 101]), &words(&[3, fraction, 4, 60]), &[0x45, 0, 0, 0]]
            .concat()
    };
    for is_big in [false, true] {
        assert_eq!(all(&file(is_big, 0xA1B2_C3D4, 500_000)).unwrap(), (vec![(3_500_000_000, 60, 4)], true));
        assert_eq!(all(&file(is_big, 0xA1B2_3C4D, 5)).unwrap(), (vec![(3_000_000_005, 60, 4)], true));
    }
}

#[test]
fn damage_is_told_with_its_place_and_what_to_do() {
    let told = |bytes: &[u8]| all(bytes).unwrap_err().to_string();
    for nothing in [&b""[..], b"x", b"timestamp,bytes\n1,2\n", &[0; 100]] {
        assert!(told(nothing).starts_with("is no capture"), "{nothing:?}");
    }
    let head = head(9);
    // The first capture has a block that claims 4 GB; the second has packet data longer than its block.
    let long = [&head[..], &6_u32.to_le_bytes(), &0xFFFF_FFF0_u32.to_le_bytes(), &[0; 64]].concat();
    assert!(told(&long).contains(&format!("at byte {}", head.len())), "{}", told(&long));
    let inner = [&head[..], &packet(0, 1, 2_000), &vec![0; 3 * CAPTURE_BLOCK_BYTES_MAX]].concat();
    assert!(told(&inner).contains(&format!("at byte {}", head.len())), "{}", told(&inner));
    assert!(told(&[&head[..], &packet(1, 1, 4)].concat()).contains("interface"));
    assert!(told(&[&head[..], &block(3, &[4, 0, 0, 0, 0x45, 0, 0, 0])].concat()).contains("without times"));
    let many = [&head[..], &block(1, &[101, 0, 0, 0, 0, 0, 0, 0]).repeat(CAPTURE_INTERFACES_MAX)].concat();
    assert!(told(&many).contains("interfaces"));
    let mut other = [&head[..], &packet(0, 1, 4)].concat();
    other[28 + 8] = 105;
    assert!(told(&other).contains("link type 105"));
}

/// Reader that returns one byte at a time, then fails.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((first, rest)) = self.0.split_first() else { return Err(io::Error::other("gone")) };
        (buffer[0], self.0) = (*first, rest);
        Ok(1)
    }
}

#[test]
fn a_file_that_cannot_be_read_is_no_end() {
    let bytes = [head(9), packet(0, 1, 4)].concat();
    let outcome = read(Slow(&bytes), |_| Ok::<_, CaptureError>(()));
    assert!(matches!(outcome, Err(CaptureError::Io(_))), "{outcome:?}");
}

proptest! {
    #[test]
    fn no_file_is_too_strange(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..30), cut in any::<prop::sample::Index>(), begin in 0..4_usize,
    ) {
        let whole = [head(9), packet(0, 1, 4), packet(0, 2, 4), block(5, &[0; 12]), head(6), packet(0, 3, 4), block(0xBAD, &[0; 8])].concat();
        let mut bytes = whole[..=cut.index(whole.len())].to_vec();
        for (at, byte) in edits {
            // Keep the first words: without them, most mutations would only destroy the file type.
            let at = at.index(bytes.len());
            if at >= 4 * begin {
                bytes[at] = byte;
            }
        }
        if let Ok((packets, _)) = all(&bytes) {
            prop_assert!(packets.len() <= bytes.len() / 28);
        }
    }

    #[test]
    fn no_pcap_is_too_strange(rest in prop::collection::vec(prop_oneof![4 => Just(0_u8), 1 => any::<u8>()], 0..200), magic in 0..3_usize) {
        let magics = [0xA1B2_C3D4_u32, 0xA1B2_3C4D, 0xA1B2_CD34];
        let _ = all(&[&magics[magic].to_le_bytes()[..], &rest].concat());
        let _ = all(&[&magics[magic].to_be_bytes()[..], &rest].concat());
    }
}
