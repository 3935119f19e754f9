//! Settings of the machine that make measurements steadier, held for as long as somebody asks: a lease.
//!
//! What is set is read, written, read again and reported; it is restored as it was when standard input ends or a signal
//! asks for it, and by `oscope-probe restore` after a kill (see [`oscope_sys::cleanup::setting`]).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::input::{Lines, Wait};
use crate::names;
use oscope_sys::affinity::{online, parse_list};
use oscope_sys::cancel;
use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::cleanup::setting::{self, chosen};
use oscope_sys::cleanup::tunable::{self, fits};
use oscope_sys::error::Failure;

/// A setting that may have several places, such as one for each CPU.
struct Tunable {
    name: &'static str,
    doc: &'static str,
    /// The places: a `*` stands for one or more digits.
    places: &'static [&'static str],
    /// What may be given, and what is then written; empty: what the kernel offers, or a list of CPUs.
    values: &'static [(&'static str, &'static str)],
    /// What steadies measurements without changing what is measured.
    steady: Option<&'static str>,
}

const GOVERNOR: &str = "governor";
const INTERRUPTS: &str = "interrupts";
const TURBO_INVERTED: &str = "no_turbo";

/// Documentation/admin-guide/pm/cpufreq.rst, admin-guide/mm/transhuge.rst, admin-guide/sysctl/kernel.rst,
/// core-api/irq/irq-affinity.rst.
const TUNABLES: [Tunable; 5] = [
    Tunable {
        name: GOVERNOR,
        doc: "Which frequencies the CPUs run at; performance: the highest.",
        places: tunable::GOVERNOR,
        values: &[],
        steady: Some("performance"),
    },
    Tunable {
        name: "turbo",
        doc: "Whether CPUs exceed their nominal frequency while they are cool enough.",
        places: tunable::TURBO,
        values: &[("on", "1"), ("off", "0")],
        steady: Some("off"),
    },
    Tunable {
        name: "thp",
        doc: "Which memory is given in huge pages: all, what asks for them, or none.",
        places: tunable::HUGE_PAGES,
        values: &[
            ("always", "always"),
            ("madvise", "madvise"),
            ("never", "never"),
        ],
        steady: None,
    },
    Tunable {
        name: "aslr",
        doc: "How far addresses are random in each process: full, without the heap, or not. Off, one layout stands \
            for all.",
        places: tunable::RANDOM_ADDRESSES,
        values: &[("full", "2"), ("partial", "1"), ("off", "0")],
        steady: None,
    },
    Tunable {
        name: INTERRUPTS,
        doc: "The CPUs that take the devices' interrupts, as a list such as 0 or 0,2-3.",
        places: tunable::INTERRUPTS,
        values: &[],
        steady: None,
    },
];

/// The places of a pattern that are there, sorted.
fn there(pattern: &str) -> Vec<PathBuf> {
    let Some(star) = pattern.find('*') else {
        return Some(PathBuf::from(pattern))
            .filter(|path| path.exists())
            .into_iter()
            .collect();
    };
    let folder = Path::new(&pattern[..star])
        .parent()
        .filter(|_| !pattern[..star].ends_with('/'))
        .map_or_else(|| PathBuf::from(&pattern[..star]), Path::to_path_buf);
    let rest = pattern[star..].split_once('/').map(|(_, rest)| rest);
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| match rest {
            Some(rest) => entry.path().join(rest),
            None => entry.path(),
        })
        .filter(|path| fits(Path::new(pattern), path) && path.exists())
        .collect();
    found.sort();
    found
}

impl Tunable {
    fn there(&self) -> Vec<PathBuf> {
        self.places.iter().flat_map(|place| there(place)).collect()
    }

    /// The words that may be given.
    fn choices(&self, places: &[PathBuf]) -> Vec<String> {
        let offered = || {
            let beside = places
                .first()?
                .with_file_name("scaling_available_governors");
            let text = fs::read_to_string(beside).ok()?;
            Some(text.split_whitespace().map(str::to_owned).collect())
        };
        match self.name {
            GOVERNOR => offered().unwrap_or_default(),
            _ => self
                .values
                .iter()
                .map(|(word, _)| (*word).to_owned())
                .collect(),
        }
    }

    /// What is written at a place for a word.
    fn written(&self, place: &Path, word: &str) -> String {
        let value = self.values.iter().find(|(known, _)| *known == word);
        match value {
            Some((_, value)) if place.ends_with(TURBO_INVERTED) => {
                String::from(if *value == "1" { "0" } else { "1" })
            }
            Some((_, value)) => (*value).to_owned(),
            None => word.to_owned(),
        }
    }

    /// The word for what a place says now.
    fn word(&self, place: &Path, text: &str) -> String {
        let value = chosen(text);
        let known = self
            .values
            .iter()
            .find(|(word, _)| self.written(place, word) == value);
        known.map_or_else(|| value.to_owned(), |(word, _)| (*word).to_owned())
    }

    /// A word must be one of the choices, or a list of CPUs.
    fn check(&self, word: &str, places: &[PathBuf]) -> Result<(), Failure> {
        let choices = self.choices(places);
        if self.name == INTERRUPTS {
            let Some(cpus) = parse_list(word) else {
                return Err(Failure::request(
                    self.name,
                    format!("{word:?} is no list of CPUs: give one such as 0 or 0,2-3"),
                ));
            };
            let online = online()?;
            return match cpus.iter().find(|cpu| !online.contains(cpu)) {
                None => Ok(()),
                Some(cpu) => Err(Failure::request(
                    self.name,
                    format!("CPU {cpu} is not online: /sys/devices/system/cpu/online lists them"),
                )),
            };
        }
        match choices.is_empty() || choices.iter().any(|choice| choice == word) {
            true => Ok(()),
            false => Err(Failure::request(
                self.name,
                format!("{word:?} is none of {}", choices.join(", ")),
            )),
        }
    }

    /// What it is, what it may be, and what it is now, as JSON.
    fn describe(&self) -> Value {
        let places = self.there();
        let now: BTreeMap<String, usize> = places
            .iter()
            .filter_map(|place| Some(self.word(place, fs::read_to_string(place).ok()?.trim())))
            .fold(BTreeMap::new(), |mut counts, word| {
                *counts.entry(word).or_default() += 1;
                counts
            });
        json!({
            "name": self.name,
            "doc": self.doc,
            "choices": self.choices(&places),
            "steady": self.steady,
            "places": places.len(),
            "now": now,
        })
    }
}

/// A place that was set, as JSON, and what puts it back; `None` where it was so already.
type Taken = (Value, Option<CleanupGuard>);

/// Set one setting at all its places. A device's interrupt that may not be moved is reported and left.
fn take(tunable: &Tunable, word: &str) -> Result<Vec<Taken>, Failure> {
    let places = tunable.there();
    if places.is_empty() {
        return Err(Failure::unavailable(
            format!("this machine has no setting for {}", tunable.name),
            "leave it out: oscope tune lists what there is",
        ));
    }
    tunable.check(word, &places)?;
    let mut taken = Vec::new();
    for place in places {
        let Ok(text) = fs::read_to_string(&place) else {
            continue;
        };
        let before = tunable.word(&place, text.trim());
        let borrowed = setting::borrow(&place, &tunable.written(&place, word), "leave it out");
        let report = json!({"name": tunable.name, "path": place, "before": before, "now": word});
        match borrowed {
            Ok(made) => taken.push((report, made)),
            Err(failure) if tunable.name == INTERRUPTS => {
                let left = json!({
                    "name": tunable.name, "path": place, "before": before, "left": failure.to_string(),
                });
                taken.push((left, None));
            }
            Err(failure) => return Err(failure),
        }
    }
    if taken.iter().all(|(report, _)| report.get("now").is_none()) {
        let why = taken
            .first()
            .and_then(|(report, _)| report["left"].as_str());
        let why = why.unwrap_or("none can be read");
        return Err(Failure::unavailable(
            format!("no interrupt can be moved: {why}"),
            "run as root, on a machine whose interrupts may be moved",
        ));
    }
    Ok(taken)
}

/// `NAME=VALUE`.
fn parse(text: &str) -> Result<(&'static Tunable, &str), Failure> {
    let (name, word) = text.split_once('=').unwrap_or((text, ""));
    let known = TUNABLES.iter().map(|tunable| tunable.name);
    let Some(tunable) = TUNABLES.iter().find(|tunable| tunable.name == name) else {
        return Err(Failure::request(
            "setting",
            names::unknown("setting", name, known),
        ));
    };
    match word.is_empty() {
        true => Err(Failure::request(name, "it takes a value: NAME=VALUE")),
        false => Ok((tunable, word)),
    }
}

/// Without `wanted`, list the settings; else hold them until standard input ends.
///
/// # Errors
/// `Failure::Request` for a setting that is not known or given twice; `Failure::Unavailable` for one that this machine
/// does not have, or that cannot be set: what was set before it is restored; `Failure::Failed` if standard output
/// cannot be written.
pub fn run(wanted: &[String]) -> Result<(), Failure> {
    if wanted.is_empty() {
        let all: Vec<Value> = TUNABLES.iter().map(Tunable::describe).collect();
        return print(&json!({"settings": all}));
    }
    let mut parsed: Vec<(&Tunable, &str)> = Vec::new();
    for text in wanted {
        let (tunable, word) = parse(text)?;
        if parsed.iter().any(|(other, _)| other.name == tunable.name) {
            return Err(Failure::request(tunable.name, "it is given twice"));
        }
        parsed.push((tunable, word));
    }
    cancel::install()?;
    let mut taken = Vec::new();
    for (tunable, word) in parsed {
        taken.extend(take(tunable, word)?);
    }
    let report: Vec<&Value> = taken.iter().map(|(report, _)| report).collect();
    print(&json!({"held": report}))?;
    let input = io::stdin();
    let mut lines = Lines::new(&input, Wait::Asleep);
    while lines.next_line()?.is_some() {}
    Ok(())
}

fn print(value: &Value) -> Result<(), Failure> {
    let mut output = io::stdout();
    writeln!(output, "{value}")
        .and_then(|()| output.flush())
        .map_err(|error| Failure::system("standard output", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_named_once_and_steadies_by_a_word_that_it_knows() {
        for tunable in &TUNABLES {
            let same = TUNABLES.iter().filter(|other| other.name == tunable.name);
            assert_eq!(same.count(), 1);
            if let (Some(word), false) = (tunable.steady, tunable.values.is_empty()) {
                assert!(tunable.check(word, &[]).is_ok());
            }
        }
    }

    #[test]
    fn turbo_is_written_the_other_way_round_where_it_is_switched_off() {
        let turbo = TUNABLES
            .iter()
            .find(|tunable| tunable.name == "turbo")
            .expect("the setting is known");
        let [boost, no_turbo] = [Path::new("/x/boost"), Path::new("/x/no_turbo")];
        assert_eq!(turbo.written(boost, "off"), "0");
        assert_eq!(turbo.written(no_turbo, "off"), "1");
        assert_eq!(turbo.word(no_turbo, "1"), "off");
        assert_eq!(turbo.word(boost, "1"), "on");
    }

    #[test]
    fn what_is_wrong_is_reported() {
        for (text, part) in [("colour=red", "colour"), ("thp", "takes a value")] {
            let failure = parse(text).err().expect("it is refused");
            assert!(failure.to_string().contains(part), "{failure}");
        }
        let (aslr, word) = parse("aslr=3").expect("it is of the form");
        let failure = aslr.check(word, &[]).expect_err("there is no 3");
        assert!(
            failure.to_string().contains("full, partial, off"),
            "{failure}"
        );
        let (interrupts, _) = parse("interrupts=0").expect("it is of the form");
        let online = online().expect("it lists the CPUs");
        assert!(interrupts.check(&online[0].to_string(), &[]).is_ok());
        assert!(interrupts.check("all", &[]).is_err());
        let failure = interrupts
            .check(&format!("{},4095", online[0]), &[])
            .expect_err("there is no CPU 4095");
        assert!(
            failure.to_string().contains("4095 is not online"),
            "{failure}"
        );
    }
}
