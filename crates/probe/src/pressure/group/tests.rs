//! Where a group can be made, and what is left where it cannot.

use super::*;
use oscope_sys::testing::Folder;

fn groups(folders: &[PathBuf], version: u8) -> Groups {
    Groups {
        version,
        folders: folders.to_vec(),
    }
}

#[test]
fn version_2_takes_the_nearest_that_hands_memory_on() {
    let folder = Folder::new();
    let slice = folder.0.join("slice");
    let own = slice.join("scope");
    fs::create_dir_all(&own).expect("folders can be made");
    let folders = [own.clone(), slice.clone(), folder.0.clone()];
    for (path, controllers) in [(&own, ""), (&slice, "cpu pids"), (&folder.0, "cpu memory")] {
        fs::write(path.join("cgroup.subtree_control"), controllers).expect("it can be written");
    }
    assert_eq!(parent(&groups(&folders, 2)), Ok(folder.0.as_path()));
    fs::write(slice.join("cgroup.subtree_control"), "memory pids\n").expect("it can be written");
    assert_eq!(parent(&groups(&folders, 2)), Ok(slice.as_path()));
    assert_eq!(parent(&groups(&folders, 1)), Ok(own.as_path()));
}

#[test]
fn version_2_without_the_controller_is_unavailable_with_a_remedy() {
    let folder = Folder::new();
    let failure = parent(&groups(std::slice::from_ref(&folder.0), 2)).expect_err("there is none");
    let Failure::Unavailable {
        remedy: Some(remedy),
        ..
    } = failure
    else {
        panic!("{failure}");
    };
    assert!(remedy.contains("cgroup.subtree_control"), "{remedy}");
}

/// The second hierarchy of this machine, if there is one without the controller.
#[test]
fn a_group_that_cannot_have_a_limit_is_removed_again() {
    let top = Path::new("/sys/fs/cgroup/unified");
    let controllers = fs::read_to_string(top.join("cgroup.controllers"));
    if controllers.map_or(true, |all| all.contains("memory")) || !nix::unistd::geteuid().is_root() {
        return;
    }
    let failure = Group::make_below(top, 2, 1 << 20, &[0]).expect_err("there is no memory.max");
    assert!(
        matches!(
            failure,
            Failure::Unavailable {
                remedy: Some(_),
                ..
            }
        ),
        "{failure}"
    );
    let ours = format!("{GROUP_PREFIX}{}-", std::process::id());
    let left = fs::read_dir(top)
        .expect("the folder can be listed")
        .filter_map(Result::ok);
    let left: Vec<_> = left
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Only a hierarchy has groups; making them needs root.
#[test]
fn a_group_of_that_name_that_another_made_stays() {
    let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let root = roots
        .into_iter()
        .map(Path::new)
        .find(|root| root.join("cgroup.procs").exists());
    let top = root.map(|root| root.join(format!("others-{}", std::process::id())));
    let Some(top) = top.filter(|top| fs::create_dir(top).is_ok()) else {
        return;
    };
    // Other tests of this process may take numbers as well.
    let names = (0..64).map(|number| format!("{GROUP_PREFIX}{}-{number}", std::process::id()));
    let theirs: Vec<PathBuf> = names.map(|name| top.join(name)).collect();
    for path in &theirs {
        fs::create_dir(path).expect("a new group");
    }
    let made = Group::make_below(&top, 2, 1 << 20, &[0]);
    let left = theirs.iter().filter(|path| path.exists()).count();
    for path in theirs.iter().chain([&top]) {
        let _ = fs::remove_dir(path);
    }
    assert!(matches!(made, Err(Failure::Unavailable { .. })), "{made:?}");
    assert_eq!(left, theirs.len());
}

#[test]
fn more_than_the_machine_has_is_refused() {
    let failure = Group::make(1 << 50, &[0]).expect_err("no machine has a PiB");
    assert!(
        matches!(
            failure,
            Failure::Unavailable {
                remedy: Some(_),
                ..
            }
        ),
        "{failure}"
    );
}
