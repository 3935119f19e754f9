//! What cannot be written is reported, and nothing that was there before is lost.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, setrlimit};

use super::*;

/// Set in a test's own process, for what concerns all threads of one.
const ALONE: &str = "OSCOPE_TEST_ALONE";
/// Run the test of this name once more, in a process of its own. Gives its output.
fn alone(name: &str, limit: Option<u64>) -> String {
    let mut command = Command::new("/proc/self/exe");
    command
        .args([
            "--exact",
            &format!("workloads::disk_write::tests::refusals::{name}"),
            "--nocapture",
        ])
        .env(ALONE, "1");
    if let Some(bytes) = limit {
        // SAFETY: setrlimit is async-signal-safe.
        unsafe {
            command.pre_exec(move || Ok(setrlimit(Resource::RLIMIT_FSIZE, bytes, bytes)?));
        }
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{} {text}", output.status);
    assert!(text.contains("1 passed"), "{text}");
    text
}

fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Do `work` with a file system of `bytes` bytes in memory on `place`, seen by this thread alone; `None` where that is
/// not allowed.
fn on_a_small_file_system<T: Send>(
    place: &Path,
    bytes: u64,
    work: impl FnOnce() -> T + Send,
) -> Option<T> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can mount a file system");
        return None;
    }
    let options = format!("size={bytes}");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            // The namespace, and the mount with it, ends with the thread.
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
            let (tmpfs, options) = (Some("tmpfs"), Some(options.as_str()));
            mount(tmpfs, place, tmpfs, MsFlags::empty(), options).unwrap();
            work()
        });
        Some(thread.join().unwrap())
    })
}

#[test]
fn what_is_there_is_refused_and_left_alone() {
    let folder = Folder::new();
    let path = |name: &str| folder.0.join(name);
    fs::write(path("file"), "precious").unwrap();
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("file", path("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    for (file, existing, word) in [
        (path("file"), Existing::Refuse, "there already"),
        (folder.0.clone(), Existing::Replace, "a directory"),
        (path("fifo"), Existing::Replace, "a FIFO"),
        (path("link"), Existing::Replace, "a symbolic link"),
        (path("socket"), Existing::Replace, "a socket"),
        ("/dev/null".into(), Existing::Replace, "a device"),
        ("/".into(), Existing::Replace, "a directory"),
        (path("file/below"), Existing::Replace, "Not a directory"),
    ] {
        let refused = prepare(Parameters {
            existing,
            ..parameters_for(file)
        });
        match refused.map(|_| ()) {
            Err(Failure::Request { field, message, .. }) => {
                assert_eq!(field, "file");
                assert!(message.contains(word), "{message}");
            }
            other => panic!("{word}: {other:?}"),
        }
    }
    assert_eq!(fs::read(path("file")).unwrap(), b"precious");
    assert_eq!(folder.names().len(), 4);
}

#[test]
fn a_folder_that_is_not_there_or_takes_nothing_is_named() {
    let folder = Folder::new();
    for (file, word) in [
        (folder.0.join("no/file"), "No such file or directory"),
        ("/proc/oscope".into(), "/proc/oscope"),
    ] {
        let refused = prepare(parameters_for(file)).and_then(|mut workload| run(&mut workload));
        match refused {
            Err(Failure::Request { field, message, .. }) => {
                assert_eq!(field, "file");
                assert!(message.contains(word), "{message}");
            }
            other => panic!("{word}: {other:?}"),
        }
    }
}

/// Write 4 MiB to `/…/file` on a file system of 1 MiB; the failure, and the names and lengths of what is left.
fn without_room(
    existing: Existing,
    on_failure: OnFailure,
) -> Option<(Failure, Vec<(String, u64)>)> {
    let folder = Folder::new();
    on_a_small_file_system(&folder.0, 1 << 20, || {
        if existing == Existing::Replace {
            fs::write(folder.file(), "precious").unwrap();
        }
        let mut workload = prepare(Parameters {
            existing,
            on_failure,
            count: 64,
            ..parameters_for(folder.file())
        })
        .unwrap();
        let failure = run(&mut workload).unwrap_err();
        drop(workload);
        let mut left: Vec<_> = folder
            .names()
            .into_iter()
            .map(|name| {
                (
                    name.clone(),
                    fs::metadata(folder.0.join(name)).unwrap().len(),
                )
            })
            .collect();
        left.sort();
        (failure, left)
    })
}

#[test]
fn no_space_says_how_much_was_written_and_what_became_of_it() {
    let beside = format!("file.oscope-{}", std::process::id());
    for (existing, on_failure, fate, left) in [
        (Existing::Refuse, OnFailure::Remove, "is removed", vec![]),
        (Existing::Refuse, OnFailure::Keep, "/file", vec!["file"]),
        (
            Existing::Replace,
            OnFailure::Remove,
            "is removed",
            vec!["file"],
        ),
        (
            Existing::Replace,
            OnFailure::Keep,
            &*beside,
            vec!["file", &*beside],
        ),
    ] {
        let Some((failure, found)) = without_room(existing, on_failure) else {
            return;
        };
        let Failure::Unavailable {
            message, remedy, ..
        } = failure
        else {
            panic!("{failure:?}");
        };
        assert!(message.contains("No space left on device"), "{message}");
        assert!(message.contains(" of 4194304 bytes; "), "{message}");
        assert!(message.ends_with(fate), "{message}");
        assert!(remedy.is_some());
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, left);
        for (name, length) in &found {
            match (existing, name.as_str()) {
                (Existing::Replace, "file") => assert_eq!(*length, 8, "the old file"),
                _ => {
                    let written = format!("after {length} of");
                    assert!(
                        *length > 0 && message.contains(&written),
                        "{message}: {found:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_limit_on_file_size_is_an_error_and_not_the_end() {
    if !is_alone() {
        alone(
            "a_limit_on_file_size_is_an_error_and_not_the_end",
            Some(100_000),
        );
        return;
    }
    let folder = Folder::new();
    let failure = prepare(parameters_for(folder.file()))
        .and_then(|mut workload| run(&mut workload))
        .unwrap_err();
    let Failure::Unavailable {
        message, remedy, ..
    } = failure
    else {
        panic!("{failure:?}");
    };
    assert!(message.contains("File too large"), "{message}");
    assert!(
        message.contains("after 100000 of 300000 bytes"),
        "{message}"
    );
    assert!(remedy.unwrap().contains("ulimit -f"));
    assert!(folder.names().is_empty());
}

#[test]
fn a_request_to_stop_ends_the_writing_and_removes_the_part() {
    if !is_alone() {
        alone(
            "a_request_to_stop_ends_the_writing_and_removes_the_part",
            None,
        );
        return;
    }
    let folder = Folder::new();
    let mut workload = prepare(Parameters {
        on_failure: OnFailure::Keep,
        count: MOST_BLOCKS,
        block_size: 4096,
        ..parameters_for(folder.file())
    })
    .unwrap();
    let asking = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(50));
        oscope_sys::cancel::request();
    });
    let failure = run(&mut workload).unwrap_err().to_string();
    assert!(failure.starts_with("interrupted"), "{failure}");
    asking.join().unwrap();
    assert!(folder.names().is_empty());
}
