//! What other programs do in the client's folder: git and tar.

use std::env;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::operation::{Done, Fresh, Operation, failed, long_ago};
use super::small_files::LENGTH;
use super::tree;
use crate::clock::Clock;
use crate::disk::scratch::{link, unnamed};
use crate::shared_folder::SharedFolder;
use oscope_sys::cancel::survive_size_limit;
use oscope_sys::error::Failure;
use oscope_sys::worker::program::{Name, Program, Run};

const GIT: Name = Name {
    command: "git",
    package: "git",
    question: "--version",
    greeting: "git version ",
    if_slow: "choose fewer files, or a shorter delay",
};
const TAR: Name = Name {
    command: "tar",
    package: "tar",
    question: "--version",
    greeting: "tar (GNU tar) ",
    if_slow: "choose fewer files, or a shorter delay",
};
/// Longest time that a program may take.
const LONGEST: Duration = Duration::from_secs(3600);
const REPOSITORY: &str = "repository";
/// What must not depend on this machine's own settings of git, nor be done behind the program's back.
const SETTINGS: [&str; 8] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "init.defaultBranch=main",
    "user.name=Oscope",
    "user.email=oscope@localhost",
];

fn find(name: Name) -> Result<Program, Failure> {
    survive_size_limit()?;
    Program::find(name, env::var_os("PATH").as_deref())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A program made ready, and what it says of its end.
fn finished(mut run: Run) -> Result<String, Failure> {
    let ended = run.finish(Instant::now() + LONGEST)?;
    Ok(run.checked_output(ended)?.output)
}

/// `git-status`.
pub struct GitStatus {
    git: Program,
    files: u64,
    served: PathBuf,
    mounted: PathBuf,
    /// The index as git made it on the server.
    index: Vec<u8>,
    run: Option<Run>,
    said: String,
}

impl GitStatus {
    /// Make the repository in the server's folder, with all files committed and one changed since.
    ///
    /// # Errors
    /// `Failure::Unavailable` without git or room; `Failure::Failed` after a signal, or with git's words.
    pub fn make(folder: &SharedFolder, files: u64) -> Result<Self, Failure> {
        let git = find(GIT)?;
        let served = folder.served().join(REPOSITORY);
        tree::grow(&served, files)?;
        let mut made = Self {
            git,
            files,
            mounted: folder.mounted().join(REPOSITORY),
            index: Vec::new(),
            run: None,
            said: String::new(),
            served,
        };
        for words in [
            &["init", "-q", "--template="][..],
            &["add", "--all"],
            &["commit", "-q", "-m", "All files"],
        ] {
            finished(made.git(&made.served, words)?)?;
        }
        let index = made.index();
        made.index = fs::read(&index).map_err(|error| failed("reading", &index, &error))?;
        made.change()?;
        Ok(made)
    }

    /// Change one file in its first byte; its length stays, and its time of change is another by a second.
    fn change(&self) -> Result<(), Failure> {
        let path = self.served.join(tree::place(0));
        let modified = long_ago() + Duration::from_secs(1);
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| {
                file.write_all_at(b"x", 0)?;
                file.set_times(FileTimes::new().set_modified(modified))
            })
            .map_err(|error| failed("changing", &path, &error))
    }

    fn git(&self, place: &Path, words: &[&str]) -> Result<Run, Failure> {
        let place = text(place);
        let settings = SETTINGS.iter().flat_map(|each| ["-c", each]);
        let all = ["-C", &place].into_iter().chain(settings);
        let all: Vec<String> = all
            .chain(words.iter().copied())
            .map(str::to_owned)
            .collect();
        self.git.run(&all)
    }

    fn status(&self, place: &Path) -> Result<Run, Failure> {
        self.git(place, &["status", "--porcelain"])
    }

    fn index(&self) -> PathBuf {
        self.served.join(".git/index")
    }

    /// What `git status` is to say.
    fn wanted(&self) -> String {
        format!(" M {}\n", text(&tree::place(0)))
    }
}

impl Operation for GitStatus {
    fn files(&self) -> u64 {
        self.files
    }

    fn ready(&mut self, folder: &mut SharedFolder, _clock: &Clock) -> Result<(), Failure> {
        // git writes what it has seen into the index, which is restored, so that each repetition is the client's first.
        let index = self.index();
        fs::write(&index, &self.index).map_err(|error| failed("writing", &index, &error))?;
        folder.renew_unless_new()?;
        self.run = Some(self.status(&self.mounted)?);
        Ok(())
    }

    fn act(&mut self, _clock: &Clock) -> Result<Done, Failure> {
        let run = self.run.take();
        let run = run.ok_or_else(|| Failure::failed("git was not made ready"))?;
        self.said = finished(run)?;
        Ok(Done {
            bytes: None,
            files: self.files,
            ..Done::default()
        })
    }

    fn check(&mut self, _folder: &SharedFolder) -> Result<(), Failure> {
        // The second time with the index that the client has written.
        let after = finished(self.status(&self.served)?)?;
        for (whose, said) in [("the client", &self.said), ("the server", &after)] {
            if *said != self.wanted() {
                return Err(Failure::failed(format!(
                    "git status at {whose} said {said:?}, and should have said {:?}",
                    self.wanted()
                )));
            }
        }
        Ok(())
    }
}

/// `unpack`.
pub struct Unpack {
    tar: Program,
    files: u64,
    archive: File,
    fresh: Fresh,
    run: Option<Run>,
}

impl Unpack {
    /// Make the archive, a file without a name on the server's file system.
    ///
    /// # Errors
    /// `Failure::Unavailable` without tar or room; `Failure::Failed` after a signal, or with tar's words.
    pub fn make(folder: &SharedFolder, files: u64) -> Result<Self, Failure> {
        let tar = find(TAR)?;
        let archive = unnamed(folder.served())?;
        let packed = folder.served().join("packed");
        tree::grow(&packed, files)?;
        let words = ["-cf", &text(&link(&archive)), "-C", &text(&packed), "."];
        finished(tar.run(&words.map(str::to_owned))?)?;
        fs::remove_dir_all(&packed).map_err(|error| failed("removing", &packed, &error))?;
        Ok(Self {
            tar,
            files,
            archive,
            fresh: Fresh::default(),
            run: None,
        })
    }
}

impl Operation for Unpack {
    fn files(&self) -> u64 {
        self.files
    }

    fn ready(&mut self, folder: &mut SharedFolder, _clock: &Clock) -> Result<(), Failure> {
        let place = self.fresh.renew(folder)?;
        let words = ["-xf", &text(&link(&self.archive)), "-C", &text(&place)];
        self.run = Some(self.tar.run(&words.map(str::to_owned))?);
        Ok(())
    }

    fn act(&mut self, _clock: &Clock) -> Result<Done, Failure> {
        let run = self.run.take();
        let run = run.ok_or_else(|| Failure::failed("tar was not made ready"))?;
        finished(run)?;
        Ok(Done {
            bytes: Some(self.files * LENGTH),
            files: self.files,
            ..Done::default()
        })
    }

    fn check(&mut self, folder: &SharedFolder) -> Result<(), Failure> {
        tree::compare_all(&self.fresh.served(folder), self.files)
    }
}
