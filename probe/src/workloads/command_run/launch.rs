//! Starting a program and waiting for its end, with what it used.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use nix::sched::CpuSet;
use nix::sys::signal::{SigHandler, Signal};

use super::energy::{POWERCAP, Rapl};
use super::parameters::Parameters;
use super::shed::Surplus;
use super::tail::Tail;
use crate::cancel;
use crate::counters::inherited::Inherited;
use crate::error::{Failure, words};
use crate::region::Region;
use crate::workload::Context;
use crate::workloads::fresh_process::in_fresh_process_with;
use crate::workloads::process_create::limit;

/// Stack of the child until it executes the program, in bytes.
const STACK_BYTES: usize = 64 << 10;
/// Added to the number of the signal that ended a program, as shells do.
const SIGNAL_CODE: c_int = 128;
const US_NS: f64 = 1000.0;
const NOTHING: &str = "/dev/null";
const FIX: &str = "correct the command, or count such runs too with --ignore-failure";

/// A program and its arguments, as execve(2) takes them.
pub struct Program {
    name: String,
    path: CString,
    arguments: Vec<CString>,
}

impl Program {
    /// The program at the absolute path `path`; `arguments` begin with its own name, which is the path if there are none.
    ///
    /// # Errors
    /// `Failure::Request` where the path is not absolute, or a text has a NUL.
    pub fn named(path: &str, arguments: &[String]) -> Result<Self, Failure> {
        if !Path::new(path).is_absolute() {
            return Err(Failure::request(
                "program",
                format!("must be an absolute path, not {path:?}"),
            ));
        }
        let own_name = [path.to_owned()];
        let arguments = if arguments.is_empty() {
            &own_name
        } else {
            arguments
        };
        Ok(Self {
            name: path.to_owned(),
            path: text("program", path)?,
            arguments: texts("arguments", arguments)?,
        })
    }

    /// The program that a parameter names, its path first; `None` for an empty one.
    ///
    /// # Errors
    /// `Failure::Request` where the path is not absolute.
    pub fn of(parameter: &str, arguments: &[String]) -> Result<Option<Self>, Failure> {
        let Some(path) = arguments.first() else {
            return Ok(None);
        };
        let program = Self::named(path, arguments).map_err(|failure| match failure {
            Failure::Request { message, .. } => Failure::request(parameter, message),
            other => other,
        })?;
        Ok(Some(program))
    }
}

fn text(parameter: &str, text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::request(parameter, "must have no NUL in it"))
}

fn texts(parameter: &str, list: &[String]) -> Result<Vec<CString>, Failure> {
    list.iter().map(|item| text(parameter, item)).collect()
}

/// An array as execve(2) takes it: pointers to the texts, then a null pointer.
fn pointers(list: &[CString]) -> Vec<*const c_char> {
    list.iter()
        .map(|item| item.as_ptr())
        .chain([null()])
        .collect()
}

/// What a program used, as wait4(2) has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Time on a CPU, exact; its split into the next two is sampled at ticks.
    pub cpu_ns: f64,
    pub user_ns: f64,
    pub system_ns: f64,
    pub max_rss_bytes: f64,
    pub minor_faults: f64,
    pub major_faults: f64,
    pub voluntary_switches: f64,
    pub involuntary_switches: f64,
    pub blocks_in: f64,
    pub blocks_out: f64,
}

impl Usage {
    fn of(usage: &libc::rusage) -> Self {
        let time_ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * US_NS;
        let (user_ns, system_ns) = (time_ns(usage.ru_utime), time_ns(usage.ru_stime));
        Self {
            cpu_ns: user_ns + system_ns,
            user_ns,
            system_ns,
            max_rss_bytes: usage.ru_maxrss as f64 * 1024.0,
            minor_faults: usage.ru_minflt as f64,
            major_faults: usage.ru_majflt as f64,
            voluntary_switches: usage.ru_nvcsw as f64,
            involuntary_switches: usage.ru_nivcsw as f64,
            blocks_in: usage.ru_inblock as f64,
            blocks_out: usage.ru_oublock as f64,
        }
    }
}

/// Bytes of a program's system calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bytes {
    pub read: f64,
    pub written: f64,
}

/// How a program ended, and what it used.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    status: c_int,
    timed_out: bool,
    pub usage: Usage,
    pub bytes: Option<Bytes>,
    pub instructions: Option<f64>,
    pub cycles: Option<f64>,
    pub energy_j: Option<f64>,
}

impl Ended {
    /// The exit code; 128 and the signal's number where a signal ended it.
    pub fn exit_code(&self) -> f64 {
        let code = match libc::WIFSIGNALED(self.status) {
            true => SIGNAL_CODE + libc::WTERMSIG(self.status),
            false => libc::WEXITSTATUS(self.status),
        };
        f64::from(code)
    }

    /// Whether the run counts. `said` is the end of its standard error.
    ///
    /// # Errors
    /// `Failure::Unavailable` that says how it ended and what it said: another run would end alike.
    pub fn judge(&self, said: &str, ignore_failure: bool, timeout_s: f64) -> Result<(), Failure> {
        let said = if said.is_empty() {
            String::new()
        } else {
            format!("; it said: {said}")
        };
        if self.timed_out {
            return Err(Failure::unavailable(
                format!("the command did not end within {timeout_s} s, and was killed{said}"),
                "allow more with --timeout",
            ));
        }
        if self.exit_code() == 0.0 || ignore_failure {
            return Ok(());
        }
        let how = match libc::WIFSIGNALED(self.status) {
            true => killed_by(libc::WTERMSIG(self.status)),
            false => format!("ended with exit code {}", libc::WEXITSTATUS(self.status)),
        };
        Err(Failure::unavailable(
            format!("the command {how}{said}"),
            FIX,
        ))
    }
}

fn killed_by(signal: c_int) -> String {
    match Signal::try_from(signal) {
        Ok(known) => format!("was killed by {known}"),
        Err(_) => format!("was killed by signal {signal}"),
    }
}

/// Starts programs, all in the same surroundings.
pub struct Launcher {
    environment: Vec<CString>,
    folder: Option<CString>,
    input: String,
    output: String,
    cpus: CpuSet,
    timeout: Duration,
    counted: Vec<&'static str>,
    rapl: Option<Rapl>,
    stack: RefCell<Vec<u128>>,
}

/// What the child does before it executes the program, with calls that are async-signal-safe only (signal-safety(7)).
struct Errand<'a> {
    path: &'a CStr,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    folder: Option<&'a CStr>,
    cpus: &'a CpuSet,
    /// What becomes standard input, output and error.
    streams: [RawFd; 3],
    /// What went wrong, as `errno` has it; 0 for nothing.
    error: c_int,
}

/// Why a program was not executed, or what it came to.
#[derive(Clone, Copy)]
enum Started {
    Ran(Ended),
    Refused(c_int),
}

impl Launcher {
    /// Make ready what every start has in common.
    ///
    /// # Errors
    /// `Failure::Request` for a parameter that is wrong; `Failure::Failed` if the signals cannot be taken.
    pub fn new(parameters: &Parameters, context: &Context) -> Result<Self, Failure> {
        limit::take()?;
        cancel::handle(Signal::SIGCHLD, SigHandler::SigDfl)?;
        let folder = Some(&parameters.folder).filter(|folder| !folder.is_empty());
        Ok(Self {
            environment: environment(&parameters.environment)?,
            folder: folder.map(|folder| text("folder", folder)).transpose()?,
            input: parameters.input.clone(),
            output: parameters.output.clone(),
            cpus: cpus(&parameters.cpu, context.allowed())?,
            timeout: Duration::from_secs_f64(parameters.timeout),
            counted: context.program_counters().to_vec(),
            rapl: Rapl::find(Path::new(POWERCAP)),
            stack: RefCell::new(vec![0; STACK_BYTES / size_of::<u128>()]),
        })
    }

    /// Seconds after which a program is killed.
    pub fn timeout_s(&self) -> f64 {
        self.timeout.as_secs_f64()
    }

    /// The energy counters; `None` where the machine has none.
    pub fn rapl(&self) -> Option<&Rapl> {
        self.rapl.as_ref()
    }

    /// Measure one run of `program`, and return what it used and the end of its standard error.
    ///
    /// # Errors
    /// `Failure::Unavailable` where it cannot be executed; `Failure::Failed` for a signal, or where the kernel refuses a process.
    pub fn run(&self, program: &Program, region: &mut Region) -> Result<(Ended, String), Failure> {
        let mut tail = Tail::new()?;
        let writer = tail.writer();
        let started = in_fresh_process_with(
            region,
            || Ok(()),
            |done| tail.follow(done),
            |region| self.launch(program, writer, region),
        )?;
        match started {
            Started::Ran(ended) => Ok((ended, tail.lines())),
            Started::Refused(error) => Err(self.refused(program, error)),
        }
    }

    /// In the launcher: start the program, and wait for its end, within the region.
    fn launch(
        &self,
        program: &Program,
        error: RawFd,
        region: &mut Region,
    ) -> Result<Started, Failure> {
        let (input, output) = self.streams()?;
        let streams = [input.as_raw_fd(), output.as_raw_fd(), error];
        close_on_execution();
        self.stack.borrow_mut().fill(0);
        self.rehearse(streams);
        let mut counters = self.counters();
        let timer = Timer::start(self.timeout)?;
        let energy_before = self.rapl.as_ref().and_then(Rapl::read);
        if let Some(counters) = &mut counters {
            counters
                .enable()
                .map_err(|error| Failure::system("counting", error))?;
        }
        let measured = region.measure(|| {
            let child = self.start(program, streams)?;
            wait_for_end(child).map(|timed_out| (child, timed_out))
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
                Some(rapl.used_j(&before, &after))
            });
        let mut count = |name| counters.as_mut().and_then(|counters| counters.read(name));
        drop(timer);
        let (child, timed_out) = match measured {
            Ok(found) => found,
            Err(error) => return Ok(Started::Refused(error.raw_os_error().unwrap_or(libc::EIO))),
        };
        let bytes = bytes_of(child);
        let (status, usage) = reap(child).map_err(|error| Failure::system("wait4", error))?;
        Ok(Started::Ran(Ended {
            status,
            timed_out,
            usage,
            bytes,
            instructions: count("instructions"),
            cycles: count("cpu_cycles"),
            energy_j,
        }))
    }

    /// In the launcher: become small (see [`Surplus`]), and start a program that is not there, so that what is needed to start one is in memory
    /// when the clock runs, and no more than that.
    fn rehearse(&self, streams: [RawFd; 3]) {
        let nothing = Program {
            name: String::new(),
            path: CString::default(),
            arguments: vec![CString::default()],
        };
        let surplus = Surplus::find();
        surplus.shed();
        let refused = self.start(&nothing, streams).and_then(wait_for_end);
        debug_assert!(refused.is_err());
        surplus.forget_peak();
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
            .map_err(|error| self.refused(program, error.raw_os_error().unwrap_or(libc::EIO)))?;
        let limit = Instant::now() + self.timeout;
        let ended = tail.follow_until(limit, || stop() || has_ended(child));
        let timed_out = !ended && !has_ended(child);
        // A program that has closed its standard error may live on.
        if timed_out {
            kill_group(child);
        }
        let (status, usage) = reap(child).map_err(|error| Failure::system("wait4", error))?;
        let ended = Ended {
            status,
            timed_out,
            usage,
            bytes: None,
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
                Failure::Unavailable { message, remedy } => Failure::Unavailable {
                    message: format!("{option} {}: {message}", program.name),
                    remedy: remedy.filter(|remedy| remedy != FIX),
                },
                other => other,
            })
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

    /// Start `program`, in memory shared with this process until it is executed (`CLONE_VM | CLONE_VFORK`): that is the fastest way, and an
    /// error of execve(2) is known at once.
    #[inline(always)]
    fn start(&self, program: &Program, streams: [RawFd; 3]) -> io::Result<libc::pid_t> {
        let (arguments, environment) = (pointers(&program.arguments), pointers(&self.environment));
        let mut errand = Errand {
            path: &program.path,
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            folder: self.folder.as_deref(),
            cpus: &self.cpus,
            streams,
            error: 0,
        };
        let mut stack = self.stack.borrow_mut();
        let top = stack.as_mut_ptr_range().end.cast();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack is the child's alone and large enough; CLONE_VFORK holds the parent, and so keeps the errand, until the child has
        // executed the program or ended.
        let child = unsafe { libc::clone(begin, top, flags, (&raw mut errand).cast()) };
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

    /// Why a program could not be started.
    fn refused(&self, program: &Program, error: c_int) -> Failure {
        let said = words(&io::Error::from_raw_os_error(error));
        let (message, remedy) = match error {
            libc::EAGAIN | libc::ENOMEM => (
                format!("the kernel makes no process: {said}"),
                "raise ulimit -u, or free some memory",
            ),
            libc::ENOENT if Path::new(&program.name).exists() => (
                format!(
                    "{} cannot be executed: its interpreter or the working folder does not exist",
                    program.name
                ),
                "look at its first line (#!), its loader (file, ldd) and --cwd",
            ),
            libc::EACCES => (
                format!("{} cannot be executed: {said}", program.name),
                "make it executable (chmod +x), and its folders and --cwd accessible",
            ),
            libc::ENOEXEC => (
                format!(
                    "{} cannot be executed: it is no program of this machine",
                    program.name
                ),
                "a script needs a first line such as #!/bin/sh",
            ),
            _ => (
                format!("{} cannot be executed: {said}", program.name),
                "see execve(2)",
            ),
        };
        Failure::unavailable(message, remedy)
    }
}

/// A file to read, and one to write, which is emptied.
fn opened(input: &str, output: &str) -> Result<(File, File), Failure> {
    let failed = |path: &str, error: &io::Error| {
        Failure::unavailable(
            format!("{path}: {}", words(error)),
            "name a file that can be opened",
        )
    };
    Ok((
        File::open(input).map_err(|error| failed(input, &error))?,
        File::create(output).map_err(|error| failed(output, &error))?,
    ))
}

/// The variables of this process, with these in the place of those of the same name.
fn environment(given: &[String]) -> Result<Vec<CString>, Failure> {
    let name_of = |entry: &[u8]| entry.split(|&byte| byte == b'=').next().map(<[u8]>::to_vec);
    if let Some(wrong) = given
        .iter()
        .find(|entry| entry.find('=').is_none_or(|at| at == 0))
    {
        return Err(Failure::request(
            "environment",
            format!("must be NAME=VALUE, not {wrong:?}"),
        ));
    }
    let replaced: Vec<_> = given
        .iter()
        .map(|entry| name_of(entry.as_bytes()))
        .collect();
    let inherited =
        std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let mut all: Vec<CString> = inherited
        .filter(|entry| !replaced.contains(&name_of(entry)))
        .filter_map(|entry| CString::new(entry).ok())
        .collect();
    all.extend(texts("environment", given)?);
    Ok(all)
}

/// The CPUs that a program may use.
fn cpus(wanted: &str, allowed: &[usize]) -> Result<CpuSet, Failure> {
    let chosen: Vec<usize> = match wanted.strip_prefix("cpu:").map(str::parse) {
        None => allowed.to_vec(),
        Some(Ok(cpu)) if allowed.contains(&cpu) => vec![cpu],
        Some(_) => {
            return Err(Failure::request(
                "cpu",
                format!("must be one of the allowed CPUs {allowed:?}, not {wanted}"),
            ));
        }
    };
    let mut set = CpuSet::new();
    chosen
        .iter()
        .try_for_each(|&cpu| set.set(cpu))
        .map_err(|error| Failure::system("naming CPUs", error))?;
    Ok(set)
}

/// In the child. It never returns: it executes the program, or leaves the error and ends.
extern "C" fn begin(errand: *mut c_void) -> c_int {
    // SAFETY: `start` hands over an `Errand` that lives while the parent waits, and nobody else uses meanwhile.
    let errand = unsafe { &mut *errand.cast::<Errand>() };
    // SAFETY: all calls are async-signal-safe; pointers are of C strings and arrays that the parent keeps.
    unsafe {
        if prepared(errand) {
            libc::execve(errand.path.as_ptr(), errand.arguments, errand.environment);
        }
        errand.error = *libc::__errno_location();
        libc::_exit(127)
    }
}

/// Give the child its own process group, CPUs, streams, folder and signals; false where the kernel refuses one.
///
/// # Safety
/// In a child that is about to execute a program.
unsafe fn prepared(errand: &Errand) -> bool {
    // SAFETY: as the caller promises.
    unsafe {
        // It ends with the launcher.
        let kill = libc::SIGKILL as libc::c_ulong;
        let mut done = libc::prctl(libc::PR_SET_PDEATHSIG, kill) == 0 && libc::setpgid(0, 0) == 0;
        let cpus = std::ptr::from_ref(errand.cpus).cast::<libc::cpu_set_t>();
        done = done && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) == 0;
        for (stream, number) in errand.streams.iter().zip(0..) {
            done = done && libc::dup2(*stream, number) == number;
        }
        if let Some(folder) = errand.folder {
            done = done && libc::chdir(folder.as_ptr()) == 0;
        }
        // The Rust runtime ignores it, which a program would inherit.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        done && libc::sigprocmask(libc::SIG_SETMASK, &raw const none, null_mut()) == 0
    }
}

/// Have no descriptor of this process but the three streams be a program's, whoever opened it. Linux before 5.11 knows no such call; all that the
/// probe opens is marked so anyway.
fn close_on_execution() {
    // SAFETY: it changes no memory, and no descriptor's meaning in this process.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}

/// A limit on the time of a program; dropping it lifts it. The signal breaks the wait.
struct Timer;

impl Timer {
    fn start(limit: Duration) -> Result<Self, Failure> {
        limit::forget();
        let timer = libc::itimerval {
            it_interval: libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            },
            it_value: libc::timeval {
                tv_sec: limit.as_secs() as libc::time_t,
                tv_usec: limit.subsec_micros().into(),
            },
        };
        // SAFETY: the value lives during the call.
        match unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()) } {
            0 => Ok(Self),
            _ => Err(Failure::system("setitimer", io::Error::last_os_error())),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: all zeroes is a timer that is switched off.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &std::mem::zeroed(), null_mut()) };
    }
}

/// Wait until the program has ended, and leave it to be reaped. Returns whether its time was over, and it was killed.
#[inline(always)]
fn wait_for_end(child: libc::pid_t) -> io::Result<bool> {
    let mut killed = false;
    loop {
        // SAFETY: the kernel writes into a value of its own type.
        let answer = unsafe {
            let mut found: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                child as libc::id_t,
                &raw mut found,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        if answer == 0 {
            return Ok(killed);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
        if limit::passed() {
            kill_group(child);
            killed = true;
        }
    }
}

/// Kill a program and its process group. It has not been reaped, so the number is not another's.
fn kill_group(child: libc::pid_t) {
    // SAFETY: kill(2) takes two numbers.
    unsafe {
        libc::kill(-child, libc::SIGKILL);
        libc::kill(child, libc::SIGKILL);
    }
}

fn has_ended(child: libc::pid_t) -> bool {
    crate::workloads::ipc::being::is_dead(nix::unistd::Pid::from_raw(child))
}

/// Reap a program: its status, and what it used.
fn reap(child: libc::pid_t) -> io::Result<(c_int, Usage)> {
    loop {
        let mut status = 0;
        // SAFETY: all zeroes is a valid `rusage`; the kernel writes both values.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        if unsafe { libc::wait4(child, &raw mut status, 0, &raw mut usage) } == child {
            return Ok((status, Usage::of(&usage)));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

/// Bytes of the system calls of a program that has ended and is not reaped yet, and of the children that it waited for.
fn bytes_of(child: libc::pid_t) -> Option<Bytes> {
    let text = std::fs::read_to_string(format!("/proc/{child}/io")).ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(": ")?.parse().ok()
    };
    Some(Bytes {
        read: field("rchar")?,
        written: field("wchar")?,
    })
}
