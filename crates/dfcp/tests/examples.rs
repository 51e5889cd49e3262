//! Runs the examples, which are included as modules, in this process.

#[path = "../examples/echo.rs"]
#[expect(dead_code, reason = "its command line")]
mod echo;
#[path = "../examples/file.rs"]
#[expect(dead_code, reason = "its command line")]
mod file;
#[path = "../examples/hyper.rs"]
#[expect(dead_code, reason = "its command line")]
mod http;

use std::fs;
use std::time::Duration;

use dfcp::blocking::Listener;

#[tokio::test]
async fn echo_gives_back_what_it_gets() {
    let input: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut output = Vec::new();
    echo::demo(&input[..], &mut output).await.unwrap();
    assert!(output == input);
}

#[test]
fn a_file_gets_there_with_a_shared_secret() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name| directory.path().join(name);
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(path("secret"), [b'x'; 40]).unwrap();
    fs::write(path("original"), &content).unwrap();
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), file::shared(&path("secret")).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let copy = path("copy");
    let receiver = std::thread::spawn(move || file::receive(&listener, &copy));
    let config = file::shared(&path("secret")).unwrap().with_time_wait(Duration::from_millis(10));
    file::send(address, config, &path("original"), 500).unwrap();
    receiver.join().unwrap().unwrap();
    assert!(fs::read(path("copy")).unwrap() == content);
}

#[tokio::test]
async fn http_is_spoken_over_a_stream() {
    let answers = http::demo(&["/hello", "/nowhere", "/hello"]).await.unwrap();
    let codes: Vec<_> = answers.iter().map(|(status, _)| status.as_u16()).collect();
    assert_eq!(codes, [200, 404, 200]);
    assert_eq!(answers[0].1, "hello from the other side of a bad path");
}
