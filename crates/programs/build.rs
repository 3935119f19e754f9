//! Sets the commit that the probe reports as its build: here, since what is compiled with a commit is compiled again
//! after each.

use std::process::Command;

/// What the probe is built from, seen from this package.
const SOURCES: [&str; 7] = [
    ".",
    "../probe",
    "../sys",
    "../capture",
    "../fs",
    "../transcript",
    "../transfer",
];

fn main() {
    for folder in SOURCES {
        for file in ["Cargo.toml", "src"] {
            println!("cargo::rerun-if-changed={folder}/{file}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    // The log of HEAD changes with each commit and each checkout, which HEAD itself does not.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", file]);
        if let Some(path) = path.filter(|path| std::path::Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    if let Some(commit) = git(&["rev-parse", "--verify", "HEAD"]) {
        let status = ["--no-optional-locks", "status", "--porcelain", "--"];
        let changed = git(&[&status[..], &SOURCES[..]].concat()).is_some();
        let suffix = if changed { "-dirty" } else { "" };
        println!("cargo::rustc-env=OSCOPE_COMMIT={commit}{suffix}");
    }
}

/// What git says; `None` if that is nothing, without git, or outside a repository, as when built from a source archive.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
