use proptest::prelude::*;
use serde_json::Value;

use super::show_dhcp;
use oscope_sys::error::Failure;

/// A DHCP message's first bytes in UDP, IPv4 and Ethernet.
fn frame(vlans: &[u16]) -> Vec<u8> {
    let mut found = vec![0xff; 6];
    found.extend([2, 0, 0, 0, 0, 1]);
    for vlan in vlans {
        found.extend([0x81, 0]);
        found.extend(vlan.to_be_bytes());
    }
    found.extend([8, 0, 0x45, 0, 0, 32, 0, 7, 0, 0, 64, 17, 0, 0]);
    found.extend([0, 0, 0, 0, 255, 255, 255, 255, 0, 68, 0, 67, 0, 12, 0, 0]);
    found.extend([1, 1, 6, 0]);
    found
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut found = Vec::new();
    for number in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        found.extend(number.to_le_bytes());
    }
    for (index, frame) in (0_u32..).zip(frames) {
        let length = frame.len() as u32;
        for number in [100 + index, 7, length, length] {
            found.extend(number.to_le_bytes());
        }
        found.extend(frame);
    }
    found
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len().next_multiple_of(4)) as u32;
    let mut found = [kind.to_be_bytes(), length.to_be_bytes()].concat();
    found.extend(body);
    found.resize(length as usize - 4, 0);
    found.extend(length.to_be_bytes());
    found
}

/// A big-endian section whose interface counts 2^-10 s, 1000 s late, with one packet stamped 1024.
fn pcapng(frame: &[u8]) -> Vec<u8> {
    let mut section = vec![0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0];
    section.extend([0xff; 8]);
    let mut interface = vec![
        0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0x8a, 0, 0, 0, 0, 14, 0, 8,
    ];
    interface.extend(1000_i64.to_be_bytes());
    let length = (frame.len() as u32).to_be_bytes();
    let packet = [
        &[0; 8],
        &1024_u32.to_be_bytes()[..],
        &length,
        &length,
        frame,
    ]
    .concat();
    [
        block(0x0a0d_0d0a, &section),
        block(1, &interface),
        block(6, &packet),
    ]
    .concat()
}

fn shown(capture: &[u8]) -> Result<Vec<Value>, Failure> {
    let mut output = Vec::new();
    show_dhcp(capture, &mut output)?;
    let text = String::from_utf8(output).unwrap();
    Ok(text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect())
}

#[test]
fn packets_keep_their_numbers_and_times() {
    let other = [&[0; 12][..], &[0x86, 0xdd], &[0; 40]].concat();
    let reported = shown(&pcap(&[other, frame(&[]), frame(&[5, 6])])).unwrap();
    assert_eq!(reported.len(), 3);
    assert_eq!(reported[0]["packet"], 2);
    assert_eq!(reported[0]["time_ns"], 101_000_000_007_i64);
    assert_eq!(reported[0]["payload"], "01010600");
    assert_eq!(reported[0]["link"]["source"], "020000000001");
    assert_eq!(reported[1]["vlans"], serde_json::json!([5, 6]));
    assert_eq!(reported[2]["end"]["packets"], 3);
    assert_eq!(reported[2]["end"]["error"], Value::Null);
}

#[test]
fn pcapng_heeds_byte_order_resolution_and_offset() {
    let one = pcapng(&frame(&[]));
    let reported = shown(&[one.clone(), one].concat()).unwrap();
    assert_eq!(reported[0]["time_ns"], 1_001_000_000_000_i64);
    assert_eq!(reported[1]["packet"], 2);
    assert_eq!(reported[2]["end"]["format"], "pcapng");
}

#[test]
fn a_cut_capture_reports_what_was_before_the_cut() {
    for whole in [pcap(&[frame(&[]), frame(&[1])]), {
        let one = pcapng(&frame(&[]));
        [one.clone(), one].concat()
    }] {
        let ends: Vec<_> = (0..whole.len())
            .map(|cut| (cut, shown(&whole[..cut])))
            .collect();
        let errors = ends
            .iter()
            .filter(|(_, reported)| match reported {
                Ok(reported) => reported.last().unwrap()["end"]["error"].is_string(),
                Err(_) => true,
            })
            .count();
        // But for the few cuts between packets or blocks.
        assert!((whole.len() - 7..whole.len()).contains(&errors));
    }
}

#[test]
fn what_is_no_capture_is_refused() {
    for bytes in [
        &b""[..],
        b"hello, this is a text and no capture",
        b"\x1f\x8b\x08\x00",
    ] {
        assert!(matches!(
            shown(bytes),
            Err(Failure::Unavailable {
                remedy: Some(_),
                ..
            })
        ));
    }
    let mut usb = pcap(&[]);
    usb[20] = 189;
    let Err(Failure::Unavailable { message, .. }) = shown(&usb) else {
        panic!("it has another link type");
    };
    assert!(message.contains("link type 189"));
}

#[test]
fn later_fragments_belong_to_a_datagram_that_was_seen() {
    let mut first = frame(&[]);
    first[20] = 0x20;
    let mut later = frame(&[]);
    later[21] = 5;
    let mut strange = later.clone();
    strange[19] = 8;
    let reported = shown(&pcap(&[first, later, strange])).unwrap();
    let fragments: Vec<_> = reported.iter().map(|one| &one["fragment"]).collect();
    assert_eq!(
        fragments,
        [&Value::from("first"), &Value::from("later"), &Value::Null]
    );
    assert_eq!(reported[2]["end"]["packets"], 3);
}

proptest! {
    #[test]
    fn damage_never_panics(at in 0_usize..2000, value: u8, ng: bool, cut in 0_usize..2000) {
        let mut capture = match ng {
            true => pcapng(&frame(&[1, 2])),
            false => pcap(&[frame(&[]), frame(&[3]), frame(&[])]),
        };
        let length = capture.len();
        capture[at % length] = value;
        capture.truncate(length.saturating_sub(cut % length));
        let _ = shown(&capture);
    }
}
