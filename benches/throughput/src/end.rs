//! One of the two ends, a separate process with a single job.

mod flows;
mod idle;
mod latency;
mod rounds;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use tokio::runtime;
use tokio::sync::mpsc;

use crate::contenders::{Contender, Dial, Listen, dfcp, quinn, tcp};
use crate::limits;
use crate::protocol::{Job, Message, Order, Ready, Report, Role, Work};

/// Reads a job from standard input, and writes its result to standard output. Ends at the end of standard input.
pub(crate) fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The parent process reports it; without a parent, nobody needs the report.
            let _ = say(&Message::Error(format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("cannot read the job")?;
    let job: Job = serde_json::from_str(&line).context("the job is none; `end` is only for this program itself")?;
    let (sender, orders) = mpsc::channel(1);
    std::thread::spawn(move || listen_for_orders(&sender));
    runtime(job.contender)?.block_on(work(&job, orders))
}

/// Ends the process at the end of standard input: no further orders can arrive.
fn listen_for_orders(sender: &mpsc::Sender<Order>) {
    for line in io::stdin().lock().lines() {
        let order = line.ok().and_then(|line| serde_json::from_str(&line).ok());
        let Some(order) = order else { break };
        if sender.blocking_send(order).is_err() {
            break;
        }
    }
    std::process::exit(0);
}

/// A runtime with one thread, or with as many worker threads as cores.
fn runtime(contender: Contender) -> anyhow::Result<runtime::Runtime> {
    use Contender::{DfcpSealed, DfcpUnsealed, Quinn1, Udp, UdpAes};
    let mut builder = match contender {
        DfcpSealed | DfcpUnsealed | Quinn1 | Udp | UdpAes => runtime::Builder::new_current_thread(),
        _ => runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build().context("cannot start a runtime")
}

/// Writes one line to the parent process.
fn say(message: &Message) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, message)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

async fn work(job: &Job, orders: mpsc::Receiver<Order>) -> anyhow::Result<()> {
    match (job.contender, job.role) {
        (Contender::DfcpSealed | Contender::DfcpUnsealed | Contender::DfcpThreads, Role::Server) => {
            let sealed = job.contender != Contender::DfcpUnsealed;
            serve(dfcp::Server::bind(job.ip, sealed)?, job, orders).await
        }
        (Contender::DfcpSealed | Contender::DfcpUnsealed | Contender::DfcpThreads, Role::Client) => {
            let rate_bps = if let Work::Bulk { rate_bps, .. } = job.work { rate_bps } else { None };
            ask(dfcp::Client::new(job.ip, server(job)?, rate_bps, send_buffer_bytes(job.work))?, job).await
        }
        (Contender::Quinn | Contender::Quinn1 | Contender::QuinnDefault, Role::Server) => {
            serve(quinn::Server::bind(job.ip, quinn_setting(job))?, job, orders).await
        }
        (Contender::Quinn | Contender::Quinn1 | Contender::QuinnDefault, Role::Client) => {
            ask(quinn::Client::new(job.ip, server(job)?, quinn_setting(job))?, job).await
        }
        (Contender::Tcp | Contender::TcpLarge, Role::Server) => serve(tcp::Server::bind(job.ip)?, job, orders).await,
        (Contender::Tcp | Contender::TcpLarge, Role::Client) => ask(tcp::Client::new(job.ip, server(job)?), job).await,
        (Contender::Udp | Contender::UdpAes, role) => blast(job, role).await,
    }
}

fn server(job: &Job) -> anyhow::Result<&Ready> {
    job.server.as_ref().context("the job names no server")
}

fn quinn_setting(job: &Job) -> quinn::Setting {
    match job.contender {
        Contender::QuinnDefault => quinn::Setting::Default,
        _ => quinn::Setting::Tuned { send_buffer_bytes: send_buffer_bytes(job.work) },
    }
}

/// Send buffer of each connection, smaller with many writers.
fn send_buffer_bytes(work: Work) -> u32 {
    let Work::Bulk { connections, .. } = work else { return limits::WINDOW_BYTES };
    let connections = u32::try_from(connections).unwrap_or(u32::MAX).max(1);
    limits::WINDOW_BYTES.min(limits::SEND_BUFFERS_BYTES_MAX / connections)
}

/// Server's end for any work, for contenders with connections.
async fn serve<L: Listen>(listener: L, job: &Job, orders: mpsc::Receiver<Order>) -> anyhow::Result<()> {
    let ready = listener.ready()?;
    match job.work {
        Work::Bulk { connections, lead_in, seconds, .. } => {
            say(&Message::Ready(ready))?;
            let window = flows::receive(listener, connections, lead_in, seconds).await?;
            stay(Report::Flow(window)).await
        }
        Work::PingPong { .. } | Work::Connections { .. } => {
            say(&Message::Ready(ready))?;
            rounds::echo(listener).await
        }
        Work::Idle { connections } => {
            say(&Message::Ready(ready))?;
            stay(Report::Memory(idle::hold(listener, connections, orders).await?)).await
        }
    }
}

/// Client's end for any work, for contenders with connections.
async fn ask<D: Dial>(dialer: D, job: &Job) -> anyhow::Result<()> {
    match job.work {
        Work::Bulk { connections, lead_in, seconds, .. } => {
            let write_bytes = match job.contender {
                Contender::Tcp => limits::SMALL_WRITE_BYTES,
                _ => limits::CHUNK_BYTES,
            };
            let window = flows::send(dialer, connections, write_bytes, lead_in, seconds).await?;
            stay(Report::Flow(window)).await
        }
        Work::PingPong { messages, seconds } => {
            stay(Report::Latency(latency::ping(&dialer, messages, seconds).await?)).await
        }
        Work::Connections { seconds, at_a_time } => {
            stay(Report::Connections(rounds::open_and_close(dialer, at_a_time, seconds).await?)).await
        }
        Work::Idle { connections } => idle::open(dialer, connections).await,
    }
}

/// Either end of bare UDP, which has no connections.
async fn blast(job: &Job, role: Role) -> anyhow::Result<()> {
    match job.work {
        Work::Bulk { lead_in, seconds, rate_bps, .. } => {
            let window = flows::blast(job, role, rate_bps, lead_in, seconds).await?;
            stay(Report::Flow(window)).await
        }
        Work::PingPong { messages, seconds } => match role {
            Role::Server => latency::echo_datagrams(job),
            Role::Client => stay(Report::Latency(latency::ping_datagrams(job, messages, seconds)?)).await,
        },
        Work::Connections { .. } | Work::Idle { .. } => {
            bail!("{} has no connections, leave it out of these sections", job.contender)
        }
    }
}

/// Sends the report, and keeps the tasks running until the process is ended.
async fn stay(report: Report) -> anyhow::Result<()> {
    say(&Message::Report(report))?;
    std::future::pending().await
}
