//! Arguments of `dfcp decrypt`.

use std::path::PathBuf;

use clap::Args;

/// `dfcp decrypt`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sudo tcpdump -i eth0 -s 0 -w film.pcap udp port 4433
  DFCP_KEYLOG=keys.txt dfcp send film.mkv there.example:4433 --key-log
  dfcp decrypt film.pcap --keys keys.txt
  tshark -X lua_script:tools/wireshark/dfcp.lua -r film.decrypted.pcap -Y dfcp.record.stream

Reads pcapng and pcap, with Ethernet, IP, Linux' `any` or loopback, UDP or raw IP, and writes the same format: every packet as it was, as long as \
it was, with the payloads of the datagrams that the keys open in place of their ciphertext. The dissector in tools/wireshark shows them. \
What cannot be opened is copied as it is, and counted by cause. The key log of either side opens both directions.")]
pub struct DecryptArgs {
    /// The capture, pcapng or pcap
    #[arg(value_name = "CAPTURE")]
    pub capture: PathBuf,
    /// The key log: what a command with --key-log wrote to the file named by DFCP_KEYLOG
    #[arg(long, value_name = "FILE")]
    pub keys: PathBuf,
    /// Output file; replaced if it exists [default: beside the capture, x.decrypted.pcapng for x.pcapng]
    #[arg(long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
