//! Receive window of Linux 6.12 for an application that reads immediately. The window grows with the bytes read in the
//! last RTT ("dynamic right-sizing", `tcp_rcv_space_adjust`) and by two segments per segment received
//! (`tcp_grow_window`). Data above a gap reduces it (`__tcp_select_window`). On a long, lossy path, this window limits
//! a flow in its first RTTs, rather than the congestion window.

use dfcp_time::Time;

use super::super::config::Config;

/// Initial size of the buffer, bytes (`tcp_rmem`).
const FIRST_BYTES: u64 = 131_072;
/// Maximum size of a Linux receiver's buffer, bytes. It suffices for 200 Mbit/s with an RTT of one second.
pub const RECEIVE_BUFFER_BYTES_MAX: u64 = 64 << 20;
/// Memory overhead of a segment on arrival, bytes (`truesize`, as produced by Linux's own sender).
/// [`WAITING_OVERHEAD_BYTES`] is the overhead while the segment waits above a gap, merged with others.
const ARRIVING_OVERHEAD_BYTES: u64 = 832;
const WAITING_OVERHEAD_BYTES: u64 = 728;
/// Fixed-point unit for the share of the buffer that can hold data. The first segment determines that share.
const SHARE_UNIT: u64 = 256;
/// Granularity of the advertised window, bytes (RFC 7323, section 2). The window scale follows from
/// [`RECEIVE_BUFFER_BYTES_MAX`].
const STEP_BYTES: u64 = 1 << 11;
/// Segments added to twice the bytes read in an RTT.
const CUSHION_SEGMENTS: u64 = 16;
const INITIAL_WINDOW_SEGMENTS: u64 = 10;

/// Receive buffer with the advertised window.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveBuffer {
    mss: u64,
    bytes: u64,
    /// Maximum of the window, bytes.
    clamp: u64,
    /// Current limit of the window, bytes (`rcv_ssthresh`).
    threshold: u64,
    /// First sequence number beyond the advertised window. Never decreases.
    edge: u64,
    /// Largest number of bytes read in an RTT. The fields `round_began_at` and `round_began` belong to the measurement
    /// in progress.
    read_in_round: u64,
    round_began_at: u64,
    round_began: Time,
    /// Eight times the smoothed RTT from timestamps, ns; `last_echoed` is the echoed timestamp of the last sample.
    rtt_8_ns: u64,
    last_echoed: Time,
}

impl ReceiveBuffer {
    pub(super) fn new(config: &Config) -> Self {
        let mss = u64::from(config.mss_bytes);
        let first_window = (FIRST_BYTES / 2).saturating_sub(mss).max(mss);
        Self {
            mss,
            bytes: FIRST_BYTES.max(4 * (mss + ARRIVING_OVERHEAD_BYTES)),
            clamp: first_window,
            threshold: first_window,
            edge: 1 + first_window.next_multiple_of(STEP_BYTES),
            read_in_round: INITIAL_WINDOW_SEGMENTS * mss,
            round_began_at: 1,
            round_began: Time::ZERO,
            rtt_8_ns: 0,
            last_echoed: Time::ZERO,
        }
    }

    /// Returns the first sequence number that was never within an advertised window.
    pub(super) fn edge(&self) -> u64 {
        self.edge
    }

    /// Processes a data segment. `waiting_bytes` are in the buffer, including this segment. Returns true if the window
    /// may grow.
    pub(super) fn on_segment(&mut self, now: Time, echoed: Time, waiting_bytes: u64) -> bool {
        if echoed != self.last_echoed {
            self.last_echoed = echoed;
            let sample_ns = now.since(echoed).as_nanos() as u64;
            self.rtt_8_ns = match self.rtt_8_ns {
                0 => 8 * sample_ns,
                smoothed => smoothed - smoothed / 8 + sample_ns,
            };
        }
        self.clamp = self.clamp.max(self.window_of(self.bytes));
        let room = self
            .clamp
            .min(self.free(waiting_bytes, ARRIVING_OVERHEAD_BYTES - WAITING_OVERHEAD_BYTES))
            .saturating_sub(self.threshold);
        self.threshold += room.min(2 * self.mss);
        room > 0
    }

    /// Records that the application has read everything below the sequence number `read`.
    pub(super) fn on_read(&mut self, now: Time, read: u64) {
        if self.rtt_8_ns == 0 || (now.since(self.round_began).as_nanos() as u64) < self.rtt_8_ns / 8 {
            return;
        }
        let in_round = read - self.round_began_at;
        if in_round > self.read_in_round {
            let window = 2 * in_round + CUSHION_SEGMENTS * self.mss;
            let growth =
                u128::from(window) * u128::from(in_round - self.read_in_round) / u128::from(self.read_in_round);
            let window = u128::from(window) + 2 * growth;
            let bytes = window * u128::from(SHARE_UNIT) / u128::from(self.share());
            self.bytes = self.bytes.max(u64::try_from(bytes).unwrap_or(u64::MAX).min(RECEIVE_BUFFER_BYTES_MAX));
            self.read_in_round = in_round;
        }
        self.round_began_at = read;
        self.round_began = now;
    }

    /// Returns the window to advertise in an acknowledgement of everything below `next`, while `waiting_bytes` are
    /// above a gap.
    pub(super) fn offer(&mut self, next: u64, waiting_bytes: u64) -> u32 {
        let window = self.threshold.min(self.free(waiting_bytes, 0)).next_multiple_of(STEP_BYTES);
        let before = self.edge.saturating_sub(next).next_multiple_of(STEP_BYTES);
        self.edge = next + window.max(before);
        u32::try_from(self.edge - next).unwrap_or(u32::MAX)
    }

    /// Returns the share of the buffer that can hold data, in units of 1/[`SHARE_UNIT`].
    fn share(&self) -> u64 {
        (self.mss * SHARE_UNIT / (self.mss + ARRIVING_OVERHEAD_BYTES)).max(1)
    }

    fn window_of(&self, bytes: u64) -> u64 {
        bytes * self.share() / SHARE_UNIT
    }

    fn free(&self, waiting_bytes: u64, extra_bytes: u64) -> u64 {
        let taken = extra_bytes + waiting_bytes + waiting_bytes.div_ceil(self.mss) * WAITING_OVERHEAD_BYTES;
        self.window_of(self.bytes.saturating_sub(taken))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::Congestion;
    use super::*;

    const MSS: u64 = 1448;

    fn buffer() -> ReceiveBuffer {
        ReceiveBuffer::new(&Config::modern(Congestion::Bbr1))
    }

    /// Receives and reads the in-order segment `number`, counted from 1, 200 ms after the timestamp that it echoes.
    fn receive(buffer: &mut ReceiveBuffer, at_ms: u64, number: u64) -> bool {
        let now = Time::from_ms(1_000 + at_ms);
        let grew = buffer.on_segment(now, Time::from_ms(800 + at_ms), MSS);
        buffer.on_read(now, 1 + number * MSS);
        grew
    }

    /// The expected values come from a real kernel (`TCP_INFO`, `SO_MEMINFO`), with a lossless BBR flow and an RTT of
    /// 200 ms.
    #[test]
    fn the_window_grows_as_the_kernels() {
        let mut buffer = buffer();
        buffer.round_began = Time::from_ms(1_000);
        receive(&mut buffer, 0, 1);
        assert_eq!(buffer.threshold, 66_984);
        (2..=10).for_each(|number| _ = receive(&mut buffer, 2 * (number - 1), number));
        assert_eq!(buffer.threshold, 81_501);
        receive(&mut buffer, 201, 11);
        assert_eq!((buffer.read_in_round, buffer.bytes), (15_928, 131_072));
        (12..=30).for_each(|number| _ = receive(&mut buffer, 201 + 2 * (number - 11), number));
        receive(&mut buffer, 401, 31);
        assert_eq!((buffer.read_in_round, buffer.bytes), (28_960, 337_818));
        assert!((32..=35).all(|number| receive(&mut buffer, 401 + 2 * (number - 31), number)));
        assert_eq!((buffer.threshold, buffer.offer(1 + 35 * MSS, 0)), (93_085, 94_208));
    }

    #[test]
    fn what_waits_takes_room_and_nothing_is_taken_back() {
        let mut buffer = buffer();
        for number in 1..=20 {
            receive(&mut buffer, number, number);
        }
        let next = 1 + 20 * MSS;
        let offered = buffer.offer(next, 0);
        assert_eq!(offered, 81_920);
        // Forty segments wait above a gap.
        assert_eq!(buffer.offer(next, 40 * MSS), offered);
        // The stream advances by ten segments. The window shrinks, but its edge does not move back.
        let edge = buffer.edge();
        assert_eq!(buffer.offer(next + 10 * MSS, 30 * MSS), 67_584);
        assert!(buffer.edge() >= edge);
        assert_eq!(buffer.offer(next + 40 * MSS, 0), 81_920);
    }
}
