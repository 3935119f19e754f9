//! The calls that the system-call workloads measure.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU8;

use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::Deserialize;

use super::{call_numbers, host_id, my_precious};
use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::error::Failure;

/// Where `lseek` goes each time: any place but the start, so that the answer is not a mere 0.
const SEEK_TO: i64 = 7;
/// Greatest `errno`; the kernel answers `-errno` (`include/linux/err.h`, `MAX_ERRNO`).
const GREATEST_ERRNO: i64 = 4095;

/// Where `read` puts its byte.
static BYTE: AtomicU8 = AtomicU8::new(0);

/// How the system-call instruction is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// Within a function that is called for it, as programs do it by their C library. After the kernel's mitigations
    /// have emptied the return predictor, the return from that function is mispredicted; it is part of what a call
    /// costs a program.
    Function,
    /// In the loop itself, with no function around it.
    Instruction,
}

/// Makes a call, and gives its answer.
pub trait Make {
    /// Make it once.
    fn make(&mut self) -> i64;
}

/// Something to be done with a call. The code is compiled for each kind of call by itself, so that no dispatch is
/// timed.
pub trait Visitor {
    /// What doing it gives.
    type Output;

    /// Do it.
    fn visit(self, call: impl Make) -> Self::Output;
}

/// A call, with what it needs and what it must answer.
#[derive(Debug)]
pub struct Call {
    target: Target,
    /// What each call must answer. Where it cannot be known otherwise it is what a first call answered.
    pub expected: i64,
    /// The setting of the kernel that the call is made under, if it was another.
    _setting: Option<CleanupGuard>,
}

#[derive(Debug)]
enum Target {
    /// A system call whose answer is known; the file, if any, is the one that its arguments name.
    Known(
        SystemCall,
        Entry,
        #[expect(dead_code, reason = "held open")] Option<File>,
    ),
    /// A system call of which only the error can be known.
    Unknown(SystemCall, Entry),
    GetHostId,
    ClockGetTime,
}

impl Call {
    /// The call of this name; `read` reads from `source`.
    ///
    /// # Errors
    /// `Failure::Request` for an unknown name, a number that is not admitted, or a C library's function as an
    /// instruction; `Failure::Failed` if a file cannot be made; `Failure::Unavailable` for a `gethostid` that asks a
    /// name server, and for `my_precious` on a kernel that does not have it.
    pub fn named(
        name: &str,
        entry: Entry,
        source: impl FnOnce() -> Result<File, Failure>,
    ) -> Result<Self, Failure> {
        let known = |number, arguments, file| {
            let call = SystemCall { number, arguments };
            Ok(Target::Known(call, entry, file))
        };
        let mut setting = None;
        let target = match name {
            "my_precious" | "my_precious_logged" => {
                setting = my_precious::set_log(name == "my_precious_logged")?;
                known(my_precious::NUMBER, [0; 3], None)
            }
            "getpid" => known(libc::SYS_getpid, [0; 3], None),
            "getppid" => known(libc::SYS_getppid, [0; 3], None),
            "read" => {
                let file = source()?;
                let arguments = [i64::from(file.as_raw_fd()), BYTE.as_ptr() as i64, 1];
                known(libc::SYS_read, arguments, Some(file))
            }
            "lseek" => {
                let file = regular_file(4096)?;
                let arguments = [
                    i64::from(file.as_raw_fd()),
                    SEEK_TO,
                    i64::from(libc::SEEK_SET),
                ];
                known(libc::SYS_lseek, arguments, Some(file))
            }
            "gethostid" => {
                let target = function_only(name, entry, Target::GetHostId)?;
                host_id::answered_locally()?;
                Ok(target)
            }
            "clock_gettime" => function_only(name, entry, Target::ClockGetTime),
            other => numbered(other).map(|number| {
                let call = SystemCall {
                    number,
                    arguments: [0; 3],
                };
                Target::Unknown(call, entry)
            }),
        }?;
        let expected = match name {
            "getpid" => i64::from(std::process::id()),
            "getppid" => i64::from(std::os::unix::process::parent_id()),
            "read" => 1,
            "lseek" => SEEK_TO,
            "clock_gettime" | "my_precious" | "my_precious_logged" => 0,
            _ => target.visit(Once),
        };
        Ok(Self {
            target,
            expected,
            _setting: setting,
        })
    }

    /// Hand the call to a visitor.
    pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        self.target.visit(visitor)
    }

    /// Notes for the record: that the kernel refuses the call, or writes what it logs to a console as well.
    pub fn remark(&self) -> Option<String> {
        if let Target::Known(call, ..) = &self.target {
            return (call.number == my_precious::NUMBER)
                .then(my_precious::console)
                .flatten();
        }
        let Target::Unknown(SystemCall { number, .. }, _) = &self.target else {
            return None;
        };
        match -self.expected {
            0 => None,
            errno if errno == i64::from(libc::ENOSYS) => Some(format!(
                "system call {number} does not exist on this kernel (ENOSYS): the figure is the cost of the refusal"
            )),
            errno => Some(format!(
                "system call {number} answered {:?}: the figure is the cost of the refusal",
                nix::errno::Errno::from_raw(errno as i32)
            )),
        }
    }
}

/// The number in `nr:N`, if it may be called.
fn numbered(name: &str) -> Result<i64, Failure> {
    let number: u32 = name
        .strip_prefix("nr:")
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| Failure::request("call", format!("there is no call {name:?}")))?;
    call_numbers::admit(number)?;
    Ok(i64::from(number))
}

fn function_only(name: &str, entry: Entry, target: Target) -> Result<Target, Failure> {
    match entry {
        Entry::Function => Ok(target),
        Entry::Instruction => Err(Failure::request(
            "entry",
            format!("must be function for {name}, which is a function of the C library"),
        )),
    }
}

impl Target {
    fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        match *self {
            Self::Known(call, Entry::Function, _) => visitor.visit(ByFunction(call)),
            Self::Known(call, Entry::Instruction, _) => visitor.visit(ByInstruction(call)),
            Self::Unknown(call, Entry::Function) => visitor.visit(ErrorOnly(ByFunction(call))),
            Self::Unknown(call, Entry::Instruction) => {
                visitor.visit(ErrorOnly(ByInstruction(call)))
            }
            // SAFETY: takes no argument. It is not thread-safe (glibc's manual: MT-Unsafe hostid), and this is the only
            // thread.
            Self::GetHostId => visitor.visit(|| unsafe { libc::gethostid() }),
            Self::ClockGetTime => {
                let mut time = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                visitor.visit(|| {
                    // SAFETY: `time` is a valid timespec.
                    i64::from(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) })
                })
            }
        }
    }
}

/// A system call and its arguments; those not named are 0.
#[derive(Debug, Clone, Copy)]
struct SystemCall {
    number: i64,
    arguments: [i64; 3],
}

struct ByFunction(SystemCall);

impl Make for ByFunction {
    #[inline(always)]
    fn make(&mut self) -> i64 {
        let [first, second, third] = self.0.arguments;
        system_call_function(self.0.number, first, second, third)
    }
}

struct ByInstruction(SystemCall);

impl Make for ByInstruction {
    #[inline(always)]
    fn make(&mut self) -> i64 {
        let [first, second, third] = self.0.arguments;
        system_call(self.0.number, first, second, third)
    }
}

impl<F: FnMut() -> i64> Make for F {
    #[inline(always)]
    fn make(&mut self) -> i64 {
        self()
    }
}

/// Gives an error as it is, and any other answer as 0, since what an unknown call answers may change from call to call.
struct ErrorOnly<M>(M);

impl<M: Make> Make for ErrorOnly<M> {
    #[inline(always)]
    fn make(&mut self) -> i64 {
        let answer = self.0.make();
        let is_error = answer as u64 >= -GREATEST_ERRNO as u64;
        // Without a branch, which might be mispredicted after the kernel.
        answer & -i64::from(is_error)
    }
}

/// Makes the call once.
struct Once;

impl Visitor for Once {
    type Output = i64;

    fn visit(self, mut call: impl Make) -> i64 {
        call.make()
    }
}

/// An unnamed regular file of `bytes` zeroes, held in memory: it vanishes with the probe, and no disk's file system is
/// measured.
///
/// # Errors
/// `Failure::Failed` if it cannot be made.
pub fn regular_file(bytes: usize) -> Result<File, Failure> {
    let make = || -> io::Result<File> {
        let mut file = File::from(memfd_create("oscope", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(&vec![0; bytes])?;
        file.rewind()?;
        Ok(file)
    };
    make().map_err(|error| Failure::system("making a file in memory", error))
}

/// [`system_call`] in a function of its own, called for each call, as the C library's functions are.
#[inline(never)]
fn system_call_function(number: i64, first: i64, second: i64, third: i64) -> i64 {
    system_call(number, first, second, third)
}

/// A system call by its instruction: no wrapper, no cache and no `errno` of the C library in between. Gives the
/// kernel's own answer.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn system_call(number: i64, first: i64, second: i64, third: i64) -> i64 {
    let answer;
    // SAFETY: the callers pass either valid arguments or zeroes to a call that was admitted; without `nomem` the
    // compiler knows that memory may be written. The kernel clobbers rcx and r11 and keeps all else. The unused
    // arguments are 0 as well.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") 0,
            in("r8") 0,
            in("r9") 0,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// A system call by its instruction: no wrapper, no cache and no `errno` of the C library in between. Gives the
/// kernel's own answer.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn system_call(number: i64, first: i64, second: i64, third: i64) -> i64 {
    let answer;
    // SAFETY: as on x86-64. The kernel takes the number from x8 and the arguments from x0 on, answers in x0 and keeps
    // all else.
    unsafe {
        std::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") first => answer,
            in("x1") second,
            in("x2") third,
            in("x3") 0_i64,
            in("x4") 0_i64,
            in("x5") 0_i64,
            options(nostack),
        );
    }
    answer
}

/// A system call through the C library's bare wrapper, its `errno` turned back into the kernel's answer.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn system_call(number: i64, first: i64, second: i64, third: i64) -> i64 {
    // SAFETY: as above.
    let answer =
        unsafe { libc::syscall(number as libc::c_long, first, second, third, 0, 0, 0) } as i64;
    if answer == -1 {
        -i64::from(nix::errno::Errno::last_raw())
    } else {
        answer
    }
}

#[cfg(test)]
mod tests;
