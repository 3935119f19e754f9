//! The receiver: a process of its own, which receives once for each repetition.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::listen_endpoint::{self, ListenEndpoint};
use super::parameters::{ConnectMode, Writes};
use super::small;
use oscope_sys::error::Failure;
use oscope_sys::net::Link;
use oscope_sys::serialized_error::SerializedError;
use oscope_transfer::{self as transfer, Folder, ReceiveOptions, Tally};

/// What the receiver is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Go to its network, and be found as this meeting has it.
    Settle(ConnectMode),
    /// Let the sender in, and receive what it brings.
    LetIn,
    /// Go to where the sender will listen, and receive what it gives.
    Fetch(SocketAddr),
}

/// What it answers.
#[derive(Clone, Copy)]
pub struct Answer {
    /// What it received; nothing for [`Job::Settle`].
    pub received: Result<Side, SerializedError>,
    /// Where it will be found the next time, if it is the one to be found.
    pub next: Option<SocketAddr>,
}

/// What one side did in a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Side {
    /// Files that went whole.
    pub files: u64,
    /// Bytes of contents that went over the connection.
    pub bytes: u64,
    /// System calls on the connection and the files.
    pub calls: u64,
    /// As the side's own clock has it.
    pub time_ns: u64,
    /// CPU time and switches of all its threads; `None` where it has but one, which the caller looks after.
    pub used: Option<(f64, f64)>,
}

impl From<&Tally> for Side {
    fn from(tally: &Tally) -> Self {
        Self {
            files: tally.files - tally.skipped,
            bytes: tally.bytes,
            calls: tally.calls,
            time_ns: tally.time_ns,
            used: Some((
                tally.cpu_ns as f64 / 1e9,
                (tally.voluntary + tally.involuntary) as f64,
            )),
        }
    }
}

impl From<small::Done> for Side {
    fn from(done: small::Done) -> Self {
        Self {
            files: done.files,
            bytes: done.bytes,
            calls: done.calls,
            time_ns: done.time_ns,
            used: None,
        }
    }
}

/// How it receives.
#[derive(Debug)]
pub struct Receiver {
    /// Where it goes first, unless it stays where it was made.
    pub link: Option<Arc<Link>>,
    /// The address to listen at.
    pub at: IpAddr,
    /// How it meets the sender once it has settled, but for the first time.
    pub meeting: ConnectMode,
    /// How much later one side comes than the other.
    pub late: Duration,
    /// What the sender's exchange is.
    pub writes: Writes,
    /// Where the files go.
    pub destination: PathBuf,
    /// How the engine is to receive.
    pub options: ReceiveOptions,
    /// The next door, where it is the one to be found.
    pub door: Option<ListenEndpoint>,
}

impl Receiver {
    /// Do a job.
    pub fn work(&mut self, job: Job) -> Answer {
        let (received, next) = match job {
            Job::Settle(first) => (self.settle().map(|()| Side::default()), first),
            Job::LetIn => (self.let_in(), self.meeting),
            Job::Fetch(address) => (self.fetch(address), self.meeting),
        };
        // A door that lets nobody in twice: after a transfer that failed, nothing is left over for the next.
        let (received, door) = match (received, self.next_door(next)) {
            (Ok(side), Ok(door)) => (Ok(side), door),
            (Err(failure), door) => (Err(failure), door.ok().flatten()),
            (Ok(_), Err(failure)) => (Err(failure), None),
        };
        self.door = door;
        Answer {
            received: received.map_err(|failure| SerializedError::of(&failure)),
            next: self.door.as_ref().map(|door| door.address),
        }
    }

    fn next_door(&self, meeting: ConnectMode) -> Result<Option<ListenEndpoint>, Failure> {
        if meeting == ConnectMode::ReceiverRetry {
            return Ok(None);
        }
        let door = ListenEndpoint::new(meeting, self.at)?;
        if meeting == ConnectMode::Ready {
            self.set_manners(&door)?;
        }
        Ok(Some(door))
    }

    /// What connections inherit from the socket that listens; listen(2) forgets what was set before
    /// (`inet_csk_listen_start`).
    fn set_manners(&self, door: &ListenEndpoint) -> Result<(), Failure> {
        match self.writes {
            Writes::Whole => Ok(()),
            Writes::Small | Writes::Nodelay => small::delay_acknowledgements(&door.socket)
                .map_err(|error| Failure::system("switching TCP_QUICKACK off", &error)),
        }
    }

    fn settle(&self) -> Result<(), Failure> {
        match &self.link {
            Some(link) => link.receiver.settle(),
            None => Ok(()),
        }
    }

    fn let_in(&mut self) -> Result<Side, Failure> {
        let door = self.door.take();
        let door = door.ok_or_else(|| Failure::failed("the receiver has no place to listen at"))?;
        if door.meeting == ConnectMode::Ready {
            return self.receive(door.accept()?, Duration::ZERO);
        }
        listen_endpoint::sleep(self.late)?;
        let came = Instant::now();
        door.open()?;
        self.set_manners(&door)?;
        let stream = door.accept()?;
        self.receive(stream, came.elapsed())
    }

    fn fetch(&self, address: SocketAddr) -> Result<Side, Failure> {
        let came = Instant::now();
        let stream = listen_endpoint::connect_with_sleeps(address, self.late)?;
        self.receive(stream, came.elapsed())
    }

    /// Receive over a connection for which this side waited so long.
    fn receive(&self, stream: TcpStream, waited: Duration) -> Result<Side, Failure> {
        let mut side = match self.writes {
            Writes::Whole => {
                let into = Folder::open(&self.destination)?;
                // What it used and chose stands in the receipt.
                let received = transfer::receive(stream, &into, &self.options, &mut |_| ())?;
                Side::from(&received.here)
            }
            Writes::Small | Writes::Nodelay => small::receive(stream, &self.destination)?.into(),
        };
        side.time_ns += waited.as_nanos() as u64;
        Ok(side)
    }
}
