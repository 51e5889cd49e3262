//! Two child processes at work, and their reports.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::contenders::Contender;
use crate::limits;
use crate::namespaces::Network;
use crate::protocol::{Job, Message, Order, Report, Role, Work};

/// Final reports of both ends; `None` for a server that only answers.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) server: Option<Report>,
    pub(crate) client: Report,
}

/// A child process, killed on drop.
#[derive(Debug)]
struct End {
    role: Role,
    child: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Runs a job of one contender between two new processes.
///
/// # Errors
/// Fails if an end cannot be started, fails, or takes much longer than planned.
pub(crate) async fn run(network: &Network, contender: Contender, work: Work) -> anyhow::Result<Reports> {
    let limit = Duration::from_secs_f64(work.planned_seconds()) + limits::OVERTIME_MAX;
    let reports = timeout(limit, run_without_limit(network, contender, work)).await;
    reports
        .with_context(|| format!("no result within {limit:.0?}, try again when this machine is less busy"))
        .and_then(|reports| reports)
        .with_context(|| format!("cannot measure {contender}"))
}

async fn run_without_limit(network: &Network, contender: Contender, work: Work) -> anyhow::Result<Reports> {
    let job = |role, server| Job { contender, role, work, ip: network.ip(role), server };
    let mut server = End::start(network, Role::Server)?;
    server.tell(&job(Role::Server, None)).await?;
    let Message::Ready(ready) = server.hear().await? else { bail!("the server reported before it was ready") };
    let mut client = End::start(network, Role::Client)?;
    client.tell(&job(Role::Client, Some(ready))).await?;
    let reports = match work {
        Work::Bulk { .. } => {
            let (server, client) = tokio::try_join!(server.hear_report(), client.hear_report())?;
            Reports { server: Some(server), client }
        }
        Work::PingPong { .. } | Work::Connections { .. } => {
            tokio::select! {
                client = client.hear_report() => Reports { server: None, client: client? },
                server = server.hear_report() => bail!("the server ended first: {server:?}"),
            }
        }
        Work::Idle { .. } => {
            let client = client.hear_report().await?;
            server.tell(&Order::Report).await?;
            Reports { server: Some(server.hear_report().await?), client }
        }
    };
    client.stop().await?;
    server.stop().await?;
    Ok(reports)
}

impl Work {
    /// Planned duration at the ends, without start and stop, s.
    pub(crate) fn planned_seconds(&self) -> f64 {
        match *self {
            Self::Bulk { lead_in, seconds, .. } => lead_in + seconds,
            Self::PingPong { seconds, .. } | Self::Connections { seconds, .. } => seconds,
            Self::Idle { connections } => 2.0 * limits::SETTLE.as_secs_f64() + connections as f64 / 500.0,
        }
    }
}

impl End {
    fn start(network: &Network, role: Role) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let mut command = Command::from(network.command(role, &program));
        command.arg("end").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start the other process")?;
        let (Some(orders), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("cannot talk to the other process");
        };
        Ok(Self { role, child, orders, lines: BufReader::new(out).lines() })
    }

    async fn tell(&mut self, what: &impl serde::Serialize) -> anyhow::Result<()> {
        let line = format!("{}\n", serde_json::to_string(what)?);
        self.orders.write_all(line.as_bytes()).await.with_context(|| format!("the {} ended early", self.name()))
    }

    /// Reads the next line.
    async fn hear(&mut self) -> anyhow::Result<Message> {
        let line = self.lines.next_line().await?.with_context(|| format!("the {} ended early", self.name()))?;
        match serde_json::from_str(&line).with_context(|| format!("the {} said nonsense", self.name()))? {
            Message::Error(error) => bail!("{} ({})", error, self.name()),
            message => Ok(message),
        }
    }

    async fn hear_report(&mut self) -> anyhow::Result<Report> {
        match self.hear().await? {
            Message::Report(report) => Ok(report),
            _ => bail!("the {} said something else than a result", self.name()),
        }
    }

    const fn name(&self) -> &'static str {
        match self.role {
            Role::Server => "server",
            Role::Client => "client",
        }
    }

    /// Ends the process, and waits for its exit.
    async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.with_context(|| format!("cannot end the {}", self.name()))
    }
}
