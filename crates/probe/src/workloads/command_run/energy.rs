//! Energy of the processor packages, by RAPL (running average power limit), as `/sys/class/powercap` has it.
//!
//! Source: Documentation/power/powercap/powercap.rst. `energy_uj` of a zone counts microjoules and begins anew after
//! `max_energy_range_uj`. The processor updates it about every millisecond (Intel SDM, volume 3, 15.10), so that a
//! short run has no figure.

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Where the kernel has its zones.
pub const POWERCAP: &str = "/sys/class/powercap";
/// How long the idle power is measured.
const IDLE: Duration = Duration::from_millis(50);
/// A run that is shorter holds too few updates of the counter.
pub const LEAST_NS: f64 = 20e6;
const UJ: f64 = 1e-6;
/// More digits than a counter has.
const LONGEST: usize = 32;

/// A zone that is a whole package; the zones within it are part of its figure.
struct Zone {
    counter: File,
    range_uj: u64,
}

/// The counters of all packages.
pub struct Rapl {
    zones: Vec<Zone>,
    idle_w: f64,
}

impl Rapl {
    /// The counters below `folder`, with the power of the idle machine; `None` where there are none, they may not be
    /// read, or they stand still.
    pub fn find(folder: &Path) -> Option<Self> {
        Self::find_after(folder, || thread::sleep(IDLE))
    }

    /// The same, with what goes on between the two readings.
    fn find_after(folder: &Path, wait: impl FnOnce()) -> Option<Self> {
        let mut this = Self {
            zones: zones(folder)?,
            idle_w: 0.0,
        };
        let (begun, before) = (Instant::now(), this.read()?);
        wait();
        let used_j = this.used_j(&before, &this.read()?);
        this.idle_w = used_j / begun.elapsed().as_secs_f64();
        // A virtual machine may have the file without a counter behind it.
        (used_j > 0.0).then_some(this)
    }

    /// The power of the machine in watts when nothing was measured.
    pub fn idle_w(&self) -> f64 {
        self.idle_w
    }

    /// What each counter says now, in microjoules.
    pub fn read(&self) -> Option<Vec<u64>> {
        self.zones.iter().map(Zone::read_uj).collect()
    }

    /// The energy between two readings in joules. A counter may have begun anew once.
    pub fn used_j(&self, before: &[u64], after: &[u64]) -> f64 {
        let readings = before.iter().zip(after);
        let used_uj = self
            .zones
            .iter()
            .zip(readings)
            .map(|(zone, (&before, &after))| zone.used_uj(before, after));
        used_uj.sum::<u64>() as f64 * UJ
    }
}

impl Zone {
    fn read_uj(&self) -> Option<u64> {
        let mut text = [0; LONGEST];
        let length = self.counter.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length])
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    fn used_uj(&self, before: u64, after: u64) -> u64 {
        if after >= before {
            after - before
        } else {
            (self.range_uj.saturating_sub(before)) + after
        }
    }
}

fn zones(folder: &Path) -> Option<Vec<Zone>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let text = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let is_package = text("name").is_some_and(|name| name.starts_with("package-"));
        if !is_package {
            continue;
        }
        found.push(Zone {
            counter: File::open(entry.path().join("energy_uj")).ok()?,
            range_uj: text("max_energy_range_uj")?.trim().parse().ok()?,
        });
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A folder as the kernel has it: two packages, one with a zone within it, and the whole platform.
    fn tree(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("oscope-rapl-{name}-{}", std::process::id()));
        for (zone, name, energy_uj) in [
            ("intel-rapl:0", "package-0", "1000\n"),
            ("intel-rapl:0:0", "core", "400\n"),
            ("intel-rapl:1", "package-1", "999000\n"),
            ("intel-rapl:2", "psys", "77\n"),
        ] {
            let place = folder.join(zone);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("name"), format!("{name}\n")).unwrap();
            fs::write(place.join("energy_uj"), energy_uj).unwrap();
            fs::write(place.join("max_energy_range_uj"), "1000000\n").unwrap();
        }
        folder
    }

    fn rapl(folder: &Path) -> Rapl {
        Rapl {
            zones: zones(folder).unwrap(),
            idle_w: 0.0,
        }
    }

    #[test]
    fn packages_are_added_up_and_nothing_is_counted_twice() {
        let folder = tree("sum");
        let rapl = rapl(&folder);
        let before = rapl.read().unwrap();
        assert_eq!(before.iter().sum::<u64>(), 1_000_000);
        fs::write(folder.join("intel-rapl:0/energy_uj"), "3500\n").unwrap();
        // The second one begins anew meanwhile.
        fs::write(folder.join("intel-rapl:1/energy_uj"), "500\n").unwrap();
        let used_j = rapl.used_j(&before, &rapl.read().unwrap());
        assert!((used_j - (2500.0 + 1500.0) * UJ).abs() < 1e-12);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_idle_power_is_what_the_counter_gains_meanwhile() {
        let folder = tree("idle");
        let counter = folder.join("intel-rapl:0/energy_uj");
        let found = Rapl::find_after(&folder, || fs::write(&counter, "2000\n").unwrap());
        assert!(found.unwrap().idle_w() > 0.0);
        assert!(Rapl::find(&folder).is_none(), "it stands still");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn without_a_counter_that_counts_there_is_no_figure() {
        assert!(Rapl::find(Path::new("/nonexistent")).is_none());
        let folder = tree("still");
        assert!(Rapl::find(&folder).is_none());
        fs::write(folder.join("intel-rapl:1/energy_uj"), "no number\n").unwrap();
        assert!(rapl(&folder).read().is_none());
        fs::remove_file(folder.join("intel-rapl:1/energy_uj")).unwrap();
        assert!(zones(&folder).is_none());
        fs::remove_dir_all(folder).unwrap();
    }
}
