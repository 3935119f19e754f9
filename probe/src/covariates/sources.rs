//! The files that the covariates come from.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::parse;
use crate::environment;

const INTERRUPTS: &str = "/proc/interrupts";
const STAT: &str = "/proc/stat";
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";
const SCHED: &str = "/proc/thread-self/sched";

/// The open files of one thread; `None` where one is not to be had.
pub struct Sources {
    interrupts: Option<File>,
    stat: Option<File>,
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
                &["interrupts", "timer_interrupts"],
                "mount /proc as root, without a mask",
            ),
            stat: open(
                STAT,
                &["steal_ticks"],
                "mount /proc as root, without a mask",
            ),
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

    /// Closes sources that open but do not tell what they should.
    fn doubt(&mut self, cpu: Option<usize>, missing: &mut BTreeMap<String, String>) {
        if self.schedstat.is_some() && self.run_delay().is_none() {
            self.schedstat = None;
            let reason = "the kernel keeps no run delay; run one with CONFIG_SCHEDSTATS, or sysctl kernel.task_delayacct=1";
            missing.insert("run_delay_ns".to_owned(), reason.to_owned());
        }
        if self.sched.is_some() && self.migrations().is_none() {
            missing.insert("migrations".to_owned(), format!("{SCHED} has no line se.nr_migrations; use a kernel for several CPUs (CONFIG_SMP)"));
        }
        match self.steal(None).map(steal_untold) {
            Some(None) => {}
            Some(Some(reason)) => {
                self.stat = None;
                missing.insert("steal_ticks".to_owned(), reason);
            }
            None if self.stat.is_some() => {
                let reason = format!("{STAT} has no such column; use Linux 2.6.11 or later");
                missing.insert("steal_ticks".to_owned(), reason);
            }
            None => {}
        }
        if self.interrupts.is_some()
            && self
                .interrupts(cpu)
                .is_none_or(|table| table.timer.is_none())
        {
            let reason = format!(
                "{INTERRUPTS} has no line that is known to be the timer's; the count of all interrupts holds it"
            );
            missing.insert("timer_interrupts".to_owned(), reason);
        }
    }

    /// Interrupts on `cpu`, or on all CPUs.
    pub fn interrupts(&self, cpu: Option<usize>) -> Option<parse::Interrupts> {
        parse::interrupts(&read(self.interrupts.as_ref()?)?, cpu)
    }

    /// Ticks stolen from `cpu`, or from all CPUs.
    pub fn steal(&self, cpu: Option<usize>) -> Option<u64> {
        parse::steal(&read(self.stat.as_ref()?)?, cpu)
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
fn steal_untold(stolen: u64) -> Option<String> {
    let hypervisor = environment::hypervisor().ok();
    let features = if hypervisor.as_deref() == Some("kvm") {
        kvm_features()
    } else {
        0
    };
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    parse::steal_untold(stolen, hypervisor.as_deref(), features, &command_line)
}
