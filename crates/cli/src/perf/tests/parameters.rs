//! Tests: parameters of thesis table 3.2, on classic connections over loopback configured by the command line.

use clap::Parser;
use dfcp::Stream;
use dfcp::classic::ParameterError;
use dfcp_files::transport::{Acceptor, Handle};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;
use crate::admission::opening::Opening;
use crate::args::{PerfClientArgs, PerfServerArgs, PerfSide};
use crate::cli::{Cli, Command};
use crate::net;
use crate::session_error::SessionError;

type Outcome<T> = Result<T, SessionError>;

fn perf(arguments: &[&str]) -> PerfSide {
    let cli = Cli::try_parse_from([&["dfcp", "perf"], arguments].concat()).unwrap();
    let Command::Perf(perf) = cli.command else { panic!("not perf") };
    perf.side
}

fn server_args(sets: &[&str]) -> PerfServerArgs {
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    let arguments: Vec<_> =
        ["server", "--listen", "127.0.0.1:0", "--insecure-classic"].into_iter().chain(sets).collect();
    let PerfSide::Server(mut args) = perf(&arguments) else { panic!("not server") };
    args.path.parameters = args.parameters.parameters().unwrap();
    args
}

fn client_args(server: &str, more: &[&str]) -> PerfClientArgs {
    let PerfSide::Client(args) = perf(&[&["client", server, "--insecure-classic"], more].concat()) else {
        panic!("not client")
    };
    args
}

/// Measures over loopback, with both ends built from command lines.
async fn measure(server: &[&str], client: &[&str]) -> (Outcome<Measured>, Outcome<Measured>) {
    let server = server_args(server);
    let mut listener = net::listen(&server.listen, &server.path, None).await.unwrap();
    let address = listener.local_address().unwrap().to_string();
    let mut client = client_args(&address, client);
    let request = client::prepare(&mut client).unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        server::session(stream, &server.path.parameters).await.map(|served| data_of(served).1)
    };
    let ask = async {
        let stream: Stream = net::connect(&client.server, &client.path, &client.host).await.unwrap().stream;
        client::session(stream, &request, |_| {}).await
    };
    tokio::join!(ask, serve)
}

#[test]
fn tokens_are_what_limits_whichever_side_sends() {
    // Two segments per 4 ms: 5.68 Mbit/s, a twentieth of the default rate.
    let tokens = ["--set", "inctokens=2840", "--set", "maxtokens=5680"];
    let cases = [
        (&[][..], [&["--bytes", "300000"][..], &tokens].concat()),
        (&["inctokens=2840", "maxtokens=5680"], ["--bytes", "300000", "--reverse"].to_vec()),
    ];
    for (server, client) in cases {
        let started = Instant::now();
        let (client, server) = run(measure(server, &client));
        let ticks = started.elapsed().as_millis() / 4;
        let path = client.unwrap().path.unwrap();
        let encoded_bytes = 1420 * u128::from(path.data_datagrams.total());
        assert!(encoded_bytes <= 2840 * ticks, "{encoded_bytes} bytes of segments in {ticks} ticks");
        assert!(path.bytes_acknowledged >= 300_000 && server.unwrap().bytes == 300_000, "{path:?}");
    }
}

#[test]
fn bytes_are_counted_without_coding_and_decoding() {
    let cases: [(&[&str], &[&str]); 6] = [
        (&[], &["--set", "coding=0"]),
        (&[], &["--set", "decoding=0"]),
        (&["decoding=0"], &["--set", "coding=0", "--set", "decoding=0"]),
        (&[], &["--set", "decoding=0", "--reverse"]),
        (&["coding=0"], &["--set", "decoding=0", "--reverse"]),
        (&["coding=0", "decoding=0"], &["--set", "decoding=0", "--reverse"]),
    ];
    for (server, client) in cases {
        let case = format!("server {server:?}, client {client:?}");
        let (client, server) = run(measure(server, &[&["--bytes", "300000"], client].concat()));
        assert_eq!(client.expect(&case).bytes, 300_000, "{case}");
        assert_eq!(server.expect(&case).bytes, 300_000, "{case}");
    }
}

#[test]
fn a_server_without_its_codec_tells_clients_what_to_give() {
    let cases: [(&[&str], &[&str], &str); 5] = [
        (&["decoding=0"], &[], "give the client --set decoding=0, too"),
        (&["decoding=0"], &["--reverse"], "give the client --set decoding=0, too"),
        (&["coding=0"], &[], "give the client --reverse --set decoding=0"),
        (&["coding=0"], &["--reverse"], "give the client --reverse --set decoding=0"),
        (&["coding=0"], &["--set", "coding=0"], "give the client --reverse --set decoding=0"),
    ];
    for (server, client, advice) in cases {
        let case = format!("server {server:?}, client {client:?}");
        let (client, server) = run(measure(server, &[&["--bytes", "300000"], client].concat()));
        assert!(
            matches!(&client, Err(SessionError::Refused(why)) if why.sentence.contains(advice)),
            "{case}: {client:?}"
        );
        assert!(matches!(&server, Err(SessionError::Unsuited(why)) if why.contains(advice)), "{case}: {server:?}");
    }
}

#[test]
fn a_client_cannot_leave_coding_out_for_the_server() {
    let mut args = client_args("there.example:1", &["--reverse", "--set", "coding=0"]);
    let said = client::prepare(&mut args).unwrap_err().to_string();
    assert!(said.contains("start it with --set coding=0"), "{said}");
}

#[test]
fn what_is_not_decoded_is_read_as_zeros() {
    let server = server_args(&[]);
    run(async {
        let mut listener = net::listen(&server.listen, &server.path, None).await.unwrap();
        let client = client_args(&listener.local_address().unwrap().to_string(), &[]);
        let (ready, readied) = oneshot::channel();
        let receive = async {
            // Wrap the connection in the same way as the server does.
            let mut handle = Handle::new(Opening::new(listener.accept().await.unwrap().0));
            handle.stop_decoding().unwrap();
            ready.send(()).unwrap();
            let mut data = Vec::new();
            handle.read_to_end(&mut data).await.unwrap();
            assert!(data == vec![0; 100_000], "{} bytes", data.len());
            handle.shutdown().await.unwrap();
        };
        let send = async {
            let mut stream = net::connect(&client.server, &client.path, &client.host).await.unwrap().stream;
            readied.await.unwrap();
            stream.write_all(&vec![7; 100_000]).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        tokio::join!(receive, send);
    });
}

/// Connection that, like the modern profile, always decodes.
struct Modern(DuplexStream);

impl Transport for Modern {
    fn stop_decoding(&self) -> Result<(), ParameterError> {
        Err(ParameterError::ClassicOnly("Decoding"))
    }
}

impl AsyncRead for Modern {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Modern {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[test]
fn a_modern_connection_is_not_left_undecoded() {
    for reverse in [false, true] {
        let (here, there) = duplex(1000);
        let request = Request { raw: true, ..request(reverse, 1000) };
        let client = if reverse {
            run(async { tokio::join!(client::session(Modern(here), &request, |_| {}), serve(there)).0 })
        } else {
            run(async { tokio::join!(client::session(here, &request, |_| {}), serve(Modern(there))).0 })
        };
        assert!(client.unwrap_err().to_string().contains("--insecure-classic"), "reverse {reverse}");
    }
}

#[test]
fn no_data_is_sent_before_the_other_side_says_that_it_does_not_decode() {
    let request = Request { raw: true, ..request(false, 100_000) };
    let mut opening = Service::Perf.preamble().to_vec();
    request.encode(&mut opening);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (here, mut there) = duplex(1 << 20);
        let respond = async move {
            there.write_all(&Service::Perf.preamble()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            let mut heard = vec![0; 1 << 20];
            let heard_bytes = there.read(&mut heard).await.unwrap();
            assert_eq!(&heard[..heard_bytes], opening, "and nothing else");
            let mut ready = Vec::new();
            Count::default().encode(&mut ready);
            there.write_all(&ready).await.unwrap();
            let mut data = Vec::new();
            there.read_to_end(&mut data).await.unwrap();
            assert_eq!(data.len(), 100_000);
        };
        let (client, ()) = tokio::join!(client::session(here, &request, |_| {}), respond);
        assert!(matches!(client, Err(SessionError::PeerClosed)), "{client:?}");
    });
}
