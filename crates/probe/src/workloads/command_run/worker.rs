//! The launcher: a process forked once for the runs of a program, which starts it each time it is asked.
//!
//! Making it for each run would take as long as starting a small program. One byte in a pipe asks for a run, one in another says that it is over;
//! what was asked and found is in memory that both share.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, pipe2};

use super::ended::Ended;
use super::launch::{Launcher, Started};
use super::program::Program;
use super::strays::{self, Strays};
use super::tail::Tail;
use super::wait::GRACE;
use crate::region::{Mark, Measured, Region};
use crate::workloads::fresh_process::describe_exit;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::process::Child;
use oscope_sys::serialized_error::{SerializedError, Text};
use oscope_sys::shared_memory::Shared;

/// What is asked of the launcher: a run, measured so.
#[derive(Clone, Copy)]
struct Order {
    mark: Mark,
    delay: Option<u64>,
}

/// What a run came to.
#[derive(Clone, Copy)]
struct Answer {
    measured: Measured,
    started: Result<Started, SerializedError>,
    /// A note on what the program left behind.
    left: Option<Text>,
}

/// The memory that both share.
struct SharedSlot {
    /// Runs asked for, and ended.
    asked: AtomicU32,
    ended: AtomicU32,
    order: UnsafeCell<MaybeUninit<Order>>,
    answer: UnsafeCell<MaybeUninit<Answer>>,
}

// SAFETY: the probe touches the order and the answer while no run is under way, the launcher during one; they are handed over by Release and
// Acquire.
unsafe impl Sync for SharedSlot {}

/// The launcher of a program. Dropping it ends it, and the program with it.
pub struct Worker {
    child: Child,
    board: Shared<SharedSlot>,
    orders: File,
    bell: File,
    tail: Tail,
    /// Time that a run may take, with ending a program that takes longer.
    limit: Duration,
}

/// What a program used, the end of its standard error, and a note on what it left behind.
pub type Run = (Ended, String, Option<String>);

impl Worker {
    /// Fork the launcher of `program`.
    ///
    /// # Errors
    /// `Failure::Unavailable` where no process can be made; `Failure::Failed` where no pipe can.
    pub fn fork(launcher: &Launcher, program: &Program, region: &Region) -> Result<Self, Failure> {
        let tail = Tail::new()?;
        // SAFETY: an atomic may be 0, and memory that may be uninitialised may be zeros.
        let board: Shared<SharedSlot> = unsafe { Shared::zeroed() }?;
        let ((orders, asking), (bell, ringing)) = (pipe()?, pipe()?);
        let clock = region.clock();
        let child = Child::fork(|| {
            let work = |region: &mut Region| launcher.launch(program, tail.writer(), region);
            let grown = || launcher.has_grown();
            serve((&orders, &ringing), &board, grown, |order| {
                let mut region = Region::marked(clock, order.mark);
                if let Some(ticks) = order.delay {
                    region.delay(ticks);
                }
                let started = work(&mut region);
                (region.measured(), started)
            });
        })?;
        Ok(Self {
            child,
            board,
            orders: asking,
            bell,
            tail,
            limit: launcher.timeout() + GRACE + GRACE,
        })
    }

    /// Its number.
    pub fn process(&self) -> Pid {
        self.child.process()
    }

    /// Have it run `program`, for which it was forked, and take over into `region` what it measured.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the program cannot be executed, or not be started or ended in time; `Failure::Failed` for a signal, where the kernel refuses a process, or where the
    /// launcher has died. It is of no use any more after the last.
    pub fn run(&mut self, program: &Program, region: &mut Region) -> Result<Run, Failure> {
        let latest = Instant::now() + self.limit;
        let order = Order {
            mark: region.mark().launching(),
            delay: region.delayed(),
        };
        // SAFETY: no run is under way.
        unsafe { (*self.board.order.get()).write(order) };
        let number = self.board.asked.fetch_add(1, Ordering::Release) + 1;
        self.orders
            .write_all(&[0])
            .map_err(|error| Failure::system("asking the launcher", error))?;
        self.wait_for(number, latest)?;
        // SAFETY: the launcher has written the answer, and does not touch it again before it is asked.
        let answer = unsafe { (*self.board.answer.get()).assume_init() };
        region.take_over(answer.measured);
        let left = answer.left.map(|text| text.text());
        match answer.started.map_err(|error| error.failure())? {
            Started::Ran(ended) => Ok((ended, self.tail.lines(), left)),
            Started::Refused(error) => Err(program.refused(error)),
        }
    }

    /// Read what the program says until the launcher has ended the run of this number.
    fn wait_for(&mut self, number: u32, latest: Instant) -> Result<(), Failure> {
        loop {
            let rung = self.tail.follow(self.bell.as_fd(), latest);
            if self.board.ended.load(Ordering::Acquire) == number {
                return self
                    .bell
                    .read_exact(&mut [0])
                    .map_err(|error| Failure::system("hearing from the launcher", error));
            }
            if cancel::requested() {
                return Err(Failure::failed("interrupted by a signal"));
            }
            // The bell is also ready where its other end is gone.
            if rung {
                if let Some(status) = self.child.ended()? {
                    return Err(Failure::failed(describe_exit(status)));
                }
            }
            if Instant::now() >= latest {
                return Err(Failure::unavailable(
                    "the command was not started in time: opening its --input or --output, or executing it, takes too long",
                    "a FIFO needs a process at its other end; or allow more with --timeout",
                ));
            }
        }
    }
}

/// In the launcher: do what is asked, until nobody asks any more. What it does again and again needs little code, so that the launcher stays small.
fn serve(
    (orders, bell): (&File, &File),
    board: &SharedSlot,
    grown: impl Fn(),
    mut work: impl FnMut(Order) -> (Measured, Result<Started, Failure>),
) {
    let strays = Strays::adopt();
    loop {
        let mut byte = 0_u8;
        // SAFETY: one byte is written to a byte.
        match unsafe { libc::read(orders.as_raw_fd(), (&raw mut byte).cast(), 1) } {
            1 => {}
            -1 if io::Error::last_os_error().kind() == ErrorKind::Interrupted => continue,
            _ => return,
        }
        let number = board.asked.load(Ordering::Acquire);
        // SAFETY: the probe leaves both alone until the run has ended.
        let order = unsafe { (*board.order.get()).assume_init() };
        let (measured, started) = work(order);
        let left = match &strays {
            Ok(strays) if strays::are_there() => {
                grown();
                strays.end(None).note()
            }
            Ok(_) => None,
            Err(failure) => Some(failure.to_string()),
        };
        let answer = Answer {
            measured,
            started: started.map_err(|failure| SerializedError::of(&failure)),
            left: left.as_deref().map(Text::of),
        };
        // SAFETY: as above.
        unsafe { (*board.answer.get()).write(answer) };
        board.ended.store(number, Ordering::Release);
        // SAFETY: one byte is read from a byte.
        if unsafe { libc::write(bell.as_raw_fd(), (&raw const byte).cast(), 1) } != 1 {
            return;
        }
    }
}

/// A pipe, its reading end first; no program has it.
fn pipe() -> Result<(File, File), Failure> {
    let (reader, writer) = pipe2(nix::fcntl::OFlag::O_CLOEXEC)
        .map_err(|error| Failure::system("making a pipe", error))?;
    Ok((reader.into(), writer.into()))
}
