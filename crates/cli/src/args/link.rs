//! What an emulated path does, as command lines say it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dfcp_netem::{Discipline, Drr, FqCodel, LinkConfig, Loss, QueueLimit, REORDER_DELAY_DEFAULT, Red, Sfq, Wfq};

use crate::units;

/// Packets that may wait unless told otherwise.
const QUEUE_PACKETS: usize = 1000;

/// One direction of a path; commands use it for both.
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

    /// Up to this much more delay, at random; the order is kept
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0ms")]
    pub jitter: Duration,

    /// Rate of the bottleneck in IP bytes, for example 100mbit; unlimited if not given
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<u64>,

    /// How many packets may wait for the bottleneck, in what kind of queue, or both: 500, drr, fq-codel:500. Kinds are fifo, drr,
    /// sfq, wfq, fq-codel and red; without a kind it is fifo
    #[arg(long, value_name = "[KIND:]PACKETS", default_value_t = QueueArg::default())]
    pub queue: QueueArg,

    /// Share of packets that arrive 2 ms late, overtaken by those behind them
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub reorder: f64,

    /// Share of packets that arrive twice
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub duplicate: f64,

    /// Share of packets that arrive with one bit flipped
    #[arg(long, value_name = "SHARE", value_parser = units::percent, default_value = "0%")]
    pub corrupt: f64,
}

impl LinkArgs {
    /// What each direction's link is to do.
    ///
    /// # Errors
    /// When no loss process has the loss and burst length asked for.
    pub fn config(&self) -> anyhow::Result<LinkConfig> {
        let loss = match self.burst {
            Some(burst) => Loss::bursts(self.loss, burst).context("cannot combine --loss and --burst")?,
            None if self.loss == 0.0 => Loss::None,
            None => Loss::bernoulli(self.loss),
        };
        let mut link = LinkConfig::default()
            .with_loss(loss)
            .with_delay(self.delay)
            .with_jitter(self.jitter)
            .with_queue(QueueLimit::packets(self.queue.packets))
            .with_discipline(self.queue.kind.discipline())
            .with_reorder(self.reorder, REORDER_DELAY_DEFAULT)
            .with_duplicate(self.duplicate)
            .with_corrupt(self.corrupt);
        link.rate_bps = self.rate;
        link.validate()?;
        Ok(link)
    }
}

/// A kind of queue, with the parameters that are usual for it.
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
    /// Flow queues with CoDel.
    FqCodel,
    /// Random early detection.
    Red,
}

impl QueueKind {
    const ALL: [Self; 6] = [Self::Fifo, Self::Drr, Self::Sfq, Self::Wfq, Self::FqCodel, Self::Red];

    fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Drr => "drr",
            Self::Sfq => "sfq",
            Self::Wfq => "wfq",
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
            Self::FqCodel => Discipline::FqCodel(FqCodel::default()),
            Self::Red => Discipline::Red(Red::default()),
        }
    }
}

/// The queue in front of the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueArg {
    /// In which order packets leave it.
    pub kind: QueueKind,
    /// How many may wait.
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

/// One phrase per impairment: `10 % loss, 25 ms delay`.
impl fmt::Display for LinkArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut phrases = Vec::new();
        if self.loss > 0.0 {
            let burst = self.burst.map(|burst| format!(" in runs of {burst}")).unwrap_or_default();
            phrases.push(format!("{} loss{burst}", units::human_percent(self.loss)));
        }
        for (time, what) in [(self.delay, "delay"), (self.jitter, "jitter")] {
            if !time.is_zero() {
                phrases.push(format!("{} {what}", units::human_duration(time)));
            }
        }
        if let Some(rate_bps) = self.rate {
            phrases.push(format!("{} with {}", units::human_rate(rate_bps as f64), self.queue.describe()));
        }
        let shares = [(self.reorder, "reordered"), (self.duplicate, "duplicated"), (self.corrupt, "corrupted")];
        for (share, what) in shares {
            if share > 0.0 {
                phrases.push(format!("{} {what}", units::human_percent(share)));
            }
        }
        if phrases.is_empty() {
            return f.write_str("no impairment");
        }
        f.write_str(&phrases.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

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
        assert_eq!(args.config().unwrap(), expected);
        assert_eq!(args.to_string(), "no impairment");
    }

    #[test]
    fn every_option_reaches_the_link() {
        let line = "--loss 10% --burst 4 --delay 25ms --jitter 2ms --rate 100mbit --queue 500 --reorder 1% \
                    --duplicate 2% --corrupt 0.1%";
        let args = parse(line).unwrap();
        let expected = LinkConfig::default()
            .with_loss(Loss::bursts(0.1, 4.0).unwrap())
            .with_delay(Duration::from_millis(25))
            .with_jitter(Duration::from_millis(2))
            .with_rate_bps(100_000_000)
            .with_queue(QueueLimit::packets(500))
            .with_reorder(0.01, REORDER_DELAY_DEFAULT)
            .with_duplicate(0.02)
            .with_corrupt(0.001);
        assert_eq!(args.config().unwrap(), expected);
        assert_eq!(
            args.to_string(),
            "10 % loss in runs of 4, 25 ms delay, 2 ms jitter, 100 Mbit/s with a queue of 500 packets, \
             1 % reordered, 2 % duplicated, 0.1 % corrupted"
        );
    }

    #[test]
    fn mistakes_are_explained() {
        assert!(parse("--loss 10").unwrap_err().to_string().contains("write 10% or 0.1"));
        assert!(parse("--delay 25").unwrap_err().to_string().contains("25ms"));
        assert!(parse("--rate 0").unwrap_err().to_string().contains("100mbit"));
        assert!(parse("--burst 4").unwrap_err().to_string().contains("--loss"));
        let error = parse("--loss 90% --burst 2").unwrap().config().unwrap_err();
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
        for wrong in ["", "codel", "drr:", "drr:x", "7:drr", ":7"] {
            assert!(queue(wrong).unwrap_err().contains("drr:500"), "{wrong}");
        }
        let args = parse("--rate 8mbit --queue fq-codel:300").unwrap();
        assert_eq!(args.to_string(), "8.00 Mbit/s with a fq-codel queue of 300 packets");
        let expected = LinkConfig::default()
            .with_rate_bps(8_000_000)
            .with_queue(QueueLimit::packets(300))
            .with_discipline(Discipline::FqCodel(FqCodel::default()));
        assert_eq!(args.config().unwrap(), expected);
    }
}
