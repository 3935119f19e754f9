//! What the kernel's tables say, as pure functions of their text.

/// Interrupts taken, on one CPU or on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupts {
    /// Of every kind.
    pub all: u64,
    /// Of the CPU's own timer; `None` where the table has no such line.
    pub timer: Option<u64>,
    /// From other CPUs: to reschedule, to call a function, to flush the TLB; `None` where the table has no such line.
    pub other_cpus: Option<u64>,
    /// Of devices: the lines that have a number for a name.
    pub devices: u64,
}

/// What names the lines of x86 that other CPUs send (`arch_show_interrupts` in `arch/x86/kernel/irq.c`). Those of ARM
/// begin with `IPI`.
const FROM_OTHER_CPUS: [&str; 3] = ["RES", "CAL", "TLB"];

/// Reads `/proc/interrupts`: the column of `cpu`, or all columns.
///
/// `None` where the table has no heading, or no such CPU. Lines that are not kept for each CPU (`ERR`, `MIS`) are left
/// out.
#[must_use]
pub fn interrupts(table: &str, cpu: Option<usize>) -> Option<Interrupts> {
    let mut lines = table.lines();
    let heading: Vec<usize> = lines
        .next()?
        .split_whitespace()
        .map(|name| name.strip_prefix("CPU")?.parse().ok())
        .collect::<Option<_>>()?;
    let first = match cpu {
        Some(cpu) => heading.iter().position(|&column| column == cpu)?,
        None => 0,
    };
    let columns = if cpu.is_some() { 1 } else { heading.len() };
    if columns == 0 {
        return None;
    }
    let mut total = Interrupts {
        all: 0,
        timer: None,
        other_cpus: None,
        devices: 0,
    };
    for (label, rest) in lines.filter_map(|line| line.split_once(':')) {
        let label = label.trim();
        if matches!(label, "ERR" | "Err" | "MIS") {
            continue;
        }
        let counts = rest
            .split_whitespace()
            .skip(first)
            .take(columns)
            .map(str::parse::<u64>);
        let count = counts.map_while(Result::ok).sum::<u64>();
        total.all += count;
        // x86 has a line of its own; ARM names the timer after the counts.
        let timer = label == "LOC"
            || rest.ends_with("arch_timer")
            || rest.ends_with("Local timer interrupts");
        if timer {
            *total.timer.get_or_insert(0) += count;
        } else if FROM_OTHER_CPUS.contains(&label) || label.starts_with("IPI") {
            *total.other_cpus.get_or_insert(0) += count;
        } else if label.bytes().all(|byte| byte.is_ascii_digit()) {
            total.devices += count;
        }
    }
    Some(total)
}

/// Time stolen by the hypervisor in ticks, from `/proc/stat`: of `cpu`, or of all CPUs (proc_stat(5)).
#[must_use]
pub fn steal(stat: &str, cpu: Option<usize>) -> Option<u64> {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let line = stat
        .lines()
        .find(|line| line.split(' ').next() == Some(&name))?;
    line.split_whitespace().nth(8)?.parse().ok()
}

/// Ticks of 10 ms in which the CPUs other than `cpu` were busy, from `/proc/stat`: all their time but that idle,
/// waiting for input or stolen.
///
/// The columns `guest` and `guest_nice` are in `user` and `nice` already (proc_stat(5)). `None` where there is no other
/// CPU.
#[must_use]
pub fn busy_elsewhere(stat: &str, cpu: usize) -> Option<u64> {
    let mut total = None;
    for line in stat.lines().skip(1) {
        let Some((number, columns)) = line
            .strip_prefix("cpu")
            .and_then(|rest| rest.split_once(' '))
        else {
            break;
        };
        if number.parse() == Ok(cpu) {
            continue;
        }
        let times: Vec<u64> = columns
            .split_whitespace()
            .take(7)
            .map_while(|word| word.parse().ok())
            .collect();
        let [user, nice, system, _idle, _iowait, interrupts, soft] = times[..] else {
            return None;
        };
        *total.get_or_insert(0) += user + nice + system + interrupts + soft;
    }
    total
}

/// Threads that run or are ready to, on the whole machine and without the one that reads, from `/proc/loadavg`
/// (proc_loadavg(5)).
#[must_use]
pub fn runnable_others(loadavg: &str) -> Option<u64> {
    let (running, _) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    Some(running.parse::<u64>().ok()?.saturating_sub(1))
}

/// Time for which some task stalled, in µs, from a file of `/proc/pressure` (`Documentation/accounting/psi.rst`).
#[must_use]
pub fn stalled_us(pressure: &str) -> Option<u64> {
    let some = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    let total = some
        .split_whitespace()
        .find_map(|word| word.strip_prefix("total="));
    total?.parse().ok()
}

/// Time spent waiting for a CPU while ready to run, in ns, from a `schedstat` file of `/proc`.
///
/// The three numbers are time on a CPU, time waited, and times scheduled (`Documentation/scheduler/sched-stats.rst`). A
/// running thread has been scheduled once at least: three zeros mean that the kernel does not keep them
/// (`fs/proc/base.c`, `proc_pid_schedstat`).
#[must_use]
pub fn run_delay(schedstat: &str) -> Option<u64> {
    let numbers: Vec<u64> = schedstat
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    match numbers[..] {
        [_, delay, times] if times > 0 => Some(delay),
        _ => None,
    }
}

/// How often the scheduler moved a thread to another CPU, from a `sched` file of `/proc` (`kernel/sched/debug.c`).
#[must_use]
pub fn migrations(sched: &str) -> Option<u64> {
    let line = sched
        .lines()
        .find_map(|line| line.strip_prefix("se.nr_migrations"))?;
    line.trim_start().strip_prefix(':')?.trim().parse().ok()
}

/// Why stolen time is not reported here, if so: a guest whose hypervisor does not report it shows 0 for ever.
///
/// `stolen` is the count so far, `kvm_features` EAX of CPUID leaf 0x4000_0001, bit 5 of which is the steal clock
/// (`Documentation/virt/kvm/x86/cpuid.rst`).
#[must_use]
pub fn steal_unreported(
    stolen: u64,
    hypervisor: Option<&str>,
    kvm_features: u32,
    command_line: &str,
) -> Option<String> {
    let switched_off = command_line
        .split_whitespace()
        .any(|word| word == "no-steal-acc");
    match hypervisor {
        _ if stolen > 0 => None,
        Some("none") => None,
        Some("kvm") if switched_off => {
            Some("the kernel runs with no-steal-acc; boot it without".to_owned())
        }
        Some("kvm") if kvm_features & (1 << 5) != 0 => None,
        Some("xen") => None,
        other => Some(format!(
            "the hypervisor ({}) does not report stolen time, so 0 means nothing; use KVM with the steal clock (QEMU: \
             -cpu host,kvm-steal-time=on)",
            other.unwrap_or("unknown")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "           CPU0       CPU1       \n \
        24:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
        NMI:          0          0   Non-maskable interrupts\n\
        LOC:      16557      17577   Local timer interrupts\n\
        RES:         10       1000   Rescheduling interrupts\n\
        CAL:         20       1000   Function call interrupts\n\
        ERR:          5\n\
        MIS:          7\n";
    const ARM: &str = "           CPU0       CPU1       CPU2\n \
        11:        100        200        300     GICv3  27 Level     arch_timer\n\
        IPI0:         4         5         6       Rescheduling interrupts\n\
        Err:          7\n";

    #[test]
    fn interrupts_of_one_cpu_and_of_all() {
        assert_eq!(
            interrupts(X86, Some(0)),
            Some(Interrupts {
                all: 16588,
                timer: Some(16557),
                other_cpus: Some(30),
                devices: 1,
            })
        );
        assert_eq!(
            interrupts(X86, Some(1)),
            Some(Interrupts {
                all: 19577,
                timer: Some(17577),
                other_cpus: Some(2000),
                devices: 0,
            })
        );
        assert_eq!(
            interrupts(X86, None),
            Some(Interrupts {
                all: 36165,
                timer: Some(34134),
                other_cpus: Some(2030),
                devices: 1,
            })
        );
    }

    #[test]
    fn the_timer_of_arm_is_found_by_its_name() {
        assert_eq!(
            interrupts(ARM, Some(2)),
            Some(Interrupts {
                all: 306,
                timer: Some(300),
                other_cpus: Some(6),
                devices: 0,
            })
        );
    }

    #[test]
    fn a_cpu_that_was_taken_offline_shifts_the_columns() {
        let table = "           CPU0       CPU2       \nLOC:          7          9   Local timer interrupts\n";
        assert_eq!(
            interrupts(table, Some(2)),
            Some(Interrupts {
                all: 9,
                timer: Some(9),
                other_cpus: None,
                devices: 0,
            })
        );
        assert_eq!(interrupts(table, Some(1)), None);
    }

    #[test]
    fn a_table_without_timer_or_heading() {
        assert_eq!(
            interrupts("  CPU0\n 1: 3 x\n", None),
            Some(Interrupts {
                all: 3,
                timer: None,
                other_cpus: None,
                devices: 3,
            })
        );
        assert_eq!(interrupts("", None), None);
        assert_eq!(interrupts("LOC: 1 2\n", None), None);
    }

    const STAT: &str = "cpu  3209 0 2420 127887 358 0 77 22 0 0\n\
        cpu0 866 0 866 65214 20 0 17 7 0 0\n\
        cpu10 1 2 3 4 5 6 7 99 0 0\n\
        intr 5 0\n";

    #[test]
    fn stolen_time_of_one_cpu_and_of_all() {
        assert_eq!(steal(STAT, None), Some(22));
        assert_eq!(steal(STAT, Some(0)), Some(7));
        assert_eq!(steal(STAT, Some(10)), Some(99));
        assert_eq!(steal(STAT, Some(1)), None);
        assert_eq!(steal("cpu 1 2 3 4\n", None), None);
    }

    #[test]
    fn busy_time_elsewhere_leaves_out_what_idles_waits_and_was_stolen() {
        assert_eq!(busy_elsewhere(STAT, 0), Some(1 + 2 + 3 + 6 + 7));
        assert_eq!(busy_elsewhere(STAT, 10), Some(866 + 866 + 17));
        assert_eq!(
            busy_elsewhere("cpu 1 2 3 4 5 6 7\ncpu0 1 2 3 4 5 6 7\nintr 1\n", 0),
            None
        );
        assert_eq!(busy_elsewhere("cpu 1\ncpu0 1\ncpu1 1 2\n", 0), None);
    }

    #[test]
    fn who_reads_is_not_among_the_others_that_run() {
        assert_eq!(runnable_others("6.40 5.63 3.17 8/139 1742\n"), Some(7));
        assert_eq!(runnable_others("0.00 0.00 0.00 0/139 1742\n"), Some(0));
        assert_eq!(runnable_others("0.00 0.00"), None);
    }

    #[test]
    fn a_stall_is_that_of_some_task() {
        let reported = "some avg10=0.00 avg60=0.00 avg300=0.00 total=29592301\n\
            full avg10=0.00 avg60=0.00 avg300=0.00 total=27891394\n";
        assert_eq!(stalled_us(reported), Some(29_592_301));
        assert_eq!(stalled_us("full avg10=0.00 total=3\n"), None);
        assert_eq!(stalled_us(""), None);
    }

    #[test]
    fn run_delay_is_the_second_number_unless_nothing_is_kept() {
        assert_eq!(run_delay("36000 4711 3\n"), Some(4711));
        assert_eq!(run_delay("0 0 1"), Some(0));
        assert_eq!(run_delay("0 0 0"), None);
        assert_eq!(run_delay("x y z"), None);
        assert_eq!(run_delay(""), None);
    }

    #[test]
    fn migrations_are_found_by_their_name() {
        let sched = "cat (1, #threads: 1)\n\
            ---\n\
            se.sum_exec_runtime                          :             0.000000\n\
            se.nr_migrations                             :                   12\n\
            nr_switches                                  :     3\n";
        assert_eq!(migrations(sched), Some(12));
        assert_eq!(migrations("nr_switches : 3\n"), None);
    }

    #[test]
    fn a_zero_of_stolen_time_is_believed_only_where_it_is_kept() {
        assert_eq!(steal_unreported(22, Some("hyperv"), 0, ""), None);
        assert_eq!(steal_unreported(0, Some("none"), 0, ""), None);
        assert_eq!(steal_unreported(0, Some("kvm"), 1 << 5, "quiet"), None);
        assert!(steal_unreported(0, Some("kvm"), 0, "").is_some());
        assert!(
            steal_unreported(0, Some("kvm"), 1 << 5, "quiet no-steal-acc")
                .is_some_and(|reason| reason.contains("no-steal-acc"))
        );
        assert!(steal_unreported(0, Some("hyperv"), u32::MAX, "").is_some());
        assert!(steal_unreported(0, None, 0, "").is_some());
    }
}
