//! Programs of this machine, found, refused, run, ended.

use super::*;

const SLEEP: Name = Name {
    command: "sleep",
    package: "coreutils",
    greeting: "sleep (GNU coreutils) ",
    question: "--version",
    if_slow: "sleep less",
};

fn find(command: &'static str, greeting: &'static str) -> Program {
    let name = Name {
        command,
        greeting,
        ..SLEEP
    };
    Program::find(name, env::var_os("PATH").as_deref()).unwrap()
}

fn say(program: &Program, arguments: &[&str]) -> Result<ProgramOutput, Failure> {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    let mut run = program.run(&arguments)?;
    let ended = run.finish(Instant::now() + LONGEST_GREETING)?;
    run.checked_output(ended)
}

#[test]
fn a_missing_program_has_a_remedy() {
    for search in [None, Some("/nowhere"), Some("bin:.:"), Some("/etc")] {
        match Program::find(SLEEP, search.map(OsStr::new)) {
            Err(Failure::Unavailable {
                message, remedy, ..
            }) => {
                assert_eq!(message, "sleep is not installed");
                assert_eq!(remedy.unwrap(), "apt-get install coreutils");
            }
            other => panic!("{search:?}: {other:?}"),
        }
    }
}

#[test]
fn another_program_of_the_same_name_is_refused() {
    let name = Name {
        greeting: "sleep (another)",
        ..SLEEP
    };
    match Program::find(name, env::var_os("PATH").as_deref()) {
        Err(Failure::Unavailable { message, .. }) => {
            assert!(message.contains("sleep (GNU coreutils)"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_environment_is_the_path_and_the_language() {
    let said = say(&find("env", "env (GNU"), &[]).unwrap();
    let mut names: Vec<_> = said
        .output
        .lines()
        .map(|line| line.split('=').next())
        .collect();
    names.sort_unstable();
    assert_eq!(names, [Some("LC_ALL"), Some("PATH")]);
}

#[test]
fn much_output_is_taken_whole() {
    let said = say(&find("seq", "seq (GNU"), &["300000"]).unwrap();
    assert_eq!(said.output.lines().count(), 300_000);
    assert_eq!(last_line(&said.output), Some("300000"));
}

#[test]
fn last_words_and_status_of_a_failure_are_reported() {
    let sleep = find("sleep", SLEEP.greeting);
    let failure = say(&sleep, &["long"]).unwrap_err().to_string();
    let words = "sleep ended with exit status: 1: sleep: invalid time interval";
    assert!(failure.starts_with(words), "{failure}");
}

#[test]
fn a_program_that_does_not_end_is_killed_and_waited_for() {
    let sleep = find("sleep", SLEEP.greeting);
    let mut run = sleep.run(&["1000".to_owned()]).unwrap();
    let refused = run.finish(Instant::now() + Duration::from_millis(300));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("not ended in time")
    );
}

#[test]
fn the_kernel_kills_the_child_at_the_end_of_the_thread_that_made_it() {
    let sleep = find("sleep", SLEEP.greeting);
    let orphan = std::thread::spawn(move || {
        let mut run = sleep.run(&["1000".to_owned()]).unwrap();
        run.command.spawn().unwrap()
    });
    let mut orphan = orphan.join().unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(orphan.wait().unwrap().signal(), Some(libc::SIGKILL));
}
