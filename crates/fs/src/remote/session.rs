//! One connection: a child `ssh`, its pipes, and the requests that wait for an answer.
//!
//! Whoever asks writes to the pipe himself, one at a time and within his own limit; a thread reads the answers and
//! hands them out by their ids. A session that ends is never repaired: everyone who waits gets an error, and the next
//! one is another session.

mod child;
pub mod cipher;
mod own_session;
mod write_lock;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{BufReader, Read};
use std::process::ChildStdout;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use child::Ssh;
use write_lock::WriteLock;

use super::attributes::Extensions;
use super::request_error::RequestError;
use super::target::Target;
use super::wire::{self, Answer, Packet, Reader};
use oscope_sys::error::Failure;

/// Where an answer goes, or the news that there will be none.
type Waiter = Sender<(u32, Option<Answer>)>;

/// Answers from this size on are kept in buffers that are used again: allocating them anew costs page faults.
const LARGE: usize = 64 << 10;

/// Buffers that are kept at most.
const KEPT: usize = 32;

/// What is read from the pipe at once for small answers.
const AHEAD: usize = 16 << 10;

/// The id under which the first packet, which has none, is waited for.
pub const HELLO: u32 = 0;

/// Called when a session ends.
pub type OnClose = Arc<dyn Fn() + Send + Sync>;

/// One connection.
pub struct Session {
    ssh: Ssh,
    writer: WriteLock,
    pending: Mutex<Option<HashMap<u32, Waiter>>>,
    next: AtomicU32,
    buffers: Mutex<Vec<Vec<u8>>>,
    /// Requests under way that may rightly take long without a word from the server (fsync).
    pub slow_requests: AtomicUsize,
    began: Instant,
    heard_ms: AtomicU64,
    fastest_ns: AtomicU64,
    why: Mutex<Option<String>>,
    /// Requests that nobody waits for, to be sent before the next one.
    put_off: Mutex<Vec<u8>>,
    on_close: OnClose,
    /// What the server can do; there once the connection is made.
    pub extensions: OnceLock<Extensions>,
}

/// A lock whose holder panicked is still good: nothing here is left half-changed.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Start `ssh`. It ends with the thread that called this (`PR_SET_PDEATHSIG`).
    ///
    /// # Errors
    /// `Failure::Failed`: ssh cannot be started, or no thread is to be had.
    pub fn start(target: &Target, on_close: OnClose) -> Result<Arc<Self>, Failure> {
        let (ssh, input, output) = Ssh::start(target)?;
        let session = Arc::new(Self {
            ssh,
            writer: WriteLock::new(input),
            pending: Mutex::new(Some(HashMap::new())),
            next: AtomicU32::new(HELLO + 1),
            buffers: Mutex::new(Vec::new()),
            slow_requests: AtomicUsize::new(0),
            began: Instant::now(),
            heard_ms: AtomicU64::new(0),
            fastest_ns: AtomicU64::new(u64::MAX),
            why: Mutex::new(None),
            put_off: Mutex::new(Vec::new()),
            on_close,
            extensions: OnceLock::new(),
        });
        let reading = Arc::clone(&session);
        let reader = thread::Builder::new().name("sftp-answers".into());
        let started = reader.spawn(move || {
            let Err(why) = reading.receive(output);
            reading.end(&why.to_string());
        });
        if let Err(error) = started {
            session.end("no thread");
            session.reap();
            return Err(Failure::system("no thread for the answers of ssh", error));
        }
        Ok(session)
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        locked(&self.pending).is_none()
    }

    /// End it; the first reason given is kept.
    pub fn end(&self, why: &str) {
        locked(&self.why).get_or_insert_with(|| why.to_owned());
        // Before the pipe is shut: who finds that shut asks for the next session at once, and must not get this one.
        let waiting = locked(&self.pending).take();
        self.ssh.kill();
        self.writer.shut();
        for (id, waiter) in waiting.into_iter().flatten() {
            // A waiter that has gone away in the meantime needs no answer.
            let _ = waiter.send((id, None));
        }
        (self.on_close)();
    }

    /// Wait for the end of the child: why the session ended, in what ssh said or, if it said nothing, in our words.
    pub fn reap(&self) -> String {
        let said = self.ssh.reap();
        let ours = locked(&self.why).clone();
        match (said, ours) {
            (Some(said), _) => said,
            (None, Some(ours)) => ours,
            (None, None) => "the connection ended".to_owned(),
        }
    }

    /// An operation got no answer within its limit. If the server has not said anything at all for so long, the session
    /// is of no use.
    pub fn late(&self, limit: Duration) {
        let heard = Duration::from_millis(self.heard_ms.load(Ordering::Relaxed));
        let silent = self.began.elapsed().saturating_sub(heard);
        if self.slow_requests.load(Ordering::Relaxed) == 0 && silent >= limit {
            self.end(&format!("no answer for {:.1} s", silent.as_secs_f64()));
        }
    }

    /// A request of which the server makes little was answered after that long.
    pub fn answered_after(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.fastest_ns.fetch_min(nanoseconds, Ordering::Relaxed);
    }

    /// The shortest time in which a request was answered: load makes it no longer, as it does an average.
    pub fn round_trip(&self) -> Option<Duration> {
        let fastest = self.fastest_ns.load(Ordering::Relaxed);
        (fastest < u64::MAX).then(|| Duration::from_nanos(fastest))
    }

    /// An id under which `waiter` is sent the answer.
    pub fn register(&self, waiter: &Waiter) -> Result<u32, RequestError> {
        let id = loop {
            match self.next.fetch_add(1, Ordering::Relaxed) {
                HELLO => {}
                id => break id,
            }
        };
        self.register_as(id, waiter)?;
        Ok(id)
    }

    /// The same for a given id.
    pub fn register_as(&self, id: u32, waiter: &Waiter) -> Result<(), RequestError> {
        let mut pending = locked(&self.pending);
        let pending = pending.as_mut().ok_or(RequestError::Unsent)?;
        pending.insert(id, waiter.clone());
        Ok(())
    }

    /// Send whole packets, within `deadline`; those that were put off go with them, first.
    pub fn send(&self, bytes: &[u8], deadline: Instant) -> Result<(), RequestError> {
        let before = std::mem::take(&mut *locked(&self.put_off));
        if before.is_empty() {
            return self.send_now(bytes, deadline);
        }
        let sent = self.send_now(&[&before, bytes].concat(), deadline);
        if sent == Err(RequestError::Late) {
            self.put_off(&before);
        }
        sent
    }

    /// Close a handle: with the next requests, or by [`Self::send_put_off`]. A failure to do so concerns nobody.
    pub fn close_handle(&self, handle: &[u8]) {
        let (nobody, _) = mpsc::channel();
        // A session that has ended has closed all.
        if let Ok(id) = self.register(&nobody) {
            let close = Packet::request(wire::kind::CLOSE, id).text(handle);
            self.put_off(&close.finish());
        }
    }

    /// Nobody waits for these answers any more.
    pub fn abandon(&self, ids: &[u32]) {
        if let Some(pending) = &mut *locked(&self.pending) {
            ids.iter().for_each(|id| drop(pending.remove(id)));
        }
    }

    /// Send whole packets with the next ones, or by [`Self::send_put_off`]: one by itself costs as much as those that
    /// are waited for, in the wakings of four processes.
    pub fn put_off(&self, bytes: &[u8]) {
        locked(&self.put_off).extend_from_slice(bytes);
    }

    /// Send what was put off and nothing took along, unless the pipe is full just now: then it stays put off.
    pub fn send_put_off(&self) {
        let bytes = std::mem::take(&mut *locked(&self.put_off));
        if !bytes.is_empty() && self.send_now(&bytes, Instant::now()) == Err(RequestError::Late) {
            self.put_off(&bytes);
        }
    }

    fn send_now(&self, bytes: &[u8], deadline: Instant) -> Result<(), RequestError> {
        let sent = self.writer.send(bytes, deadline);
        match sent {
            // A part of a packet was sent: what followed would be taken for its rest.
            Err(RequestError::Late) if self.writer.broken() => {
                self.end("the server takes no more requests")
            }
            Err(RequestError::Lost) => self.end("the connection ended"),
            _ => {}
        }
        sent
    }

    /// Give the bytes of an answer back, for another one. A handle in it that nobody has taken is closed.
    pub fn reuse(&self, answer: Answer) {
        if answer.kind() == wire::kind::HANDLE {
            if let Ok(handle) = answer.body().handle() {
                self.close_handle(handle);
            }
        }
        let bytes = answer.into_bytes();
        let mut buffers = locked(&self.buffers);
        if bytes.len() >= LARGE && buffers.len() < KEPT {
            buffers.push(bytes);
        }
    }

    /// Read answers until the end: why it ended.
    fn receive(&self, output: ChildStdout) -> Result<Infallible, Failure> {
        let mut output = BufReader::with_capacity(AHEAD, output);
        let hello = self.packet(&mut output)?;
        match Reader(&hello[1..]).number() {
            Ok(wire::VERSION) if hello[0] == wire::kind::VERSION => {}
            Ok(version) if hello[0] == wire::kind::VERSION => {
                return Err(Failure::failed(format!(
                    "the server speaks SFTP version {version}, not 3"
                )));
            }
            _ => return Err(Failure::failed("the server's first words are not SFTP")),
        }
        let mut bytes = hello;
        let mut id = HELLO;
        loop {
            let (own, answer) =
                Answer::new(bytes).map_err(|_| Failure::failed("a broken packet"))?;
            if id != HELLO {
                id = own;
            }
            self.hand_out(id, answer);
            id = HELLO + 1;
            bytes = self.packet(&mut output)?;
        }
    }

    /// One packet without its length.
    fn packet(&self, output: &mut BufReader<ChildStdout>) -> Result<Vec<u8>, Failure> {
        let mut length = [0; 4];
        let ended = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Failure::failed("the connection ended"),
            _ => Failure::system("reading from ssh", error),
        };
        output.read_exact(&mut length).map_err(ended)?;
        let length = u32::from_be_bytes(length) as usize;
        if !(5..=wire::LONGEST).contains(&length) {
            return Err(Failure::failed(
                "the server sends what is not SFTP; if its shell start-up files print text, silence them",
            ));
        }
        let kept = match length >= LARGE {
            true => locked(&self.buffers).pop(),
            false => None,
        };
        let mut bytes = kept.unwrap_or_default();
        bytes.resize(length, 0);
        output.read_exact(&mut bytes).map_err(ended)?;
        let heard = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard_ms.store(heard, Ordering::Relaxed);
        Ok(bytes)
    }

    /// Give an answer to who waits for it; one that nobody waits for any more is dropped.
    fn hand_out(&self, id: u32, answer: Answer) {
        let left = {
            // Held while it is sent: who abandons a request finds its answer with himself, or it never comes to him.
            let mut pending = locked(&self.pending);
            match pending.as_mut().and_then(|map| map.remove(&id)) {
                Some(waiter) => waiter
                    .send((id, Some(answer)))
                    .err()
                    .and_then(|left| left.0.1),
                None => Some(answer),
            }
        };
        if let Some(answer) = left {
            self.reuse(answer);
        }
    }
}
