//! A process that works on a store and is killed (SIGKILL) at random points, many times over one folder. The state
//! afterwards is that before the step under way or that after it, for each kind of step.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::model::{Model, State, Step, observe, perform};
use super::{changed, fetched, open};

const CHILD: &str = "OSCOPE_STORE_CHILD";
const READY: &str = "ready";
const ROUNDS: u32 = 250;
const FOLDER_ROUNDS: u32 = 60;
/// Steps in a round, at most: the child is killed long before.
const STEPS: u32 = 100_000;

/// A random sequence that depends on its seed alone (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn step(&mut self) -> Step {
        let [kind, first, second, ..] = self.next().to_le_bytes();
        // A checkpoint waits for the disks of the whole machine: rarely, here.
        match Step::decode((kind, first, second)) {
            Step::Checkpoint if self.next() % 64 != 0 => Step::EvictAll,
            step => step,
        }
    }
}

/// Starts this very test in a process of its own, with what it needs to know.
fn start(test: &str, folder: &Path, round: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("store::tests::kills::{test}"),
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, format!("{round}:{}", folder.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// In the child: the round, and the folder. `None` in the test itself.
fn child() -> Option<(u32, std::path::PathBuf)> {
    let text = std::env::var(CHILD).ok()?;
    let (round, folder) = text.split_once(':').unwrap();
    Some((round.parse().unwrap(), folder.into()))
}

fn ready() {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{READY}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn tell(word: &str, step: u32) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{word} {step}\n").as_bytes())
        .unwrap();
    out.flush().unwrap();
}

/// Kills the child some time after it has begun to work; gives the last step that it began, and whether it had ended
/// it.
fn kill(mut child: Child, numbers: &mut Numbers, lines_at_most: u64) -> (u32, bool) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    let mut take = |line: String| match line.split_once(' ') {
        Some(("begin", step)) => last = Some((step.parse().unwrap(), false)),
        Some(("end", step)) => last = Some((step.parse().unwrap(), true)),
        _ => {}
    };
    // The harness writes lines of its own before the test begins, the last without an end.
    let begun = lines.by_ref().any(|line| line.unwrap() == READY);
    assert!(begun, "the child begins");
    let wanted = 1 + numbers.next() % lines_at_most;
    lines
        .by_ref()
        .take(wanted as usize)
        .for_each(|line| take(line.unwrap()));
    std::thread::sleep(Duration::from_micros(numbers.next() % 2000));
    child.kill().unwrap();
    lines.for_each(|line| take(line.unwrap()));
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        None,
        "the child ended by itself: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    last.expect("the child was killed while it worked")
}

/// The state after the steps of a round up to and without `last`, and that step.
fn before(mut model: Model, round: u32, last: u32) -> (Model, Step) {
    let mut numbers = Numbers(u64::from(round));
    for number in 0.. {
        let step = numbers.step();
        if number == last {
            return (model, step);
        }
        if model.allows(&step) {
            model.apply(&step, round * STEPS + number);
        }
    }
    unreachable!("the numbers have no end")
}

fn work(round: u32, folder: &Path) {
    let store = open(folder);
    let mut model = Model {
        state: observe(&store),
        ..Model::default()
    };
    let (mut numbers, mut rename) = (Numbers(u64::from(round)), None);
    ready();
    for number in 0..STEPS {
        let step = numbers.step();
        if model.allows(&step) {
            tell("begin", number);
            perform(&store, &step, round * STEPS + number, &mut rename);
            tell("end", number);
            model.apply(&step, round * STEPS + number);
        }
    }
}

/// An eviction of many is many steps: what is clean may be gone or not.
fn partly_evicted(seen: &State, before: &State) -> bool {
    let dirty = |state: &State| {
        state
            .files
            .iter()
            .filter(|file| file.dirty.is_some())
            .cloned()
            .collect::<Vec<_>>()
    };
    seen.files.is_subset(&before.files)
        && dirty(seen) == dirty(before)
        && seen.unresolved_renames == before.unresolved_renames
}

#[test]
fn a_kill_leaves_the_state_before_a_step_or_after_it() {
    if let Some((round, folder)) = child() {
        return work(round, &folder);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(0x0a11);
    let mut state = observe(&open(folder.path()));
    let mut within = 0;
    for round in 0..ROUNDS {
        let child = start(
            "a_kill_leaves_the_state_before_a_step_or_after_it",
            folder.path(),
            round,
        );
        let (last, ended) = kill(child, &mut numbers, 300);
        let (mut model, step) = before(
            Model {
                state,
                ..Model::default()
            },
            round,
            last,
        );
        let old = model.state.clone();
        model.apply(&step, round * STEPS + last);
        let seen = observe(&open(folder.path()));
        let unended = !ended
            && (seen == old || matches!(step, Step::EvictAll) && partly_evicted(&seen, &old));
        assert!(
            seen == model.state || unended,
            "round {round}, {step:?}, ended: {ended}\nbefore {old:#?}\nafter {seen:#?}"
        );
        within += u32::from(!ended);
        state = seen;
    }
    assert!(
        within > ROUNDS / 10,
        "only {within} of {ROUNDS} kills fell into a step"
    );
}

const BELOW: usize = 120;

fn rename_to_and_fro(folder: &Path) {
    let store = open(folder);
    let mut names = ["d", "e"];
    if super::find(&store, "e/0").is_some() {
        names.reverse();
    }
    ready();
    for number in 0..STEPS {
        tell("begin", number);
        let rename = store
            .begin_rename(Path::new(names[0]), Path::new(names[1]))
            .unwrap();
        store.finish_rename(&rename).unwrap();
        names.reverse();
        tell("end", number);
    }
}

#[test]
fn a_kill_in_the_renaming_of_a_folder_leaves_all_of_it_under_one_name() {
    if let Some((_, folder)) = child() {
        return rename_to_and_fro(&folder);
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..BELOW {
        changed(&store, &format!("d/{number}"), &format!("dirty {number}"));
    }
    fetched(&store, "d/clean", "clean");
    drop(store);
    let mut numbers = Numbers(0x0f01);
    let (mut within, mut at) = (0, 'd');
    for round in 0..FOLDER_ROUNDS {
        let child = start(
            "a_kill_in_the_renaming_of_a_folder_leaves_all_of_it_under_one_name",
            folder.path(),
            round,
        );
        let (last, ended) = kill(child, &mut numbers, 20);
        let store = open(folder.path());
        // The server alone could tell: here it has not done the unresolved renames.
        for unresolved in store.unresolved_renames() {
            assert!(!ended);
            store.cancel_rename(&unresolved);
        }
        let now = if super::find(&store, "d/clean").is_some() {
            'd'
        } else {
            'e'
        };
        for number in 0..BELOW {
            let entry =
                super::find(&store, &format!("{now}/{number}")).expect("all are under one name");
            assert_eq!(super::read(&entry), format!("dirty {number}"));
            assert!(entry.dirty.is_some());
        }
        assert_eq!(store.dirty().len(), BELOW);
        let other = |at| if at == 'd' { 'e' } else { 'd' };
        let done = if last % 2 == 0 { other(at) } else { at };
        assert!(
            now == done || !ended && now == other(done),
            "round {round}: step {last}, ended: {ended}, {at} to {now}"
        );
        within += u32::from(!ended);
        at = now;
    }
    assert!(
        within > FOLDER_ROUNDS / 3,
        "only {within} of {FOLDER_ROUNDS} kills fell into a rename"
    );
}
