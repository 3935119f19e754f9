//! The clock, the thread's CPU and its counters, the marks of the measured region, and signals.

use serde_json::{Value, json};
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

const READINGS: usize = 2001;

/// Mark of the measured region, for tracers: `token` is the request's id, 0 in warm-up and calibration.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn oscope_region_begin(token: u64) {
    black_box(token);
}

/// The end of the measured region; see [`oscope_region_begin`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn oscope_region_end(token: u64) {
    // Another body than the other mark's: equal functions may be merged into one.
    black_box(!token);
}

/// Returns `value`, of which the compiler knows nothing from here on; it stays in its register.
#[inline(always)]
pub fn opaque(mut value: u64) -> u64 {
    // SAFETY: the template is empty: nothing is executed.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Returns the time of `clock`, in nanoseconds.
pub fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to, for the length of the call.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What a reading of CLOCK_MONOTONIC_RAW costs, in ns: the median, and the median absolute deviation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub overhead: f64,
    pub deviation: f64,
}

impl Clock {
    /// Measures it.
    pub fn calibrate() -> Self {
        let mut steps = vec![0.0; READINGS];
        let mut last = now_ns(libc::CLOCK_MONOTONIC_RAW);
        for step in &mut steps {
            let now = now_ns(libc::CLOCK_MONOTONIC_RAW);
            *step = (now - last) as f64;
            last = now;
        }
        let overhead = median(&mut steps);
        for step in &mut steps {
            *step = (*step - overhead).abs();
        }
        Self { overhead, deviation: median(&mut steps) }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The counters of this thread that the probe has as well, with their names and meanings there.
pub fn counters() -> [(&'static str, Option<i64>); 7] {
    // SAFETY: an all-zero rusage is valid, and is written to for the length of the call only.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let delay = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let delay = delay.and_then(|text| text.split_whitespace().nth(1)?.parse().ok());
    let us = |time: libc::timeval| Some(time.tv_sec * 1_000_000 + time.tv_usec);
    [
        ("run_delay_ns", delay),
        ("voluntary_switches", Some(usage.ru_nvcsw)),
        ("involuntary_switches", Some(usage.ru_nivcsw)),
        ("minor_faults", Some(usage.ru_minflt)),
        ("major_faults", Some(usage.ru_majflt)),
        ("user_us", us(usage.ru_utime)),
        ("system_us", us(usage.ru_stime)),
    ]
}

/// Returns how far the counters went between two readings, as an event has it.
pub fn difference(before: &[(&str, Option<i64>)], after: &[(&str, Option<i64>)]) -> Value {
    let pairs = before.iter().zip(after);
    pairs.map(|((name, a), (_, b))| ((*name).to_owned(), json!(b.zip(*a).map(|(b, a)| b - a)))).collect()
}

/// Holds this thread on a CPU, and lets it go when dropped.
pub struct Pinned(Option<libc::cpu_set_t>);

impl Pinned {
    /// Pins this thread to `cpu`; None: to the highest allowed, as the probe does; -1: to none.
    pub fn to(cpu: Option<i64>) -> io::Result<Self> {
        if cpu == Some(-1) {
            return Ok(Self(None));
        }
        let highest = libc::CPU_SETSIZE as usize;
        // SAFETY: an all-zero set is valid, it is written to for the length of the call only, and the numbers
        // asked for are below its size.
        let (allowed, wanted) = unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&allowed), &raw mut allowed);
            (allowed, (0..highest).rev().find(|&one| libc::CPU_ISSET(one, &allowed)))
        };
        let number = cpu.and_then(|one| usize::try_from(one).ok()).or(wanted.filter(|_| cpu.is_none()));
        let number = number.filter(|&one| one < highest).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: as above; `number` is below the set's size.
        let status = unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(number, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &raw const one)
        };
        if status == 0 { Ok(Self(Some(allowed))) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(allowed) = &self.0 {
            // SAFETY: the set is valid for the length of the call.
            unsafe { libc::sched_setaffinity(0, size_of_val(allowed), &raw const *allowed) };
        }
    }
}

static ENDED: AtomicBool = AtomicBool::new(false);
static IDLE: AtomicBool = AtomicBool::new(false);

/// Whether a signal asked the program to end.
pub fn ended() -> bool {
    ENDED.load(Ordering::SeqCst)
}

/// Says whether the program waits for a request, and so has nothing to undo: a signal then ends it at once.
pub fn set_idle(idle: bool) {
    IDLE.store(idle, Ordering::SeqCst);
}

extern "C" fn end(_: libc::c_int) {
    ENDED.store(true, Ordering::SeqCst);
    // A read(2) that is yet to begin would not be interrupted.
    if IDLE.load(Ordering::SeqCst) {
        // SAFETY: _exit(2) may be called in a signal handler.
        unsafe { libc::_exit(0) };
    }
}

/// Has SIGTERM and SIGINT end the program in good order, and a wait for the next request at once.
pub fn heed_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the handler does nothing but what a signal handler may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = end as *const () as libc::sighandler_t;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}
