//! The processor: model, caches, frequency policy, mitigations, hypervisor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Serialize;
use serde_json::{Value, json};

use crate::affinity;

use super::found::{Found, Ledger, Remedy, number, text};
use super::identity::digest;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as architecture;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use other as architecture;
#[cfg(target_arch = "x86_64")]
use x86_64 as architecture;

pub use architecture::hypervisor;

const ROOT: &str = "/sys/devices/system/cpu";
const NO_CPUFREQ: &str = "virtual machines have none; on a bare machine load its cpufreq driver";

/// What `/proc/cpuinfo` says of the first processor.
#[derive(Debug, PartialEq, Eq)]
pub struct Processor {
    /// Model name; on ARM, implementer and part numbers.
    pub model: Found<String>,
    /// Vendor; on ARM, the implementer's number.
    pub vendor: Found<String>,
    /// Microcode revision as the kernel writes it.
    pub microcode: Found<String>,
    /// Feature flags as the kernel writes them.
    pub flags: Found<String>,
}

/// Reads the first processor of a `/proc/cpuinfo`.
#[must_use]
pub fn parse_processor(cpuinfo: &str) -> Processor {
    let fields: BTreeMap<&str, &str> = cpuinfo
        .lines()
        .skip_while(|line| line.trim().is_empty())
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let field = |names: &[&str]| -> Found<String> {
        let found = names
            .iter()
            .find_map(|name| fields.get(name))
            .map(|value| (*value).to_owned());
        found.ok_or_else(|| {
            format!(
                "/proc/cpuinfo has no field {:?}: this kernel does not report it",
                names[0]
            )
        })
    };
    let part = || -> Found<String> {
        let implementer = field(&["CPU implementer"])?;
        let part = field(&["CPU part"])?;
        let variant = field(&["CPU variant"]).unwrap_or_default();
        let revision = field(&["CPU revision"]).unwrap_or_default();
        Ok(format!(
            "implementer {implementer} part {part} variant {variant} revision {revision}"
        ))
    };
    Processor {
        model: field(&["model name"]).or_else(|reason| part().map_err(|_| reason)),
        vendor: field(&["vendor_id", "CPU implementer"]),
        microcode: field(&["microcode"]),
        flags: field(&["flags", "Features", "isa"]),
    }
}

/// The first processor as the kernel reports it, or this one as it reports itself where the kernel reports another
/// machine's.
#[must_use]
pub fn processor() -> Processor {
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    architecture::corrected(parse_processor(&cpuinfo))
}

/// One cache of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 1 is the nearest to the core.
    pub level: u64,
    /// `data`, `instruction` or `unified`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Capacity.
    pub size_bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Ways of associativity; 0 where the kernel does not know.
    pub ways: u64,
}

/// A size as sysfs writes it (`32K`, `1024K`, `2M`), in bytes; the K is 1024.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn cache(folder: &str) -> Found<Cache> {
    let size = text(&format!("{folder}/size"))?;
    Ok(Cache {
        level: number(&format!("{folder}/level"))?,
        kind: text(&format!("{folder}/type"))?.to_lowercase(),
        size_bytes: parse_size(&size)
            .ok_or_else(|| format!("{folder}/size holds {size:?}, which is not a size"))?,
        line_bytes: number(&format!("{folder}/coherency_line_size"))?,
        ways: number(&format!("{folder}/ways_of_associativity")).unwrap_or(0),
    })
}

/// The caches of the first CPU, as the kernel reports them.
///
/// # Errors
/// The file that is missing or not understood.
pub fn caches() -> Found<Vec<Cache>> {
    let found: Vec<Cache> = (0..16)
        .map(|index| format!("{ROOT}/cpu0/cache/index{index}"))
        .take_while(|folder| fs::metadata(folder).is_ok())
        .map(|folder| cache(&folder))
        .collect::<Found<_>>()?;
    if found.is_empty() {
        return Err(format!(
            "{ROOT}/cpu0/cache has no index0: this kernel does not report the caches; a newer one may"
        ));
    }
    Ok(found)
}

/// The governors of all frequency policies, each named once.
fn governor() -> Found<String> {
    let folder = format!("{ROOT}/cpufreq");
    let names: BTreeSet<String> = fs::read_dir(&folder)
        .map_err(|error| format!("cannot read {folder}: {error}"))?
        .flatten()
        .filter_map(|entry| text(&format!("{}/scaling_governor", entry.path().display())).ok())
        .collect();
    if names.is_empty() {
        return Err(format!("{folder} has no policy"));
    }
    Ok(names.into_iter().collect::<Vec<_>>().join(","))
}

/// Whether the processor may run above its nominal frequency.
fn turbo() -> Found<bool> {
    let no_turbo = number::<u8>(&format!("{ROOT}/intel_pstate/no_turbo"));
    no_turbo
        .map(|off| off == 0)
        .or_else(|_| number::<u8>(&format!("{ROOT}/cpufreq/boost")).map(|on| on != 0))
}

fn mitigations() -> Found<BTreeMap<String, String>> {
    let folder = format!("{ROOT}/vulnerabilities");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("cannot read {folder}: {error}"))?;
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .map(|name| text(&format!("{folder}/{name}")).map(|state| (name, state)))
        .collect()
}

/// The `cpu` object.
pub fn record(processor: Processor, ledger: &mut Ledger) -> Value {
    let logical = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
    let logical = logical
        .ok()
        .flatten()
        .ok_or_else(|| "sysconf does not report the number of CPUs".to_owned());
    let flags_hash = processor.flags.map(|flags| {
        let sorted: BTreeSet<&str> = flags.split_whitespace().collect();
        digest(&[&sorted.into_iter().collect::<Vec<_>>().join(" ")])
    });
    json!({
        "model": ledger.take("model", processor.model),
        "vendor": ledger.take("vendor", processor.vendor),
        "logical": ledger.take("logical", logical),
        "allowed": ledger.take("allowed", affinity::allowed().map_err(|failure| failure.to_string())),
        "flags_hash": ledger.take("flags_hash", flags_hash),
        "microcode": ledger.take("microcode", processor.microcode),
        "caches": ledger.take("caches", caches()),
        "smt": ledger.take("smt", number::<u8>(&format!("{ROOT}/smt/active")).map(|on| on != 0).or_remedy("it needs \
        Linux 4.19 or later")),
        "governor": ledger.take("governor", governor().or_remedy(NO_CPUFREQ)),
        "turbo": ledger.take("turbo", turbo().or_remedy(NO_CPUFREQ)),
        "mitigations": ledger.take("mitigations", mitigations().or_remedy("it needs Linux 4.15 or later")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTEL: &str = "processor\t: 0\n\
        vendor_id\t: GenuineIntel\n\
        model name\t: Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz\n\
        microcode\t: 0x2006e05\n\
        flags\t\t: fpu vme tsc\n\
        \n\
        processor\t: 1\n\
        model name\t: another\n";
    const ARM: &str = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: 0x41\n\
        CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n";

    #[test]
    fn an_intel_processor_is_read_from_its_first_block() {
        let processor = parse_processor(INTEL);
        assert_eq!(
            processor.model.as_deref(),
            Ok("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz")
        );
        assert_eq!(processor.vendor.as_deref(), Ok("GenuineIntel"));
        assert_eq!(processor.microcode.as_deref(), Ok("0x2006e05"));
        assert_eq!(processor.flags.as_deref(), Ok("fpu vme tsc"));
    }

    #[test]
    fn an_arm_processor_has_parts_in_place_of_a_name_and_no_microcode() {
        let processor = parse_processor(ARM);
        assert_eq!(
            processor.model.as_deref(),
            Ok("implementer 0x41 part 0xd0c variant 0x3 revision 1")
        );
        assert_eq!(processor.vendor.as_deref(), Ok("0x41"));
        assert!(
            processor
                .microcode
                .expect_err("ARM has none")
                .contains("microcode")
        );
        assert_eq!(processor.flags.as_deref(), Ok("fp asimd evtstrm"));
    }

    #[test]
    fn an_empty_cpuinfo_gives_reasons() {
        let processor = parse_processor("");
        assert!(
            processor
                .model
                .expect_err("nothing is there")
                .contains("model name")
        );
    }

    #[test]
    fn sizes_of_sysfs_are_powers_of_1024() {
        assert_eq!(parse_size("32K"), Some(32 * 1024));
        assert_eq!(parse_size("2M"), Some(2 * 1024 * 1024));
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size(""), None);
        assert_eq!(parse_size("K"), None);
        assert_eq!(parse_size("99999999999999999999G"), None);
        assert_eq!(parse_size("18446744073709551615K"), None);
    }
}
