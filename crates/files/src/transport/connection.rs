//! [`Transport`] for connections of the `dfcp` crate.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

#[cfg(feature = "classic")]
use dfcp::classic::{Parameter, ParameterError};
use dfcp::{Session, Stream, StreamError};

use super::{DataDatagrams, FoundRate, Marks, Opened, PathSample, RecvStream, SendStream, Streams, Transport, Wasted};
use crate::seal::Seal;

impl Transport for Stream {
    fn path_sample(&self) -> Option<PathSample> {
        let stats = self.stats();
        let headers = u64::from(self.carrier().overhead_bytes(self.remote_addr())) * stats.segments_sent;
        Some(PathSample {
            loss: PathSample::evident_loss(stats.loss, stats.sent.source),
            incoming_loss: PathSample::evident_incoming_loss(stats.datagrams_missing, stats.segments_received),
            rtt_ms: (!stats.rtt.is_zero()).then_some(stats.rtt.as_secs_f64() * 1e3),
            queue_ms: stats.queue.map(|queue| queue.as_secs_f64() * 1e3),
            // `stats.rate_bps` also includes the peer's limit, which caps the automatic rate.
            found: stats.rate_control.map(|it| FoundRate { rate_bps: stats.rate_bps, ..FoundRate::from(&it) }),
            datagrams_sent: stats.segments_sent,
            data_datagrams: DataDatagrams {
                source: stats.sent.source,
                repair: stats.sent.repair,
                proactive: stats.sent.proactive,
                probe: stats.sent.probe,
            },
            wasted: Wasted {
                dependent: stats.wasted.dependent,
                late: stats.wasted.late,
                refused: stats.wasted.refused,
            },
            ip_bytes_sent: stats.bytes_sent + headers,
            bytes_acknowledged: stats.stream_bytes_acknowledged,
            carried_rate_bps: (stats.carried_rate_bps > 0).then_some(stats.carried_rate_bps),
            marks: Marks::known(stats.ecn_reported.ce, stats.ecn_reported.ect),
            packet_bytes: (stats.packet_bytes > 0).then_some(stats.packet_bytes),
        })
    }

    fn datagrams_heard(&self) -> Option<u64> {
        let stats = self.stats();
        // Dropped segments may come from an attacker: they do not prove that the peer is alive.
        Some(stats.segments_received.saturating_sub(stats.segments_dropped))
    }

    fn peer_address(&self) -> Option<IpAddr> {
        Some(self.remote_addr().ip())
    }

    fn seal(&self) -> Option<Seal> {
        let identity = self.identity()?;
        Some(Seal {
            pattern: identity.pattern,
            peer: identity.peer,
            pre_shared: identity.pre_shared,
            handshake_hash: identity.handshake_hash,
            cipher: identity.cipher,
        })
    }

    fn streams(&self) -> Option<Arc<dyn Streams>> {
        self.session().map(|session| Arc::new(session) as _)
    }

    fn messages(&self) -> Option<Session> {
        self.session()
    }

    #[cfg(feature = "classic")]
    fn stop_decoding(&self) -> Result<(), ParameterError> {
        self.parameters().set(Parameter::Decoding, 0)
    }
}

impl Streams for Session {
    fn open(&self) -> Opened<'_, io::Result<Option<SendStream>>> {
        Box::pin(async {
            match self.open_one_way().await {
                Ok(stream) => Ok(Some(Box::new(stream) as _)),
                Err(error) if StreamError::of(&error) == Some(StreamError::NotTaken) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn accept(&self) -> Opened<'_, Option<RecvStream>> {
        Box::pin(async { Some(Box::new(self.accept_one_way().await?) as _) })
    }
}
