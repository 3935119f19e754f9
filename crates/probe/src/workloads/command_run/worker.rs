//! The launcher: a process forked once for the runs of a program, which starts it each time it is asked.
//!
//! Making it for each run would take as long as starting a small program. A notice in a pipe asks for a run, one in
//! another says that it is over; what was asked and found is in memory that both share.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

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
use oscope_sys::serialized_error::{SerializedError, Text};
use oscope_sys::shared_memory::Shared;
use oscope_sys::worker::{Child, Listener, Notice, Notifier, Slot, notify_pipe};

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

/// The launcher of a program. Dropping it ends it, and the program with it.
pub struct Worker {
    child: Child,
    order: Shared<Slot<Order>>,
    answer: Shared<Slot<Answer>>,
    orders: Notifier,
    bell: Listener,
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
        let (order, answer) = (Shared::zeroed()?, Shared::zeroed()?);
        let ((orders, asking), (bell, ringing)) = (notify_pipe()?, notify_pipe()?);
        let clock = region.clock();
        let child = Child::fork(|| {
            let work = |region: &mut Region| launcher.launch(program, tail.writer(), region);
            let grown = || launcher.has_grown();
            serve((&orders, &ringing), (&order, &answer), grown, |order| {
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
            order,
            answer,
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
    /// `Failure::Unavailable` where the program cannot be executed, or not be started or ended in time;
    /// `Failure::Failed` for a signal, where the kernel refuses a process, or where the launcher has died. It is of no
    /// use any more after the last.
    pub fn run(&mut self, program: &Program, region: &mut Region) -> Result<Run, Failure> {
        let latest = Instant::now() + self.limit;
        let order = Order {
            mark: region.mark().launching(),
            delay: region.delayed(),
        };
        if !self.order.put(order) {
            return Err(Failure::failed("the launcher has a run under way"));
        }
        self.orders
            .notify()
            .map_err(|error| Failure::system("asking the launcher", error))?;
        let answer = self.wait(latest)?;
        region.take_over(answer.measured);
        let left = answer.left.map(|text| text.text());
        match answer.started.map_err(|error| error.failure())? {
            Started::Ran(ended) => Ok((ended, self.tail.lines(), left)),
            Started::Refused(error) => Err(program.refused(error)),
        }
    }

    /// Read what the program says until the launcher has answered.
    fn wait(&mut self, latest: Instant) -> Result<Answer, Failure> {
        loop {
            let rung = self.tail.follow(self.bell.as_fd(), latest);
            if let Some(answer) = self.answer.take() {
                self.bell.wait();
                return Ok(answer);
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
                    "the command was not started in time: opening its --input or --output, or executing it, takes too \
                     long",
                    "a FIFO needs a process at its other end; or allow more with --timeout",
                ));
            }
        }
    }
}

/// In the launcher: do what is asked, until nobody asks any more. What it does again and again needs little code, so
/// that the launcher stays small.
fn serve(
    (orders, bell): (&Listener, &Notifier),
    (order, answer): (&Slot<Order>, &Slot<Answer>),
    grown: impl Fn(),
    mut work: impl FnMut(Order) -> (Measured, Result<Started, Failure>),
) {
    let strays = Strays::adopt();
    while orders.wait() == Notice::Given {
        let Some(order) = order.take() else {
            return;
        };
        let (measured, started) = work(order);
        let left = match &strays {
            Ok(strays) if strays::are_there() => {
                grown();
                strays.end(None).note()
            }
            Ok(_) => None,
            Err(failure) => Some(failure.to_string()),
        };
        answer.put(Answer {
            measured,
            started: started.map_err(|failure| SerializedError::of(&failure)),
            left: left.as_deref().map(Text::of),
        });
        if bell.notify().is_err() {
            return;
        }
    }
}
