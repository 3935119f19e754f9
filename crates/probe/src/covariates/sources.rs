//! The files that the covariates come from.
//!
//! The crate procfs 0.17 reads neither `/proc/interrupts` nor `/proc/thread-self/sched`. It takes 7.3 us to
//! read and parse `/proc/stat` (2 CPUs), which takes 6.2 us here.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::parse;
use oscope_sys::affinity;
use oscope_sys::machine::cpu;

const INTERRUPTS: &str = "/proc/interrupts";
const STAT: &str = "/proc/stat";
const LOADAVG: &str = "/proc/loadavg";
const MEMORY_PRESSURE: &str = "/proc/pressure/memory";
const IO_PRESSURE: &str = "/proc/pressure/io";
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";
const SCHED: &str = "/proc/thread-self/sched";

const UNMASKED: &str = "mount /proc as root, without a mask";
const WITH_PRESSURE: &str = "run a kernel with CONFIG_PSI, booted with psi=1";
/// Nanoseconds of a tick of `/proc/stat` (USER_HZ is 100 on every architecture that the probe is built for).
const TICK_NS: u64 = 10_000_000;

/// The open files of one thread; `None` where one is not to be had.
pub struct Sources {
    interrupts: Option<File>,
    stat: Option<File>,
    /// Whether what `stat` says of stolen time means anything.
    reports_steal: bool,
    loadavg: Option<File>,
    memory_pressure: Option<File>,
    io_pressure: Option<File>,
    schedstat: Option<File>,
    frequency: Option<File>,
    sched: Option<File>,
}

impl Sources {
    /// Opens what there is; the rest is named with reason and remedy.
    pub fn open(cpu: Option<usize>) -> (Self, BTreeMap<String, String>) {
        let mut missing = BTreeMap::new();
        let mut open = |path: &str, names: &[&str], remedy: &str| {
            let reason = |error: &std::io::Error| format!("cannot read {path}: {error}; {remedy}");
            let file = File::open(path);
            if let Err(error) = &file {
                missing.extend(names.iter().map(|name| ((*name).to_owned(), reason(error))));
            }
            file.ok()
        };
        let mut sources = Self {
            interrupts: open(
                INTERRUPTS,
                &[
                    "interrupts",
                    "timer_interrupts",
                    "reschedule_interrupts",
                    "device_interrupts",
                ],
                UNMASKED,
            ),
            stat: open(STAT, &["steal_ticks", "neighbour_ns"], UNMASKED),
            reports_steal: true,
            loadavg: open(LOADAVG, &["runnable_others"], UNMASKED),
            memory_pressure: open(MEMORY_PRESSURE, &["memory_pressure_us"], WITH_PRESSURE),
            io_pressure: open(IO_PRESSURE, &["io_pressure_us"], WITH_PRESSURE),
            schedstat: open(
                SCHEDSTAT,
                &["run_delay_ns"],
                "run a kernel with CONFIG_SCHED_INFO",
            ),
            frequency: cpu.and_then(|cpu| {
                let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
                open(
                    &path,
                    &["frequency_khz"],
                    "virtual machines have none; on a bare machine load its cpufreq driver",
                )
            }),
            sched: open(
                SCHED,
                &["migrations"],
                "run a kernel with CONFIG_SCHED_DEBUG",
            ),
        };
        sources.doubt(cpu, &mut missing);
        (sources, missing)
    }

    /// Closes sources that open but do not have what they should.
    fn doubt(&mut self, cpu: Option<usize>, missing: &mut BTreeMap<String, String>) {
        if self.schedstat.is_some() && self.run_delay().is_none() {
            self.schedstat = None;
            let reason = "the kernel keeps no run delay; run one with CONFIG_SCHEDSTATS, or sysctl \
                kernel.task_delayacct=1";
            missing.insert("run_delay_ns".to_owned(), reason.to_owned());
        }
        if self.sched.is_some() && self.migrations().is_none() {
            missing.insert(
                "migrations".to_owned(),
                format!(
                    "{SCHED} has no line se.nr_migrations; use a kernel for \
                several CPUs (CONFIG_SMP)"
                ),
            );
        }
        match self.steal(None).map(steal_unreported) {
            Some(None) => {}
            Some(Some(reason)) => {
                self.reports_steal = false;
                missing.insert("steal_ticks".to_owned(), reason);
            }
            None if self.stat.is_some() => {
                let reason = format!("{STAT} has no such column; use Linux 2.6.11 or later");
                missing.insert("steal_ticks".to_owned(), reason);
            }
            None => {}
        }
        if let Some(table) = self.interrupts(cpu) {
            let lines = [
                ("timer_interrupts", table.timer, "the timer's"),
                ("reschedule_interrupts", table.other_cpus, "other CPUs'"),
            ];
            for (name, _, whose) in lines.into_iter().filter(|(_, count, _)| count.is_none()) {
                let reason = format!(
                    "{INTERRUPTS} has no line that is known to be {whose}; the count of all interrupts holds it"
                );
                missing.insert(name.to_owned(), reason);
            }
        }
        self.doubt_the_rest(cpu, missing);
    }

    fn doubt_the_rest(&mut self, cpu: Option<usize>, missing: &mut BTreeMap<String, String>) {
        if self.stat.is_some() && self.busy_elsewhere_ns(cpu).is_none() {
            let several = affinity::online().is_ok_and(|online| online.len() > 1);
            let reason = match (cpu, several) {
                (None, _) => "no CPU is pinned, so that there are no others; pin one",
                (_, false) => "there is no other CPU; use a machine with several",
                _ => "/proc/stat does not list all CPUs; use Linux 2.6.11 or later",
            };
            missing.insert("neighbour_ns".to_owned(), reason.to_owned());
        }
        // A kernel that was booted with psi=0 has the files, and refuses to read them.
        for (file, name, path) in [
            (
                &mut self.memory_pressure,
                "memory_pressure_us",
                MEMORY_PRESSURE,
            ),
            (&mut self.io_pressure, "io_pressure_us", IO_PRESSURE),
        ] {
            if file.is_some() && stalled(file.as_ref()).is_none() {
                *file = None;
                missing.insert(
                    name.to_owned(),
                    format!("cannot read {path}; {WITH_PRESSURE}"),
                );
            }
        }
    }

    /// Interrupts on `cpu`, or on all CPUs.
    pub fn interrupts(&self, cpu: Option<usize>) -> Option<parse::Interrupts> {
        parse::interrupts(&read(self.interrupts.as_ref()?)?, cpu)
    }

    /// Ticks stolen from `cpu`, or from all CPUs.
    fn steal(&self, cpu: Option<usize>) -> Option<u64> {
        parse::steal(&read(self.stat.as_ref()?)?, cpu)
    }

    /// How long the CPUs other than `cpu` were busy, in ns.
    fn busy_elsewhere_ns(&self, cpu: Option<usize>) -> Option<u64> {
        let ticks = parse::busy_elsewhere(&read(self.stat.as_ref()?)?, cpu?)?;
        Some(ticks * TICK_NS)
    }

    /// Ticks stolen from `cpu` or from all CPUs, and how long the others were busy in ns, from one reading.
    pub fn stat(&self, cpu: Option<usize>) -> (Option<u64>, Option<u64>) {
        let Some(text) = self.stat.as_ref().and_then(read) else {
            return (None, None);
        };
        let steal = self
            .reports_steal
            .then(|| parse::steal(&text, cpu))
            .flatten();
        let busy = cpu.and_then(|cpu| parse::busy_elsewhere(&text, cpu));
        (steal, busy.map(|ticks| ticks * TICK_NS))
    }

    /// Threads of the machine that run or are ready to, without this one.
    pub fn runnable_others(&self) -> Option<u64> {
        parse::runnable_others(&read(self.loadavg.as_ref()?)?)
    }

    /// How long some task of the machine stalled for want of memory, and waiting for input or output, in µs.
    pub fn pressure_us(&self) -> (Option<u64>, Option<u64>) {
        (
            stalled(self.memory_pressure.as_ref()),
            stalled(self.io_pressure.as_ref()),
        )
    }

    /// How long the thread has waited for a CPU, in ns.
    pub fn run_delay(&self) -> Option<u64> {
        parse::run_delay(&read(self.schedstat.as_ref()?)?)
    }

    /// How often the thread was moved.
    pub fn migrations(&self) -> Option<u64> {
        parse::migrations(&read(self.sched.as_ref()?)?)
    }

    /// Frequency of the pinned CPU, in kHz.
    pub fn frequency(&self) -> Option<u64> {
        read(self.frequency.as_ref()?)?.trim().parse().ok()
    }
}

fn stalled(file: Option<&File>) -> Option<u64> {
    parse::stalled_us(&read(file?)?)
}

/// The whole text of an open file of `/proc`, from its start.
fn read(file: &File) -> Option<String> {
    let mut bytes = vec![0; 16 * 1024];
    let mut length = 0;
    loop {
        match file.read_at(&mut bytes[length..], length as u64).ok()? {
            0 => break,
            more => length += more,
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

#[cfg(target_arch = "x86_64")]
fn kvm_features() -> u32 {
    raw_cpuid::cpuid!(0x4000_0001).eax
}

#[cfg(not(target_arch = "x86_64"))]
fn kvm_features() -> u32 {
    0
}

/// Why a count of stolen time that stands at `stolen` says nothing, if so.
fn steal_unreported(stolen: u64) -> Option<String> {
    let hypervisor = cpu::hypervisor().ok();
    let features = if hypervisor.as_deref() == Some("kvm") {
        kvm_features()
    } else {
        0
    };
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    parse::steal_unreported(stolen, hypervisor.as_deref(), features, &command_line)
}
