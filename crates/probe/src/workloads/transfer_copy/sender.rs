//! The sender: the measured process.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::listen_endpoint::{self, ListenEndpoint};
use super::parameters::Writes;
use super::receiver::Side;
use super::small;
use crate::workloads::transfer::files::One;
use crate::workloads::transfer::folder::Folder;
use oscope_sys::error::Failure;
use oscope_transfer::{self as transfer, Progress, ReceiveMethod, SendOptions, Source, Tally};

/// How the measured process sends.
pub struct Sender {
    /// How much later one side comes than the other.
    pub late: Duration,
    /// In which pieces.
    pub writes: Writes,
    /// How the engine is to send.
    pub options: SendOptions,
    /// How the receiver is to receive.
    pub receiver: ReceiveMethod,
    /// Every file.
    pub sources: Vec<Source>,
}

/// Where the two meet, as the sender has it.
pub enum Place {
    /// The receiver listens there.
    There(SocketAddr),
    /// The receiver will.
    Later(SocketAddr),
    /// The sender will, at its own door.
    Here(ListenEndpoint),
}

/// What came of sending.
pub struct Sent {
    /// What it did.
    pub side: Side,
    /// Until the two had met.
    pub wait_ns: u64,
    /// Notes for the record.
    pub notes: Vec<String>,
}

impl Sender {
    /// Meet the receiver and send the first `count` files; what fails once they are connected is known to the receiver,
    /// too, and is the inner result.
    ///
    /// # Errors
    /// `Failure::Failed` where the two did not meet: the receiver ended, or did not come in time.
    pub fn send(
        &self,
        place: Place,
        count: usize,
        folder: &Folder,
    ) -> Result<Result<Sent, Failure>, Failure> {
        let started = Instant::now();
        let stream = match place {
            Place::There(address) => listen_endpoint::connect(address)?,
            Place::Later(address) => listen_endpoint::connect_with_sleeps(address, self.late)?,
            Place::Here(door) => {
                listen_endpoint::sleep(self.late)?;
                door.open()?;
                door.accept()?
            }
        };
        let wait_ns = started.elapsed().as_nanos() as u64;
        Ok(self.send_over(stream, wait_ns, count, folder))
    }

    fn send_over(
        &self,
        stream: TcpStream,
        wait_ns: u64,
        count: usize,
        folder: &Folder,
    ) -> Result<Sent, Failure> {
        let mut notes = Vec::new();
        let side = match self.writes {
            Writes::Whole => {
                let mut watch = |progress: Progress| {
                    if let Progress::Note(text) = progress {
                        notes.push(text.to_owned());
                    }
                };
                let files = &self.sources[..count];
                let sent = transfer::send(stream, files, &self.options, &mut watch)?;
                // The files are the workload's own: without one it is not what was to be measured.
                if let Some(left) = sent.left_out.first() {
                    return Err(Failure::failed(format!("{}: {}", left.name, left.reason)));
                }
                let asked = self.options.method.name();
                notes.extend(otherwise("sender", asked, &sent.here));
                notes.extend(otherwise("receiver", self.receiver.name(), &sent.there));
                Side::from(&sent.here)
            }
            Writes::Small | Writes::Nodelay => {
                let nodelay = self.writes == Writes::Nodelay;
                small::send(stream, &folder.source(), &folder.files()[..count], nodelay)?.into()
            }
        };
        Ok(Sent {
            side,
            wait_ns,
            notes,
        })
    }
}

/// The files of a folder, as the engine takes them.
pub fn sources(folder: &Folder) -> Vec<Source> {
    let source = folder.source();
    let of = |one: &One| Source {
        path: source.join(one.name()),
        followed: usize::MAX,
        name: one.name().into_bytes(),
        size: one.length,
        mode: one.mode,
        mtime_ns: one.modified_ns,
        leads_to: None,
        sparse: false,
        inode: None,
    };
    folder.files().iter().map(of).collect()
}

/// By what a side moved the files, where that is not what it was asked for.
fn otherwise(side: &str, asked: &str, tally: &Tally) -> Option<String> {
    match &tally.chosen {
        Some(chosen) => Some(format!(
            "{side}={asked} tried {} and went on with {chosen}",
            tally.method
        )),
        None if tally.method == asked => None,
        None => Some(format!("{side}={asked} used {}", tally.method)),
    }
}
