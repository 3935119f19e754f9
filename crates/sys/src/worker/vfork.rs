//! A child in this process's memory, as vfork(2) makes it.
//!
//! `vfork` itself returns twice on one stack, which no Rust function survives. The same system call (`CLONE_VM |
//! CLONE_VFORK`) with a stack for the child is sound.

use std::ffi::{c_int, c_void};

/// The stack of such a child, for one after another.
#[derive(Debug)]
pub struct VforkStack(Vec<u128>);

impl VforkStack {
    /// A stack of so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(vec![0; bytes / size_of::<u128>()])
    }

    /// Write to all of it, so that its pages are in memory.
    pub fn touch(&mut self) {
        self.0.fill(0);
    }

    /// Make a child that calls `begin` with `errand`, and sleep until it has executed a program or ended. Returns its
    /// process number, or -1 as clone(2) does, with the error in `errno`: whoever reads a clock right after the call
    /// looks at the error later. The child is to be waited for.
    ///
    /// # Safety
    /// `begin` calls async-signal-safe functions only (signal-safety(7)), leaves by execve(2) or `_exit`, and fits on
    /// the stack. `errand` is what it expects, and valid until this returns.
    #[inline(always)]
    pub unsafe fn start<T>(
        &mut self,
        begin: extern "C" fn(*mut c_void) -> c_int,
        errand: *mut T,
    ) -> libc::pid_t {
        let top = self.0.as_mut_ptr_range().end.cast();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack is the child's alone, and CLONE_VFORK holds this thread until the child has left it; the
        // caller vouches for the rest.
        unsafe { libc::clone(begin, top, flags, errand.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::Pid;

    use super::*;

    extern "C" fn answer(errand: *mut c_void) -> c_int {
        // SAFETY: `start` hands over the number of the test that waits.
        unsafe { errand.cast::<u32>().write_volatile(7) };
        // SAFETY: ends the child without handlers.
        unsafe { libc::_exit(3) }
    }

    #[test]
    fn a_child_writes_this_memory_and_has_ended_when_it_returns() {
        let mut stack = VforkStack::new(64 << 10);
        stack.touch();
        for _ in 0..2 {
            let mut errand = 0_u32;
            // SAFETY: `answer` makes two system calls at most, and expects a u32.
            let child = Pid::from_raw(unsafe { stack.start(answer, &raw mut errand) });
            // SAFETY: it is there, and the child has ended.
            assert_eq!(unsafe { (&raw const errand).read_volatile() }, 7);
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 3)));
            assert_eq!(waitpid(child, None), Err(Errno::ECHILD));
        }
    }
}
