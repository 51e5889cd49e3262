use dfcp::{Dscp, Policy};

use super::*;
use crate::args::*;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn bounds_of_the_rate_that_exclude_each_other_are_refused_by_every_command_with_a_path() {
    for command in [
        &["send", "a", "host"][..],
        &["receive", "--output", "d"],
        &["perf", "server"],
        &["perf", "client", "host"],
        &["pipe", "udp", "--in", "1", "--to", "host", "--deadline", "60ms"],
        &["pipe", "serve", "--out", "127.0.0.1:1"],
    ] {
        let error = checked(&[command, &["--min-rate", "6mbit", "--max-rate", "5mbit"]].concat()).unwrap_err();
        let sentence = "--min-rate 6.00 Mbit/s is more than --max-rate 5.00 Mbit/s";
        assert!(error.to_string().contains(sentence) && error.exit_code() == 2, "{command:?}: {error}");
        checked(&[command, &["--min-rate", "5mbit", "--max-rate", "5mbit"]].concat()).unwrap();
    }
}

#[test]
fn the_last_argument_of_send_is_the_peer() {
    let cli = checked(&["send", "a", "b/", "host:1", "--rate", "20mbit"]).unwrap();
    let Command::Send(send) = cli.command else { panic!("not send") };
    assert_eq!((send.files.len(), send.to.as_deref()), (2, Some("host:1")));
    assert!(matches!(send.path.rate(), RateArg::Bps(20_000_000)));
}

#[test]
fn a_sender_that_listens_takes_all_its_arguments_for_files() {
    let own = env!("CARGO_MANIFEST_DIR");
    for arguments in [["send", "a", own, "--listen", "4433"], ["send", "--listen", "4433", "a", own]] {
        let Command::Send(send) = checked(&arguments).unwrap().command else { panic!("not send") };
        assert_eq!((send.files.len(), send.to), (2, None));
        assert_eq!(send.listen, Some(ListenArg::Anywhere(4433)));
    }
}

#[test]
fn a_code_is_a_flag_where_one_listens_and_has_a_value_where_one_calls() {
    let peers = |arguments: &[&str]| match checked(arguments).map(|cli| cli.command) {
        Ok(Command::Send(send)) => Ok(send.peers),
        Ok(Command::Receive(receive)) => Ok(receive.peers),
        Ok(_) => panic!("{arguments:?}"),
        Err(error) => Err(error.to_string()),
    };
    let code = "7-otter-violin";
    for calling in [
        &["send", "a", "h:1", "--code", code][..],
        &["send", "--code", code, "a", "h:1"],
        &["receive", "--from", "h:1", "--output", "d", "--code", code],
    ] {
        let peers = peers(calling).unwrap();
        assert_eq!(peers.host().code, Some(CodeArg::Given(code.parse().unwrap())));
    }
    assert!(peers(&["send", "a", "h:1", "--code", "-"]).unwrap().reads_code());
    for listening in [
        &["send", "a", "--listen", "1", "--code"][..],
        &["send", "--code", "--listen", "1", "a"],
        &["receive", "--output", "d", "--code", "--listen", "1"],
        &["receive", "--listen", "1", "--output", "d", "--code", "--once"],
        &["receive", "--listen", "1", "--output", "d", "--code", "--psk-file", "p"],
    ] {
        let peers = peers(listening).unwrap();
        assert!(peers.admission().code && !peers.reads_code(), "{listening:?}");
    }
    let key = dfcp_secure::StaticKey::from_seed(&[3; 32]).public().to_string();
    for (wrong, part) in [
        (&["send", "a", "h:1", "--code"][..], "needs the code"),
        (&["send", "a", "--listen", "1", "--host-key", &key], "--host-key is about a side that is called"),
        (
            &["receive", "--listen", "1", "--output", "d", "--host-key", &key],
            "--host-key is about a side that is called",
        ),
        (&["receive", "--from", "h:1", "--output", "d", "--no-code"], "--no-code is for a side that listens"),
        (&["receive", "--from", "h:1", "--output", "d", "--code"], "needs the code"),
        (&["send", "a", "--listen", "1", "--code", code], "without a value"),
        (&["send", "--listen", "1", "--code", "film.mkv"], "put --code last"),
        (&["send", "a", "h:1", "--code", code, "--psk-file", "p"], "leave one of them out"),
    ] {
        let error = peers(wrong).unwrap_err();
        assert!(error.contains(part), "{wrong:?}: {error}");
    }
}

/// Parses and checks the arguments like the program.
fn checked(arguments: &[&str]) -> Result<Cli, Error> {
    Cli::try_parse_from([&["dfcp"], arguments].concat()).and_then(Cli::checked)
}

#[test]
fn without_a_port_each_service_has_its_own() {
    let command = |arguments: &[&str]| checked(arguments).unwrap().command;
    let files = Some(ListenArg::Anywhere(FILES_PORT));
    for arguments in [&["receive", "--output", "d"][..], &["receive", "--listen", "--output", "d"]] {
        let Command::Receive(receive) = command(arguments) else { panic!("{arguments:?}") };
        assert_eq!(receive.listen, files);
    }
    let Command::Receive(receive) = command(&["receive", "--output", "d", "--partials"]) else { panic!("not receive") };
    assert_eq!(receive.listen, None);
    let Command::Receive(receive) = command(&["receive", "--output", "d", "--from", "::1"]) else {
        panic!("not receive")
    };
    assert_eq!((receive.listen, receive.from.as_deref()), (None, Some("[::1]:23327")));
    let Command::Send(send) = command(&["send", "a", "there.example"]) else { panic!("not send") };
    assert_eq!(send.to.as_deref(), Some("there.example:23327"));
    let Command::Send(send) = command(&["send", "a", "--listen"]) else { panic!("not send") };
    assert_eq!(send.listen, files);
    let Command::Perf(perf) = command(&["perf", "client", "there"]) else { panic!("not perf") };
    assert!(matches!(perf.side, PerfSide::Client(client) if client.server == "there:23328"));
    let Command::Perf(perf) = command(&["perf", "server"]) else { panic!("not perf") };
    assert!(matches!(perf.side, PerfSide::Server(server) if server.listen == ListenArg::Anywhere(PERF_PORT)));
}

#[test]
fn what_is_here_is_a_file_and_no_receiver_unless_it_has_a_port() {
    let own = env!("CARGO_MANIFEST_DIR");
    let receiver = |last: &str| checked(&["send", "a", last]).map(|_| ()).map_err(|error| error.to_string());
    // The test runs in the crate's directory, so these paths exist.
    for here in ["src", "Cargo.toml", "./src", own] {
        let error = receiver(here).unwrap_err();
        assert!(error.contains("is a file or a directory here"), "{error}");
    }
    assert!(receiver("src").unwrap_err().contains("write src:23327") && receiver("src:23327").is_ok());
    assert!(!receiver("./src").unwrap_err().contains("write"));
    assert!(receiver("no-such-place").is_ok() && receiver("no/such/place").is_err());
    let only = |argument: &str| checked(&["send", argument]).unwrap_err().to_string();
    assert!(only("src").contains("where src goes is missing") && only("there").contains("only there was given"));
    let listening =
        |first: &str| checked(&["send", "--listen", first, "a"]).map(|_| ()).map_err(|error| error.to_string());
    assert!(listening("src").unwrap_err().contains("put --listen behind the files"));
    assert!(listening("there.example").is_ok());
}

#[test]
fn code_points_have_the_names_that_iperf3_takes() {
    let parse = |more: &[&str]| {
        let cli = Cli::try_parse_from([&["dfcp", "perf", "client", "host:1"], more].concat())?;
        let Command::Perf(PerfArgs { side: PerfSide::Client(client) }) = cli.command else { panic!("not perf client") };
        Ok::<_, Error>(client.path.dscp.map(Dscp::value))
    };
    assert_eq!(parse(&[]).unwrap(), None);
    for (text, value) in [("46", 46), ("0x2e", 46), ("EF", 46), ("ef", 46), ("AF41", 34), ("CS1", 8), ("0", 0)] {
        assert_eq!(parse(&["--dscp", text]).unwrap(), Some(value), "{text}");
    }
    for bad in ["", "64", "-1", "AF14", "056", "tos", "0xff"] {
        let error = parse(&["--dscp", bad]).unwrap_err().to_string();
        assert!(error.contains("a number from 0 to 63") || bad == "-1" || bad.is_empty(), "{bad}: {error}");
    }
}

#[test]
fn udp_carries_unless_told_otherwise() {
    let parse = |more: &[&str]| {
        let cli = Cli::try_parse_from([&["dfcp", "send", "a", "host:1"], more].concat())?;
        let Command::Send(send) = cli.command else { panic!("not send") };
        Ok::<_, Error>(send.path.carrier)
    };
    assert_eq!(parse(&[]).unwrap(), CarrierArg::Udp);
    assert_eq!(parse(&["--carrier", "raw-ip"]).unwrap(), CarrierArg::RawIp(253));
    assert_eq!(parse(&["--carrier", "raw-ip:254"]).unwrap(), CarrierArg::RawIp(254));
    for bad in ["", "tcp", "raw-ip:6", "raw-ip:"] {
        assert!(parse(&["--carrier", bad]).is_err(), "{bad}");
    }
}

#[test]
fn packets_have_1500_bytes_unless_told_otherwise() {
    let parse = |more: &[&str]| {
        let cli = Cli::try_parse_from([&["dfcp", "send", "a", "host:1"], more].concat())?;
        let Command::Send(send) = cli.command else { panic!("not send") };
        Ok::<_, Error>(send.path.mtu)
    };
    assert_eq!((parse(&[]).unwrap(), parse(&["--mtu", "1280"]).unwrap()), (1500, 1280));
    assert_eq!(parse(&["--insecure-classic"]).unwrap(), 1500);
    for bad in ["1279", "1501", "-1", "70000", "x", ""] {
        assert!(parse(&["--mtu", bad]).is_err(), "{bad}");
    }
    assert!(parse(&["--mtu", "1400", "--insecure-classic"]).is_err(), "classic segments have one length");
}

#[test]
fn a_token_bucket_is_a_limit_of_its_own() {
    let parse = |more: &[&str]| {
        let cli = Cli::try_parse_from([&["dfcp", "perf", "client", "host:1", "--insecure-classic"], more].concat());
        let Command::Perf(PerfArgs { side: PerfSide::Client(mut client) }) = cli.unwrap().command else {
            panic!("not perf client")
        };
        client.path.parameters = client.parameters.parameters().unwrap();
        (client.path.rate(), client.path.describe_rate())
    };
    let tokens = ["--set", "inctokens=52428", "--set", "maxtokens=104856"];
    let (rate, said) = parse(&tokens);
    assert!(rate == RateArg::Line && said.contains("rate line, limited by the token bucket to 105 Mbit/s"), "{said}");
    let (rate, said) = parse(&[&tokens[..], &["--rate", "20mbit"]].concat());
    assert!(rate == RateArg::Bps(20_000_000) && said.contains("rate 20.0 Mbit/s, limited by"), "{said}");
    let (rate, said) = parse(&["--set", "redundancy=70000"]);
    assert!(rate == RateArg::Line && said.contains("rate: line"), "{said}");
}

#[test]
fn the_rate_is_automatic_unless_told_otherwise() {
    let parse = |more: &[&str]| {
        let cli = Cli::try_parse_from([&["dfcp", "send", "a", "host:1"], more].concat())?;
        let Command::Send(send) = cli.command else { panic!("not send") };
        Ok::<_, Error>((send.path.rate(), send.path.describe_rate()))
    };
    let said = |more: &[&str]| parse(more).unwrap().1;
    assert_eq!(parse(&[]).unwrap().0, RateArg::Auto(Policy::Fair));
    assert_eq!(said(&[]), "rate: auto, found while it sends");
    let bounds = ["--rate", "auto:low", "--min-rate", "1mbit", "--max-rate", "50mbit"];
    assert_eq!(said(&bounds), "rate: auto:low, at least 1.00 Mbit/s, at most 50.0 Mbit/s, found while it sends");
    assert_eq!(said(&["--rate", "20mbit"]), "rate 20.0 Mbit/s (circuit breaker on)");
    assert_eq!(parse(&["--insecure-classic"]).unwrap().0, RateArg::Line);
    assert!(parse(&["--max-receive-rate", "5mbit", "--insecure-classic"]).is_err(), "classic declares nothing");
    assert!(parse(&["--max-receive-rate", "fast"]).is_err());
}

#[test]
fn a_lost_connection_is_retried_for_an_hour_unless_told_otherwise() {
    let limit = |more: &[&str]| {
        let cli = checked(&[&["send", "file", "host:1"], more].concat()).unwrap();
        let Command::Send(send) = cli.command else { panic!("not send") };
        send.retry.limit(send.why_not_again().is_none()).as_secs()
    };
    assert_eq!(limit(&[]), 3600);
    assert_eq!(limit(&["--retry"]), 3600);
    assert_eq!((limit(&["--retry", "0"]), limit(&["--retry", "90"]), limit(&["--retry", "8h"])), (0, 90, 28_800));
    assert_eq!((limit(&["--insecure-plaintext"]), limit(&["--dry-run"])), (0, 0));
    let refused = checked(&["send", "-", "host:1", "--name", "x", "--retry"]).unwrap_err().to_string();
    assert!(refused.contains("read twice"), "{refused}");
    checked(&["send", "-", "host:1", "--name", "x", "--retry", "0"]).unwrap();
}

#[test]
fn forgetting_needs_nothing_else_and_receiving_needs_an_output() {
    checked(&["receive", "--forget"]).unwrap();
    checked(&["receive", "--listen", "1"]).unwrap_err();
    checked(&["receive", "--forget", "--output", "x"]).unwrap_err();
}
