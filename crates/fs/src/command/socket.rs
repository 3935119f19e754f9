//! The mount's process answers on a Unix socket in its cache folder, which only its user may enter.
//!
//! A client sends one line, `status`, `refresh PATH` (in hexadecimal digits), `wait` or `end`. The answer is one line
//! of JSON: to `wait` when the mount has ended, to the others at once; to `end` whether it ends now.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::hex;

/// How long the other side may take for a line.
const LINE_LIMIT: Duration = Duration::from_secs(5);

/// No question is longer: a path has 4096 bytes at most.
const MOST_BYTES: u64 = 16 << 10;

type Waiting = Arc<Mutex<Vec<UnixStream>>>;

/// The mount's side.
#[derive(Clone)]
pub struct Server {
    waiting: Waiting,
    path: PathBuf,
}

/// What the mount's side answers by.
pub trait Answers: Send + 'static {
    /// The answer to `status`.
    fn status(&self) -> Value;
    /// Believes nothing that is known of this path, relative to the mounted folder, and of what is below: the answer to
    /// `refresh`.
    fn refresh(&self, path: &Path) -> Value;
    /// Whether the mount may end, though the kernel has it yet.
    fn may_end(&self) -> bool;
    /// Ends it, and the process.
    fn end(&self, server: Server);
}

/// Answer questions in a thread of its own from now on.
pub fn serve(folder: &Path, answers: impl Answers) -> io::Result<Server> {
    let path = folder.join("socket");
    match std::fs::remove_file(&path) {
        // A process that was killed left it; the folder is locked by this one.
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = near(folder, |short| UnixListener::bind(short))?;
    let waiting = Waiting::default();
    let own = Server {
        waiting: Arc::clone(&waiting),
        path: path.clone(),
    };
    std::thread::Builder::new()
        .name("status".to_owned())
        .spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                // One that says nothing is let go after a while; nobody else is harmed.
                let _ = answer(stream, &answers, &own);
            }
        })?;
    Ok(Server { waiting, path })
}

impl Server {
    /// Give their answer to those who wait for the end, and take the socket away. Whoever calls it too, and then ends
    /// the process, waits until they have it.
    pub fn finish(self, last: &Value) {
        let _ = std::fs::remove_file(&self.path);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for mut stream in waiting.drain(..) {
            let _ = writeln!(stream, "{last}");
        }
    }
}

fn answer(mut stream: UnixStream, answers: &impl Answers, server: &Server) -> io::Result<()> {
    stream.set_read_timeout(Some(LINE_LIMIT))?;
    stream.set_write_timeout(Some(LINE_LIMIT))?;
    let mut line = String::new();
    BufReader::new((&stream).take(MOST_BYTES)).read_line(&mut line)?;
    match line.trim_end() {
        "status" => writeln!(stream, "{}", answers.status()),
        "end" => {
            let ends = answers.may_end();
            writeln!(stream, "{ends}")?;
            if ends {
                answers.end(server.clone());
            }
            Ok(())
        }
        "wait" => {
            // The client goes on only once it is known to wait.
            writeln!(stream, "{{}}")?;
            server
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(stream);
            Ok(())
        }
        line => match line
            .strip_prefix("refresh")
            .map(str::trim_start)
            .and_then(hex::to_path)
        {
            Some(path) => writeln!(stream, "{}", answers.refresh(&path)),
            None => Ok(()),
        },
    }
}

/// Have the process whose cache folder this is believe nothing that it knows of a path.
pub fn refresh(folder: &Path, path: &Path) -> io::Result<Value> {
    let mut stream = connect(folder, &format!("refresh {}", hex::of_path(path)))?;
    parsed(&mut stream)
}

/// Ask the process whose cache folder this is for its status. An error says that it does not answer: mostly, that there
/// is none.
pub fn status(folder: &Path) -> io::Result<Value> {
    let mut stream = connect(folder, "status")?;
    parsed(&mut stream)
}

/// Ask the process to end, where the mount is unmounted here and nothing of it is open or left to copy back; says
/// whether it does.
pub fn end(folder: &Path) -> io::Result<bool> {
    Ok(parsed(&mut connect(folder, "end")?)? == true)
}

/// A wait for the end of a mount, begun before it is taken away.
pub struct End(BufReader<UnixStream>);

/// Begin to wait for the end.
pub fn await_end(folder: &Path) -> io::Result<End> {
    let mut stream = connect(folder, "wait")?;
    parsed(&mut stream)?;
    Ok(End(stream))
}

impl End {
    /// The mount's last words; None where it has not ended within `limit`.
    pub fn within(&mut self, limit: Duration) -> io::Result<Option<Value>> {
        self.0.get_ref().set_read_timeout(Some(limit))?;
        match parsed(&mut self.0) {
            Ok(value) => Ok(Some(value)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn connect(folder: &Path, question: &str) -> io::Result<BufReader<UnixStream>> {
    let mut stream = near(folder, |short| UnixStream::connect(short))?;
    stream.set_read_timeout(Some(LINE_LIMIT))?;
    stream.set_write_timeout(Some(LINE_LIMIT))?;
    writeln!(stream, "{question}")?;
    Ok(BufReader::new(stream))
}

fn parsed(stream: &mut BufReader<UnixStream>) -> io::Result<Value> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}

/// Call `act` with a short path of the socket: the address of one has room for 107 bytes (unix(7)), and a cache
/// folder's path may be longer.
fn near<T>(folder: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let held = File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(folder)?;
    act(Path::new(&format!(
        "/proc/self/fd/{}/socket",
        held.as_raw_fd()
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fixed(Value);

    impl Answers for Fixed {
        fn status(&self) -> Value {
            self.0.clone()
        }

        fn refresh(&self, path: &Path) -> Value {
            json!(path)
        }

        fn may_end(&self) -> bool {
            false
        }

        fn end(&self, _: Server) {}
    }

    #[test]
    fn a_folder_with_a_long_path_answers_and_tells_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        assert!(status(&deep).is_err());
        let server = serve(&deep, Fixed(json!({"pid": 7}))).unwrap();
        assert!(!end(&deep).unwrap());
        assert_eq!(status(&deep).unwrap(), json!({"pid": 7}));
        for path in ["", "a/b c"] {
            assert_eq!(refresh(&deep, Path::new(path)).unwrap(), json!(path));
        }
        let mut end = await_end(&deep).unwrap();
        assert_eq!(end.within(Duration::from_millis(1)).unwrap(), None);
        server.finish(&json!({"left": []}));
        assert_eq!(end.within(LINE_LIMIT).unwrap(), Some(json!({"left": []})));
        assert!(!deep.join("socket").exists());
    }

    #[test]
    fn nobody_ends_the_process_while_another_gives_the_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(folder.path(), Fixed(json!({}))).unwrap();
        let mut end = await_end(folder.path()).unwrap();
        // More than the socket takes before somebody reads.
        let words = json!({"left": "x".repeat(4 << 20)});
        let [first, second] = [server.clone(), server.clone()];
        let said = words.clone();
        let speaking = std::thread::spawn(move || first.finish(&said));
        while server
            .waiting
            .try_lock()
            .is_ok_and(|waiting| !waiting.is_empty())
        {
            std::thread::yield_now();
        }
        let (done, is_done) = std::sync::mpsc::channel();
        let ending = std::thread::spawn(move || {
            second.finish(&json!({}));
            done.send(()).unwrap();
        });
        assert!(is_done.recv_timeout(Duration::from_millis(300)).is_err());
        assert_eq!(end.within(LINE_LIMIT).unwrap(), Some(words));
        speaking.join().unwrap();
        ending.join().unwrap();
    }

    #[test]
    fn one_who_says_nothing_or_nonsense_harms_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let _server = serve(folder.path(), Fixed(json!({}))).unwrap();
        drop(near(folder.path(), |short| UnixStream::connect(short)).unwrap());
        let mut nonsense = connect(folder.path(), &"x".repeat(200)).unwrap();
        assert!(parsed(&mut nonsense).is_err());
        assert_eq!(status(folder.path()).unwrap(), json!({}));
    }
}
