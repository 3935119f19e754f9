//! `--device` of the verbs `send` and `receive`.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::node;
use super::session::{self, Done, Event, Options};
use super::stream::Method;
use super::uapi::{ALLOCATED, Descriptor, MAPPED, PTE};
use crate::folder::Folder;
use crate::{Progress, Source};
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Between a transfer that failed and the next try to meet a sender.
const PAUSE: Duration = Duration::from_secs(1);

/// What both verbs take for it.
#[derive(Args, Clone, Copy)]
pub struct DeviceArguments {
    /// Go through the kernel modules' devices, by calls or by the mapped area: the sender listens, and the receiver connects to it.
    #[arg(long, value_enum)]
    pub device: Option<Method>,
    /// Print the page descriptors of the mapped area.
    #[arg(long, requires = "device")]
    pub descriptors: bool,
}

/// What the verbs lend to it.
pub struct Verb<'a> {
    /// How both sides go about it.
    pub options: Options,
    /// Whether every file is reported at the end.
    pub list: bool,
    /// Prints an event.
    pub report: &'a dyn Fn(&Value),
    /// Prints what the engine reports too.
    pub progress: &'a dyn Fn(Progress),
}

impl Verb<'_> {
    /// Send files to the one receiver that comes.
    ///
    /// # Errors
    /// In one line.
    pub fn send(&self, address: SocketAddr, files: &[Source]) -> Result<(), Failure> {
        session::check(node::SENDER, &self.options)?;
        let done = session::send(address, files, &self.options, &mut |event| self.hear(event))?;
        self.conclude(&done);
        Ok(())
    }

    /// Receive what one sender sends or, unless `once`, from further senders until asked to stop: then `failed` is reported for each
    /// transfer that fails.
    ///
    /// # Errors
    /// In one line: the device cannot be had, the first sender cannot be met, or the one transfer failed.
    pub fn receive(
        &self,
        address: SocketAddr,
        folder: &Folder,
        once: bool,
        failed: &dyn Fn(&Failure),
    ) -> Result<(), Failure> {
        session::check(node::RECEIVER, &self.options)?;
        (self.report)(
            &json!({"event": "note", "text": format!("waiting for a sender at {address}")}),
        );
        let mut met = false;
        loop {
            let received = session::receive(address, folder, &self.options, &mut |event| {
                met |= matches!(event, Event::Peer(_));
                self.hear(event);
            });
            match received {
                Ok(Some(done)) => {
                    self.conclude(&done);
                    if once {
                        return Ok(());
                    }
                }
                Ok(None) if once => return Err(Failure::failed("interrupted")),
                Ok(None) => return Ok(()),
                Err(error) if once || !met || cancel::requested() => return Err(error),
                Err(error) => {
                    failed(&error);
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn hear(&self, event: Event) {
        match event {
            Event::Listening(address) => {
                (self.report)(&json!({"event": "listening", "address": address.to_string()}));
            }
            Event::Peer(address) => {
                (self.report)(&json!({"event": "peer", "address": address.to_string()}))
            }
            Event::Progress(progress) => (self.progress)(progress),
        }
    }

    fn conclude(&self, done: &Done) {
        done.pages
            .iter()
            .for_each(|page| (self.report)(&shown(page)));
        if self.list {
            for file in &done.files {
                (self.report)(&json!({
                    "event": "file", "name": file.name, "bytes": file.bytes, "digest": file.digest, "skipped": file.skipped,
                }));
            }
        }
        let digest = match done.files.as_slice() {
            [one] => one.digest.as_deref(),
            _ => None,
        };
        (self.report)(
            &json!({"event": "done", "here": done.here, "there": Value::Null, "digest": digest}),
        );
    }
}

/// A page's descriptor; bits in hexadecimal, the entry and flags as the kernel has them.
fn shown(page: &Descriptor) -> Value {
    let hex = |number: u64| format!("{number:#x}");
    json!({
        "event": "descriptor", "offset": page.offset, "address": hex(page.address), "pfn": hex(page.pfn),
        "pte": (page.flags & PTE != 0).then(|| hex(page.pte)), "page_flags": hex(page.page_flags),
        "refcount": page.refcount, "mapcount": page.mapcount,
    })
}

impl Descriptor {
    /// Whether the page is there, in the range of a mapping of the caller, and in a page table.
    pub fn is_mapped(&self) -> bool {
        self.flags & (ALLOCATED | MAPPED) == ALLOCATED | MAPPED && self.mapcount > 0
    }
}
