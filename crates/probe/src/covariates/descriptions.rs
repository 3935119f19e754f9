//! What the covariates are called, counted in and mean.

/// Name, unit and meaning of every covariate.
pub const DESCRIPTIONS: [(&str, &str, &str); 29] = [
    (
        "core_loads_ns",
        "ns",
        "Time of 4096 dependent loads from the core's first cache, right before the repetition: it shows the duration \
         of the core's cycle, where no counter does; null where instructions are counted.",
    ),
    (
        "counted_ns",
        "ns",
        "Time for which interrupts, and all that a CPU or the machine counts, were counted: the repetition and what \
         surrounds it.",
    ),
    (
        "run_delay_ns",
        "ns",
        "Time the thread was ready to run and waited for a CPU (schedstat).",
    ),
    (
        "voluntary_switches",
        "count",
        "Voluntary context switches of the thread: it gave up its CPU to wait (getrusage).",
    ),
    (
        "involuntary_switches",
        "count",
        "Involuntary context switches of the thread: it was taken off its CPU (getrusage).",
    ),
    (
        "minor_faults",
        "count",
        "Page faults of the thread without input or output (getrusage).",
    ),
    (
        "major_faults",
        "count",
        "Page faults of the thread that read from a device (getrusage).",
    ),
    (
        "user_us",
        "us",
        "Time in user mode (getrusage); kernels without full accounting split it from system time by sampling at \
         ticks.",
    ),
    (
        "system_us",
        "us",
        "Time in the kernel (getrusage); see user_us.",
    ),
    (
        "migrations",
        "count",
        "Times the thread was moved to another CPU (se.nr_migrations of /proc/thread-self/sched).",
    ),
    ("cpu", "number", "The CPU at the end of the repetition."),
    (
        "cpu_changed",
        "0/1",
        "1 if the repetition ended on another CPU than it began on.",
    ),
    (
        "interrupts",
        "count",
        "Interrupts of all kinds on the pinned CPU, or on all CPUs where none is pinned (/proc/interrupts).",
    ),
    (
        "timer_interrupts",
        "count",
        "Interrupts of the CPU's own timer, counted like interrupts.",
    ),
    (
        "reschedule_interrupts",
        "count",
        "Interrupts from other CPUs: to reschedule, to call a function, to flush the TLB (RES, CAL, TLB; on ARM IPI), \
         counted like interrupts.",
    ),
    (
        "device_interrupts",
        "count",
        "Interrupts of devices (the numbered lines), counted like interrupts.",
    ),
    (
        "steal_ticks",
        "10 ms",
        "Time the hypervisor took from the pinned CPU, or from all, in ticks of 10 ms (/proc/stat).",
    ),
    (
        "neighbour_ns",
        "ns",
        "Busy time of all other CPUs together, in steps of 10 ms (/proc/stat); null where none is pinned.",
    ),
    (
        "runnable_others",
        "count",
        "Other threads of the machine running or ready to run, counted right before and after the repetition and \
         added, not a difference (/proc/loadavg).",
    ),
    (
        "memory_wait_ns",
        "ns",
        "Time of 64 dependent loads from memory twice as large as the core's second-level cache, right before the \
         repetition; null where instructions are counted.",
    ),
    (
        "block_inputs",
        "512 B",
        "Input that the thread had a block device do (getrusage ru_inblock).",
    ),
    (
        "memory_pressure_us",
        "us",
        "Time some task of the machine stalled for lack of memory (/proc/pressure/memory).",
    ),
    (
        "io_pressure_us",
        "us",
        "Time some task of the machine stalled waiting for input or output (/proc/pressure/io).",
    ),
    (
        "frequency_khz",
        "kHz",
        "Frequency of the pinned CPU right after the repetition, not a difference (cpufreq); null where none is \
         pinned.",
    ),
    (
        "counters_active",
        "1",
        "Part of the repetition for which the hardware counters were active; below 0.99 their counts are left out.",
    ),
    (
        "instructions",
        "count",
        "Instructions completed by the thread (hardware counter).",
    ),
    (
        "cpu_cycles",
        "count",
        "Core clock cycles of the thread, which follow the frequency, unlike the clock's (hardware counter).",
    ),
    (
        "cache_misses",
        "count",
        "Misses of the last cache the processor counts (hardware counter).",
    ),
    (
        "branch_misses",
        "count",
        "Branches predicted wrongly (hardware counter).",
    ),
];
