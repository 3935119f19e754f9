//! Truth of `disk.drop-caches`: a drop that did not happen is refused, and a real one is seen.

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::workload::Shared;

fn figures(dentries: i64) -> Figures {
    Figures {
        page_cache_bytes: 1,
        dentries,
        inodes: 1,
        slab_bytes: 1,
    }
}

fn seen(dentries_after: i64, resident: u64) -> Seen {
    Seen {
        before: figures(5000),
        after: figures(dentries_after),
        pages: Residency {
            pages: 100,
            resident,
            source: "cachestat",
        },
    }
}

#[test]
fn each_value_must_drop_what_it_means_and_nothing_else_is_asked_of_it() {
    for (value, files, seen, word) in [
        (1, 2000, seen(5001, 0), None),
        (1, 2000, seen(3000, 1), Some("1 of 100 pages")),
        (2, 2000, seen(3000, 100), None),
        (2, 2000, seen(5000, 100), Some("5000 after")),
        (2, 0, seen(5000, 100), None),
        (3, 2000, seen(3000, 0), None),
        (3, 2000, seen(3000, 9), Some("9 of 100 pages")),
        (3, 2000, seen(6000, 0), Some("6000 after")),
    ] {
        match (judge(Value(value), files, &seen), word) {
            (Ok(()), None) => {}
            (Err(failure), Some(word)) => {
                assert!(failure.to_string().contains(word), "{failure}");
            }
            (verdict, word) => panic!("{value}: {verdict:?}, not {word:?}"),
        }
    }
}

#[test]
fn a_real_drop_is_seen_and_leaves_nothing() {
    let clock = Clock::open(RequestedClock::Auto).unwrap();
    let shared = Shared::default();
    let context = Context::new(&clock, None, &[], &shared);
    for value in ["1", "2", "3"] {
        let parameters = Parameters {
            value: value.to_owned(),
            directory: "/var/tmp".into(),
            size: (8 << 20) + 1,
            files: 1500,
        };
        let mut workload = match DropCaches::prepare(parameters, &context) {
            Err(Failure::Unavailable {
                message, remedy, ..
            }) => {
                eprintln!("skipped: {message} ({remedy:?})");
                return;
            }
            prepared => prepared.unwrap(),
        };
        let mut region = Region::new(&clock);
        let work = workload.run(1, &mut region).unwrap();
        assert_eq!((work.done, work.wanted), (1, 1));
        assert_eq!(work.metrics.len(), Values::described().len());
        assert_eq!(work.notes.len(), 1);
        // Not judged by `verify` here: other tests fill and drop caches at the same time.
        let seen = workload.seen.unwrap();
        assert_eq!(seen.pages.pages, (8 << 20) / 4096 + 1);
        if value == "1" {
            assert_eq!(seen.pages.resident, 0);
        }
    }
}

#[test]
fn figures_before_and_after_have_the_names_of_theirs() {
    let figures = |first: i64| Figures {
        page_cache_bytes: first,
        dentries: first + 1,
        inodes: first + 2,
        slab_bytes: first + 3,
    };
    let objects = Some(Objects {
        dentries: 7,
        inodes: 8,
    });
    let values = Values::of([figures(10), figures(20)], [None, objects], 0.5).values();
    let expected = [
        ("page_cache_before_bytes", 10.0),
        ("page_cache_after_bytes", 20.0),
        ("dentries_before", 11.0),
        ("dentries_after", 21.0),
        ("inodes_before", 12.0),
        ("inodes_after", 22.0),
        ("slab_before_bytes", 13.0),
        ("slab_after_bytes", 23.0),
        ("slab_dentries_after", 7.0),
        ("slab_inodes_after", 8.0),
        ("time_s", 0.5),
    ];
    assert_eq!(values, expected);
}

#[test]
fn two_that_drop_the_caches_take_turns() {
    let file = unnamed(Path::new("/var/tmp")).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let open = || OpenOptions::new().write(true).open(&path).unwrap();
    let first = take_turn(open()).unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| take_turn(open()).map(drop));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!second.is_finished());
        drop(first);
        assert_eq!(second.join().unwrap(), Ok(()));
    });
}
