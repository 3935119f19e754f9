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
/// No package takes more power: for so long its counter certainly begins anew once at most.
const MOST_W: f64 = 1000.0;
/// Counters of the dies of one package that differ by less are one counter, read twice (AMD Zen 1 and 2).
const SAME_UJ: u64 = 10_000_000;
/// The control type of the processor's own registers. Others, as `intel-rapl-mmio`, count the same packages again.
const CONTROL_TYPE: &str = "intel-rapl:";
/// More digits than a counter has.
const LONGEST: usize = 32;

/// What the counters said at a moment, in microjoules.
pub struct Reading {
    at: Instant,
    uj: Vec<u64>,
}

/// A zone that is a whole package; the zones within it are part of its figure.
struct Zone {
    /// The number of the package, as in `package-0` or `package-0-die-1`.
    package: String,
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
        let before = this.read()?;
        wait();
        let after = this.read()?;
        let used_j = this.used_j(&before, &after)?;
        this.idle_w = used_j / (after.at - before.at).as_secs_f64();
        // A virtual machine may have the file without a counter behind it.
        (used_j > 0.0).then_some(this)
    }

    /// The power of the machine in watts when nothing was measured.
    pub fn idle_w(&self) -> f64 {
        self.idle_w
    }

    /// What each counter says now.
    pub fn read(&self) -> Option<Reading> {
        Some(Reading {
            at: Instant::now(),
            uj: self
                .zones
                .iter()
                .map(Zone::read_uj)
                .collect::<Option<_>>()?,
        })
    }

    /// The energy between two readings in joules. A counter may have begun anew once; `None` where it may have done so
    /// more often.
    pub fn used_j(&self, before: &Reading, after: &Reading) -> Option<f64> {
        let most_uj = (after.at - before.at).as_secs_f64() * MOST_W / UJ;
        let is_short = |zone: &Zone| most_uj < zone.range_uj as f64;
        let readings = before.uj.iter().zip(&after.uj);
        let used_uj = self
            .zones
            .iter()
            .zip(readings)
            .map(|(zone, (&before, &after))| zone.used_uj(before, after));
        self.zones
            .iter()
            .all(is_short)
            .then(|| used_uj.sum::<u64>() as f64 * UJ)
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
    let mut found: Vec<Zone> = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let text = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let is_of_registers = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(CONTROL_TYPE));
        let name = text("name").filter(|_| is_of_registers).unwrap_or_default();
        let Some(number) = name.trim().strip_prefix("package-") else {
            continue;
        };
        let zone = Zone {
            package: number.split("-die-").next().unwrap_or(number).to_owned(),
            counter: File::open(entry.path().join("energy_uj")).ok()?,
            range_uj: text("max_energy_range_uj")?.trim().parse().ok()?,
        };
        if !is_counted(&zone, &found) {
            found.push(zone);
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Whether a zone's counter is that of another die of its package, which shows the same one.
fn is_counted(zone: &Zone, found: &[Zone]) -> bool {
    let mut others = found.iter().filter(|other| other.package == zone.package);
    others.any(|other| {
        let readings = zone.read_uj().zip(other.read_uj());
        readings.is_some_and(|(one, another)| one.abs_diff(another) < SAME_UJ)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// As Intel's counters have it, nearly: 262 kJ.
    const RANGE_UJ: u64 = 262_143_329_000;

    /// A folder as the kernel has it: two packages, one with a zone within it, and the whole platform.
    fn tree(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("oscope-rapl-{name}-{}", std::process::id()));
        for (zone, name, energy_uj) in [
            ("intel-rapl:0", "package-0", "1000\n"),
            ("intel-rapl:0:0", "core", "400\n"),
            ("intel-rapl:1", "package-1", "262143328000\n"),
            ("intel-rapl:2", "psys", "77\n"),
        ] {
            let place = folder.join(zone);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("name"), format!("{name}\n")).unwrap();
            fs::write(place.join("energy_uj"), energy_uj).unwrap();
            fs::write(place.join("max_energy_range_uj"), format!("{RANGE_UJ}\n")).unwrap();
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
        assert_eq!(before.uj.iter().sum::<u64>(), RANGE_UJ);
        fs::write(folder.join("intel-rapl:0/energy_uj"), "3500\n").unwrap();
        // The second one begins anew meanwhile.
        fs::write(folder.join("intel-rapl:1/energy_uj"), "500\n").unwrap();
        let used_j = rapl.used_j(&before, &rapl.read().unwrap()).unwrap();
        assert!((used_j - (2500.0 + 1500.0) * UJ).abs() < 1e-12);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_shows_the_same_package_again_is_left_out() {
        let folder = tree("again");
        let add = |zone: &str, name: &str, energy_uj: u64| {
            let place = folder.join(zone);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("name"), format!("{name}\n")).unwrap();
            fs::write(place.join("energy_uj"), format!("{energy_uj}\n")).unwrap();
            fs::write(place.join("max_energy_range_uj"), "1000000\n").unwrap();
        };
        assert_eq!(zones(&folder).unwrap().len(), 2);
        add("intel-rapl-mmio:0", "package-0", 123_456_789);
        assert_eq!(zones(&folder).unwrap().len(), 2, "the same by memory");
        add("intel-rapl:7", "package-7-die-0", 500_000_000);
        add("intel-rapl:8", "package-7-die-1", 500_000_400);
        assert_eq!(zones(&folder).unwrap().len(), 3, "a counter shown twice");
        add("intel-rapl:8", "package-7-die-1", 900_000_000);
        assert_eq!(zones(&folder).unwrap().len(), 4, "a die of its own");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_run_in_which_a_counter_may_have_begun_anew_twice_has_no_figure() {
        let folder = tree("long");
        let rapl = rapl(&folder);
        let before = rapl.read().unwrap();
        let after = |time: Duration| Reading {
            at: before.at + time,
            uj: vec![5000; 2],
        };
        for (time_s, has_figure) in [(262, true), (263, false)] {
            let used_j = rapl.used_j(&before, &after(Duration::from_secs(time_s)));
            assert_eq!(used_j.is_some(), has_figure);
        }
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
