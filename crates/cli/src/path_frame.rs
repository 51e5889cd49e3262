//! Frame with a sender's path statistics. Other frames are in [`dfcp_framing::perf`].

use dfcp_files::transport::{DataDatagrams, FoundRate, PathSample, Phase, Wasted};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::frame::{Fields, kind, with_header};

/// Unit of losses in the frame: parts per million.
const PPM: f64 = 1e6;

/// Appends a frame with the sender's path statistics.
pub(crate) fn encode_path(path: &PathSample, out: &mut Vec<u8>) {
    with_header(kind::PERF_PATH, out, |out| {
        // Saturating casts: real values are far below 2³².
        let loss_ppm = path.loss.map_or(u32::MAX, |loss| (loss * PPM) as u32);
        out.extend_from_slice(&loss_ppm.to_be_bytes());
        out.extend_from_slice(&path.rtt_ms.map_or(u32::MAX, |rtt_ms| (rtt_ms * 1e3) as u32).to_be_bytes());
        let DataDatagrams { source, repair, proactive, probe } = path.data_datagrams;
        let Wasted { dependent, late, refused } = path.wasted;
        for number in [path.datagrams_sent, source, repair, proactive, probe, dependent, late, refused] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for number in [path.ip_bytes_sent, path.bytes_acknowledged, path.carried_rate_bps.unwrap_or_default()] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&path.queue_ms.map_or(u32::MAX, |queue_ms| (queue_ms * 1e3) as u32).to_be_bytes());
        if let Some(found) = &path.found {
            encode_found(found, out);
        }
    });
}

fn encode_found(found: &FoundRate, out: &mut Vec<u8>) {
    let small = [found.phase.number(), (found.target_queue_ms * 1e3) as u32, (found.path_loss * PPM) as u32];
    small.into_iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
    let capacity_bps = found.capacity_bps.unwrap_or_default();
    let FoundRate { datagrams_judged, datagrams_lost, datagrams_lost_in_queue, .. } = found;
    for number in [found.rate_bps, capacity_bps, *datagrams_judged, *datagrams_lost, *datagrams_lost_in_queue] {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn decode_found(fields: &mut Fields<'_>) -> Option<FoundRate> {
    let mut small = || fields.array().map(u32::from_be_bytes);
    let (phase, target_us, loss_ppm) = (Phase::from_number(small()?)?, small()?, small()?);
    let mut number = || fields.array().map(u64::from_be_bytes);
    Some(FoundRate {
        phase,
        target_queue_ms: f64::from(target_us) / 1e3,
        path_loss: (f64::from(loss_ppm) / PPM).min(1.0),
        rate_bps: number()?,
        capacity_bps: Some(number()?).filter(|&capacity_bps| capacity_bps > 0),
        datagrams_judged: number()?,
        datagrams_lost: number()?,
        datagrams_lost_in_queue: number()?,
    })
}

/// Decodes the body of the frame.
///
/// # Errors
/// Fails for a wrong length or an unknown phase.
pub(crate) fn decode_path(body: &[u8]) -> Result<PathSample, ProtocolError> {
    let mut fields = Fields(body);
    let mut decoded = || {
        let known = |number: u32| (number != u32::MAX).then_some(f64::from(number));
        let loss_ppm = known(u32::from_be_bytes(fields.array()?));
        let rtt_us = known(u32::from_be_bytes(fields.array()?));
        let mut number = || fields.array().map(u64::from_be_bytes);
        let mut sample = PathSample {
            incoming_loss: None,
            loss: loss_ppm.map(|loss_ppm| (loss_ppm / PPM).min(1.0)),
            rtt_ms: rtt_us.map(|rtt_us| rtt_us / 1e3),
            datagrams_sent: number()?,
            data_datagrams: DataDatagrams {
                source: number()?,
                repair: number()?,
                proactive: number()?,
                probe: number()?,
            },
            wasted: Wasted { dependent: number()?, late: number()?, refused: number()? },
            ip_bytes_sent: number()?,
            bytes_acknowledged: number()?,
            carried_rate_bps: Some(number()?).filter(|&rate_bps| rate_bps > 0),
            queue_ms: None,
            found: None,
            marks: None,
            packet_bytes: None,
        };
        sample.queue_ms = known(u32::from_be_bytes(fields.array()?)).map(|queue_us| queue_us / 1e3);
        sample.found = if fields.0.is_empty() { None } else { Some(decode_found(&mut fields)?) };
        fields.0.is_empty().then_some(sample)
    };
    decoded().ok_or(ProtocolError::Malformed { frame: "perf path" })
}
