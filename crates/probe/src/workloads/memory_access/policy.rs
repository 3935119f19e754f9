//! How the kernel chooses the pages that it reclaims, set for a request.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::cleanup::setting::{LRU_GEN, RECLAIM_REFERENCED, borrow};
use oscope_sys::error::Failure;

const PATCH: &str = "oscope run kernel.reclaim, or --on guest:reclaim-policy, which boots a kernel with the policies";
const MGLRU: &str = "run a kernel with CONFIG_LRU_GEN, as --on guest:base does";
/// The multi-generational LRU off, and on with all it has.
const OFF: &str = "0x0000";
const ON: &str = "0x0007";

/// The policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Whatever this machine has.
    Asis,
    /// The active and the inactive list, as the kernel has them.
    Own,
    /// The same, but what would be activated is reclaimed: the change of CS380L lab 2.
    ReclaimActive,
    /// The same, but references do not count.
    ReclaimReferenced,
    /// The multi-generational LRU.
    Mglru,
}

impl Policy {
    /// Have the kernel reclaim so until what is returned is dropped.
    ///
    /// # Errors
    /// `Failure::Unavailable` where it cannot, with the kernel that can.
    pub fn set(self) -> Result<Vec<CleanupGuard>, Failure> {
        self.set_below(Path::new("/"))
    }

    fn set_below(self, root: &Path) -> Result<Vec<CleanupGuard>, Failure> {
        let Some(referenced) = self.referenced() else {
            return Ok(Vec::new());
        };
        let below = |path: &str| -> PathBuf { root.join(path.trim_start_matches('/')) };
        let mut borrowed = Vec::new();
        let (patched, lru) = (below(RECLAIM_REFERENCED), below(LRU_GEN));
        // A kernel without the setting behaves as with 0.
        if referenced != "0" || patched.exists() {
            borrowed.extend(borrow(&patched, referenced, PATCH)?);
        }
        // A kernel without this LRU behaves as with it off.
        let wanted = if self == Self::Mglru { ON } else { OFF };
        if self == Self::Mglru || lru.exists() {
            borrowed.extend(borrow(&lru, wanted, MGLRU)?);
        }
        Ok(borrowed)
    }

    /// What `vm.reclaim_referenced` has to be; `None` where nothing is to be touched.
    fn referenced(self) -> Option<&'static str> {
        match self {
            Self::Asis => None,
            Self::Own | Self::Mglru => Some("0"),
            Self::ReclaimActive => Some("1"),
            Self::ReclaimReferenced => Some("2"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscope_sys::testing::{kernel, value};

    const ALL: [Policy; 5] = [
        Policy::Asis,
        Policy::Own,
        Policy::ReclaimActive,
        Policy::ReclaimReferenced,
        Policy::Mglru,
    ];

    #[test]
    fn the_words_are_those_of_a_request() {
        let words = [
            "asis",
            "own",
            "reclaim-active",
            "reclaim-referenced",
            "mglru",
        ];
        for (policy, name) in ALL.into_iter().zip(words) {
            let read: Policy = serde_json::from_value(name.into()).expect("it is one");
            assert_eq!(read, policy);
        }
    }

    #[test]
    fn each_sets_both_and_puts_them_back() {
        let expected = [
            ("2", "0x0007"),
            ("0", "0x0000"),
            ("1", "0x0000"),
            ("2", "0x0000"),
            ("0", "0x0007"),
        ];
        for (policy, (referenced, lru)) in ALL.into_iter().zip(expected) {
            let folder = kernel(&[(RECLAIM_REFERENCED, "2"), (LRU_GEN, "0x0007")]);
            let borrowed = policy.set_below(&folder.0).expect("it can be set");
            assert_eq!(value(&folder, RECLAIM_REFERENCED), referenced, "{policy:?}");
            assert_eq!(value(&folder, LRU_GEN), lru, "{policy:?}");
            drop(borrowed);
            assert_eq!(value(&folder, RECLAIM_REFERENCED), "2", "{policy:?}");
            assert_eq!(value(&folder, LRU_GEN), "0x0007", "{policy:?}");
        }
    }

    #[test]
    fn a_kernel_that_lacks_one_has_the_policies_that_need_the_other() {
        let remedy = |settings: &[(&str, &str)], policy: Policy| {
            let folder = kernel(settings);
            match policy.set_below(&folder.0) {
                Ok(_) => None,
                Err(Failure::Unavailable { remedy, .. }) => remedy,
                Err(other) => panic!("{other}"),
            }
        };
        let stock = [(LRU_GEN, "0x0007")];
        assert_eq!(remedy(&stock, Policy::Own), None);
        assert_eq!(remedy(&stock, Policy::Mglru), None);
        for policy in [Policy::ReclaimActive, Policy::ReclaimReferenced] {
            let reported = remedy(&stock, policy).expect("it cannot be had");
            assert!(reported.contains("kernel.reclaim"), "{reported}");
        }
        let reported =
            remedy(&[(RECLAIM_REFERENCED, "0")], Policy::Mglru).expect("it cannot be had");
        assert!(reported.contains("CONFIG_LRU_GEN"), "{reported}");
        assert_eq!(remedy(&[], Policy::Own), None);
        assert_eq!(remedy(&[], Policy::Asis), None);
    }

    #[test]
    fn what_was_set_is_put_back_where_the_rest_cannot_be() {
        let folder = kernel(&[(RECLAIM_REFERENCED, "2")]);
        assert!(Policy::Mglru.set_below(&folder.0).is_err());
        assert_eq!(value(&folder, RECLAIM_REFERENCED), "2");
    }
}
