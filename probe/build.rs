//! Sets the commit that the probe reports as its build.

use std::process::Command;

fn main() {
    for file in ["build.rs", "Cargo.toml", "src"] {
        println!("cargo::rerun-if-changed={file}");
    }
    // The log of HEAD changes with each commit and each checkout, which HEAD itself does not.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", file]);
        if let Some(path) = path.filter(|path| std::path::Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    if let Some(commit) = git(&["rev-parse", "--verify", "HEAD"]) {
        let changed = git(&["--no-optional-locks", "status", "--porcelain", "--", "."]).is_some();
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
