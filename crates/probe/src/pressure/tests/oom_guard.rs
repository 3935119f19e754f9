//! What keeps a group of version 1 from need: where it runs, and what becomes of a group without it.

use super::*;

#[test]
fn what_keeps_the_group_is_watched_placed_and_spared_and_armed_again() {
    let folder = Folder::new();
    let Some(mut pressure) = prepared(plan(&folder, SwapKind::File, 64 << 20)) else {
        return;
    };
    let group = pressure.group.as_ref().expect("there is one");
    let Some(guard) = group.oom_guard() else {
        return;
    };
    let read =
        |path: std::path::PathBuf| std::fs::read_to_string(path).expect("the kernel reports it");
    let score = read(format!("/proc/{guard}/oom_score_adj").into());
    let exposed = group.notes().iter().any(|note| note.contains("may kill"));
    assert_eq!(score.trim() != "-1000", exposed);
    let allowed = nix::sched::sched_getaffinity(guard).expect("it lives");
    let all = affinity::allowed().expect("they can be read");
    let measured = *all.last().expect("there is one");
    assert_eq!(allowed.is_set(measured), Ok(all.len() == 1));
    let path = group.path().to_owned();
    // As it is left where memory and swap were full.
    std::fs::write(path.join("memory.oom_control"), "0").expect("it can be set");
    let more = (LIMIT + (2 << 20)).to_string();
    std::fs::write(path.join("memory.limit_in_bytes"), more).expect("it can be set");
    let mut competition = pressure.compete().expect("it competes");
    assert!(read(path.join("memory.oom_control")).contains("oom_kill_disable 1"));
    let limit = || {
        read(path.join("memory.limit_in_bytes"))
            .trim()
            .parse::<u64>()
    };
    // It is raised for some milliseconds at a time.
    let latest = Instant::now() + PATIENCE;
    while limit() != Ok(LIMIT) {
        assert!(Instant::now() < latest, "the limit stays too high");
    }
    assert_eq!(competition.check(), Ok(()));
    nix::sys::signal::kill(guard, Signal::SIGKILL).expect("it lives");
    let latest = Instant::now() + PATIENCE;
    while competition.check().is_ok() {
        assert!(Instant::now() < latest, "nobody notices");
    }
    let failure = competition.check().expect_err("it is killed").to_string();
    assert!(failure.contains("OOM killer"), "{failure}");
}
