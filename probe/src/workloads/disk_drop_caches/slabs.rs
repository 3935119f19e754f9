//! Which slabs shrank, from `/proc/slabinfo` (slabinfo(5)).

use std::collections::BTreeMap;
use std::fs;

/// Slabs named in a note.
const NAMED: usize = 4;

/// Objects in use of each slab cache.
pub type Active = BTreeMap<String, u64>;

/// Objects in use of each slab cache now.
///
/// # Errors
/// Why they cannot be had, in a line that is worth a note.
pub fn active() -> Result<Active, String> {
    fs::read_to_string("/proc/slabinfo")
        .map(|text| parse(&text))
        .map_err(|error| format!("which slabs shrank is not known: /proc/slabinfo: {error}"))
}

/// Two lines of heading, then the name and the objects in use at the head of each line.
fn parse(slabinfo: &str) -> Active {
    slabinfo
        .lines()
        .skip(2)
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        })
        .collect()
}

/// The slabs that lost most objects, in a line.
pub fn shrunk(before: &Active, after: &Active) -> String {
    let mut losses: Vec<_> = before
        .iter()
        .filter_map(|(name, before)| {
            let after = after.get(name)?;
            (after < before).then_some((before - after, name, before, after))
        })
        .collect();
    if losses.is_empty() {
        return "no slab of /proc/slabinfo shrank".to_owned();
    }
    losses.sort_unstable_by(|left, right| right.cmp(left));
    let named: Vec<_> = losses
        .iter()
        .take(NAMED)
        .map(|(_, name, before, after)| format!("{name} {before} to {after}"))
        .collect();
    format!(
        "objects in use in the slabs that lost most, in the first repetition: {}",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "slabinfo - version: 2.1\n# name <active_objs> <num_objs>\ndentry 3633 3800 192\next4_inode_cache 2170 2170 1128\nkmalloc-8k 5 8 8192\n";
    const AFTER: &str = "slabinfo - version: 2.1\n# name <active_objs> <num_objs>\ndentry 1532 1600 192\next4_inode_cache 178 300 1128\nkmalloc-8k 6 8 8192\n";

    #[test]
    fn the_greatest_losses_are_named_first() {
        let line = shrunk(&parse(BEFORE), &parse(AFTER));
        assert!(
            line.ends_with(": dentry 3633 to 1532, ext4_inode_cache 2170 to 178"),
            "{line}"
        );
        assert!(shrunk(&parse(AFTER), &parse(AFTER)).starts_with("no slab"));
    }
}
