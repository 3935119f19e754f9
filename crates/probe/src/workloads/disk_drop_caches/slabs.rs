//! Dentries and inodes as the slab allocator counts them, from `/proc/slabinfo` (slabinfo(5)).

use std::fs;

/// Objects in use in the slabs that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objects {
    /// In the slab `dentry`.
    pub dentries: u64,
    /// In all slabs `*inode_cache`: each file system has its own. `lsm_inode_cache` is none: security modules keep
    /// something there beside each inode.
    pub inodes: u64,
}

impl Objects {
    /// The objects now; `None` where `/proc/slabinfo` is closed to us or does not exist (kernels without
    /// `CONFIG_SLUB_DEBUG`).
    pub fn read() -> Option<Self> {
        Some(Self::parse(&fs::read_to_string("/proc/slabinfo").ok()?))
    }

    /// Two lines of heading, then the name and the objects in use at the head of each line.
    fn parse(slabinfo: &str) -> Self {
        let mut all = Self {
            dentries: 0,
            inodes: 0,
        };
        for line in slabinfo.lines().skip(2) {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let Some(active) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
                continue;
            };
            if name == "dentry" {
                all.dentries += active;
            } else if name.ends_with("inode_cache") && name != "lsm_inode_cache" {
                all.inodes += active;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_in_use_are_added_up_over_the_file_systems() {
        let text = "slabinfo - version: 2.1\n\
            # name <active_objs> <num_objs>\n\
            dentry 3633 3800 192\n\
            ext4_inode_cache 2170 2171 1128\n\
            inode_cache 30 40 600\n\
            lsm_inode_cache 7 8 9\n\
            kmalloc-8k 5 8 8192\n";
        let expected = Objects {
            dentries: 3633,
            inodes: 2200,
        };
        assert_eq!(Objects::parse(text), expected);
    }
}
