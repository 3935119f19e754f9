//! What CPUID says of the data TLBs.

use super::geometry::{Geometry, TlbShape, Tlbs};
use oscope_sys::machine::found::Found;

/// EAX, EBX, ECX and EDX of one leaf.
type Registers = [u32; 4];

/// The data TLBs for pages of 4 KiB, those for 2 MiB, and what was assumed.
type Leaves = (Tlbs, Option<Tlbs>, Vec<String>);

/// The data TLBs of this CPU.
///
/// # Errors
/// That CPUID does not report them, and that no common core of this vendor is known.
#[cfg(target_arch = "x86_64")]
pub fn read() -> Found<Leaves> {
    use raw_cpuid::{CpuId, cpuid};
    let registers = |leaf: u32, subleaf: u32| -> Registers {
        let found = cpuid!(leaf, subleaf);
        [found.eax, found.ebx, found.ecx, found.edx]
    };
    let highest = registers(0, 0)[0];
    let extended = registers(0x8000_0000, 0)[0];
    let id = CpuId::new();
    let vendor = id
        .get_vendor_info()
        .map(|vendor| vendor.as_str().to_owned());
    let vendor = vendor.unwrap_or_default();
    let reported = if vendor == "GenuineIntel" {
        // Subleaf 0 reports the last one.
        let subleaves = if highest >= 0x18 {
            registers(0x18, 0)[0]
        } else {
            0
        };
        let of_leaf_18: Vec<_> = (0..=subleaves.min(64))
            .filter(|_| highest >= 0x18)
            .map(|subleaf| registers(0x18, subleaf))
            .collect();
        intel(&of_leaf_18).or_else(|| descriptors(registers(2, 0)))
    } else if extended >= 0x8000_0006 {
        amd(registers(0x8000_0005, 0), registers(0x8000_0006, 0))
    } else {
        None
    };
    let (family, model) = id
        .get_feature_info()
        .map_or((0, 0), |info| (info.family_id(), info.model_id()));
    reported
        .or_else(|| of_model(&vendor, family, model))
        .ok_or_else(|| {
            format!(
                "CPUID reports no data TLB of this {vendor:?}, family {family:#x}, model {model:#x}"
            )
        })
}

/// The data TLBs of this CPU.
///
/// # Errors
/// Always: no instruction that a program may execute reports them outside x86, nor does sysfs.
#[cfg(not(target_arch = "x86_64"))]
pub fn read() -> Found<Leaves> {
    Err("only x86 reports its TLBs to a program".to_owned())
}

/// TLBs of the common core that has this model, for guests whose hypervisor hides them; of a model that is not known,
/// and a hypervisor can show one that never was, those of another core of this vendor.
fn of_model(vendor: &str, family: u8, model: u8) -> Option<Leaves> {
    let found = Geometry::of_model(vendor, family, model);
    let (name, geometry) = found.or_else(|| Geometry::of_vendor(vendor))?;
    let why = match found {
        Some(_) => "by family and model".to_owned(),
        None => format!(
            "another core, for family {family:#x}, model {model:#x} is not known; or name a geometry: {}",
            Geometry::NAMES.join(", ")
        ),
    };
    let note = format!("CPUID reports no TLB here: those of {name} are taken, {why}");
    Some((geometry.base, geometry.huge, vec![note]))
}

/// From leaves 8000_0005H (first level) and 8000_0006H (second level) of AMD: EAX is of pages of 2 MiB, EBX of 4 KiB
/// (AMD64 Architecture Programmer's Manual, volume 3, appendix E.4.4 and E.4.5).
fn amd(first: Registers, second: Registers) -> Option<Leaves> {
    let level = |register: usize| {
        let second = match second[register] >> 16 & 0xfff {
            0 => None,
            entries => Some(amd_second(entries.into(), second[register] >> 28)?),
        };
        Some(Tlbs {
            first: amd_first(first[register])?,
            second,
        })
    };
    // All of them have a second level for pages of 4 KiB: one of 0 entries is hidden.
    let base = level(1).filter(|base| base.second.is_some())?;
    Some((base, level(0), Vec::new()))
}

/// Bits 23 to 16 are the entries, bits 31 to 24 the ways; FFH: fully associative.
fn amd_first(register: u32) -> Option<TlbShape> {
    let entries = u64::from(register >> 16 & 0xff);
    let ways = match u64::from(register >> 24) {
        0xff => entries,
        ways => ways,
    };
    (entries > 0 && ways > 0).then_some(TlbShape { entries, ways })
}

/// The code stands for a range of ways below twice its least. Just one number in it can make the number of sets a power
/// of two.
fn amd_second(entries: u64, code: u32) -> Option<TlbShape> {
    let range = match code {
        1 => 1..=1,
        2 => 2..=2,
        3 => 3..=3,
        4 => 4..=5,
        5 => 6..=7,
        6 => 8..=15,
        8 => 16..=31,
        0xa => 32..=47,
        0xb => 48..=63,
        0xc => 64..=95,
        0xd => 96..=127,
        0xf => entries..=entries,
        _ => return None,
    };
    let whole = |ways: &u64| entries % ways == 0 && (entries / ways).is_power_of_two();
    let ways = range.into_iter().find(whole)?;
    Some(TlbShape { entries, ways })
}

/// One TLB of Intel's.
#[derive(Debug, Clone, Copy)]
struct Described {
    level: u32,
    /// Bit 0: pages of 4 KiB, bit 1: of 2 MiB.
    pages: u32,
    kind: u32,
    shape: TlbShape,
}

const DATA: u32 = 1;
const UNIFIED: u32 = 3;
const LOADS: u32 = 4;
const STORES: u32 = 5;

/// From the subleaves of leaf 18H of Intel (SDM, volume 2A, CPUID, "Deterministic Address Translation Parameters").
fn intel(subleaves: &[Registers]) -> Option<Leaves> {
    let described: Vec<_> = subleaves
        .iter()
        .map(|&[_, ebx, ecx, edx]| {
            let ways = u64::from(ebx >> 16);
            Described {
                level: edx >> 5 & 7,
                pages: ebx & 3,
                kind: edx & 31,
                shape: TlbShape {
                    entries: ways * u64::from(ecx),
                    ways,
                },
            }
        })
        .filter(|tlb| tlb.shape.entries > 0)
        .collect();
    gathered(&described)
}

/// From the one-byte descriptors of leaf 2, those of data TLBs of cores with two levels of them.
fn descriptors(registers: Registers) -> Option<Leaves> {
    let tlb = |level, pages, kind, entries, ways| Described {
        level,
        pages,
        kind,
        shape: TlbShape { entries, ways },
    };
    // The lowest byte of EAX is no descriptor, and a register with its highest bit set has none.
    let bytes = registers.iter().enumerate().flat_map(|(place, register)| {
        let used = if register >> 31 == 0 { *register } else { 0 };
        let skipped = usize::from(place == 0);
        used.to_le_bytes().into_iter().skip(skipped)
    });
    let described: Vec<_> = bytes
        .filter_map(|byte| match byte {
            0x03 => Some(tlb(1, 1, DATA, 64, 4)),
            0x5a | 0x63 | 0xc4 => Some(tlb(1, 2, DATA, 32, 4)),
            0xc1 => Some(tlb(2, 3, UNIFIED, 1024, 8)),
            0xc3 => Some(tlb(2, 3, UNIFIED, 1536, 6)),
            0xca => Some(tlb(2, 1, UNIFIED, 512, 4)),
            _ => None,
        })
        .collect();
    gathered(&described)
}

/// The TLBs that hold data for each size of page. All these cores have a second level for pages of 4 KiB: if it is
/// missing, it is hidden.
fn gathered(described: &[Described]) -> Option<Leaves> {
    let largest = |level: u32, page: u32, kinds: &[u32]| {
        described
            .iter()
            .filter(|tlb| tlb.level == level && tlb.pages & page != 0 && kinds.contains(&tlb.kind))
            .map(|tlb| tlb.shape)
            .max_by_key(|shape| shape.entries)
    };
    let tlbs = |page: u32| {
        Some(Tlbs {
            first: largest(1, page, &[DATA, LOADS])?,
            second: largest(2, page, &[DATA, UNIFIED, LOADS]),
        })
    };
    let base = tlbs(1).filter(|base| base.second.is_some())?;
    let stores = largest(1, 1, &[STORES]).map(|stores| {
        format!(
            "stores have a first-level TLB of their own, of {stores}: in the model they share that of the loads, of {}",
            base.first
        )
    });
    Some((base, tlbs(2), stores.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn tlb(entries: u64, ways: u64) -> TlbShape {
        TlbShape { entries, ways }
    }

    #[test]
    fn zen_3_says_what_the_table_says() {
        let first = [0xff40_ff40, 0xff40_ff40, 0, 0];
        let second = [0x4800_2200, 0x6800_4200, 0, 0];
        let (base, huge, notes) = amd(first, second).expect("CPUID reports it");
        let zen3 = Geometry::named("zen3").expect("it is in the table");
        assert_eq!((base, huge), (zen3.base, zen3.huge));
        assert!(notes.is_empty());
    }

    #[test]
    fn ranges_of_ways_of_amd_are_narrowed_by_the_sets() {
        assert_eq!(amd_second(1536, 5), Some(tlb(1536, 6)));
        assert_eq!(amd_second(3072, 8), Some(tlb(3072, 24)));
        assert_eq!(amd_second(2048, 0xf), Some(tlb(2048, 2048)));
        assert_eq!(amd_second(2048, 9), None);
        assert_eq!(amd_second(1000, 4), None);
    }

    #[test]
    fn hidden_tlbs_are_not_taken_for_none() {
        assert_eq!(amd([0; 4], [0; 4]), None);
        assert_eq!(amd([0xff40_ff40; 4], [0; 4]), None);
        assert_eq!(intel(&[]), None);
        assert_eq!(descriptors([0x00fe_ff01, 0xf0, 0, 0]), None);
    }

    #[test]
    fn the_descriptors_of_skylake_say_what_the_table_says() {
        // As an i7-6700 answers: 63H, 03H, 76H, B5H, F0H, C3H.
        let (base, huge, notes) =
            descriptors([0x7603_6301, 0x00f0_b5ff, 0, 0x00c3_0000]).expect("CPUID reports it");
        let skylake = Geometry::named("skylake").expect("it is in the table");
        assert_eq!((base, huge), (skylake.base, skylake.huge));
        assert!(notes.is_empty());
    }

    #[test]
    fn a_register_without_descriptors_is_passed_over() {
        assert_eq!(
            descriptors([0x7603_6301, 0x00f0_b5ff, 0, 0x80c3_0000]),
            None
        );
    }

    #[test]
    fn a_tlb_of_stores_is_noted() {
        let loads = [0, 6 << 16 | 1, 16, 1 << 5 | LOADS];
        let stores = [0, 16 << 16 | 3, 1, 1 << 8 | 1 << 5 | STORES];
        let second = [0, 8 << 16 | 3, 256, 2 << 5 | UNIFIED];
        let instructions = [0, 8 << 16 | 1, 32, 1 << 5 | 2];
        let (base, huge, notes) =
            intel(&[[0; 4], instructions, loads, stores, second]).expect("CPUID reports it");
        assert_eq!(base.first, tlb(96, 6));
        assert_eq!(base.second, Some(tlb(2048, 8)));
        assert_eq!(huge, None, "no TLB of loads takes pages of 2 MiB here");
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("16 entries"), "{}", notes[0]);
    }

    #[test]
    fn a_guest_without_leaves_has_the_tlbs_of_its_model() {
        let (base, _, notes) = of_model("GenuineIntel", 6, 0x55).expect("it is in the table");
        assert_eq!(base.second, Some(tlb(1536, 6)));
        assert!(notes[0].contains("skylake-server"), "{}", notes[0]);
    }

    #[test]
    fn a_model_that_is_not_known_has_the_tlbs_of_another_core_and_a_note_says_so() {
        let (base, _, notes) =
            of_model("GenuineIntel", 6, 0xa7).expect("Intel has cores in the table");
        assert_eq!(base.second, Some(tlb(1536, 6)));
        assert!(
            notes[0].contains("skylake-server are taken, another core"),
            "{}",
            notes[0]
        );
        assert!(notes[0].contains("model 0xa7 is not known"), "{}", notes[0]);
        assert_eq!(of_model("Nobody", 6, 0xa7), None);
    }
}
