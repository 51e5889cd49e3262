//! Tests: attacks of strangers on the metrics server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::time::{advance, timeout};

use super::*;
use crate::limits::{SCRAPE_HEAD_BYTES_MAX, SCRAPE_TIME_MAX, SCRAPES_MAX};

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

/// Source that counts its renderings.
#[derive(Default)]
struct Asked(AtomicU64);

impl Source for Asked {
    fn write(&self, text: &mut Text) {
        text.counter("dfcp_asked_total", "How often.", self.0.fetch_add(1, Ordering::Relaxed) + 1);
    }
}

fn page() -> (Arc<Page>, Arc<Asked>) {
    let asked = Arc::new(Asked::default());
    (Arc::new(Page::new(vec![Arc::clone(&asked) as _])), asked)
}

/// Client that can have `buffer` unread bytes in each direction.
fn client(page: &Arc<Page>, buffer: usize) -> (DuplexStream, JoinHandle<()>) {
    let (ours, theirs) = duplex(buffer);
    (ours, tokio::spawn(http::answer(theirs, Arc::clone(page))))
}

/// Returns the complete answer to `request`.
async fn ask(page: &Arc<Page>, request: &[u8]) -> String {
    let (mut ours, _serving) = client(page, 1 << 20);
    ours.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    ours.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(start_paused = true)]
async fn there_is_one_page_to_read() {
    let (page, _) = page();
    let answer = ask(&page, GET).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("dfcp_asked_total 1\n"), "{answer}");
    let head = ask(&page, b"HEAD /metrics HTTP/1.0\r\n\r\n").await;
    assert!(head.contains(" 200 OK") && !head.contains("dfcp_asked_total"), "{head}");
    for (path, status) in [("/", "404"), ("/metrics/..", "404"), ("/../../etc/passwd", "404"), ("/metrics?x=y", "200")]
    {
        let answer = ask(&page, format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let huge = format!("{method} /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 1000000000000\r\n\r\n");
        let answer = ask(&page, huge.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD\r\n"), "{method}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_connection_gets_one_answer() {
    let (page, asked) = page();
    let answer = ask(&page, &GET.repeat(100)).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "{answer}");
    assert_eq!(asked.0.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_request_and_what_is_too_long_is_not_answered() {
    let (page, asked) = page();
    for nonsense in [&b"\x16\x03\x01\x02\x00 a TLS hello\r\n\r\n"[..], b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n"] {
        let answer = ask(&page, nonsense).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    // Cases: one long line, one long header, and many headers.
    let long = "a".repeat(1 << 20);
    let many = "a: b\r\n".repeat(1 << 17);
    for head in
        [format!("GET /{long}"), format!("GET /metrics HTTP/1.1\r\nx: {long}"), format!("GET / HTTP/1.1\r\n{many}")]
    {
        let (mut ours, serving) = client(&page, 1024);
        let written = ours.write_all(head.as_bytes()).await;
        assert!(written.is_err(), "it reads {SCRAPE_HEAD_BYTES_MAX} bytes and not a million");
        serving.await.unwrap();
    }
    assert_eq!(asked.0.load(Ordering::Relaxed), 0, "none of it costs a page");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_or_says_it_slowly_is_gone_in_time() {
    let (page, _) = page();
    let began = Instant::now();
    let (_silent, serving) = client(&page, 1024);
    serving.await.unwrap();
    assert_eq!(began.elapsed(), SCRAPE_TIME_MAX);
    let (began, (mut slow, serving)) = (Instant::now(), client(&page, 1024));
    let writing = tokio::spawn(async move {
        for byte in b"GET /metrics HTTP/1.1\r\nx: ".iter().chain(std::iter::repeat(&b'y')) {
            advance(Duration::from_millis(900)).await;
            if slow.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    });
    serving.await.unwrap();
    assert!(began.elapsed() < SCRAPE_TIME_MAX + Duration::from_secs(1), "a byte now and then gains no time");
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_gone_in_time() {
    let (page, _) = page();
    let (mut ours, serving) = client(&page, 64);
    ours.write_all(GET).await.unwrap();
    let began = Instant::now();
    serving.await.unwrap();
    assert!(began.elapsed() <= SCRAPE_TIME_MAX, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_page_is_made_once_for_all_who_ask_at_the_same_time() {
    let (page, asked) = page();
    for _ in 0..1000 {
        page.text();
    }
    assert_eq!(asked.0.load(Ordering::Relaxed), 1);
    advance(METRICS_AGE_MAX).await;
    assert!(page.text().ends_with("dfcp_asked_total 2\n"));
}

async fn exporter(place: &str) -> anyhow::Result<Exporter> {
    let args = MetricsArgs { metrics: Some(crate::args::local_address(place).unwrap()) };
    Ok(Exporter::start(&args, vec![Arc::new(Asked::default())], true).await?.unwrap())
}

/// Attack over real sockets: a stranger repeatedly fills every place.
#[tokio::test]
async fn many_silent_connections_keep_nobody_out() {
    let exporter = exporter("0").await.unwrap();
    let mut silent = Vec::new();
    for round in 0..3 {
        for _ in 0..2 * SCRAPES_MAX {
            silent.push(TcpStream::connect(exporter.address()).await.unwrap());
        }
        let mut honest = TcpStream::connect(exporter.address()).await.unwrap();
        honest.write_all(GET).await.unwrap();
        let mut answer = String::new();
        timeout(Duration::from_secs(30), honest.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.contains("dfcp_asked_total"), "round {round}: {answer}");
    }
    // All connections except the newest were closed to make room.
    for stream in silent.iter_mut().take(4 * SCRAPES_MAX) {
        let ended = timeout(Duration::from_secs(30), stream.read_u8()).await;
        assert!(matches!(ended, Ok(Err(_))), "{ended:?}");
    }
}

#[tokio::test]
async fn a_port_alone_is_of_this_machine_and_one_in_use_is_an_error() {
    let first = exporter("0").await.unwrap();
    assert!(first.address().ip().is_loopback());
    let error = exporter(&first.address().port().to_string()).await.unwrap_err().to_string();
    assert!(error.contains("--metrics") && error.contains("choose another port"), "{error}");
    assert!(Exporter::start(&MetricsArgs::default(), Vec::new(), true).await.unwrap().is_none());
    assert!(crate::args::local_address(":9184").is_err(), "elsewhere that is every address of a machine");
}
