//! Real messages over every channel, and what must not pass for one.

use nix::sys::signal::{Signal, kill};

use super::*;
use crate::clock::RequestedClock;
use crate::workload::Shared;
use oscope_sys::affinity;

const CHANNELS: [channel::Kind; 5] = [
    channel::Kind::Pipe,
    channel::Kind::Local,
    channel::Kind::Seqpacket,
    channel::Kind::Tcp,
    channel::Kind::Shm,
];
const MODES: [Mode; 2] = [Mode::Threads, Mode::Processes];

fn parameters_of(channel: channel::Kind, mode: Mode, size: usize) -> Parameters {
    Parameters {
        channel,
        mode,
        size,
        placement: Placement::Free,
    }
}

/// Hands `act` a prepared workload and its clock.
fn with(parameters: Parameters, act: impl FnOnce(&mut IpcLatency, &Clock)) {
    let clock = Clock::open(RequestedClock::Monotonic).expect("there is a clock");
    let allowed = affinity::allowed().expect("they can be read");
    let shared = Shared::default();
    let context = Context::new(&clock, None, &allowed, &shared);
    let reported = format!("{parameters:?}");
    let mut workload = IpcLatency::prepare(parameters, &context)
        .unwrap_or_else(|failure| panic!("{reported}: {failure}"));
    act(&mut workload, &clock);
}

fn once(workload: &mut IpcLatency, clock: &Clock, rounds: u64) -> Result<Work, Failure> {
    let mut region = Region::new(clock);
    let work = workload.run(rounds, &mut region)?;
    workload.verify(&work).map(|()| work)
}

fn metric(work: &Work, name: &str) -> Option<f64> {
    let found = work.metrics.iter().find(|(metric, _)| *metric == name);
    found.map(|(_, value)| *value)
}

#[test]
fn messages_of_any_size_come_back_whole_over_every_channel() {
    for channel in CHANNELS {
        for mode in MODES {
            for size in [1, 9, 4096, 65_536] {
                with(parameters_of(channel, mode, size), |workload, clock| {
                    // More than fit into the counter of one byte, and repetition after repetition.
                    for rounds in [1, 300, 20] {
                        let work = once(workload, clock, rounds).unwrap_or_else(|failure| {
                            panic!("{channel:?} {mode:?} {size}: {failure}")
                        });
                        assert_eq!((work.done, work.wanted), (rounds, rounds));
                        assert_eq!(metric(&work, "round_trips"), Some(rounds as f64));
                    }
                });
            }
        }
    }
}

#[test]
fn both_sides_keep_to_their_place() {
    let cpus = affinity::allowed().expect("they can be read").len();
    for placement in [Placement::Same, Placement::Other] {
        if placement == Placement::Other && cpus < 2 {
            continue;
        }
        for channel in CHANNELS {
            let mut parameters = parameters_of(channel, Mode::Processes, 100);
            parameters.placement = placement;
            with(parameters, |workload, clock| {
                let work = once(workload, clock, 200).expect("messages come back");
                // On one CPU each side must give it up for the other to go on.
                let switches = metric(&work, "voluntary").expect("it is given");
                assert!(
                    placement == Placement::Other || switches >= 1.0,
                    "{channel:?}: {switches}"
                );
            });
        }
    }
}

#[test]
fn a_percentile_is_given_where_there_are_enough_round_trips() {
    with(
        parameters_of(channel::Kind::Pipe, Mode::Threads, 1),
        |workload, clock| {
            for (rounds, p99, p999) in [(499, false, false), (500, true, false), (5000, true, true)]
            {
                let work = once(workload, clock, rounds).expect("messages come back");
                let given = |name| metric(&work, name).is_some();
                assert_eq!((given("p99_ns"), given("p999_ns")), (p99, p999), "{rounds}");
                let value = |name| metric(&work, name).expect("it is given");
                let rising = ["min_ns", "round_trip_ns", "p90_ns", "max_ns"].map(value);
                assert!(rising.is_sorted(), "{rising:?}");
                assert!(rising[0] > 0.0 && value("mean_ns") > rising[0]);
            }
            let declared = Values::described().len();
            let work = once(workload, clock, 5000).expect("messages come back");
            assert_eq!(work.metrics.len(), declared);
        },
    );
}

#[test]
fn a_process_that_is_killed_is_reported() {
    for channel in CHANNELS {
        with(
            parameters_of(channel, Mode::Processes, 1),
            |workload, clock| {
                once(workload, clock, 10).expect("messages come back");
                let process = workload.peer.process().expect("it is one");
                let killer = std::thread::spawn(move || {
                    std::thread::sleep(std::time::Duration::from_millis(30));
                    kill(process, Signal::SIGKILL).expect("it lives");
                });
                let reported = once(workload, clock, u64::MAX / 4)
                    .expect_err("it dies")
                    .to_string();
                killer.join().expect("it has no reason to panic");
                assert!(
                    reported.contains("killed by SIGKILL"),
                    "{channel:?}: {reported}"
                );
            },
        );
    }
}

#[test]
fn a_message_that_is_not_the_one_due_is_seen() {
    with(
        parameters_of(channel::Kind::Pipe, Mode::Threads, 1),
        |workload, clock| {
            let work = once(workload, clock, 3).expect("messages come back");
            let plan = Plan {
                kind: channel::Kind::Pipe,
                waiting: Waiting::Sleeps,
                socket_buffer: None,
            };
            let (one, other) = both_ways(plan).expect("pipes can be made");
            let job = |first| Job { first, rounds: 3 };
            let mut other = Side::new(other, 1);
            let peer = std::thread::spawn(move || other.answer(job(7)));
            let own = Side::new(one, 1).ask(job(0), &mut workload.recorder);
            let own = own.expect("something came back");
            let other = peer.join().expect("it has no reason to panic");
            let right = Tally {
                messages: 3,
                wrong: 0,
            };
            for (tallies, who) in [((own, right), "this"), ((right, other), "the other")] {
                workload.tallies = Some(tallies);
                let reported = workload
                    .verify(&work)
                    .expect_err("three are wrong")
                    .to_string();
                assert!(
                    reported.contains(&format!("3 of 3 messages that {who} side")),
                    "{reported}"
                );
            }
            workload.tallies = Some((
                right,
                Tally {
                    messages: 2,
                    wrong: 0,
                },
            ));
            let reported = workload.verify(&work).expect_err("one lacks").to_string();
            assert!(
                reported.contains("the other side received 2 of 3"),
                "{reported}"
            );
        },
    );
}

#[test]
fn a_wrong_byte_in_the_middle_is_seen() {
    with(
        parameters_of(channel::Kind::Local, Mode::Threads, 5000),
        |workload, clock| {
            let work = once(workload, clock, 3).expect("messages come back");
            workload.peer.end().expect("it is open").tip(2500);
            let reported = workload
                .verify(&work)
                .expect_err("a bit is wrong")
                .to_string();
            assert!(reported.contains("byte 2500"), "{reported}");
        },
    );
}
