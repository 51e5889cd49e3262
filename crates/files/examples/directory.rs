//! Example that sends a directory over a session and receives it in the same process.
//!
//! ```text
//! cargo run -p dfcp-files --example directory -- FROM TO     both in one process, over loopback
//! ```
#![expect(clippy::print_stdout, reason = "what a program tells its user")]

use std::path::Path;
use std::sync::Arc;

use dfcp::{Config, Listener, Stream};
use dfcp_files::{Event, Receiver, Report, Root, Sender, Store, StoreOptions};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &arguments[..] else { anyhow::bail!("usage: directory FROM TO") };
    let report = copy(from.as_ref(), to.as_ref()).await?;
    println!("{} files and directories, {} bytes", report.stored, report.bytes);
    Ok(())
}

/// Copies the directory `from` into the directory `to`, under the same name.
pub(crate) async fn copy(from: &Path, to: &Path) -> anyhow::Result<Report> {
    let key = dfcp::generate_key()?;
    let client = Config::client(key.public());
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), dfcp_files::receiving(Config::server(key)))?;
    let address = listener.local_addr()?;
    let receive = async {
        let store = Store::open(to, StoreOptions::default())?;
        let session = listener.accept().await?;
        anyhow::Ok(Receiver::new(Arc::new(store)).receive(session).finish().await?)
    };
    let send = async {
        let session = Stream::connect(address, client).await?;
        let mut transfer = Sender::new().send(session, Root::from_paths([from])?);
        while let Some(event) = transfer.next().await {
            if let Event::Entry(entry) = event {
                println!("{}: {}", entry.name, entry.failure.as_deref().unwrap_or("stored"));
            }
        }
        anyhow::Ok(transfer.finish().await?)
    };
    let (_, report) = tokio::try_join!(receive, send)?;
    Ok(report)
}
