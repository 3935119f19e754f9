//! Limits that control groups set on this process, version 1 and 2, over all groups it lies in.
//!
//! Source: `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst` of Linux; proc_pid_mountinfo(5),
//! cgroups(7).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::found::{Found, Ledger, text};

/// A version 1 memory limit at or above this (2^62) is the kernel's "none", which is the greatest number of whole pages
/// in an i64.
const NO_LIMIT_V1: u64 = 1 << 62;

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    version: u8,
    /// The group that is seen at `point`.
    root: String,
    point: String,
    /// Version 1: the mount options, among them the controllers.
    options: String,
}

/// The folders of this process's groups for one controller, innermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// Version of the hierarchy, 1 or 2.
    pub version: u8,
    /// From this process's own group up to the topmost that is seen here.
    pub folders: Vec<PathBuf>,
}

/// A limit, where there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    None,
    At(f64),
}

impl Limit {
    fn least(self, other: Limit) -> Limit {
        match (self, other) {
            (Limit::At(mine), Limit::At(others)) => Limit::At(mine.min(others)),
            (Limit::None, limit) | (limit, Limit::None) => limit,
        }
    }
}

fn parse_mounts(mountinfo: &str) -> Vec<Mount> {
    let parse = |line: &str| -> Option<Mount> {
        let (place, device) = line.split_once(" - ")?;
        let place: Vec<&str> = place.split(' ').collect();
        let device: Vec<&str> = device.split(' ').collect();
        let version = match *device.first()? {
            "cgroup" => 1,
            "cgroup2" => 2,
            _ => return None,
        };
        // White space in a path is written in octal, proc_pid_mountinfo(5).
        let unescape = |path: &str| path.replace("\\040", " ").replace("\\011", "\t");
        Some(Mount {
            version,
            root: unescape(place.get(3)?),
            point: unescape(place.get(4)?),
            options: (*device.get(2)?).to_owned(),
        })
    };
    mountinfo.lines().filter_map(parse).collect()
}

/// The group's path in the hierarchy with `controller`: version 1 where it has that controller, else version 2.
fn parse_membership(membership: &str, controller: &str) -> Option<(u8, String)> {
    let entries = || {
        membership
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(':'))
    };
    let first =
        entries().find(|(controllers, _)| controllers.split(',').any(|name| name == controller));
    let second = || entries().find(|(controllers, _)| controllers.is_empty());
    first
        .map(|(_, path)| (1, path.to_owned()))
        .or_else(|| second().map(|(_, path)| (2, path.to_owned())))
}

fn groups(membership: &str, mountinfo: &str, controller: &str) -> Option<Groups> {
    let (version, path) = parse_membership(membership, controller)?;
    let fits = |mount: &Mount| {
        mount.version == version
            && (version == 2 || mount.options.split(',').any(|name| name == controller))
    };
    let mount = parse_mounts(mountinfo).into_iter().find(fits)?;
    // A path that is not below the mount's root, or leads out of the namespace (`/..`), is not visible here: the top is
    // all there is.
    let below = Path::new(&path)
        .strip_prefix(&mount.root)
        .ok()
        .filter(|below| !below.starts_with(".."));
    let innermost = Path::new(&mount.point).join(below.unwrap_or(Path::new("")));
    let folders = innermost
        .ancestors()
        .take_while(|folder| folder.starts_with(&mount.point))
        .map(Path::to_owned)
        .collect();
    Some(Groups { version, folders })
}

fn parse_cpu_v2(text: &str) -> Option<Limit> {
    let (quota, period) = text.split_once(' ')?;
    if quota == "max" {
        return Some(Limit::None);
    }
    Some(Limit::At(
        quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?,
    ))
}

fn parse_cpu_v1(quota_us: &str, period_us: &str) -> Option<Limit> {
    match quota_us.parse::<f64>().ok()? {
        quota if quota < 0.0 => Some(Limit::None),
        quota => Some(Limit::At(quota / period_us.parse::<f64>().ok()?)),
    }
}

fn parse_memory(text: &str) -> Option<Limit> {
    if text == "max" {
        return Some(Limit::None);
    }
    let bytes = text.parse::<u64>().ok()?;
    Some(if bytes >= NO_LIMIT_V1 {
        Limit::None
    } else {
        Limit::At(bytes as f64)
    })
}

fn file(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name))
        .ok()
        .map(|text| text.trim().to_owned())
}

fn cpu_limit(groups: &Groups) -> Limit {
    let limit = |folder: &PathBuf| match groups.version {
        2 => parse_cpu_v2(&file(folder, "cpu.max")?),
        _ => parse_cpu_v1(
            &file(folder, "cpu.cfs_quota_us")?,
            &file(folder, "cpu.cfs_period_us")?,
        ),
    };
    // A group without the file (the topmost, or one whose parent has not switched the controller on) sets no limit.
    groups
        .folders
        .iter()
        .filter_map(limit)
        .fold(Limit::None, Limit::least)
}

fn memory_limit_of(folder: &Path, version: u8) -> Option<Limit> {
    parse_memory(&file(
        folder,
        if version == 2 {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        },
    )?)
}

fn memory_limit(groups: &Groups) -> Limit {
    groups
        .folders
        .iter()
        .filter_map(|folder| memory_limit_of(folder, groups.version))
        .fold(Limit::None, Limit::least)
}

/// Bytes that a group with this limit, usage and `memory.stat` has left; page cache that can be dropped is not in use.
fn room_of(limit: Limit, usage: &str, stat: &str, inactive_field: &str) -> Option<u64> {
    let Limit::At(limit) = limit else { return None };
    let inactive = stat.lines().find_map(|line| {
        line.strip_prefix(inactive_field)?
            .trim()
            .parse::<f64>()
            .ok()
    });
    let room = limit - (usage.parse::<f64>().ok()? - inactive.unwrap_or(0.0));
    Some(room.max(0.0) as u64)
}

/// The groups of this process in the hierarchy with `controller`. In version 2 that controller need not be there.
///
/// # Errors
/// Where no such hierarchy is mounted.
pub fn own_groups(controller: &str) -> Found<Groups> {
    let membership = text("/proc/self/cgroup")?;
    groups(&membership, &text("/proc/self/mountinfo")?, controller).ok_or_else(|| {
        format!(
            "no control group with the {controller} controller is mounted: mount cgroup2 to see \
            its limits"
        )
    })
}

/// Bytes left in the tightest memory group above this process, or `None` where none has a limit.
#[must_use]
pub fn memory_room() -> Option<u64> {
    let groups = own_groups("memory").ok()?;
    let (usage, inactive) = match groups.version {
        2 => ("memory.current", "inactive_file"),
        _ => ("memory.usage_in_bytes", "total_inactive_file"),
    };
    let room = |folder: &PathBuf| {
        let limit = memory_limit_of(folder, groups.version)?;
        room_of(
            limit,
            &file(folder, usage)?,
            &file(folder, "memory.stat").unwrap_or_default(),
            inactive,
        )
    };
    groups.folders.iter().filter_map(room).min()
}

fn limit_value(limit: Limit) -> Value {
    match limit {
        Limit::None => json!("max"),
        // Bytes are a whole number, CPUs need not be.
        Limit::At(value) if value.fract() == 0.0 => json!(value as u64),
        Limit::At(value) => json!(value),
    }
}

/// The `cgroup` object: version of the memory hierarchy, limit of CPU time in CPUs, limit of memory in bytes; `"max"`,
/// the kernel's word, where there is no limit.
pub fn record(ledger: &mut Ledger) -> Value {
    let memory = own_groups("memory");
    let cpu = own_groups("cpu");
    json!({
        "version": ledger.take("cgroup.version", memory.clone().map(|groups| groups.version)),
        "cpu_max": ledger.take("cpu_max", cpu.map(|groups| limit_value(cpu_limit(&groups)))),
        "memory_max": ledger.take("memory_max", memory.map(|groups| limit_value(memory_limit(&groups)))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const V1_MEMBERSHIP: &str = "9:name=systemd:/\n4:memory:/job/abc\n2:cpu,cpuacct:/job\n0::/\n";
    const V2_MOUNTS: &str =
        "25 24 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V2_MEMBERSHIP: &str = "0::/user.slice/user-1000.slice/session-3.scope\n";

    fn paths(groups: &Groups) -> Vec<&str> {
        groups
            .folders
            .iter()
            .map(|folder| folder.to_str().expect("plain text"))
            .collect()
    }

    #[test]
    fn version_2_gives_all_groups_up_to_the_top() {
        let groups = groups(V2_MEMBERSHIP, V2_MOUNTS, "memory").expect("it is mounted");
        assert_eq!(groups.version, 2);
        assert_eq!(
            paths(&groups),
            [
                "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope",
                "/sys/fs/cgroup/user.slice/user-1000.slice",
                "/sys/fs/cgroup/user.slice",
                "/sys/fs/cgroup"
            ]
        );
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let memory = groups(V1_MEMBERSHIP, V1_MOUNTS, "memory").expect("it is mounted");
        assert_eq!(memory.version, 1);
        assert_eq!(
            paths(&memory),
            [
                "/sys/fs/cgroup/memory/job/abc",
                "/sys/fs/cgroup/memory/job",
                "/sys/fs/cgroup/memory"
            ]
        );
        let cpu = groups(V1_MEMBERSHIP, V1_MOUNTS, "cpu").expect("it is mounted");
        assert_eq!(paths(&cpu)[0], "/sys/fs/cgroup/cpu,cpuacct/job");
    }

    #[test]
    fn a_container_that_sees_only_its_own_group_reads_the_top() {
        let mounts = "9 1 0:9 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let inside = groups("4:memory:/docker/abc\n", mounts, "memory").expect("it is mounted");
        assert_eq!(inside.folders, [Path::new("/sys/fs/cgroup/memory")]);
        let outside = groups("0::/../other\n", V2_MOUNTS, "memory").expect("it is mounted");
        assert_eq!(outside.folders, [Path::new("/sys/fs/cgroup")]);
    }

    #[test]
    fn no_cgroup_is_none() {
        assert_eq!(groups("", "", "memory"), None);
        assert_eq!(groups(V2_MEMBERSHIP, "", "memory"), None);
    }

    #[test]
    fn limits_are_read_in_both_versions() {
        assert_eq!(parse_cpu_v2("max 100000"), Some(Limit::None));
        assert_eq!(parse_cpu_v2("150000 100000"), Some(Limit::At(1.5)));
        assert_eq!(parse_cpu_v1("-1", "100000"), Some(Limit::None));
        assert_eq!(parse_cpu_v1("50000", "100000"), Some(Limit::At(0.5)));
        assert_eq!(parse_memory("max"), Some(Limit::None));
        assert_eq!(parse_memory("9223372036854771712"), Some(Limit::None));
        assert_eq!(parse_memory("1073741824"), Some(Limit::At(1_073_741_824.0)));
        assert_eq!(parse_memory("plenty"), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        assert_eq!(Limit::At(2.0).least(Limit::At(1.0)), Limit::At(1.0));
        assert_eq!(Limit::None.least(Limit::At(1.0)), Limit::At(1.0));
        assert_eq!(Limit::At(1.0).least(Limit::None), Limit::At(1.0));
    }

    #[test]
    fn limits_are_written_as_the_kernel_counts_them() {
        assert_eq!(limit_value(Limit::None), json!("max"));
        assert_eq!(
            limit_value(Limit::At(209_715_200.0)),
            json!(209_715_200_u64)
        );
        assert_eq!(limit_value(Limit::At(1.5)), json!(1.5));
    }

    #[test]
    fn page_cache_is_room() {
        let stat = "anon 300\ninactive_file 200\nactive_file 1\n";
        assert_eq!(
            room_of(Limit::At(1000.0), "600", stat, "inactive_file"),
            Some(600)
        );
        assert_eq!(
            room_of(Limit::At(500.0), "900", "", "inactive_file"),
            Some(0)
        );
        assert_eq!(room_of(Limit::None, "900", stat, "inactive_file"), None);
    }
}
