//! Whether the whole machine can be pressed without the OOM killer coming.

use std::fs;

use super::{Plan, SwapKind};
use oscope_sys::error::Failure;
use oscope_sys::machine::memory;

/// Least memory left for everybody else, in bytes.
const LEAST_RESERVE: u64 = 1 << 30;

/// What the machine has, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// All of its memory.
    pub total: u64,
    /// What can be taken without swapping, by this process.
    pub available: u64,
    /// Free swap, before any was made for the run.
    pub swap_free: u64,
}

impl Machine {
    /// As it is now.
    ///
    /// # Errors
    /// `Failure::Failed` if `/proc/meminfo` does not have it.
    pub fn now() -> Result<Self, Failure> {
        let text = fs::read_to_string("/proc/meminfo")
            .map_err(|error| Failure::system("reading /proc/meminfo", error))?;
        let field = |name| {
            memory::meminfo_field(&text, name)
                .ok_or_else(|| Failure::failed(format!("/proc/meminfo has no {name}")))
        };
        Ok(Self {
            total: field("MemTotal")?,
            available: memory::room().map_err(Failure::failed)?,
            swap_free: field("SwapFree")?,
        })
    }

    /// Refuse a competitor for `bytes` where memory and swap are not enough for it, for what is measured beside it, and
    /// for a reserve: a sixteenth of the memory, at least 1 GiB. Swap in zram counts as nothing, since it may take as
    /// much memory as it holds.
    ///
    /// # Errors
    /// `Failure::Unavailable`, with the swap that would do.
    pub fn judge(self, bytes: u64, plan: &Plan) -> Result<(), Failure> {
        let &Plan {
            swap_bytes, beside, ..
        } = plan;
        if plan.swap != SwapKind::File {
            return Err(Failure::unavailable(
                "scope=machine needs swap on a device, and zram takes the memory that it is to relieve",
                "choose --set swap=file",
            ));
        }
        let needed = bytes + beside + (self.total / 16).max(LEAST_RESERVE);
        let there = self.available + self.swap_free;
        if there + swap_bytes >= needed {
            return Ok(());
        }
        Err(Failure::unavailable(
            format!(
                "the competitor for {bytes} B, {beside} B measured and a reserve need {needed} B, and {there} B of \
                 memory and swap are free beside the {swap_bytes} B to be made"
            ),
            format!(
                "choose --set swap_size={} or more, --set limit=SIZE, or --set scope=group",
                needed - there
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::super::Scope;
    use super::*;

    const MACHINE: Machine = Machine {
        total: 16 << 30,
        available: 12 << 30,
        swap_free: 0,
    };

    fn plan(swap: SwapKind, swap_bytes: u64, beside: u64) -> Plan {
        Plan {
            scope: Scope::Machine,
            limit: 0,
            swap,
            swap_bytes,
            wait: Duration::ZERO,
            steps: 0,
            directory: PathBuf::new(),
            beside,
        }
    }

    #[test]
    fn too_little_swap_is_refused_with_what_would_do() {
        let judged = |bytes, swap_bytes, beside| {
            MACHINE.judge(bytes, &plan(SwapKind::File, swap_bytes, beside))
        };
        let remedy = |judged: Result<(), Failure>| match judged.expect_err("it is not enough") {
            Failure::Unavailable {
                remedy: Some(remedy),
                ..
            } => remedy,
            other => panic!("{other}"),
        };
        let reported = remedy(judged(16 << 30, 2 << 30, 0));
        assert!(reported.contains(&(5_u64 << 30).to_string()), "{reported}");
        assert!(judged(16 << 30, 5 << 30, 0).is_ok());
        assert!(judged(8 << 30, 64 << 20, 0).is_ok());
        let reported = remedy(judged(16 << 30, 5 << 30, 3 << 30));
        assert!(reported.contains(&(8_u64 << 30).to_string()), "{reported}");
    }

    #[test]
    fn zram_is_no_relief_for_the_machine() {
        for swap in [SwapKind::Zram, SwapKind::Auto] {
            assert!(MACHINE.judge(1 << 30, &plan(swap, 64 << 30, 0)).is_err());
        }
    }

    #[test]
    fn this_machine_reports_what_it_has() {
        let machine = Machine::now().expect("the kernel reports it");
        assert!(machine.total >= machine.available);
    }
}
