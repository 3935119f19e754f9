//! Transfers of every channel, mode and check, and what goes wrong with them.

use nix::sys::signal::{Signal, kill};

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::workload::Shared;
use oscope_sys::affinity;

const CHANNELS: [channel::Kind; 6] = [
    channel::Kind::Pipe,
    channel::Kind::Local,
    channel::Kind::Seqpacket,
    channel::Kind::Tcp,
    channel::Kind::Shm,
    channel::Kind::Vmsplice,
];
const MODES: [Mode; 3] = [Mode::OneThread, Mode::TwoThreads, Mode::TwoProcesses];

fn parameters(channel: channel::Kind, mode: Mode, buffer: u64, total: u64) -> Parameters {
    Parameters {
        channel,
        mode,
        buffer,
        total,
        sockbuf: SocketBuffer::Default,
        placement: Placement::Free,
        check: Check::Every,
    }
}

/// Prepares with a source that `change` may spoil, and hands `act` the workload and a clock.
fn with_change(
    parameters: Parameters,
    change: impl FnOnce(&mut Source),
    act: impl FnOnce(Result<IpcThroughput, Failure>, &Clock),
) {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    act(
        IpcThroughput::connect(parameters, &context, Preparation::Trial, change),
        &clock,
    );
}

fn with(parameters: Parameters, act: impl FnOnce(&mut IpcThroughput, &Clock)) {
    with_change(
        parameters,
        |_| (),
        |prepared, clock| {
            let mut workload =
                prepared.unwrap_or_else(|failure| panic!("{parameters:?}: {failure}"));
            act(&mut workload, clock);
        },
    );
}

fn metric(work: &Work, name: &str) -> Option<f64> {
    let given = work.metrics.iter().find(|each| each.0 == name);
    given.map(|each| each.1)
}

/// Two repetitions, of which all must be true; gives the last.
fn repeat(parameters: Parameters) -> Work {
    let mut last = Work::default();
    with(parameters, |workload, clock| {
        for _ in 0..2 {
            let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
            assert_eq!(
                (work.done, work.wanted),
                (parameters.total, parameters.total)
            );
            assert_eq!(workload.verify(&work), Ok(()), "{parameters:?}");
            last = work;
        }
    });
    last
}

#[test]
fn every_channel_carries_odd_sizes_in_every_mode() {
    for channel in CHANNELS {
        for mode in MODES {
            for (buffer, total) in [
                (1, 700),
                (7, 1000),
                (63, 10_000),
                (4097, 100_000),
                (300_000, 1_000_001),
                (9, 5),
            ] {
                let work = repeat(parameters(channel, mode, buffer, total));
                assert_eq!(metric(&work, "bytes"), Some(total as f64));
                let alone = mode == Mode::OneThread;
                assert_eq!(metric(&work, "receiver_voluntary").is_none(), alone);
                let reported = work.notes.iter().any(|note| {
                    note.starts_with("total is no multiple") || note.starts_with("total is less")
                });
                assert_eq!(reported, total % buffer != 0, "{:?}", work.notes);
            }
        }
    }
}

#[test]
fn every_check_and_placement_is_taken() {
    for check in [Check::Ends, Check::Every, Check::None] {
        for placement in [Placement::Free, Placement::Same, Placement::Other] {
            for channel in CHANNELS {
                let plan = Parameters {
                    check,
                    placement,
                    sockbuf: SocketBuffer::Buffer,
                    ..parameters(channel, Mode::TwoProcesses, 5000, 123_456)
                };
                if placement == Placement::Other
                    && affinity::allowed().is_ok_and(|all| all.len() == 1)
                {
                    continue;
                }
                let work = repeat(plan);
                let reported = work
                    .notes
                    .iter()
                    .any(|note| note.starts_with("sockbuf=buffer"));
                assert!(reported, "{channel:?}: {:?}", work.notes);
            }
        }
    }
}

#[test]
fn one_thread_does_not_hang_on_a_buffer_beyond_the_capacity() {
    for channel in CHANNELS {
        let work = repeat(parameters(channel, Mode::OneThread, 16 << 20, 16 << 20));
        let capacity = metric(&work, "capacity").expect("it is found");
        assert!(
            capacity > 0.0 && capacity < f64::from(16 << 20),
            "{channel:?}: {capacity}"
        );
    }
}

#[test]
fn a_pipe_holds_what_it_is_known_to_hold_and_calls_are_counted() {
    let work = repeat(parameters(
        channel::Kind::Pipe,
        Mode::OneThread,
        128 << 10,
        1 << 20,
    ));
    let of = |name| metric(&work, name).expect("it is given");
    assert_eq!(of("capacity"), 65536.0);
    // 64 KiB fit of each block's 128, and then the rest.
    assert_eq!(
        (of("writes"), of("short_writes"), of("reads")),
        (16.0, 8.0, 16.0)
    );
}

#[test]
fn messages_that_a_socket_does_not_take_are_split_and_reported() {
    let work = repeat(parameters(
        channel::Kind::Seqpacket,
        Mode::OneThread,
        2 << 20,
        4 << 20,
    ));
    let writes = metric(&work, "writes").expect("it is given");
    assert!(writes > 2.0);
    assert!(
        work.notes
            .iter()
            .any(|note| note.starts_with("a message holds at most")),
        "{:?}",
        work.notes
    );
}

#[test]
fn a_byte_that_changed_on_its_way_is_named() {
    for mode in MODES {
        for (check, place) in [(Check::Every, 1234), (Check::Ends, 4095)] {
            let plan = Parameters {
                check,
                ..parameters(channel::Kind::Seqpacket, mode, 4096, 65536)
            };
            let spoil = |source: &mut Source| source.block()[place] ^= 1;
            with_change(plan, spoil, |prepared, clock| {
                let reported = match prepared {
                    // check=ends compares every byte once beforehand.
                    Err(failure) => failure,
                    Ok(mut workload) => {
                        let work = workload.run(1, &mut Region::new(clock)).expect("it runs");
                        workload.verify(&work).expect_err("a byte is wrong")
                    }
                };
                let words = format!("offset {place} of the stream");
                assert!(reported.to_string().contains(&words), "{reported}");
            });
        }
    }
}

#[test]
fn ends_alone_are_compared_within_the_clock() {
    let plan = Parameters {
        check: Check::Ends,
        ..parameters(channel::Kind::Seqpacket, Mode::OneThread, 4096, 65536)
    };
    for (place, seen) in [(4095, Some(4095)), (4088, Some(4088)), (2000, None)] {
        with(plan, |workload, clock| {
            let Sides::One(source, _) = &mut workload.sides else {
                panic!("one thread does both");
            };
            source.block()[place as usize] ^= 1;
            workload.run(1, &mut Region::new(clock)).expect("it runs");
            assert_eq!(workload.sink().and_then(|sink| sink.wrong), seen);
        });
    }
}

#[test]
fn a_process_that_is_killed_is_named_and_the_request_goes_on_to_say_so() {
    for channel in CHANNELS {
        for death in [Signal::SIGKILL, Signal::SIGTERM] {
            with(
                parameters(channel, Mode::TwoProcesses, 4096, 1 << 40),
                |workload, clock| {
                    let Sides::Two(peer) = &workload.sides else {
                        panic!("another sends");
                    };
                    let process = peer.process().expect("it is a process");
                    let killer = std::thread::spawn(move || {
                        std::thread::sleep(std::time::Duration::from_millis(30));
                        kill(process, death)
                    });
                    for _ in 0..2 {
                        let failure = workload
                            .run(1, &mut Region::new(clock))
                            .expect_err("nobody sends");
                        let words = format!("the other process was killed by {death}");
                        assert_eq!(failure.to_string(), words, "{channel:?}");
                    }
                    killer
                        .join()
                        .expect("it ends")
                        .expect("there was somebody to kill");
                },
            );
        }
    }
}

#[test]
fn what_does_not_fit_into_memory_has_a_remedy() {
    let failure = Source::new(
        channel::one_way(Plan {
            kind: channel::Kind::Pipe,
            waiting: Waiting::Sleeps,
            socket_buffer: None,
        })
        .expect("a pipe can be had")
        .0,
        1 << 45,
        1,
    );
    assert!(matches!(
        failure.err(),
        Some(Failure::Unavailable {
            remedy: Some(_),
            ..
        })
    ));
}
