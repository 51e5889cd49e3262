//! Arguments of the file commands, and arguments that several commands share.

mod direction;
mod link;
mod listen;
mod messages;
mod monitor;
mod parameters;
mod peers;
mod perf;
mod place;
mod rate;
mod retry;
mod trust;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::ArgPredicate;
use dfcp::{Dscp, Policy};
use dfcp_secure::Cipher;

pub use self::link::{LinkArgs, Path, QueueArg, QueueKind, Ways};
pub use self::listen::{ListenArg, listen_at, listen_at_port};
pub use self::messages::{MessageArgs, target_ppm, within};
pub use self::monitor::{AuditArgs, MetricsArgs};
pub use self::parameters::{ParameterArgs, Parameters};
pub use self::peers::PeerArgs;
pub use self::perf::{PerfArgs, PerfClientArgs, PerfLocalArgs, PerfServerArgs, PerfSide, seconds};
pub use self::place::{ESTIMATE_PORT, FILES_PORT, PERF_PORT, PIPE_PORT, host_or, host_port, local_address};
pub use self::rate::RateArg;
pub use self::retry::RetryArgs;
pub use self::trust::{AdmissionArgs, CodeArg, HostArgs};
use crate::key_log;
use crate::limits::{MTU_DEFAULT_BYTES, MTU_MIN_BYTES, SENDERS_DEFAULT};
use crate::qlog::Side;
use crate::recording::Recording;
use crate::units;

/// Carrier of the datagrams, as given on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarrierArg {
    /// UDP.
    Udp,
    /// IP without UDP, with this protocol number, 253 or 254.
    RawIp(u8),
}

/// Path options of every command that opens or accepts connections.
#[derive(Debug, Clone, Args)]
pub struct PathArgs {
    /// Sending rate: `auto` adapts to the path and shares it with TCP (auto:high takes a larger share, auto:low yields to other traffic);
    /// 20M, 1.5G, .. (or 20mbit, ..) is a fixed rate in bits of IP packets per second; `line` is as fast as interface and peer allow,
    /// without circuit breaker (it starves other traffic on a shared path) [default: auto; line with --insecure-classic, which has no
    /// automatic rate]
    #[arg(long, value_name = "RATE|auto|line")]
    pub rate: Option<RateArg>,
    /// Upper limit of `--rate auto`
    #[arg(long, value_name = "RATE", value_parser = units::sending_rate)]
    pub max_rate: Option<u64>,
    /// Lower limit of the estimate of `--rate auto`. The other side's --max-receive-rate and the circuit breaker can still reduce the rate
    /// below it
    #[arg(long, value_name = "RATE", value_parser = units::sending_rate)]
    pub min_rate: Option<u64>,
    /// Limit on the rate at which each peer may send to this side, advertised when the peer connects [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = units::sending_rate, conflicts_with = "insecure_classic")]
    pub max_receive_rate: Option<u64>,
    /// Carrier of the datagrams, the same on both sides: udp, or raw-ip for IP without UDP (protocol 253; raw-ip:254 for the other
    /// experimental number). raw-ip works on Linux only, needs CAP_NET_RAW (root, or setcap cap_net_raw+ep on the program) and rarely
    /// passes NAT
    #[arg(long, value_name = "udp|raw-ip", default_value = "udp", value_parser = carrier)]
    pub carrier: CarrierArg,
    /// Upper bound on IP packets of data, 1280 to 1500 bytes, for both directions; set on either side. Smaller path MTUs (tunnels, PPPoE)
    /// are discovered automatically
    #[arg(long, value_name = "BYTES", default_value_t = MTU_DEFAULT_BYTES, value_parser = mtu)]
    #[arg(conflicts_with = "insecure_classic")]
    pub mtu: u16,
    /// Mark this side's datagrams as ECT(0), so that queues on the path can mark instead of drop; the number of marked datagrams is
    /// reported. Rate control does not respond to the marks yet: use this only to examine your own paths
    #[arg(long, conflicts_with = "insecure_classic")]
    pub ecn: bool,
    /// DSCP of this side's IP packets: EF, AF11 to AF43, CS0 to CS7, VA, LE, or a number from 0 to 63, also as 0x2e. The other side sets
    /// its own. On Linux [default: CS0]
    #[arg(long, value_name = "DSCP")]
    pub dscp: Option<Dscp>,
    /// Cipher: aes-128-gcm, aes-256-gcm or chacha20-poly1305 [default: the fastest on both machines]
    #[arg(long, value_parser = trust::cipher, conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub cipher: Option<Cipher>,
    /// Speak the classic profile: neither encrypted nor authenticated; the other side needs this flag too
    #[arg(long, conflicts_with = "insecure_plaintext")]
    pub insecure_classic: bool,
    /// Do not encrypt and authenticate anything; the other side needs this flag too
    #[arg(long)]
    pub insecure_plaintext: bool,
    /// Write a qlog trace of every connection, datagram by datagram (JSON text sequences, for qvis and other tools). One file holds all
    /// connections of the command, told apart by group_id; its name should end in .sqlog. An existing trace is replaced
    #[arg(long, value_name = "FILE")]
    pub qlog: Option<PathBuf>,
    /// Append the keys of each connection to the file named by the environment variable DFCP_KEYLOG, for `dfcp decrypt`. Anyone with that
    /// file can read and forge the traffic
    #[arg(long, conflicts_with_all = ["insecure_classic", "insecure_plaintext"])]
    pub key_log: bool,
    /// Recordings of connections; filled in by the command.
    #[arg(skip)]
    pub recording: Recording,
    /// Initial parameters of classic connections; filled in by the commands with `--set`.
    #[arg(skip)]
    pub parameters: Parameters,
    /// Number of one-way streams that the peer may open; filled in by the command.
    #[arg(skip)]
    pub peer_streams: u16,
    /// True if the command sends or receives messages; filled in by the command.
    #[arg(skip)]
    pub messages: bool,
}

/// `dfcp send`
#[derive(Debug, Args)]
#[command(
    override_usage = "dfcp send [OPTIONS] FILE.. HOST[:PORT]\n       dfcp send [OPTIONS] FILE.. --listen [[HOST:]PORT]"
)]
#[command(after_help = "\
Examples:
  dfcp send film.mkv photos/ there.example --code -
  dfcp send --rate auto:low --max-rate 50M backup.tar 192.0.2.7:4433
  dfcp send --rate 800M backup.tar fe80::7%eth0
  dfcp send --dry-run --delete --exclude '*.o' --exclude cache/ src there.example
  dfcp send --links --strict venv there.example
  dfcp send --retry 10min film.mkv there.example               # 1 h without it; --retry 0 ends with the connection
  dfcp send --delta machine.img there.example                  # there: dfcp receive --force --output images
  tar c photos | dfcp send - there.example --name photos.tar
  dfcp send film.mkv photos/ --listen                          # there: dfcp receive --from here.example --output incoming
  dfcp send backup.tar --listen 4433 --authorized-keys partners --log-json sent.jsonl
  sudo dfcp send --carrier raw-ip film.mkv 192.0.2.7:4433

With --code the two sides make sure of each other. Without, a host that is not known yet shows its key and you are asked \
whether it is the right one; it is then kept in known_hosts, and another key is refused. Without a terminal to ask on, as in \
scripts, or in the background, give --host-key, or --accept-new-key to accept the key that is shown first.

With --listen the receiver calls: where it is behind address translation, and this side is not. It is admitted as `dfcp receive` \
admits senders: by the code that is printed (the default on a terminal), by its key in authorized_keys, by the secret of --psk-file, or \
with --allow-any; before that nothing is said of the files. The first receiver that is admitted gets them, and the \
program ends, unless --keep is given.

Each is stored under the last part of its path. Those which would have the same name are stored under their paths as given, \
without a leading / and what leads out by ..: a/x and b/x are stored as these, and only x as x.

Directories are sent with all they contain; names, modes and modification times are kept (`dfcp receive` says how modes \
are narrowed there). \
Symbolic links inside directories are skipped without --links (those named on the command line are followed), and further names of a \
file are sent as files of their own. Sockets, pipes, devices and files which a `dfcp receive` has not finished (.dfcp-*.part) are skipped, too. \
One line for each of these says how many, and the exit code stays 0, unless --strict is given. With --links a symbolic link is kept if its \
target is relative, stays inside of the directory that is sent, and has .. only at its beginning; a link that is there already is replaced only with \
--force there. A hard link whose file was not stored is named as failed.

A file that changes while it is sent is sent once more, and named as failed if it changes again; of one that only grows what it \
had when it was opened is sent, and one line says so. Writers by mmap are not always noticed.

A lost connection is opened again and the transfer goes on (--retry). One that broke off goes on where it was when it is started \
again. Files of the same size and time that this sender has stored \
there are not sent (--checksum compares hashes), and a file which the receiver has with the same content is confirmed and not written \
again. Exit code 0 means: the receiver has every file that was not skipped, and has confirmed its BLAKE3 hash now or when it was stored.")]
pub struct SendArgs {
    /// Files and directories to send; - is standard input. Last, unless --listen is given, the machine that runs `dfcp receive`: HOST, or
    /// HOST:PORT if its port is not 23327
    #[arg(value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Name for standard input at the receiver; requires - among the files
    #[arg(long, value_name = "NAME")]
    pub name: Option<OsString>,
    /// Send every file from the start, even if the receiver has a part of it from an interrupted `dfcp send`
    #[arg(long)]
    pub no_resume: bool,
    /// Compare files that the receiver has by their BLAKE3 hashes, not by size and modification time
    #[arg(long)]
    pub checksum: bool,
    /// Send only the changed parts of large files; needs --force at the receiver
    #[arg(long)]
    pub delta: bool,
    /// Skip files and directories whose names match, as in rsync: *.o matches the last part of the name, cache/ directories only,
    /// /photos/raw from the start of the name at the receiver; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Send and delete nothing; print what would happen
    #[arg(long, conflicts_with = "listen")]
    pub dry_run: bool,
    /// Delete files on the receiver that are missing here, within the sent directories; needs --allow-delete there. Deletion happens at the
    /// end, and only if nothing failed. Files that --exclude matches on either side, or that are skipped here, are kept
    #[arg(long)]
    pub delete: bool,
    /// Keep links inside the sent directories: symbolic links with relative targets that stay inside, and hard links. Links are created
    /// last. Needs a receiver that supports links
    #[arg(long)]
    pub links: bool,
    /// Exit with 1 if anything not named by --exclude was skipped or changed in form: links without --links, sockets, pipes and devices,
    /// bytes appended to a file meanwhile
    #[arg(long)]
    pub strict: bool,
    /// Address of `dfcp receive`; [`Cli::checked`](crate::cli::Cli::checked) moves it here from the end of `files`.
    #[arg(skip)]
    pub to: Option<String>,
    /// Listen for one `dfcp receive --from`: on this port (default 23327) of every local address, or on the given address or host name
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_at(FILES_PORT), num_args = 0..=1, default_missing_value = "23327")]
    pub listen: Option<ListenArg>,
    /// Keep serving after the first receiver, until interrupted: every admitted receiver gets the files
    #[arg(long, requires = "listen", help_heading = "When this side listens")]
    pub keep: bool,
    /// Time limit for reconnecting after a lost connection.
    #[command(flatten)]
    pub retry: RetryArgs,
    /// Peers to trust or to admit.
    #[command(flatten)]
    pub peers: PeerArgs,
    /// Metrics endpoint of a listening sender.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Audit log of the transfers.
    #[command(flatten)]
    pub audit: AuditArgs,
    /// Options of the path.
    #[command(flatten)]
    pub path: PathArgs,
    /// Print one JSON object per line instead of a progress bar
    #[arg(long)]
    pub json: bool,
}

/// `dfcp receive`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp receive --output incoming
  dfcp receive --listen 4433 --output incoming --max-receive-rate 200M
  dfcp receive --listen there.example:4433 --output incoming --once --json --code
  dfcp receive --output incoming --authorized-keys partners --log-json /var/log/dfcp.jsonl --metrics 9184
  dfcp receive --from there.example --output incoming          # there: dfcp send FILE.. --listen
  dfcp receive --from there.example --output incoming --retry 8h
  sudo dfcp receive --output incoming --carrier raw-ip

A sender is admitted by the code that is printed (the default on a terminal), by its key in authorized_keys, by the secret \
of --psk-file, or with --allow-any without any of these. Nothing is stored before that is clear. A sender that has paired by code \
can be remembered in authorized_keys (--remember, or you are asked on the terminal); that file is read again when it \
changes, and while it cannot be used, or others can change it, it admits nobody. A code works once; an interrupted transfer that it has \
begun goes on without one, for a day at most (--forget).

With --from this side calls: where it is behind address translation, and the sender is not. It then makes sure of the sender as \
`dfcp send` does of a receiver: by --code with the code that the sender has printed, by known_hosts, --host-key or --psk-file; a host that \
is not known yet shows its key, and you are asked. It ends with that sender.

A file appears under its name only after the BLAKE3 hash of the whole file matched. Unfinished files (.dfcp-*.part) are kept for a \
week, for the key that sent them, which goes on where it was; --partials lists them. A file is \
confirmed only after it and its name are flushed to the disk, many small files together; --no-sync leaves flushing to the \
system.")]
pub struct ReceiveArgs {
    /// Port to listen on, at every local address, or at the given address or host name [default: 23327]
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_at(FILES_PORT), num_args = 0..=1, default_missing_value = "23327")]
    pub listen: Option<ListenArg>,
    /// Connect to `dfcp send --listen` at this address instead of listening
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host_or(FILES_PORT), conflicts_with_all = ["listen", "partials", "once", "max_senders"])]
    pub from: Option<String>,
    /// Directory for received files; created if missing. It must not contain or lie inside the directory of your keys, authorized_keys or
    /// secrets. `-` writes one file of one sender to standard output (implies --once), before its hash is verified: only exit code 0
    /// confirms it
    #[arg(
        long,
        value_name = "DIR",
        required = false,
        required_unless_present = "forget",
        default_value_if("forget", ArgPredicate::IsPresent, ".")
    )]
    pub output: PathBuf,
    /// Exit after one sender; the exit code states whether all its files were verified and stored
    #[arg(long)]
    pub once: bool,
    /// Replace existing files. Without this flag, files that the same sender has stored with the same content are confirmed as unchanged,
    /// and others are refused
    #[arg(long)]
    pub force: bool,
    /// Let every admitted sender learn whether it has the same files as this side, not only the sender that stored them: such files are not
    /// sent again, and equal content counts as unchanged. A sender can then test guesses about a file's content
    #[arg(long)]
    pub allow_update: bool,
    /// Allow senders to delete files with --delete: files they do not have, in the directories that they send
    #[arg(long)]
    pub allow_delete: bool,
    /// Keep no unfinished files for later resumption
    #[arg(long)]
    pub no_resume: bool,
    /// List the unfinished files below --output, and exit
    #[arg(long, conflicts_with_all = ["listen", "once", "no_resume"])]
    pub partials: bool,
    /// Forget incomplete transfers begun by code, so that they need a new code, and exit. Their unfinished files are kept
    #[arg(long, conflicts_with_all = ["listen", "from", "output", "once", "partials"])]
    pub forget: bool,
    /// Do not flush files to the disk before confirming them: faster, but a power cut may lose confirmed files
    #[arg(long)]
    pub no_sync: bool,
    /// Give files and directories exactly the sender's modes. Without this flag the umask applies, and write permission for group and
    /// others is removed
    #[arg(long)]
    pub preserve_modes: bool,
    /// Limit on the bytes that one sender may store in one session, counting the content of all its files, such as 10GB or 500MiB; further
    /// files are refused [default: free disk space]
    #[arg(long, value_name = "SIZE", value_parser = units::size_bytes)]
    pub max_bytes: Option<u64>,
    /// Limit on concurrent senders; further ones are asked to retry later
    #[arg(long, value_name = "N", default_value_t = SENDERS_DEFAULT, value_parser = count)]
    pub max_senders: usize,
    /// Time limit for reconnecting after a lost connection.
    #[command(flatten)]
    pub retry: RetryArgs,
    /// Peers to admit or to trust.
    #[command(flatten)]
    pub peers: PeerArgs,
    /// Metrics of this server.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Audit log of the transfers.
    #[command(flatten)]
    pub audit: AuditArgs,
    /// Options of the path.
    #[command(flatten)]
    pub path: PathArgs,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// `dfcp id`
#[derive(Debug, Args)]
#[command(after_help = "\
Example, to be admitted by another user's `dfcp receive`:
  here:   dfcp id
  there:  echo 'THE-PUBLIC-KEY alice@laptop' >> ~/.config/dfcp/authorized_keys

The private key is made on first use, in the file named, which must never leave this machine. Its directory is that of \
the environment variable DFCP_CONFIG_DIR, or else dfcp in the user's configuration directory. The fingerprint is what \
people compare, and authorized_keys takes it too.")]
pub struct IdArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl PathArgs {
    /// Opens the requested recordings for this `side` of connections.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn begin_recording(&mut self, side: Side) -> anyhow::Result<()> {
        self.recording = Recording::begin(self.qlog.as_deref(), self.key_log, side)?;
        Ok(())
    }

    /// Paths of the requested recordings.
    #[must_use]
    pub fn recorded_files(&self) -> Vec<PathBuf> {
        key_log::path(self.key_log).into_iter().chain(self.qlog.clone()).collect()
    }

    /// Checks that `--min-rate` is at most `--max-rate`.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (self.min_rate, self.max_rate) {
            (Some(least), Some(most)) if least > most => {
                let [least, most] = [least, most].map(|bps| units::human_rate(bps as f64));
                Err(format!("--min-rate {least} is more than --max-rate {most}: lower the one or raise the other"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the flag that turns encryption off, if one was given.
    pub fn insecure_flag(&self) -> Option<&'static str> {
        match () {
            () if self.insecure_classic => Some("--insecure-classic"),
            () if self.insecure_plaintext => Some("--insecure-plaintext"),
            () => None,
        }
    }

    /// Returns the sending rate. Without `--rate`, it is `auto`, or `line` for the classic profile, which has no
    /// automatic rate. The token bucket of classic connections is a separate limit.
    pub fn rate(&self) -> RateArg {
        self.rate.unwrap_or(if self.insecure_classic { RateArg::Line } else { RateArg::Auto(Policy::Fair) })
    }

    /// Describes the sending rate and whether a circuit breaker guards it, for display.
    pub fn describe_rate(&self) -> String {
        // Classic and `line` have no circuit breaker.
        let breaker = if self.insecure_classic || !matches!(self.rate(), RateArg::Bps(_)) { "off" } else { "on" };
        if let Some(bucket) = self.parameters.describe_bucket() {
            return format!("rate {}, {bucket} (circuit breaker {breaker})", self.rate());
        }
        match self.rate() {
            RateArg::Bps(rate_bps) => {
                format!("rate {} (circuit breaker {breaker})", units::human_rate(rate_bps as f64))
            }
            RateArg::Auto(_) => {
                let bound = |words, bps: Option<u64>| {
                    bps.map_or_else(String::new, |bps| format!(", {words} {}", units::human_rate(bps as f64)))
                };
                let (least, most) = (bound("at least", self.min_rate), bound("at most", self.max_rate));
                format!("rate: {}{least}{most}, found while it sends", self.rate())
            }
            RateArg::Line => "rate: line, as fast as interface and peer take it (circuit breaker off)".to_owned(),
        }
    }
}

fn carrier(text: &str) -> Result<CarrierArg, String> {
    match text {
        "udp" => Ok(CarrierArg::Udp),
        "raw-ip" | "raw-ip:253" => Ok(CarrierArg::RawIp(253)),
        "raw-ip:254" => Ok(CarrierArg::RawIp(254)),
        _ => Err("expected udp, raw-ip or raw-ip:254".to_owned()),
    }
}

fn mtu(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(bytes @ MTU_MIN_BYTES..=MTU_DEFAULT_BYTES) => Ok(bytes),
        _ => Err(format!("expected a number of bytes from {MTU_MIN_BYTES} to {MTU_DEFAULT_BYTES}")),
    }
}

/// Parses an integer from 1 to 65536.
///
/// # Errors
/// Fails for any other text.
pub fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=65_536) => Ok(count),
        _ => Err("expected a number from 1 to 65536".to_owned()),
    }
}

/// Parses a duration; a number without a unit is in seconds.
fn any_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => units::duration(text).map_err(|error| error.to_string()),
    }
}
