use super::*;

fn tally(method: &str) -> Tally {
    Tally {
        files: 2,
        bytes: 3 << 30,
        total_bytes: 3 << 30,
        time_ns: 1_500_000_000,
        calls: 12_345,
        cpu_ns: 900_000_000,
        voluntary: 40,
        involuntary: 2,
        method: method.to_owned(),
        chosen: Some(method.to_owned()),
        ..Tally::default()
    }
}

/// A screen whose standard output is a file, and that file.
fn screen(side: Side) -> (Screen, File) {
    let file = tempfile::tempfile().expect("a file");
    let streams = Streams {
        out: file.try_clone().ok(),
        err: None,
        failure: RefCell::new(None),
    };
    let screen = Screen {
        room: usize::MAX,
        ..Screen::new(streams, side, true)
    };
    (screen, file)
}

fn printed(mut file: File) -> String {
    use std::io::{Read, Seek};
    let mut text = String::new();
    file.rewind().expect("a file");
    file.read_to_string(&mut text).expect("a text");
    text.replace('\u{202f}', "~")
}

#[test]
fn a_table_is_no_wider_than_the_terminal() {
    for (room, columns, below) in [
        (98, 9, None),
        (80, 7, Some("wider terminals also show: calls, switches")),
        (1, 1, Some("wider terminals also show: method, files, ")),
    ] {
        let (mut screen, file) = screen(Side::Sender);
        screen.room = room;
        screen.hear(Event::Done {
            here: &tally("sendfile"),
            there: Some(&Tally {
                bytes: (3 << 20) + 17,
                time_ns: 1_234_567,
                ..tally("splice")
            }),
            digest: None,
        });
        let text = printed(file);
        let lines: Vec<_> = text.lines().collect();
        let heading = lines[0].replace("CPU s", "CPU_s");
        assert_eq!(heading.split_whitespace().count(), columns, "{text}");
        if columns > 1 {
            assert!(
                lines.iter().all(|line| line.chars().count() <= room),
                "{text}"
            );
        }
        assert_eq!(lines.len(), 4 + usize::from(below.is_some()), "{text}");
        assert!(
            lines[lines.len() - 1].starts_with(below.unwrap_or("receiver")),
            "{text}"
        );
    }
}

#[test]
fn the_table_has_both_sides() {
    let (screen, file) = screen(Side::Sender);
    let there = Tally {
        time_ns: 1_234_567,
        bytes: (3 << 20) + 17,
        ..tally("splice")
    };
    screen.hear(Event::Done {
        here: &tally("sendfile"),
        there: Some(&there),
        digest: None,
    });
    assert_eq!(
        printed(file).lines().collect::<Vec<_>>(),
        [
            "side      method    files          bytes      time         throughput  CPU s/GiB   calls  switches",
            &"─".repeat(98),
            "sender    sendfile      2  3~221~225~472  1.500 s   2 GiB/s               0.3000  12~345        42",
            "receiver  splice        2      3~145~745  1.235 ms        2.373 GiB/s   307.2     12~345        42",
        ]
    );
    let report = screen.report();
    assert_eq!(report["sender"]["method"], "sendfile");
    assert_eq!(report["receiver"]["bytes"], (3 << 20) + 17);
    assert_eq!(
        report["sender"].as_object().map(|fields| fields.len()),
        Some(13)
    );
    assert_eq!(
        (&report["digest_kind"], &report["digest"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn what_was_there_before_is_told() {
    let (screen, file) = screen(Side::Receiver);
    let here = Tally {
        skipped: 1,
        bytes: 1 << 30,
        ..tally("splice")
    };
    screen.hear(Event::Done {
        here: &here,
        there: None,
        digest: Some(&"ab".repeat(32)),
    });
    let text = printed(file);
    let lines: Vec<_> = text.lines().skip(2).collect();
    assert!(lines[0].starts_with("receiver  splice"), "{text}");
    assert_eq!(
        lines[1],
        "3~221~225~472 bytes in all: 2~147~483~648 were there from before, 1 whole files among them"
    );
    assert_eq!(lines[2], format!("blake3 {}", "ab".repeat(32)));
    assert_eq!(screen.report()["digest_kind"], "blake3");
}

#[test]
fn nothing_moved_has_no_rate() {
    let (screen, file) = screen(Side::Receiver);
    let here = Tally {
        bytes: 0,
        total_bytes: 0,
        ..tally("splice")
    };
    screen.hear(Event::Done {
        here: &here,
        there: None,
        digest: None,
    });
    let text = printed(file);
    let row: Vec<_> = text
        .lines()
        .last()
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(row[3..], ["0", "1.500", "s", "–", "–", "12~345", "42"]);
}

#[test]
fn figures_of_a_peer_that_lies_are_shown_at_their_largest() {
    let (screen, file) = screen(Side::Sender);
    let there = Tally {
        voluntary: u64::MAX,
        involuntary: 1,
        ..tally("splice")
    };
    screen.hear(Event::Done {
        here: &tally("sendfile"),
        there: Some(&there),
        digest: None,
    });
    let text = printed(file);
    let row = text.lines().last().expect("a row");
    assert!(row.ends_with(" 18~446~744~073~709~551~615"), "{row}");
}

#[test]
fn pages_are_a_table() {
    let (screen, file) = screen(Side::Sender);
    for page in 0..2 {
        screen.hear(Event::Page(&[
            ("offset", json!(4096 * page)),
            ("pfn", json!(format!("{:#x}", 70 + page))),
            ("pte", Value::Null),
        ]));
    }
    screen.hear(Event::Done {
        here: &tally("mmap"),
        there: None,
        digest: None,
    });
    let text = printed(file);
    let rows: Vec<Vec<_>> = text
        .lines()
        .skip(3)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["offset", "pfn", "pte"]);
    assert_eq!(rows[2..], [["0", "0x46", "–"], ["4096", "0x47", "–"]]);
}

#[test]
fn what_is_printed_into_a_full_device_is_a_failure_at_the_end() {
    let full = File::options().write(true).open("/dev/full").ok();
    let streams = Streams {
        out: full,
        err: None,
        failure: RefCell::new(None),
    };
    streams.print("lost");
    streams.print("lost too");
    assert_eq!(
        streams
            .failure
            .borrow()
            .as_ref()
            .and_then(io::Error::raw_os_error),
        Some(libc::ENOSPC)
    );
}
