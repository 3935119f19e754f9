//! The ways to make a child, and to wait for its end.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::ptr::{null, null_mut};

use nix::sys::signal::{SigHandler, Signal};
use serde::Deserialize;

use super::stamp::{Page, Slot, Stamp};
use crate::clock::Clock;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::worker::{TimeLimit, VforkStack};

/// Stack of a vfork child, in bytes: it calls two small functions.
const STACK_BYTES: usize = 64 << 10;

/// How to make a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The C library's `fork`.
    Fork,
    /// What `vfork` asks of the kernel: `CLONE_VM | CLONE_VFORK`.
    Vfork,
    /// The system call `clone3` with nothing shared: `fork` without the C library.
    Clone3,
    /// The C library's `posix_spawn` of this program.
    PosixSpawn,
    /// The C library's `pthread_create`.
    Thread,
}

#[cfg(test)]
impl How {
    /// Every way.
    pub const ALL: [Self; 5] = [
        Self::Fork,
        Self::Vfork,
        Self::Clone3,
        Self::PosixSpawn,
        Self::Thread,
    ];
}

/// What was seen of one child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Right before the call.
    pub called: Stamp,
    /// In the child, as early as it can.
    pub began: Option<Stamp>,
    /// In the parent, right after the call.
    pub returned: Stamp,
    /// In the parent, once the child was reaped or joined.
    pub reaped: Stamp,
    /// How it ended.
    pub end: End,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this exit status; a thread that came back ends with 0.
    Exit(c_int),
    /// By this signal.
    Signal(c_int),
}

/// A child under way, which must be waited for.
enum Child {
    Process(libc::pid_t),
    Thread(libc::pthread_t),
}

/// What a child has to know.
struct Errand<'a> {
    clock: &'a Clock,
    slot: &'a Slot,
}

/// Makes children of one kind.
pub struct Maker {
    how: How,
    page: Page,
    stack: VforkStack,
    program: Program,
}

/// What `posix_spawn` starts: this program, which then stamps.
struct Program {
    path: CString,
    name: CString,
    request: CString,
}

impl Maker {
    /// Make ready: a shared page, a stack, the arguments.
    ///
    /// # Errors
    /// `Failure::Failed` if the page cannot be had, or the signals cannot be taken.
    pub fn new(how: How, clock: &Clock) -> Result<Self, Failure> {
        TimeLimit::prepare()?;
        // Ignored, as it may have been inherited, it would have the kernel reap the children unseen (waitpid(2)).
        cancel::handle(Signal::SIGCHLD, SigHandler::SigDfl)?;
        let page = Page::new()?;
        let program = Program {
            path: c"/proc/self/exe".to_owned(),
            name: c"oscope-probe".to_owned(),
            request: page.request(clock.kind),
        };
        Ok(Self {
            how,
            page,
            stack: VforkStack::new(STACK_BYTES),
            program,
        })
    }

    /// Make one child and wait for its end. Whatever happens, no child is left behind.
    ///
    /// # Errors
    /// The errno of fork(2), clone(2), clone3(2), posix_spawn(3) or pthread_create(3), such as `EAGAIN`, or of the
    /// wait.
    pub fn live(&mut self, clock: &Clock) -> io::Result<Life> {
        // It lives until the child has ended, which a child in this memory relies on.
        let errand = Errand {
            clock,
            slot: self.page.slot(),
        };
        let called = Stamp::now(clock);
        let (child, returned) = match self.how {
            How::Fork => fork(&errand),
            How::Clone3 => clone3(&errand),
            How::Vfork => vfork(&errand, &mut self.stack),
            How::PosixSpawn => self.program.spawn(clock),
            How::Thread => thread(&errand),
        }?;
        let end = child.wait()?;
        let reaped = Stamp::now(clock);
        Ok(Life {
            called,
            began: errand.slot.take(),
            returned,
            reaped,
            end,
        })
    }
}

/// In the child: leave the stamp and end, with nothing that is not async-signal-safe (signal-safety(7)): no handler,
/// lock or allocation.
fn stamp_and_exit(slot: &Slot, stamp: Stamp) -> ! {
    slot.leave(stamp);
    // SAFETY: `_exit` ends the process at once; it runs no handler and flushes no buffer of the parent's.
    unsafe { libc::_exit(0) }
}

#[inline(always)]
fn fork(errand: &Errand) -> io::Result<(Child, Stamp)> {
    // SAFETY: the child calls async-signal-safe functions only, and leaves by `_exit`.
    let process = unsafe { libc::fork() };
    let stamp = Stamp::now(errand.clock);
    if process == 0 {
        stamp_and_exit(errand.slot, stamp);
    }
    made(process, stamp)
}

#[inline(always)]
fn clone3(errand: &Errand) -> io::Result<(Child, Stamp)> {
    // SAFETY: all zeroes is a valid `clone_args`: share nothing, signal nobody.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: the arguments outlive the call. Without CLONE_VM the child goes on in a copy of this memory, so it may
    // return through these frames; the C library does not know of it, but it calls nothing there that would matter, and
    // leaves by `_exit`.
    let process = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of_val(&arguments),
        )
    };
    let stamp = Stamp::now(errand.clock);
    if process == 0 {
        stamp_and_exit(errand.slot, stamp);
    }
    made(process as libc::pid_t, stamp)
}

#[inline(always)]
fn vfork(errand: &Errand, stack: &mut VforkStack) -> io::Result<(Child, Stamp)> {
    extern "C" fn begin(errand: *mut c_void) -> c_int {
        // SAFETY: `vfork` hands over an `Errand` that lives while the parent waits.
        let errand = unsafe { &*errand.cast::<Errand>() };
        stamp_and_exit(errand.slot, Stamp::now(errand.clock))
    }
    // SAFETY: `begin` reads the clock, makes three stores to the errand's slot and leaves by `_exit`; it changes
    // nothing of the errand itself.
    let process = unsafe { stack.start(begin, std::ptr::from_ref(errand).cast_mut()) };
    let stamp = Stamp::now(errand.clock);
    made(process, stamp)
}

#[inline(always)]
fn thread(errand: &Errand) -> io::Result<(Child, Stamp)> {
    extern "C" fn begin(errand: *mut c_void) -> *mut c_void {
        // SAFETY: `live` keeps the `Errand` until it has joined the thread.
        let errand = unsafe { &*errand.cast::<Errand>() };
        errand.slot.leave(Stamp::now(errand.clock));
        null_mut()
    }
    // SAFETY: all zeroes is a valid `pthread_t`, and it is written before it is read.
    let mut thread: libc::pthread_t = unsafe { std::mem::zeroed() };
    // SAFETY: default attributes; the errand outlives the thread.
    let answer = unsafe {
        libc::pthread_create(
            &raw mut thread,
            null(),
            begin,
            std::ptr::from_ref(errand).cast_mut().cast(),
        )
    };
    let stamp = Stamp::now(errand.clock);
    match answer {
        0 => Ok((Child::Thread(thread), stamp)),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

impl Program {
    #[inline(always)]
    fn spawn(&self, clock: &Clock) -> io::Result<(Child, Stamp)> {
        let arguments: [*mut c_char; 2] = [self.name.as_ptr().cast_mut(), null_mut()];
        let environment: [*mut c_char; 2] = [self.request.as_ptr().cast_mut(), null_mut()];
        let mut process = 0;
        // SAFETY: path, arguments and environment are C strings in arrays that end with a null pointer; posix_spawn
        // changes none of them.
        let answer = unsafe {
            libc::posix_spawn(
                &raw mut process,
                self.path.as_ptr(),
                null(),
                null(),
                arguments.as_ptr(),
                environment.as_ptr(),
            )
        };
        let stamp = Stamp::now(clock);
        match answer {
            0 => Ok((Child::Process(process), stamp)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[inline(always)]
fn made(process: libc::pid_t, stamp: Stamp) -> io::Result<(Child, Stamp)> {
    if process > 0 {
        Ok((Child::Process(process), stamp))
    } else {
        Err(io::Error::last_os_error())
    }
}

impl Child {
    /// Wait for the end. A signal to this process that asks it to stop ends the child process first, and so does the
    /// [`TimeLimit`].
    fn wait(self) -> io::Result<End> {
        match self {
            Self::Process(process) => wait_for(process),
            Self::Thread(thread) => {
                // SAFETY: the thread was made joinable and is joined once.
                match unsafe { libc::pthread_join(thread, null_mut()) } {
                    0 => Ok(End::Exit(0)),
                    error => Err(io::Error::from_raw_os_error(error)),
                }
            }
        }
    }
}

/// Wait for the end of a child process.
pub fn wait_for(process: libc::pid_t) -> io::Result<End> {
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    while unsafe { libc::waitpid(process, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        if cancel::requested() || TimeLimit::passed() {
            // SAFETY: the child has not been reaped, so its number is not another's.
            unsafe { libc::kill(process, libc::SIGKILL) };
        }
    }
    Ok(if libc::WIFEXITED(status) {
        End::Exit(libc::WEXITSTATUS(status))
    } else {
        End::Signal(libc::WTERMSIG(status))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::RequestedClock;

    #[test]
    fn every_way_makes_a_child_that_stamps_and_ends() {
        let clock = Clock::open(RequestedClock::Auto).expect("there is always a clock");
        for how in How::ALL {
            let mut maker = Maker::new(how, &clock).expect("a page can be had");
            for _ in 0..3 {
                let life = maker
                    .live(&clock)
                    .unwrap_or_else(|error| panic!("{how:?}: {error}"));
                assert_eq!(life.end, End::Exit(0), "{how:?}");
                assert!(life.began.is_some(), "{how:?} left no stamp");
            }
        }
    }

    #[test]
    fn a_child_that_fails_is_seen() {
        // SAFETY: the child leaves at once.
        let process = unsafe { libc::fork() };
        if process == 0 {
            // SAFETY: ends the child without handlers.
            unsafe { libc::_exit(3) }
        }
        assert!(matches!(wait_for(process), Ok(End::Exit(3))));
        assert!(wait_for(process).is_err(), "it is reaped once");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let clock = Clock::open(RequestedClock::Auto).expect("there is always a clock");
        let mut maker = Maker::new(How::PosixSpawn, &clock).expect("a page can be had");
        maker.program.path = c"/nonexistent/program".to_owned();
        assert_eq!(
            maker
                .live(&clock)
                .expect_err("there is no such program")
                .kind(),
            io::ErrorKind::NotFound
        );
    }

    /// In a process of its own, since SIGALRM may come to any thread.
    #[test]
    fn a_child_that_hangs_is_ended() {
        TimeLimit::prepare().expect("SIGALRM can be taken");
        // SAFETY: the child and its own child call async-signal-safe functions only, and leave by `_exit` or a signal.
        let waiter = unsafe { libc::fork() };
        if waiter == 0 {
            // SAFETY: as above.
            let hanging = unsafe { libc::fork() };
            if hanging == 0 {
                loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                }
            }
            let _limit = TimeLimit::start(Duration::from_secs(1));
            let ended = matches!(wait_for(hanging), Ok(End::Signal(libc::SIGKILL)));
            // SAFETY: ends the process without handlers.
            unsafe { libc::_exit(i32::from(!ended)) }
        }
        assert_eq!(wait_for(waiter).expect("it is a child"), End::Exit(0));
    }
}
