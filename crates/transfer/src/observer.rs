//! What a side of a transfer reports while it works, and who hears it: a program that reads JSON lines, or a person at
//! a terminal.

use std::io::{self, Write};
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::outcome::{FileDone, Progress, Tally};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// What happens.
pub enum Event<'a> {
    /// Connections are waited for there.
    Listening(SocketAddr),
    /// A key was made for those who may send to this address.
    Key(&'a str, SocketAddr),
    /// A connection stands.
    Peer(SocketAddr),
    /// How far it is, or a note.
    Progress(Progress<'a>),
    /// What the kernel keeps about a page of a device's mapped area, field by field.
    Page(&'a [(&'static str, Value)]),
    /// A file is whole; only where a list of them is asked for.
    File(&'a FileDone),
    /// A transfer is complete.
    Done {
        /// What this side did.
        here: &'a Tally,
        /// What the other side says that it did.
        there: Option<&'a Tally>,
        /// The digest of the file, where there was one only.
        digest: Option<&'a str>,
    },
    /// A transfer failed, or all of them.
    Failed(&'a Failure),
}

/// Hears what happens.
pub trait Observer {
    /// Hear one thing.
    fn hear(&self, event: Event);

    /// Hear a note.
    fn note(&self, text: &str) {
        self.hear(Event::Progress(Progress::Note(text)));
    }

    /// Hear that a transfer is complete, with each file before if `list`.
    fn conclude(&self, list: bool, files: &[FileDone], here: &Tally, there: Option<&Tally>) {
        if list {
            files.iter().for_each(|file| self.hear(Event::File(file)));
        }
        let digest = match files {
            [one] => one.digest.as_deref(),
            _ => None,
        };
        self.hear(Event::Done {
            here,
            there,
            digest,
        });
    }
}

/// Prints one JSON object a line on standard output. Who no longer reads it wants the transfer to end.
pub struct JsonLines;

impl Observer for JsonLines {
    fn hear(&self, event: Event) {
        let mut out = io::stdout().lock();
        if writeln!(out, "{}", to_json(&event))
            .and_then(|()| out.flush())
            .is_err()
        {
            cancel::request();
        }
    }
}

fn to_json(event: &Event) -> Value {
    match event {
        Event::Listening(address) => json!({"event": "listening", "address": address.to_string()}),
        Event::Key(text, address) => {
            json!({"event": "key", "text": text, "address": address.to_string()})
        }
        Event::Peer(address) => json!({"event": "peer", "address": address.to_string()}),
        Event::Progress(Progress::Note(text)) => json!({"event": "note", "text": text}),
        Event::Progress(Progress::Moved {
            file,
            files,
            of_files,
            bytes,
            of_bytes,
        }) => json!({
            "event": "progress", "file": file, "files": files, "of_files": of_files, "bytes": bytes,
            "of_bytes": of_bytes,
        }),
        Event::Progress(Progress::Left(left)) => {
            json!({"event": "left", "name": left.name, "reason": left.reason})
        }
        Event::Page(fields) => [("event", json!("descriptor"))]
            .into_iter()
            .chain(fields.iter().cloned())
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        Event::File(file) => json!({
            "event": "file", "name": file.name, "bytes": file.bytes, "digest": file.digest, "skipped": file.skipped,
        }),
        Event::Done {
            here,
            there,
            digest,
        } => json!({"event": "done", "here": here, "there": there, "digest": digest}),
        Event::Failed(error) => json!({
            "event": "error", "message": error.to_string(), "remedy": error.remedy(),
            "kind": if error.is_request() { "usage" } else { "failed" },
        }),
    }
}
