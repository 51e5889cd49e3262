use super::*;

#[test]
fn a_length_above_its_limit_is_refused() {
    for (kind, max) in [(kind::DATA, DATA_BYTES_MAX), (kind::FILE, CONTROL_BYTES_MAX), (0xee, CONTROL_BYTES_MAX)] {
        let header = |len: u32| {
            let [a, b, c, d] = len.to_be_bytes();
            Header::decode([kind, a, b, c, d])
        };
        assert_eq!(header(max as u32), Ok(Header { kind, body_bytes: max }));
        for len in [max as u32 + 1, u32::MAX] {
            assert_eq!(header(len), Err(ProtocolError::TooLarge { len, max }));
        }
    }
}

#[test]
fn preambles_of_others_are_told_apart() {
    let good = Service::Files.preamble();
    assert_eq!(Service::Files.check(good), Ok(()));
    assert_eq!(Service::Perf.check(good), Err(ProtocolError::Preamble { expected: "perf" }));
    let mut newer = good;
    newer[5] = 9;
    assert_eq!(Service::Files.check(newer), Err(ProtocolError::Version { got: 9, ours: 3 }));
    let mut older = Service::Perf.preamble();
    older[5] = 1;
    assert_eq!(Service::Perf.check(older), Err(ProtocolError::Version { got: 1, ours: 7 }));
    assert_eq!(Service::Files.check(*b"DFCPF\x03\0\0"), Ok(()));
    assert_eq!(Service::Files.check(*b"GET / HT"), Err(ProtocolError::Preamble { expected: "file transfer" }));
}

#[test]
fn which_way_files_go_is_in_the_seventh_byte() {
    let (sent, fetched) = (Service::Files, Service::FilesToCaller);
    assert_eq!((sent.preamble(), fetched.preamble()), (*b"DFCPF\x03\0\0", *b"DFCPF\x03\x01\0"));
    for (ours, theirs) in [(sent, fetched), (fetched, sent)] {
        assert_eq!(ours.check(ours.preamble()), Ok(()));
        assert_eq!(ours.check(theirs.preamble()), Err(ProtocolError::Direction));
        let mut reserved = ours.preamble();
        reserved[6] |= 0xfe;
        reserved[7] = 0xff;
        assert_eq!(ours.check(reserved), Ok(()), "what has no meaning yet is ignored");
    }
    let mut perf = Service::Perf.preamble();
    perf[6] = 1;
    assert_eq!(Service::Perf.check(perf), Ok(()));
}
