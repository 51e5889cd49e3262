//! Golden patterns of random events. A seed's events are part of the crate's contract, because experiments and failures
//! are reported with their seed. If a pattern changes, the generator or the order of its use has changed: restore it.

use std::time::Duration;

use dfcp_netem::{ConfigError, Link, LinkConfig, Loss};
use dfcp_time::Time;

/// Returns the fates of 64 packets, pushed 1 ms apart over a delay of 1 ms. `1` is an intact, `L` a late and `x` a
/// damaged packet, `.` a lost one; a packet and its copy are in brackets.
fn pattern(config: LinkConfig, seed: u64) -> Result<String, ConfigError> {
    let mut link: Link<Vec<u8>> = Link::new(config.with_delay(Duration::from_millis(1)), seed)?;
    let mut fates = vec![String::new(); 64];
    for step in 0..80u8 {
        let now = Time::from_ms(u64::from(step));
        while let Some(packet) = link.pop(now) {
            // The packet contains its number four times, so that the majority is correct after one flipped bit.
            let number = (packet[0] & packet[1]) | (packet[1] & packet[2]) | (packet[2] & packet[0]);
            let damaged = packet != vec![number; 4];
            let late = step > number + 1;
            fates[usize::from(number)].push(if damaged {
                'x'
            } else if late {
                'L'
            } else {
                '1'
            });
        }
        if step < 64 {
            link.push(now, vec![step; 4]);
        }
    }
    let describe = |fate: &String| match fate.len() {
        0 => ".".to_owned(),
        1 => fate.clone(),
        _ => format!("({fate})"),
    };
    Ok(fates.iter().map(describe).collect())
}

#[test]
fn independent_losses() {
    let config = LinkConfig::default().with_loss(Loss::bernoulli(0.25));
    assert_eq!(pattern(config, 2009).unwrap(), "11.1.1.11.11..1.11111111111....11111111..1111111.11..1111111.111");
}

#[test]
fn bursts() {
    let config = LinkConfig::default().with_loss(Loss::bursts(0.25, 4.0).unwrap());
    assert_eq!(pattern(config, 2009).unwrap(), "1.1111........1.....1111111111..11..111111111111111111111......1");
}

#[test]
fn everything_else() {
    let config =
        LinkConfig::default().with_reorder(0.125, Duration::from_millis(2)).with_duplicate(0.125).with_corrupt(0.125);
    assert_eq!(
        pattern(config, 2009).unwrap(),
        "11L1111(1x)11(1x)x1(11)11x111111xL(11)111111x11LL1xx111111111L11L1111x(11)(11)111x"
    );
}
