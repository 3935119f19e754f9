//! Files with holes: they stay holes, are not moved, and are verified all the same.

use std::fs::{File, FileTimes, OpenOptions};
use std::iter;
use std::os::unix::fs::{FileExt, MetadataExt};

use super::super::wire::{self, BLOCK, Entry, Frame, PREAMBLE, SPARSE};
use super::*;

const MIB: u64 = 1 << 20;

/// All methods of both sides, in a few pairs.
fn pairs() -> impl Iterator<Item = (SendMethod, ReceiveMethod)> {
    iter::once((SendMethod::Auto, ReceiveMethod::Auto)).chain(faults::PAIRS)
}

/// Sizes, and the data in them: where, and how many bytes.
fn layouts() -> Vec<(u64, Vec<(u64, usize)>)> {
    vec![
        // A hole alone, small and large.
        (100_001, vec![]),
        (30 * MIB + 1, vec![]),
        // Data at the beginning, at the end, and in the middle of a block.
        (100_001, vec![(0, 5)]),
        (20 * MIB, vec![(0, 4096), (20 * MIB - 1, 1)]),
        (20 * MIB + 77, vec![(9_000_001, 1_000_000)]),
        // More data than a segment, behind a hole.
        (30 * MIB, vec![(8 * MIB, 9 << 20)]),
        // Much in pieces.
        (
            8 * MIB,
            (0..64).map(|index| (index * 128 * 1024, 70_000)).collect(),
        ),
    ]
}

fn make(place: &Place, name: &str, size: u64, data: &[(u64, usize)]) -> Vec<u8> {
    let file = File::create(place.here(name)).expect("a file");
    file.set_len(size).expect("a size");
    let mut bytes = vec![0; usize::try_from(size).expect("a size in memory")];
    for (index, (at, length)) in data.iter().enumerate() {
        let part = noise(*length, index as u64);
        file.write_all_at(&part, *at).expect("written");
        let from = usize::try_from(*at).expect("an offset in memory");
        bytes[from..from + length].copy_from_slice(&part);
    }
    bytes
}

/// Bytes on the disk.
fn taken(path: &Path) -> u64 {
    fs::metadata(path).expect("the file exists").blocks() * 512
}

#[test]
fn holes_stay_holes_by_every_method_and_are_not_moved() {
    for (sending_by, receiving_by) in pairs() {
        let place = Place::new();
        fs::create_dir(place.here("all")).expect("a folder");
        let all: Vec<_> = layouts()
            .iter()
            .enumerate()
            .map(|(index, (size, data))| {
                let name = format!("all/{index}");
                (make(&place, &name, *size, data), name)
            })
            .collect();
        let files = place.sources(&["all"]);
        assert!(files.iter().all(|file| file.sparse || file.is_folder()));
        let both = (sending(sending_by), receiving(receiving_by));
        let (sent, received) = transfer(&place, &files, &both.0, &both.1);
        let sent = sent.expect("sent");
        received.expect("received");
        let mut least = 0;
        for (bytes, name) in &all {
            assert!(
                &fs::read(place.there(name)).expect("there") == bytes,
                "{name}"
            );
            let (here, there) = (taken(&place.here(name)), taken(&place.there(name)));
            assert!(there <= here, "{name}: {there} of {here}");
            least += here;
        }
        assert!(sent.here.bytes <= least, "{} of {least}", sent.here.bytes);
        assert!(sent.files.iter().all(|file| file.digest.is_none()));
        // They are there now.
        let (sent, received) = transfer(&place, &files, &both.0, &both.1);
        assert_eq!(sent.expect("sent").here.skipped, all.len() as u64);
        assert_eq!(received.expect("received").here.bytes, 0);
    }
}

#[test]
fn five_gibibytes_with_one_block_of_data_move_and_take_a_block() {
    let place = Place::new();
    let size = 5 << 30;
    let file = File::create(place.here("big")).expect("a file");
    file.set_len(size).expect("a size");
    file.write_all_at(&noise(4096, 1), 3 << 30)
        .expect("written");
    let (sent, received) = transfer(
        &place,
        &place.sources(&["big"]),
        &SendOptions::default(),
        &ReceiveOptions::default(),
    );
    assert_eq!(sent.expect("sent").here.bytes, 4096);
    assert_eq!(received.expect("received").here.total_bytes, size);
    assert_eq!(fs::metadata(place.there("big")).expect("there").len(), size);
    assert!(taken(&place.there("big")) <= 64 << 10);
}

#[test]
fn what_is_there_is_known_whatever_holes_it_has_and_a_difference_is_found() {
    let (size, data) = (9 * MIB, [(5 * MIB + 1, 4096)]);
    for wrong in [None, Some(0), Some(5 * MIB), Some(9 * MIB - 1)] {
        let place = Place::new();
        let bytes = make(&place, "file", size, &data);
        let mut there = bytes.clone();
        if let Some(at) = wrong {
            there[at as usize] ^= 1;
        }
        fs::write(place.there("file"), &there).expect("written");
        let meta = fs::metadata(place.here("file")).expect("there");
        let times = FileTimes::new().set_modified(meta.modified().expect("a time"));
        let file = OpenOptions::new().write(true).open(place.there("file"));
        file.expect("there").set_times(times).expect("set");
        let (sent, received) = transfer(
            &place,
            &place.sources(&["file"]),
            &SendOptions::default(),
            &ReceiveOptions::default(),
        );
        assert_eq!(sent.expect("sent").here.skipped, u64::from(wrong.is_none()));
        received.expect("received");
        assert!(fs::read(place.there("file")).expect("there") == bytes);
    }
}

#[test]
fn a_sparse_file_that_was_cut_goes_on_where_it_was() {
    for (sending_by, receiving_by) in pairs() {
        let place = Place::new();
        let data = [(100, 6 << 20), (40 * MIB, 9 << 20), (60 * MIB, 1)];
        let bytes = make(&place, "big", 70 * MIB, &data);
        let files = place.sources(&["big"]);
        let both = (sending(sending_by), receiving(receiving_by));
        let mut cut = |at: u64, _: &mut [u8]| at < 11 << 20;
        let (sent, received) = transfer_through(&place, &files, &both.0, &both.1, Some(&mut cut));
        sent.expect_err("cut");
        received.expect_err("cut");
        assert_eq!(place.partials().len(), 1);
        let (sent, received) = transfer(&place, &files, &both.0, &both.1);
        let moved = sent.expect("sent").here.bytes;
        received.expect("received");
        assert!(moved < 12 << 20, "{receiving_by:?}: {moved} again");
        assert!(fs::read(place.there("big")).expect("there") == bytes);
        assert!(taken(&place.there("big")) <= taken(&place.here("big")) + BLOCK);
    }
}

#[test]
fn a_sparse_file_that_changes_while_it_is_sent_is_an_error_on_both_sides() {
    let changes: [fn(&File); 3] = [
        |file| file.set_len(50 * MIB).expect("shrunk"),
        |file| file.set_len(100 * MIB).expect("grown"),
        |file| file.write_all_at(b"new", 50 * MIB).expect("written"),
    ];
    for change in changes {
        let place = Place::new();
        // More than the sockets hold: when 1 MiB has arrived, the sender has yet to read some of it.
        make(&place, "big", 70 * MIB, &[(0, 40 << 20), (60 * MIB, 5)]);
        let files = place.sources(&["big"]);
        let file = OpenOptions::new().write(true).open(place.here("big"));
        let file = file.expect("there");
        let mut changed = false;
        let mut meddle = |at: u64, _: &mut [u8]| {
            if at > 1 << 20 && !std::mem::replace(&mut changed, true) {
                change(&file);
            }
            true
        };
        let how = (SendOptions::default(), ReceiveOptions::default());
        let (sent, received) = transfer_through(&place, &files, &how.0, &how.1, Some(&mut meddle));
        for error in [sent.expect_err("changed"), received.expect_err("changed")] {
            assert!(
                error.to_string().contains("changed while it was sent"),
                "{error}"
            );
        }
        assert!(!place.there("big").exists());
    }
}

#[test]
fn holes_that_cannot_be_are_refused() {
    let size = 10 * MIB;
    let block = u32::try_from(BLOCK).expect("a few bytes");
    for (mode, parts) in [
        (0, vec![Frame::Hole(size)]),
        (SPARSE, vec![Frame::Hole(size + BLOCK)]),
        (SPARSE, vec![Frame::Hole(u64::MAX)]),
        (SPARSE, vec![Frame::Hole(0)]),
        (SPARSE, vec![Frame::Hole(BLOCK - 1)]),
        (SPARSE, vec![Frame::Hole(BLOCK), Frame::Hole(BLOCK)]),
        (SPARSE, vec![Frame::Data(0)]),
        (SPARSE, vec![Frame::Data(1)]),
        (SPARSE, vec![Frame::Data(block + 1)]),
        (SPARSE, vec![Frame::Data(8 << 20)]),
    ] {
        let entry = Entry {
            name: b"file",
            size,
            mode: mode | 0o644,
            mtime_ns: 0,
        };
        let mut said = PREAMBLE.to_vec();
        wire::encode(&Frame::Hello(DigestKind::Blake3), &mut said);
        wire::encode(&Frame::Entries(vec![entry]), &mut said);
        wire::encode(&Frame::EntriesEnd(1), &mut said);
        for part in &parts {
            wire::encode(part, &mut said);
        }
        let (error, _) = edges::answered(&said);
        assert!(error.to_string().contains("damaged"), "{parts:?}: {error}");
    }
}
