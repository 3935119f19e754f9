//! Journals as a kill leaves them, and resources that only look like ours.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource as Limit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

use super::*;
use crate::cancel::survive_size_limit;
use crate::testing::{Folder, restored};
use crate::worker::Child;

/// A process that is no more: none has a number beyond the highest there may be (proc_sys_kernel(5), pid_max).
fn dead() -> String {
    let this = Owner::this().expect("the kernel reports it").file_name();
    let place = this
        .splitn(3, '-')
        .nth(2)
        .expect("the name has three parts");
    format!("4194305-77-{place}")
}

fn leave(directory: &Path, boot: &str, resources: &[Resource]) {
    leave_as(&directory.join(dead()), boot, resources);
}

fn leave_as(journal: &Path, boot: &str, resources: &[Resource]) {
    let mut lines = vec![json!({"boot": boot}).to_string()];
    for (number, resource) in resources.iter().enumerate() {
        lines.push(json!({"made": [number, resource]}).to_string());
    }
    fs::write(journal, lines.join("\n") + "\n").expect("it can be written");
}

fn this_boot() -> String {
    owner::boot().expect("the kernel reports it")
}

fn file(path: PathBuf, mode: u32) -> Resource {
    fs::write(&path, "x").expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
    Resource::File { path }
}

#[test]
fn a_file_of_a_dead_process_goes_also_after_a_reboot_and_its_journal_with_it() {
    for boot in [this_boot(), "another".to_owned()] {
        let folder = Folder::new();
        let path = folder.0.join(".oscope-swap-4194305-0");
        leave(&folder.0, &boot, &[file(path.clone(), 0o600)]);
        let (reported, clean) = restored(&folder.0);
        assert!(clean, "{reported:?}");
        assert_eq!(
            reported,
            [json!({"restored": format!("file {}", path.display()), "of": 4_194_305})]
        );
        assert_eq!(
            fs::read_dir(&folder.0)
                .expect("the folder can be listed")
                .count(),
            0
        );
        assert_eq!(restored(&folder.0), (vec![], true));
    }
}

#[test]
fn what_does_not_look_like_ours_is_left_alone_and_reported_each_time() {
    let folder = Folder::new();
    let others = folder.0.join("oscope-others");
    fs::create_dir(&others).expect("a folder can be made");
    let kept = [
        file(folder.0.join("somebodys"), 0o600),
        file(folder.0.join(".oscope-swap-1-0"), 0o644),
        Resource::Group {
            path: others.clone(),
        },
        Resource::Setting {
            path: folder.0.join("somebodys"),
            before: "1".into(),
            set: "x".into(),
        },
    ];
    leave(&folder.0, &this_boot(), &kept);
    for _ in 0..2 {
        let (reported, clean) = restored(&folder.0);
        assert!(!clean);
        assert_eq!(reported.len(), kept.len());
        for line in &reported {
            assert!(
                line["failed"]
                    .as_str()
                    .is_some_and(|why| why.contains("left alone")),
                "{line}"
            );
            assert!(line["remedy"].is_string(), "{line}");
        }
    }
    assert!(others.exists());
    assert_eq!(
        fs::read_to_string(folder.0.join("somebodys")).expect("the file can be read"),
        "x"
    );
}

/// Two dead processes' journals, in which nothing more can be written: the first names what is left alone.
#[test]
fn a_journal_that_cannot_be_written_keeps_no_other_resource_from_being_undone() {
    let folder = Folder::new();
    let kept = file(folder.0.join("somebodys"), 0o600);
    let names = [0, 1, 2, 3].map(|number| folder.0.join(format!(".oscope-swap-1-{number}")));
    let files = names.each_ref().map(|path| file(path.clone(), 0o600));
    let first = [kept, files[0].clone(), files[1].clone()];
    leave(&folder.0, &this_boot(), &first);
    let second = folder.0.join(dead().replacen("4194305", "4194306", 1));
    leave_as(&second, &this_boot(), &files[2..]);
    // In a process of its own, as the limit holds for all threads.
    let mut child = Child::fork(|| {
        survive_size_limit().expect("it can be survived");
        setrlimit(Limit::RLIMIT_FSIZE, 1, 1).expect("it can be lowered");
        let (reported, clean) = restored(&folder.0);
        assert!(!clean);
        let journal = folder.0.join(dead()).display().to_string();
        let failed = reported.iter().filter_map(|line| line["failed"].as_str());
        let failed: Vec<_> = failed.collect();
        assert_eq!((failed.len(), reported.len()), (2, 6), "{reported:?}");
        assert!(failed[1].starts_with(&journal), "{failed:?}");
    })
    .expect("a process can be made");
    assert_eq!(end_of(&mut child), WaitStatus::Exited(child.process(), 0));
    assert!(names.iter().all(|path| !path.exists()));
    assert!(folder.0.join("somebodys").exists() && folder.0.join(dead()).exists());
    assert!(!second.exists());
}

#[test]
fn what_is_gone_already_is_cleared_in_silence() {
    let folder = Folder::new();
    let gone = [
        Resource::File {
            path: "/nowhere/.oscope-swap-1-0".into(),
        },
        Resource::Swap {
            path: "/nowhere/.oscope-swap-1-0".into(),
            uuid: "none".into(),
        },
        Resource::Group {
            path: "/sys/fs/cgroup/oscope-none".into(),
        },
        Resource::Zram {
            device: Some(resource::Device {
                number: 4_000_000,
                sequence: 1,
            }),
            before: vec![],
        },
        // Set anew since.
        Resource::Setting {
            path: setting::PAGE_CLUSTER.into(),
            before: "1".into(),
            set: "77".into(),
        },
    ];
    leave(&folder.0, &this_boot(), &gone);
    assert_eq!(restored(&folder.0), (vec![], true));
    assert!(!folder.0.join(dead()).exists());
}

#[test]
fn another_zram_device_of_the_number_is_not_touched() {
    let Some(number) = resource::device_numbers()
        .expect("the kernel reports it")
        .first()
        .copied()
    else {
        return;
    };
    let Some(sequence) = resource::sequence(number).expect("the kernel reports it") else {
        // It was another test's.
        return;
    };
    let earlier = Resource::Zram {
        device: Some(resource::Device {
            number,
            sequence: sequence - 1,
        }),
        before: vec![],
    };
    assert_eq!(earlier.undo(), Ok(Outcome::Gone));
    // By now it may be gone, if it is another test's.
    let now = resource::sequence(number).expect("the kernel reports it");
    assert!(now.is_none_or(|now| now == sequence), "{now:?}");
}

#[test]
fn what_another_pid_namespace_left_is_not_touched() {
    let folder = Folder::new();
    let path = folder.0.join(".oscope-swap-4194305-0");
    leave(&folder.0, &this_boot(), &[file(path.clone(), 0o600)]);
    let elsewhere = folder.0.join(dead().replace(".json", "0.json"));
    fs::rename(folder.0.join(dead()), &elsewhere).expect("it is ours");
    assert_eq!(restored(&folder.0), (vec![], true));
    assert!(path.exists() && elsewhere.exists());
}

fn end_of(child: &mut Child) -> WaitStatus {
    loop {
        match child.ended().expect("the kernel reports a child") {
            Some(status) => return status,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_forked_child_has_a_journal_of_its_own() {
    let folder = Folder::new();
    let mut parent = Child::fork(|| {
        let mut journal = Journal::create(&folder.0).expect("a journal in an empty folder");
        let resource = file(folder.0.join(".oscope-swap-1-0"), 0o600);
        journal.enter(&resource).expect("a first entry");
        *journal_of_this_process() = Some(journal);
        let mut child = Child::fork(|| assert!(journal_of_this_process().is_none()))
            .expect("a process that forks another");
        assert_eq!(end_of(&mut child), WaitStatus::Exited(child.process(), 0));
        assert!(journal_of_this_process().is_some());
    })
    .expect("a process can be made");
    assert_eq!(end_of(&mut parent), WaitStatus::Exited(parent.process(), 0));
    let left = journal::paths(&folder.0).expect("the folder's journals");
    let left = left.iter().find(|path| Owner::of_file(path).is_some());
    let left = Journal::open(left.expect("the parent's journal")).expect("its entries");
    assert_eq!(left.newest_first().len(), 1);
}

#[test]
fn a_control_group_of_either_version_goes_with_its_members() {
    for root in [
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/memory",
    ] {
        let path = Path::new(root).join(format!("oscope-test-{}", std::process::id()));
        // Only a hierarchy has processes; making groups needs root.
        if !Path::new(root).join("cgroup.procs").exists() || fs::create_dir(&path).is_err() {
            continue;
        }
        let mut member = Child::fork(|| {
            loop {
                nix::unistd::pause();
            }
        })
        .expect("a process can be made");
        let number = member.process().to_string();
        fs::write(path.join("cgroup.procs"), number).expect("a process moved by root");
        group::remove(&path, Duration::from_secs(60)).expect("a group without members");
        let killed = WaitStatus::Signaled(member.process(), Signal::SIGKILL, false);
        assert_eq!(end_of(&mut member), killed);
        assert!(!path.exists());
    }
}

#[test]
fn members_are_killed_one_by_one_only_without_cgroup_kill() {
    let folder = Folder::new();
    let mut member = Child::fork(|| {
        loop {
            nix::unistd::pause();
        }
    })
    .expect("a process");
    let number = member.process().to_string();
    let kill = folder.0.join("cgroup.kill");
    fs::write(folder.0.join("cgroup.procs"), number).expect("a list of members");
    fs::write(&kill, "").expect("a file that kills");
    group::empty(&folder.0).expect("a written file");
    assert_eq!(fs::read_to_string(&kill).expect("the file"), "1");
    assert_eq!(member.ended(), Ok(None));
    fs::remove_file(&kill).expect("it is ours");
    group::empty(&folder.0).expect("a killed member");
    let killed = WaitStatus::Signaled(member.process(), Signal::SIGKILL, false);
    assert_eq!(end_of(&mut member), killed);
    assert!(!kill.exists());
}

#[test]
fn a_refusal_of_cgroup_kill_is_an_error() {
    let folder = Folder::new();
    fs::write(folder.0.join("cgroup.procs"), "").expect("a list of members");
    fs::create_dir(folder.0.join("cgroup.kill")).expect("what cannot be written");
    let failure = group::empty(&folder.0).expect_err("nobody was killed");
    assert!(failure.to_string().contains("cgroup.kill"), "{failure}");
}

/// The process is in a group below, which the group's own list of members leaves out.
#[test]
fn the_kernel_kills_also_what_the_list_of_members_leaves_out() {
    for root in ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
        let path = Path::new(root).join(format!("oscope-kill-{}", std::process::id()));
        // Only a hierarchy of version 2 has controllers; making groups needs root.
        if !Path::new(root).join("cgroup.controllers").exists() || fs::create_dir(&path).is_err() {
            continue;
        }
        let below = path.join("below");
        fs::create_dir(&below).expect("a group below");
        let mut member = Child::fork(|| {
            loop {
                nix::unistd::pause();
            }
        })
        .expect("a process");
        let number = member.process().to_string();
        fs::write(below.join("cgroup.procs"), number).expect("a process moved by root");
        // Linux before 5.14 has none.
        let can_kill = path.join("cgroup.kill").exists();
        let emptied = group::empty(&path);
        let until = Instant::now() + Duration::from_secs(20);
        let mut ended = Ok(None);
        while can_kill && ended == Ok(None) && Instant::now() < until {
            std::thread::yield_now();
            ended = member.ended();
        }
        let killed = WaitStatus::Signaled(member.process(), Signal::SIGKILL, false);
        drop(member);
        group::remove(&below, Duration::from_secs(60)).expect("a group without members");
        group::remove(&path, Duration::from_secs(60)).expect("a group without members");
        assert_eq!(emptied, Ok(()));
        assert_eq!(ended, Ok(can_kill.then_some(killed)));
    }
}

#[test]
fn an_entry_that_cannot_be_written_leaves_the_journal_as_it_was() {
    let folder = Folder::new();
    let mut journal = Journal::create(&folder.0).expect("it can be kept");
    let resource = file(folder.0.join(".oscope-swap-1-0"), 0o600);
    journal.enter(&resource).expect("it can be written");
    let path = journal::paths(&folder.0).expect("the kernel reports it");
    let path = path.into_iter().find(|path| Owner::of_file(path).is_some());
    let path = path.expect("it exists");
    let before = fs::read(&path).expect("it can be read");
    // In a process of its own, as the limit holds for all threads. Half a line fits.
    let most = before.len() as u64 + 5;
    let mut child = Child::fork(|| {
        survive_size_limit().expect("it can be survived");
        setrlimit(Limit::RLIMIT_FSIZE, most, most).expect("it can be lowered");
        let refused = journal.enter(&resource);
        assert!(
            matches!(refused, Err(Failure::Unavailable { .. })),
            "{refused:?}"
        );
    })
    .expect("a process can be made");
    let status = end_of(&mut child);
    assert_eq!(status, WaitStatus::Exited(child.process(), 0));
    assert_eq!(fs::read(&path).expect("it can be read"), before);
    journal.enter(&resource).expect("it can be written again");
    let again = Journal::open(&path).expect("it can be read");
    assert_eq!(again.newest_first().len(), 2);
}

#[test]
fn a_folder_that_was_left_goes_with_all_in_it_and_one_that_is_not_ours_stays() {
    let folder = Folder::new();
    let make = |name: &str, mode: u32| {
        let path = folder.0.join(name);
        fs::create_dir_all(path.join("source")).expect("a folder can be made");
        fs::write(path.join("source/file"), "x").expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        path
    };
    let left = make(".oscope-folder-4194305-0", 0o700);
    let others = [
        make(".oscope-folder-4194305-1", 0o755),
        make("precious", 0o700),
    ];
    let link = folder.0.join(".oscope-folder-4194305-2");
    std::os::unix::fs::symlink(&others[1], &link).expect("it can be made");
    let gone = folder.0.join(".oscope-folder-4194305-3");
    let all = [&left, &others[0], &others[1], &link, &gone];
    let resources = all.map(|path| Resource::Folder { path: path.clone() });
    leave(&folder.0, &this_boot(), &resources);
    let (reported, clean) = restored(&folder.0);
    assert!(
        !clean && !left.exists() && others.iter().all(|path| path.join("source/file").exists())
    );
    let failed = reported.iter().filter(|line| line["failed"].is_string());
    assert_eq!((failed.count(), reported.len()), (3, 4), "{reported:?}");
}

#[test]
fn a_line_cut_short_was_not_acted_upon() {
    let folder = Folder::new();
    let path = folder.0.join(".oscope-swap-4194305-0");
    leave(&folder.0, &this_boot(), &[file(path.clone(), 0o600)]);
    let whole = fs::read_to_string(folder.0.join(dead())).expect("the file can be read");
    fs::write(folder.0.join(dead()), whole.trim_end()).expect("it can be written");
    assert_eq!(restored(&folder.0), (vec![], true));
    assert!(path.exists() && !folder.0.join(dead()).exists());
}

#[test]
fn a_journal_that_is_none_is_reported_and_kept() {
    let folder = Folder::new();
    fs::write(folder.0.join(dead()), "{}\n").expect("it can be written");
    let (reported, clean) = restored(&folder.0);
    assert!(!clean && reported.len() == 1 && folder.0.join(dead()).exists());
    assert!(reported[0]["remedy"].is_string(), "{reported:?}");
}

#[test]
fn the_journal_of_a_living_process_is_left_and_one_of_others_not_trusted() {
    let folder = Folder::new();
    let mut journal = Journal::create(&folder.0).expect("it can be kept");
    let resource = file(folder.0.join(".oscope-swap-1-0"), 0o600);
    let number = journal.enter(&resource).expect("it can be written");
    assert_eq!(restored(&folder.0), (vec![], true));
    let again = journal::paths(&folder.0).expect("the kernel reports it");
    let again = again.iter().find(|path| Owner::of_file(path).is_some());
    let again = Journal::open(again.expect("the file can be opened")).expect("it can be read");
    assert_eq!(again.newest_first(), [(number, resource)]);
    assert_eq!(journal.clear(number), Ok(Left::Nothing));
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let failure = restore_in(&folder.0, &mut |_| ()).expect_err("anybody may write there");
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

#[test]
fn without_a_directory_there_is_nothing_to_restore() {
    assert_eq!(restored(Path::new("/nowhere/made")), (vec![], true));
}
