//! Starting a program and waiting for its end, with what it used.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{CString, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sched::CpuSet;
use nix::sys::signal::{SigHandler, Signal};
use nix::unistd::Pid;

use super::accounts::Accounts;
use super::child::{Errand, begin, close_on_execution};
use super::ended::{Ended, FIX, own_max_rss_bytes, reap};
use super::energy::{POWERCAP, Rapl};
use super::parameters::Parameters;
use super::program::{Program, Texts, text};
use super::shed::{Peak, Surplus};
use super::strays;
use super::surroundings::{cpus, environment, opened};
use super::tail::Tail;
use super::wait::{GRACE, Outcome, ends_within, kill_group, wait_for_end};
use crate::counters::inherited::Inherited;
use crate::region::Region;
use crate::workload::Context;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::worker::{TimeLimit, VforkStack, pidfd};

/// Stack of the child until it executes the program, in bytes.
const STACK_BYTES: usize = 32 << 10;
const NOTHING: &str = "/dev/null";

/// Starts programs, all in the same surroundings.
pub struct Launcher {
    environment: Texts,
    folder: Option<CString>,
    input: String,
    output: String,
    cpus: CpuSet,
    timeout: Duration,
    counted: Vec<&'static str>,
    rapl: Option<Rapl>,
    stack: RefCell<VforkStack>,
    /// What a launcher gives back. It is looked for once, since that takes a third of what starting a program does, and
    /// a fork has the same.
    surplus: Surplus,
    /// Standard input and output of programs for which none is named; empty until this process is ready to start one.
    nothing: OnceCell<(File, File)>,
    /// Whether this process is as small as it can be.
    is_ready: Cell<bool>,
}

/// Why a program was not executed, or what it came to.
#[derive(Clone, Copy)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is handed over in memory of two processes, where no box can be"
)]
pub enum Started {
    Ran(Ended),
    Refused(c_int),
}

impl Launcher {
    /// Make ready what every start has in common.
    ///
    /// # Errors
    /// `Failure::Request` for a parameter that is wrong; `Failure::Failed` if the signals cannot be taken.
    pub fn new(parameters: &Parameters, context: &Context) -> Result<Self, Failure> {
        TimeLimit::prepare()?;
        cancel::handle(Signal::SIGCHLD, SigHandler::SigDfl)?;
        let folder = Some(&parameters.folder).filter(|folder| !folder.is_empty());
        Ok(Self {
            environment: environment(&parameters.environment)?.into(),
            folder: folder.map(|folder| text("folder", folder)).transpose()?,
            input: parameters.input.clone(),
            output: parameters.output.clone(),
            cpus: cpus(&parameters.cpu, context.allowed())?,
            timeout: Duration::from_secs_f64(parameters.timeout),
            counted: context.program_counters().to_vec(),
            rapl: Rapl::find(Path::new(POWERCAP)),
            stack: RefCell::new(VforkStack::new(STACK_BYTES)),
            surplus: Surplus::find(),
            nothing: OnceCell::new(),
            is_ready: Cell::new(false),
        })
    }

    /// Time after which a program is killed.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The same in seconds.
    pub fn timeout_s(&self) -> f64 {
        self.timeout.as_secs_f64()
    }

    /// The energy counters; `None` where the machine has none.
    pub fn rapl(&self) -> Option<&Rapl> {
        self.rapl.as_ref()
    }

    /// In the launcher: start the program, and wait for its end, within the region. `error` is where its standard error
    /// goes.
    ///
    /// # Errors
    /// `Failure::Failed` where the kernel refuses; `Failure::Unavailable` where the program's input or output cannot be
    /// opened.
    #[inline(always)]
    pub fn launch(
        &self,
        program: &Program,
        error: RawFd,
        region: &mut Region,
    ) -> Result<Started, Failure> {
        if !self.is_ready.get() {
            self.get_ready(error)?;
        }
        let mut named = None;
        let (input, output) = match self.nothing.get() {
            Some(nothing) if self.takes_nothing() => nothing,
            _ => named.insert(self.streams()?),
        };
        let streams = [input.as_raw_fd(), output.as_raw_fd(), error];
        let mut counters = self.counters();
        let timer = TimeLimit::start(self.timeout)?;
        // Before what follows makes this process larger: execve(2) hands on what it is now.
        let launcher_rss_bytes = own_max_rss_bytes();
        let energy_before = self.rapl.as_ref().and_then(Rapl::read);
        if let Some(counters) = &mut counters {
            counters
                .enable()
                .map_err(|error| Failure::system("counting", error))?;
        }
        let measured = region.measure(|| {
            let child = self.start(program, streams)?;
            wait_for_end(child).map(|outcome| (child, outcome))
        });
        if let Some(counters) = &mut counters {
            counters
                .disable()
                .map_err(|error| Failure::system("counting", error))?;
        }
        let energy_j = self
            .rapl
            .as_ref()
            .zip(energy_before)
            .and_then(|(rapl, before)| {
                let after = rapl.read()?;
                rapl.used_j(&before, &after)
            });
        let mut count = |name| counters.as_mut().and_then(|counters| counters.read(name));
        drop(timer);
        let (child, outcome) = match measured {
            Ok((child, Outcome::Survived)) => return Err(self.survived(child)),
            Ok(found) => found,
            Err(error) => return Ok(Started::Refused(error.raw_os_error().unwrap_or(libc::EIO))),
        };
        let accounts = Accounts::of(child);
        let (status, usage) = reap(child).map_err(|error| Failure::system("wait4", error))?;
        Ok(Started::Ran(Ended {
            status,
            timed_out: outcome == Outcome::Killed,
            usage,
            launcher_rss_bytes,
            accounts,
            instructions: count("instructions"),
            cycles: count("cpu_cycles"),
            energy_j,
        }))
    }

    /// In the launcher: open what programs have, and become ready to start one. What the caller named is left to the
    /// start of the program, since opening it may have an effect, as with a FIFO.
    #[cold]
    fn get_ready(&self, error: RawFd) -> Result<(), Failure> {
        if self.nothing.get().is_none() {
            let _ = self.nothing.set(opened(NOTHING, NOTHING)?);
        }
        close_on_execution();
        self.stack.borrow_mut().touch();
        if let Some((input, output)) = self.nothing.get() {
            self.rehearse([input.as_raw_fd(), output.as_raw_fd(), error]);
        }
        self.is_ready.set(true);
        Ok(())
    }

    /// In the launcher: have it become small again before the next start, after it has done something else.
    pub fn has_grown(&self) {
        self.is_ready.set(false);
    }

    fn takes_nothing(&self) -> bool {
        self.input.is_empty() && self.output.is_empty()
    }

    /// In the launcher: become small (see [`Surplus`]), and start a program that is not there, so that what is needed
    /// to start one is in memory when the clock runs, and no more than that.
    fn rehearse(&self, streams: [RawFd; 3]) {
        let nothing = Program::nothing();
        let peak = Peak::of_this_process();
        self.surplus.shed();
        let refused = self.start(&nothing, streams).and_then(wait_for_end);
        debug_assert!(refused.is_err());
        peak.forget();
    }

    /// Run `program` outside the clock; `option` is what asked for it, and `stop` what ends it early.
    ///
    /// # Errors
    /// `Failure::Unavailable` where it fails, or takes longer than allowed.
    pub fn run_aside(
        &self,
        option: &str,
        program: &Program,
        stop: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        let mut tail = Tail::new()?;
        let (input, output) = opened(NOTHING, NOTHING)?;
        let streams = [input.as_raw_fd(), output.as_raw_fd(), tail.writer()];
        let child = self
            .start(program, streams)
            .map_err(|error| program.refused(error.raw_os_error().unwrap_or(libc::EIO)))?;
        let end = pidfd(child as u32).map_err(|error| {
            kill_group(child);
            Failure::system("pidfd_open", error)
        })?;
        let latest = Instant::now() + self.timeout;
        let mut timed_out = false;
        // Its end, and not that of its standard error, which it may close or leave to others.
        while !timed_out && !tail.follow(end.as_fd(), latest) {
            timed_out = stop() || Instant::now() >= latest;
        }
        if timed_out {
            kill_group(child);
            if !ends_within(Pid::from_raw(child), GRACE) {
                return Err(self.survived(child));
            }
        }
        let (status, usage) = reap(child).map_err(|error| Failure::system("wait4", error))?;
        let ended = Ended {
            status,
            timed_out,
            usage,
            launcher_rss_bytes: own_max_rss_bytes(),
            accounts: Accounts::NONE,
            instructions: None,
            cycles: None,
            energy_j: None,
        };
        if stop() {
            return Err(Failure::failed("interrupted by a signal"));
        }
        ended
            .judge(&tail.lines(), false, self.timeout_s())
            .map_err(|failure| match failure {
                Failure::Unavailable {
                    message,
                    errno,
                    remedy,
                } => Failure::Unavailable {
                    message: format!("{option} {}: {message}", program.name),
                    errno,
                    remedy: remedy.filter(|remedy| remedy != FIX),
                },
                other => other,
            })
    }

    /// That a program runs on after its time, although it was killed.
    #[cold]
    fn survived(&self, child: libc::pid_t) -> Failure {
        Failure::unavailable(
            format!(
                "the command did not end within {} s, and cannot be ended: {}",
                self.timeout_s(),
                strays::described(Pid::from_raw(child))
            ),
            "end it as its user or as root (kill -9)",
        )
    }

    /// What becomes standard input and output.
    fn streams(&self) -> Result<(File, File), Failure> {
        let named = |path: &String| {
            if path.is_empty() {
                NOTHING.to_owned()
            } else {
                path.clone()
            }
        };
        opened(&named(&self.input), &named(&self.output))
    }

    fn counters(&self) -> Option<Inherited> {
        if self.counted.is_empty() {
            return None;
        }
        Inherited::open(&self.counted).ok()
    }

    /// Start `program`, in memory shared with this process until it is executed (`CLONE_VM | CLONE_VFORK`): that is the
    /// fastest way, and an error of execve(2) is known at once.
    #[inline(always)]
    fn start(&self, program: &Program, streams: [RawFd; 3]) -> io::Result<libc::pid_t> {
        let mut errand = Errand {
            path: &program.path,
            arguments: program.arguments.as_ptr(),
            environment: self.environment.as_ptr(),
            folder: self.folder.as_deref(),
            cpus: &self.cpus,
            streams,
            error: 0,
        };
        // SAFETY: `begin` expects an errand, makes system calls only, and fits on the stack.
        let child = unsafe { self.stack.borrow_mut().start(begin, &raw mut errand) };
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        // The child shares this memory, which the compiler does not know.
        // SAFETY: the errand is there.
        match unsafe { (&raw const errand.error).read_volatile() } {
            0 => Ok(child),
            error => {
                let _ = reap(child);
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
}
