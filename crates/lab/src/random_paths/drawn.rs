//! Random path: its drawn quantities, and the plan made from them.

use std::fmt::Write;

use crate::draw::Draw;

/// Number of paths per block. Within a block, every quantity takes each hundredth of its distribution once (a Latin
/// hypercube), so that any number of paths covers all ranges evenly.
pub(super) const BLOCK: u64 = 100;

/// Bits that the bottleneck carries in a run of the short form, Gbit.
const SHORT_GBIT: f64 = 1.0;

/// Bits of a full IP packet.
const PACKET_BITS: f64 = 12_000.0;

/// Least rate of a policer, Mbit/s.
const POLICER_MBPS_MIN: f64 = 0.064;
/// Least rate in the reverse direction, Mbit/s, unless the bottleneck itself is slower.
const BACK_MBPS_MIN: f64 = 0.02;

/// Length of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Runs of max(20 s, 40 RTT, 2000 datagrams at the path's capacity).
    Whole,
    /// Runs of about 1 Gbit, to compare versions of a controller in minutes. Paths that would need more than 2 Gbit
    /// are drawn slower.
    Short,
}

/// Random loss of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// Probability of loss, 0 to 1.
    pub share: f64,
    /// Mean length of bursts, packets; `None` for independent losses.
    pub burst_packets: Option<f64>,
}

/// Element in front of the queue, or instead of drop-tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    /// Nothing: a drop-tail queue.
    DropTail,
    /// Token bucket in front of the queue, which drops without queueing: rate, Mbit/s, and bucket, packets.
    Policer(f64, u32),
    /// Random early detection.
    Red,
    /// CoDel with one queue.
    Codel,
    /// FQ-CoDel.
    FqCodel,
}

/// A drawn path for one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomPath {
    /// Number of the path among those of its seed.
    pub number: u64,
    /// Rate of the bottleneck, Mbit/s of IP packets.
    pub rate_mbps: f64,
    /// Rate of the bottleneck in the reverse direction, Mbit/s.
    pub back_mbps: f64,
    /// Round-trip time without queueing, ms.
    pub rtt_ms: f64,
    /// Rate of the access links, Mbit/s.
    pub access_mbps: f64,
    /// Limit of the queue, in bandwidth-delay products or packets.
    pub buffer: Buffer,
    /// Random loss in the direction of data.
    pub loss: Option<Loss>,
    /// Longest random delay behind the transmitter, ms; packets keep their order.
    pub jitter_ms: Option<f64>,
    /// Interval at which the bottleneck releases packets, ms.
    pub batch_ms: Option<f64>,
    /// Interval at which the receiver's interface passes packets on, ms.
    pub receive_batch_ms: Option<f64>,
    /// Policer or queue discipline.
    pub element: Element,
}

/// Limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buffer {
    /// Bandwidth-delay products.
    Bdp(f64),
    /// Packets.
    Packets(u32),
}

/// Draws of one path. A stratified number is drawn for each quantity, even if the path does not use it.
struct Strata {
    seed: u64,
    number: u64,
    dimension: u64,
}

impl Strata {
    /// Returns the stratified random number for the next quantity, from 0 (included) to 1 (excluded).
    fn unit(&mut self) -> f64 {
        self.dimension += 1;
        let (block, place) = (self.number / BLOCK, self.number % BLOCK);
        let key = blake3::hash(format!("{} {block} {}", self.seed, self.dimension).as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&key.as_bytes()[..8]);
        let mut random = Draw(u64::from_le_bytes(first));
        let keys: Vec<f64> = (0..BLOCK).map(|_| random.unit()).collect();
        let within: Vec<f64> = (0..BLOCK).map(|_| random.unit()).collect();
        let own = keys[place as usize];
        let rank = keys.iter().filter(|&&key| key < own).count();
        (rank as f64 + within[place as usize]) / BLOCK as f64
    }

    fn is(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Draws a number with uniformly distributed logarithm.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        (low.ln() + (high.ln() - low.ln()) * self.unit()).exp()
    }
}

/// Rounds to `digits` significant digits, so that a plan can be retyped.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

impl RandomPath {
    /// Draws path `number` of `seed`.
    #[must_use]
    pub fn draw(seed: u64, number: u64, length: Length) -> Self {
        let mut strata = Strata { seed, number, dimension: 0 };
        let (rate, rtt_ms) = (strata.log(0.056, 1000.0), rounded(strata.log(2.0, 800.0), 3));
        let rate_mbps = rounded(
            match length {
                Length::Whole => rate,
                Length::Short => rate.min(2.0 * SHORT_GBIT * 1e3 / short_s(rtt_ms)),
            },
            3,
        );
        let access_mbps = rounded((rate_mbps * strata.log(2.0, 20.0)).clamp(100.0, 10_000.0), 3);
        let in_bdp = strata.is(0.5);
        let (bdp, packets) = (strata.log(0.1, 4.0), strata.log(5.0, 500.0));
        let buffer = if in_bdp { Buffer::Bdp(rounded(bdp, 3)) } else { Buffer::Packets(packets.round() as u32) };
        let (is_lossy, share) = (strata.is(0.45), rounded(strata.log(0.001, 0.5), 2));
        let (in_bursts, burst) = (strata.is(0.5), rounded(strata.log(2.0, 30.0), 2));
        let loss = is_lossy.then_some(Loss { share, burst_packets: in_bursts.then_some(burst) });
        let mut perhaps = |probability, low, high| {
            let (is_there, value) = (strata.is(probability), rounded(strata.log(low, high), 2));
            is_there.then_some(value)
        };
        let jitter_ms = perhaps(0.3, 0.3, 30.0);
        let batch_ms = perhaps(0.15, 2.0, 60.0);
        let receive_batch_ms = perhaps(0.15, 2.0, 60.0);
        let back_mbps = perhaps(0.3, 1.0, 100.0).map_or(rate_mbps, |ratio| rate_mbps / ratio);
        let back_mbps = rounded(back_mbps.max(BACK_MBPS_MIN.min(rate_mbps)), 3);
        let (ratio, bucket) = (strata.log(0.05, 2.0), strata.log(5.0, 500.0).round() as u32);
        let element = match strata.unit() {
            u if u < 0.15 => Element::Policer(rounded((ratio * rate_mbps).max(POLICER_MBPS_MIN), 3), bucket),
            u if u < 0.2 => Element::Red,
            u if u < 0.25 => Element::Codel,
            u if u < 0.3 => Element::FqCodel,
            _ => Element::DropTail,
        };
        Self {
            number,
            rate_mbps,
            back_mbps,
            rtt_ms,
            access_mbps,
            buffer,
            loss,
            jitter_ms,
            batch_ms,
            receive_batch_ms,
            element,
        }
    }

    /// Returns the rate that the path carries, Mbit/s of IP packets before losses.
    #[must_use]
    pub fn carries_mbps(&self) -> f64 {
        match self.element {
            Element::Policer(mbps, _) => mbps.min(self.rate_mbps),
            _ => self.rate_mbps,
        }
    }

    /// Returns true if the path has a policer whose bucket holds more tokens than a second of its rate adds. A flow's
    /// start may then use up the bucket before a packet is dropped.
    #[must_use]
    pub fn has_deep_bucket(&self) -> bool {
        matches!(self.element, Element::Policer(mbps, packets) if f64::from(packets) * PACKET_BITS > mbps * 1e6)
    }

    /// Returns duration and warm-up of a run, s.
    fn times_s(&self, length: Length) -> (f64, f64) {
        let rtt_s = self.rtt_ms / 1e3;
        let whole_s = (2_000.0 * PACKET_BITS / (self.carries_mbps() * 1e6)).max(40.0 * rtt_s).max(20.0);
        let warm_s = (10.0 * rtt_s).max(2.0);
        match length {
            Length::Whole => (whole_s, warm_s),
            Length::Short => {
                let run_s = whole_s.min((SHORT_GBIT * 1e3 / self.rate_mbps).max(short_s(self.rtt_ms)));
                (run_s, warm_s.min(run_s / 3.0))
            }
        }
    }

    /// Returns the names of the path's elements beside a queue, such as `jitter`, in the order of the tables.
    #[must_use]
    pub fn kinds(&self) -> Vec<&'static str> {
        let loss = match self.loss {
            None => None,
            Some(Loss { burst_packets: None, .. }) => Some("single losses"),
            Some(_) => Some("bursts of loss"),
        };
        let element = match self.element {
            Element::DropTail => None,
            Element::Policer(..) => Some("policer"),
            Element::Red => Some("RED"),
            Element::Codel => Some("CoDel"),
            Element::FqCodel => Some("FQ-CoDel"),
        };
        let all = [
            loss,
            self.jitter_ms.map(|_| "jitter"),
            self.batch_ms.map(|_| "link batches"),
            self.receive_batch_ms.map(|_| "receiver batches"),
            (self.back_mbps < self.rate_mbps).then_some("narrow way back"),
            element,
        ];
        let kinds: Vec<_> = all.into_iter().flatten().collect();
        if kinds.is_empty() { vec!["queue alone"] } else { kinds }
    }

    /// Returns a line that describes the buffer and all elements in [`kinds`](Self::kinds), with their values.
    #[must_use]
    pub fn details(&self) -> String {
        let mut all = vec![match self.buffer {
            Buffer::Bdp(bdp) => format!("buffer {bdp} BDP"),
            Buffer::Packets(packets) => format!("buffer {packets} packets"),
        }];
        if let Some(loss) = self.loss {
            let bursts = loss.burst_packets.map_or_else(String::new, |packets| format!(" in bursts of {packets}"));
            all.push(format!("loss {} %{bursts}", rounded(100.0 * loss.share, 3)));
        }
        let times =
            [("jitter", self.jitter_ms), ("link batches", self.batch_ms), ("receiver batches", self.receive_batch_ms)];
        all.extend(times.into_iter().filter_map(|(name, ms)| Some(format!("{name} {} ms", ms?))));
        if self.back_mbps < self.rate_mbps {
            all.push(format!("way back {} Mbit/s", self.back_mbps));
        }
        match self.element {
            Element::DropTail => {}
            Element::Policer(mbps, packets) => all.push(format!("policer {mbps} Mbit/s, {packets} packets")),
            Element::Red => all.push("RED".to_owned()),
            Element::Codel => all.push("CoDel".to_owned()),
            Element::FqCodel => all.push("FQ-CoDel".to_owned()),
        }
        all.join(", ")
    }

    /// Returns a plan, as TOML text, whose topology is this path. Its series are `Auto` (automatic rate), `Told` (DFCP at a given
    /// rate), `BBR` and `CUBIC`; `Told` has three runs.
    #[must_use]
    pub fn toml(&self, id: &str, length: Length) -> String {
        let (duration_s, warm_up_s) = self.times_s(length);
        let mut text = format!(
            "id = \"{id}\"\ntitle = \"Random path {id}\"\nsource = \"ours\"\nquestion = \"How much of the path is used?\"\n\n\
             [run]\nseeds = 1\nduration_s = {}\nwarm_up_s = {}\n\n[spread]\nstart_rtts = 1\nrtt = 0.02\n\n\
             [topology]\nrate_mbps = {}\nup_mbps = {}\nrtt_ms = {}\naccess_mbps = {}\naccess_jitter_us = 12\n",
            rounded(duration_s, 3),
            rounded(warm_up_s, 3),
            self.back_mbps,
            self.rate_mbps,
            self.rtt_ms,
            self.access_mbps,
        );
        let mut add = |line: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            let _never_fails = text.write_fmt(line);
        };
        match self.buffer {
            Buffer::Bdp(bdp) => add(format_args!("buffer_bdp = {bdp}\nbuffer_least_packets = 5\n")),
            Buffer::Packets(packets) => add(format_args!("buffer_packets = {packets}\n")),
        }
        if let Some(loss) = self.loss {
            add(format_args!("loss = {}\n", loss.share));
            if let Some(packets) = loss.burst_packets {
                add(format_args!("loss_burst_packets = {packets}\n"));
            }
        }
        match self.element {
            Element::Red => add(format_args!("discipline = \"red\"\n")),
            Element::Codel => add(format_args!("discipline = \"codel\"\n")),
            Element::FqCodel => add(format_args!("discipline = \"fq-codel\"\n")),
            Element::DropTail | Element::Policer(..) => {}
        }
        add(format_args!("\n[topology.impairments]\n"));
        for (name, value) in [("jitter_ms", self.jitter_ms), ("batch_ms", self.batch_ms)] {
            if let Some(value) = value {
                add(format_args!("{name} = {value}\n"));
            }
        }
        if let Element::Policer(mbps, packets) = self.element {
            add(format_args!("policer_mbps = {mbps}\npolicer_packets = {packets}\n"));
        }
        add(format_args!("\n[[flows]]\ncount = 1\n"));
        if let Some(ms) = self.receive_batch_ms {
            add(format_args!("\n[flows.ends]\nreceive_batch_ms = {ms}\n"));
        }
        for (label, transport, seeds) in [
            ("Auto", "{ kind = \"modern\", rate = \"auto\" }", 1),
            ("Delivery", "{ kind = \"modern\", rate = \"auto\", controller = \"delivery\" }", 1),
            ("Told", "\"oracle\"", 3),
            ("BBR", "\"bbr\"", 1),
            ("CUBIC", "\"cubic\"", 1),
        ] {
            add(format_args!("\n[[series]]\nlabel = \"{label}\"\ntransport = {transport}\nseeds = {seeds}\n"));
        }
        add(format_args!("\n[metrics]\nplot = [\"goodput_mbps\", \"queue_ms\", \"dropped_percent\"]\n"));
        text
    }
}

/// Returns the least duration of a run of the short form, s.
fn short_s(rtt_ms: f64) -> f64 {
    (25.0 * rtt_ms / 1e3).max(1.5)
}
