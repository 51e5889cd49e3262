//! Properties of an emulated path, in command-line syntax.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use dfcp_netem::{
    DeliveryTrace, Discipline, Drr, FqCodel, LinkConfig, Loss, QueueLimit, REORDER_DELAY_DEFAULT, Red, Schedule, Sfq,
    TRACE_BIN_DEFAULT, TRACE_TEXT_BYTES_MAX, Way, Wfq,
};

use self::events::OutageArg;
use crate::units;

mod events;

/// Default queue limit, in packets.
const QUEUE_PACKETS: usize = 1000;

/// Emulated path: the command-line form of `[topology]` in plans of `dfcp lab`.
#[derive(Args, Clone, Debug)]
pub struct LinkArgs {
    /// Share of packets lost behind the bottleneck, for example 10% or 0.1
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub loss: f64,

    /// Lose packets in runs of this many on average instead of one by one
    #[arg(long, value_name = "PACKETS", requires = "loss")]
    pub burst: Option<f64>,

    /// One-way delay, for example 25ms
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0ms")]
    pub delay: Duration,

    /// Random extra delay up to this much; packets stay in order
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0ms")]
    pub jitter: Duration,

    /// Packets arrive in batches, one at each multiple of this time, as over a radio that aggregates frames
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0ms")]
    pub batch: Duration,

    /// Rate of the bottleneck in IP bytes, for example 100mbit [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<u64>,

    /// Upstream rate (client to server), if it differs; --rate is then the downstream rate
    #[arg(long, value_name = "RATE", value_parser = units::rate, conflicts_with = "up_trace")]
    pub up_rate: Option<u64>,

    /// Recorded upstream rate, in the format of mahimahi (mm-link): each line is the millisecond at which a packet of 1500 bytes may leave,
    /// and the trace repeats. The downstream rate is --rate, or the mean of the trace
    #[arg(long, value_name = "FILE")]
    pub up_trace: Option<PathBuf>,

    /// Recorded downstream rate, in the same format
    #[arg(long, value_name = "FILE")]
    pub down_trace: Option<PathBuf>,

    /// Queue in front of the bottleneck: its length in packets, its kind, or both (500, drr, fq-codel:500). Kinds are fifo (default), drr,
    /// sfq, wfq, codel, fq-codel and red; the last three mark ECN-capable packets instead of dropping them
    #[arg(long, value_name = "[KIND:]PACKETS", default_value_t = QueueArg::default())]
    pub queue: QueueArg,

    /// Drop packets for which a token bucket of this many full packets has no tokens. The bucket fills at --policer-rate, or at --rate, and
    /// then replaces the queue
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..))]
    pub policer_packets: Option<u32>,

    /// Rate of the policer in IP bytes; the policer then precedes the queue of --rate
    #[arg(long, value_name = "RATE", value_parser = units::rate, requires = "policer_packets")]
    pub policer_rate: Option<u64>,

    /// Share of packets that arrive 2 ms late, overtaken by those behind them
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub reorder: f64,

    /// Share of packets that arrive twice
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub duplicate: f64,

    /// Share of packets that arrive with one bit flipped
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub corrupt: f64,

    /// Directions to which loss, jitter, batching, policing, reordering, duplication and corruption apply; up is client to server. Rates,
    /// queues and --delay always apply to both
    #[arg(long, value_name = "up|down|both", value_parser = ways, default_value = "both")]
    pub ways: Ways,

    /// Outage in both directions: START:LENGTH, for example 10s:500ms; can be given several times
    #[arg(long, value_name = "START:LENGTH")]
    pub outage: Vec<OutageArg>,

    /// Time at which the client's port changes, as after a NAT rebinding: packets to the old port are lost, and its TCP connections break.
    /// Can be given several times
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub rebind: Vec<Duration>,
}

/// Links and timed events of an emulated path.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Links from client to server, and back.
    pub links: [LinkConfig; 2],
    /// Outages and rebindings.
    pub schedule: Schedule,
}

/// Directions of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
    /// Both directions.
    Both,
}

impl Ways {
    /// Returns true for each included direction: up, then down.
    fn each(self) -> [bool; 2] {
        [self != Self::Down, self != Self::Up]
    }
}

fn ways(text: &str) -> Result<Ways, String> {
    match text {
        "up" => Ok(Ways::Up),
        "down" => Ok(Ways::Down),
        "both" => Ok(Ways::Both),
        _ => Err("write up, down or both".to_owned()),
    }
}

impl LinkArgs {
    /// Builds the path from the arguments.
    ///
    /// # Errors
    /// Fails if no loss process has the requested loss and burst length, a trace cannot be read, or outages overlap.
    pub fn path(&self) -> anyhow::Result<Path> {
        let traces = [&self.up_trace, &self.down_trace].map(|file| file.as_deref().map(read_trace).transpose());
        let [up_trace, down_trace] = traces;
        let traces = [up_trace?, down_trace?];
        let mut links = self.rates(&traces).map(|rate| self.plain(rate));
        for (link, is_on) in links.iter_mut().zip(self.ways.each()) {
            if is_on {
                *link = self.impaired(std::mem::take(link))?;
            }
            link.validate()?;
        }
        let is_traced = self.up_trace.is_some() || self.down_trace.is_some();
        ensure!(
            !is_traced || self.policer_packets.is_none() || self.policer_rate.is_some(),
            "a policer instead of a queue has one rate; give it --policer-rate, or leave the trace out"
        );
        Ok(Path { links, schedule: self.schedule(traces)? })
    }

    /// Returns the initial rates of the up and down directions, bits/s. A direction without its own rate gets the mean
    /// rate of the other direction's trace, as in plans of `dfcp lab`.
    fn rates(&self, traces: &[Option<DeliveryTrace>; 2]) -> [Option<u64>; 2] {
        let said = [self.up_rate.or(self.rate), self.rate];
        let first = traces.each_ref().map(|trace| trace.as_ref().map(|trace| trace.rate_bps(TRACE_BIN_DEFAULT, 0)));
        let mean = |way: usize| traces[1 - way].as_ref().map(|trace| (trace.mean_rate_bps().round() as u64).max(1));
        [0, 1].map(|way| first[way].or(said[way]).or_else(|| mean(way)))
    }

    fn schedule(&self, traces: [Option<DeliveryTrace>; 2]) -> anyhow::Result<Schedule> {
        let mut outages = self.outage.clone();
        outages.sort_unstable();
        if let Some(pair) = outages.windows(2).find(|pair| pair[1].start <= pair[0].end()) {
            anyhow::bail!("the outage {} lasts until that {} begins; join them to one", pair[0], pair[1]);
        }
        let outages = outages.iter().map(|outage| (outage.start, outage.length));
        let schedule =
            outages.fold(Schedule::default(), |schedule, (start, length)| schedule.with_outage(start, length));
        let schedule = self.rebind.iter().fold(schedule, |schedule, &at| schedule.with_rebind(at));
        let traces = [Way::Up, Way::Down].into_iter().zip(traces);
        Ok(traces.fold(schedule, |schedule, (way, trace)| match trace {
            Some(trace) => schedule.with_trace(way, trace),
            None => schedule,
        }))
    }

    /// Returns a link without impairments, at this rate.
    fn plain(&self, rate_bps: Option<u64>) -> LinkConfig {
        let link = LinkConfig::default()
            .with_delay(self.delay)
            .with_queue(QueueLimit::packets(self.queue.packets))
            .with_discipline(self.queue.kind.discipline());
        LinkConfig { rate_bps, ..link }
    }

    fn impaired(&self, link: LinkConfig) -> anyhow::Result<LinkConfig> {
        let loss = match self.burst {
            Some(burst) => Loss::bursts(self.loss, burst).context("cannot combine --loss and --burst")?,
            None if self.loss == 0.0 => Loss::None,
            None => Loss::bernoulli(self.loss),
        };
        let link = link
            .with_loss(loss)
            .with_jitter(self.jitter)
            .with_batch(self.batch)
            .with_reorder(self.reorder, REORDER_DELAY_DEFAULT)
            .with_duplicate(self.duplicate)
            .with_corrupt(self.corrupt);
        let Some(packets) = self.policer_packets else { return Ok(link) };
        link.policed(self.policer_rate, packets).context("--policer-packets needs --rate or --policer-rate")
    }

    /// Describes the bottleneck rates of both directions, for display.
    fn describe_rates(&self) -> Option<String> {
        let traced = |file: &Option<PathBuf>| file.as_ref().map(|file| format!("the rates of {}", file.display()));
        let rate = |rate: Option<u64>| rate.map(|bps| units::human_rate(bps as f64));
        let down = traced(&self.down_trace).or_else(|| rate(self.rate));
        let up = traced(&self.up_trace).or_else(|| rate(self.up_rate));
        let unlimited = || "no limit".to_owned();
        match (up, down) {
            (None, None) => None,
            (None, Some(both)) if self.down_trace.is_none() => Some(both),
            (None, Some(down)) => {
                let up = rate(self.rate).unwrap_or_else(|| "their mean".to_owned());
                Some(format!("{down} down and {up} up"))
            }
            (Some(up), None) if self.up_trace.is_some() => Some(format!("{up} up and their mean down")),
            (Some(up), down) => Some(format!("{up} up and {} down", down.unwrap_or_else(unlimited))),
        }
    }

    fn describe_policer(&self) -> Option<String> {
        let packets = self.policer_packets?;
        let rate = self.policer_rate.map(|bps| format!(" of {}", units::human_rate(bps as f64))).unwrap_or_default();
        Some(format!("a policer{rate} with a bucket of {packets} packets"))
    }
}

/// Queue discipline, with its usual parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out.
    #[default]
    Fifo,
    /// Deficit round robin.
    Drr,
    /// Stochastic fair queueing.
    Sfq,
    /// Weighted fair queueing.
    Wfq,
    /// CoDel with one queue for all flows.
    Codel,
    /// FQ-CoDel: a CoDel queue per flow.
    FqCodel,
    /// Random early detection.
    Red,
}

impl QueueKind {
    const ALL: [Self; 7] = [Self::Fifo, Self::Drr, Self::Sfq, Self::Wfq, Self::Codel, Self::FqCodel, Self::Red];

    fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Drr => "drr",
            Self::Sfq => "sfq",
            Self::Wfq => "wfq",
            Self::Codel => "codel",
            Self::FqCodel => "fq-codel",
            Self::Red => "red",
        }
    }

    fn discipline(self) -> Discipline {
        match self {
            Self::Fifo => Discipline::DropTail,
            Self::Drr => Discipline::Drr(Drr::default()),
            Self::Sfq => Discipline::Sfq(Sfq::default()),
            Self::Wfq => Discipline::Wfq(Wfq::default()),
            Self::Codel => Discipline::FqCodel(FqCodel { ecn: true, ..FqCodel::single_queue() }),
            Self::FqCodel => Discipline::FqCodel(FqCodel { ecn: true, ..FqCodel::default() }),
            Self::Red => Discipline::Red(Red { ecn: true, ..Red::default() }),
        }
    }
}

/// Queue in front of the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueArg {
    /// Queue discipline.
    pub kind: QueueKind,
    /// Queue limit in packets.
    pub packets: usize,
}

impl Default for QueueArg {
    fn default() -> Self {
        Self { kind: QueueKind::Fifo, packets: QUEUE_PACKETS }
    }
}

impl QueueArg {
    fn describe(self) -> String {
        let kind = if self.kind == QueueKind::Fifo { String::new() } else { format!("{} ", self.kind.name()) };
        format!("a {kind}queue of {} packets", self.packets)
    }
}

impl FromStr for QueueArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let kinds = QueueKind::ALL.map(QueueKind::name).join(", ");
            format!("expected a number of packets, a kind ({kinds}), or both, such as drr:500")
        };
        if let Ok(packets) = text.parse() {
            return Ok(Self { packets, ..Self::default() });
        }
        let (name, packets) = match text.split_once(':') {
            Some((name, packets)) => (name, packets.parse().map_err(|_| wrong())?),
            None => (text, QUEUE_PACKETS),
        };
        let kind = QueueKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(wrong)?;
        Ok(Self { kind, packets })
    }
}

impl fmt::Display for QueueArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            QueueKind::Fifo => write!(f, "{}", self.packets),
            kind => write!(f, "{}:{}", kind.name(), self.packets),
        }
    }
}

/// Writes one phrase per impairment: `10 % loss, 25 ms delay`.
impl fmt::Display for LinkArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut phrases = Vec::new();
        if self.loss > 0.0 {
            let burst = self.burst.map(|burst| format!(" in runs of {burst}")).unwrap_or_default();
            phrases.push(format!("{} loss{burst}", units::human_percent(self.loss)));
        }
        for (time, what) in [(self.delay, "delay"), (self.jitter, "jitter"), (self.batch, "between batches")] {
            if !time.is_zero() {
                phrases.push(format!("{} {what}", units::human_duration(time)));
            }
        }
        let has_queue = self.policer_packets.is_none() || self.policer_rate.is_some();
        match self.describe_rates() {
            Some(rates) if has_queue => phrases.push(format!("{rates} with {}", self.queue.describe())),
            Some(rates) => phrases.push(rates),
            None => {}
        }
        phrases.extend(self.describe_policer());
        let shares = [(self.reorder, "reordered"), (self.duplicate, "duplicated"), (self.corrupt, "corrupted")];
        for (share, what) in shares {
            if share > 0.0 {
                phrases.push(format!("{} {what}", units::human_percent(share)));
            }
        }
        if self.ways != Ways::Both {
            let way = if self.ways == Ways::Up { "up" } else { "down" };
            phrases.push(format!("impaired {way} alone"));
        }
        phrases.extend(self.outage.iter().map(|outage| format!("an outage {outage}")));
        phrases.extend(self.rebind.iter().map(|&at| format!("another port after {}", units::human_duration(at))));
        if phrases.is_empty() {
            return f.write_str("no impairment");
        }
        f.write_str(&phrases.join(", "))
    }
}

/// Reads a delivery trace.
///
/// # Errors
/// Fails if the file cannot be read or is no delivery trace.
fn read_trace(path: &std::path::Path) -> anyhow::Result<DeliveryTrace> {
    let shown = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(TRACE_TEXT_BYTES_MAX + 1).read_to_string(&mut text));
    let read_bytes = read.with_context(|| format!("cannot read the trace {shown}"))? as u64;
    ensure!(
        read_bytes <= TRACE_TEXT_BYTES_MAX,
        "cannot read the trace {shown}: it has more than {TRACE_TEXT_BYTES_MAX} bytes"
    );
    DeliveryTrace::parse(&text).map_err(|error| anyhow!("{shown}, line {}: {error}", error.line))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use dfcp_netem::Policer;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        link: LinkArgs,
    }

    fn parse(line: &str) -> Result<LinkArgs, clap::Error> {
        Command::try_parse_from(["path"].into_iter().chain(line.split_whitespace())).map(|command| command.link)
    }

    #[test]
    fn nothing_asked_for_is_a_perfect_link() {
        let args = parse("").unwrap();
        let expected = LinkConfig::default().with_queue(QueueLimit::packets(1000));
        assert_eq!(args.path().unwrap(), Path { links: [expected.clone(), expected], schedule: Schedule::default() });
        assert_eq!(args.to_string(), "no impairment");
    }

    #[test]
    fn every_option_reaches_the_link() {
        let line = "--loss 10% --burst 4 --delay 25ms --jitter 2ms --rate 100mbit --queue 500 --reorder 1% \
                    --duplicate 2% --corrupt 0.1% --batch 4ms --policer-rate 90mbit --policer-packets 20";
        let args = parse(line).unwrap();
        let expected = LinkConfig::default()
            .with_loss(Loss::bursts(0.1, 4.0).unwrap())
            .with_delay(Duration::from_millis(25))
            .with_jitter(Duration::from_millis(2))
            .with_rate_bps(100_000_000)
            .with_queue(QueueLimit::packets(500))
            .with_reorder(0.01, REORDER_DELAY_DEFAULT)
            .with_duplicate(0.02)
            .with_batch(Duration::from_millis(4))
            .with_policer(Policer { rate_bps: 90_000_000, bucket_bytes: 30_000 })
            .with_corrupt(0.001);
        assert_eq!(args.path().unwrap().links, [expected.clone(), expected]);
        assert_eq!(
            args.to_string(),
            "10 % loss in runs of 4, 25 ms delay, 2 ms jitter, 4 ms between batches, 100 Mbit/s with a queue of 500 packets, \
             a policer of 90.0 Mbit/s with a bucket of 20 packets, 1 % reordered, 2 % duplicated, 0.1 % corrupted"
        );
    }

    #[test]
    fn mistakes_are_explained() {
        assert!(parse("--loss 10").unwrap_err().to_string().contains("write 10% or 0.1"));
        assert!(parse("--delay 25").unwrap_err().to_string().contains("25ms"));
        assert!(parse("--rate 0").unwrap_err().to_string().contains("20mbit"));
        assert!(parse("--burst 4").unwrap_err().to_string().contains("--loss"));
        let error = parse("--loss 90% --burst 2").unwrap().path().unwrap_err();
        assert!(format!("{error:#}").contains("needs bursts of at least"), "{error:#}");
    }

    #[test]
    fn queues_have_a_kind_and_a_length() {
        let queue = |text: &str| text.parse::<QueueArg>();
        assert_eq!(queue("7"), Ok(QueueArg { kind: QueueKind::Fifo, packets: 7 }));
        assert_eq!(queue("drr"), Ok(QueueArg { kind: QueueKind::Drr, packets: 1000 }));
        for kind in QueueKind::ALL {
            let arg = QueueArg { kind, packets: 9 };
            assert_eq!(queue(&arg.to_string()), Ok(arg));
            kind.discipline().validate().unwrap();
        }
        for wrong in ["", "codle", "drr:", "drr:x", "7:drr", ":7"] {
            assert!(queue(wrong).unwrap_err().contains("drr:500"), "{wrong}");
        }
        let args = parse("--rate 8mbit --queue fq-codel:300").unwrap();
        assert_eq!(args.to_string(), "8.00 Mbit/s with a fq-codel queue of 300 packets");
        let expected = LinkConfig::default()
            .with_rate_bps(8_000_000)
            .with_queue(QueueLimit::packets(300))
            .with_discipline(Discipline::FqCodel(FqCodel { ecn: true, ..FqCodel::default() }));
        assert_eq!(args.path().unwrap().links, [expected.clone(), expected]);
    }

    #[test]
    fn each_way_has_its_rate_and_the_impairments_that_are_said() {
        let args =
            parse("--rate 10mbit --up-rate 1mbit --loss 1% --batch 5ms --ways down --policer-packets 9").unwrap();
        let [up, down] = args.path().unwrap().links;
        assert_eq!((up.rate_bps, &up.loss, up.batch, up.policer), (Some(1_000_000), &Loss::None, Duration::ZERO, None));
        let policer = Policer { rate_bps: 10_000_000, bucket_bytes: 13_500 };
        assert_eq!((down.rate_bps, down.policer), (None, Some(policer)));
        assert_eq!((down.loss, down.batch), (Loss::bernoulli(0.01), Duration::from_millis(5)));
        assert_eq!(
            args.to_string(),
            "1 % loss, 5 ms between batches, 1.00 Mbit/s up and 10.0 Mbit/s down, a policer with a bucket of 9 packets, impaired down alone"
        );
        assert!(parse("--policer-rate 9mbit").unwrap_err().to_string().contains("--policer-packets"));
        assert!(parse("--policer-packets 0").is_err() && parse("--ways sideways").is_err());
        let error = parse("--policer-packets 9").unwrap().path().unwrap_err();
        assert!(format!("{error:#}").contains("needs --rate or --policer-rate"), "{error:#}");
    }

    #[test]
    fn a_trace_is_the_rate_of_its_way_and_its_mean_that_of_the_other() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("trace");
        // The trace lasts 60 ms: 2 packets in its first 20 ms (1.2 Mbit/s), and 4 packets in total (800 kbit/s).
        std::fs::write(&file, "1\n2\n30\n60\n").unwrap();
        let path = |line: &str| parse(&line.replace("FILE", &file.display().to_string())).unwrap().path();
        let rates = |line: &str| path(line).unwrap().links.map(|link| link.rate_bps);
        assert_eq!(rates("--up-trace FILE"), [Some(1_200_000), Some(800_000)]);
        assert_eq!(rates("--down-trace FILE --up-rate 3mbit"), [Some(3_000_000), Some(1_200_000)]);
        assert_eq!(rates("--up-trace FILE --rate 5mbit"), [Some(1_200_000), Some(5_000_000)]);
        let expected = Schedule::default().with_trace(Way::Up, DeliveryTrace::parse("1\n2\n30\n60").unwrap());
        assert_eq!(path("--up-trace FILE").unwrap().schedule, expected);
        assert!(path("--up-trace FILE --policer-packets 3").unwrap_err().to_string().contains("--policer-rate"));
        assert!(path("--up-trace FILE.none").unwrap_err().to_string().contains("cannot read the trace"));
        std::fs::write(&file, "2\n1\n").unwrap();
        let error = path("--down-trace FILE").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("sort the file"), "{error}");
    }

    #[test]
    fn outages_and_new_ports_come_at_their_times() {
        let args = parse("--outage 10s:500ms --rebind 3s --outage 2s:1s").unwrap();
        let s = Duration::from_secs;
        let expected = Schedule::default().with_outage(s(2), s(1)).with_outage(s(10), s(1) / 2).with_rebind(s(3));
        assert_eq!(args.path().unwrap().schedule, expected);
        assert_eq!(
            args.to_string(),
            "an outage of 500 ms after 10 s, an outage of 1 s after 2 s, another port after 3 s"
        );
        for wrong in ["--outage 10s", "--outage 1s:0", "--outage :1s", "--outage 1s:x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let error = parse("--outage 1s:2s --outage 3s:1s").unwrap().path().unwrap_err();
        assert!(error.to_string().contains("of 2 s after 1 s lasts until that of 1 s after 3 s begins"), "{error}");
    }
}
