//! What the verbs `send` and `receive` report: one JSON object a line on standard output.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{FileDone, Progress, Received};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// What a receiver did.
pub fn report_received(received: &Received, files: bool) {
    if files {
        list(&received.files);
    }
    let digest = only_digest(&received.files);
    report(
        &json!({"event": "done", "here": received.here, "there": Value::Null, "digest": digest}),
    );
}

/// The digest of the file, where there was one only.
pub fn only_digest(files: &[FileDone]) -> Option<&str> {
    match files {
        [one] => one.digest.as_deref(),
        _ => None,
    }
}

/// A line for each file.
pub fn list(files: &[FileDone]) {
    for file in files {
        report(&json!({
            "event": "file", "name": file.name, "bytes": file.bytes, "digest": file.digest, "skipped": file.skipped,
        }));
    }
}

/// How far it is, or a note.
pub fn report_progress(progress: Progress) {
    match progress {
        Progress::Moved {
            file,
            files,
            of_files,
            bytes,
            of_bytes,
        } => report(&json!({
            "event": "progress", "file": file, "files": files, "of_files": of_files, "bytes": bytes, "of_bytes": of_bytes,
        })),
        Progress::Note(text) => report(&json!({"event": "note", "text": text})),
    }
}

/// Why it failed.
pub fn report_error(error: &Failure) {
    let kind = match error.is_request() {
        true => "usage",
        false => "failed",
    };
    report(
        &json!({"event": "error", "message": error.to_string(), "remedy": error.remedy(), "kind": kind}),
    );
}

/// One line on standard output; who no longer reads it wants the transfer to end.
pub fn report(event: &Value) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{event}").and_then(|()| out.flush()).is_err() {
        cancel::request();
    }
}
