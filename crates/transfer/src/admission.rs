//! Who may send: from this machine only the user who receives, and root. Nothing is known of who comes from another.

use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;
use std::{fs, io};

use nix::unistd::geteuid;

use super::engine::report_stop;
use super::link::Link;
use super::options::ReceiveOptions;
use super::stop::Stop;
use oscope_sys::error::Failure;
use oscope_sys::net::{self, Owner};

/// How long somebody who may not send holds up the next at most.
const REFUSAL: Duration = Duration::from_secs(1);

/// Take a connection that was accepted, or refuse it and send the peer the reason.
///
/// # Errors
/// `Failure::Failed`: who was refused, another user of this machine, one whose user is unknown, or one who sent
/// something and has gone again. Who has gone without sending is taken: reading then finds the end.
pub fn admit(stream: TcpStream, options: &ReceiveOptions) -> Result<TcpStream, Failure> {
    let (here, peer) =
        ends(&stream).map_err(|error| Failure::system("looking who connected", &error))?;
    let Err(stop) = check(&stream, here, peer) else {
        return Ok(stream);
    };
    let error = Failure::failed(format!("{peer} is refused: {}", stop.error));
    let mut link = Link::new(stream, options.stall.min(REFUSAL), options.least_pace)
        .map_err(|stop| stop.error)?;
    link.greet();
    report_stop(&mut link, stop);
    Err(error)
}

fn has_ended_empty(stream: &TcpStream) -> bool {
    let ended = stream.set_nonblocking(true).is_ok() && matches!(stream.peek(&mut [0]), Ok(0));
    stream.set_nonblocking(false).is_ok() && ended
}

fn ends(stream: &TcpStream) -> io::Result<(SocketAddr, SocketAddr)> {
    Ok((stream.local_addr()?, stream.peer_addr()?))
}

fn check(stream: &TcpStream, here: SocketAddr, peer: SocketAddr) -> Result<(), Stop> {
    match net::owner(peer, here) {
        Ok(Some(Owner::User(user))) => judged(user, geteuid().as_raw(), is_ambiguous),
        // Whose a closed connection was is not known; nothing can come of one that sent nothing.
        Ok(Some(Owner::Nobody)) if has_ended_empty(stream) => Ok(()),
        Ok(Some(Owner::Nobody)) => Err(Stop::here("it has closed its connection already")),
        // Somewhere else, unless its address is of this machine.
        other => match net::is_own_address(peer.ip()) {
            Ok(false) => Ok(()),
            Ok(true) => Err(unknown(other.err())),
            Err(error) => Err(unknown(Some(error))),
        },
    }
}

/// Whether a user of this machine may send to the one who receives.
fn judged(user: u32, own: u32, is_ambiguous: impl Fn(u32) -> bool) -> Result<(), Stop> {
    if user != 0 && user != own {
        let allowed = match own {
            0 => "only root (user 0) may send".to_owned(),
            _ => format!("only user {own} and root may send"),
        };
        let reason = format!("user {user} sends, and from this machine {allowed}");
        return Err(Stop::here(reason).with_remedy("send and receive as the same user"));
    }
    match is_ambiguous(user) {
        true => Err(Stop::here(format!(
            "user {user} stands for everybody who has no number in this user namespace"
        ))
        .with_remedy("receive as a user who has one")),
        false => Ok(()),
    }
}

/// Whether the kernel gives this number to all users that are unknown in this user namespace, too (user_namespaces(7)).
fn is_ambiguous(user: u32) -> bool {
    static SHARED: OnceLock<Option<u32>> = OnceLock::new();
    *SHARED.get_or_init(shared_number) == Some(user)
}

/// The number of users that are unknown here; none where all are known.
fn shared_number() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        return None;
    }
    let number = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    // `DEFAULT_OVERFLOWUID` of linux/highuid.h.
    Some(number.trim().parse().unwrap_or(65_534))
}

fn unknown(error: Option<io::Error>) -> Stop {
    let why = match error {
        Some(error) => oscope_sys::error::errno_message(&error),
        None => "the kernel knows no such connection".into(),
    };
    Stop::here(format!(
        "which user of this machine sends is unknown: {why}"
    ))
    .with_remedy("use a kernel with CONFIG_INET_DIAG, and allow NETLINK_SOCK_DIAG")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_user_and_root_may_send_and_nobody_else() {
        let plain = |_| false;
        for (user, own, allowed) in [
            (1000, 1000, true),
            (0, 1000, true),
            (0, 0, true),
            (1000, 0, false),
            (1001, 1000, false),
        ] {
            assert_eq!(judged(user, own, plain).is_ok(), allowed, "{user} to {own}");
        }
        let refused = judged(1001, 1000, plain).expect_err("another user");
        assert!(
            refused.error.to_string().contains("1001")
                && refused.error.to_string().contains("1000")
        );
        assert!(refused.to_peer.is_some());
    }

    #[test]
    fn a_number_of_many_users_is_nobodys_in_particular() {
        assert!(judged(65534, 65534, |user| user == 65534).is_err());
        assert!(judged(1000, 1000, |user| user == 65534).is_ok());
    }

    #[test]
    fn a_peer_that_sent_something_and_has_gone_is_refused() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut came = TcpStream::connect(address).expect("it listens");
        let (stream, _) = listener.accept().expect("one came");
        io::Write::write_all(&mut came, b"x").expect("it is connected");
        drop(came);
        let error = admit(stream, &ReceiveOptions::default()).expect_err("it has gone");
        assert!(
            error.to_string().contains("closed its connection"),
            "{error}"
        );
        let came = TcpStream::connect(address).expect("it listens");
        let (stream, _) = listener.accept().expect("one came");
        drop(came);
        let mut stream = admit(stream, &ReceiveOptions::default()).expect("it sent nothing");
        let read = io::Read::read(&mut stream, &mut [0]).expect("an end");
        assert_eq!(read, 0);
        let mut came = TcpStream::connect(address).expect("it listens");
        let (stream, _) = listener.accept().expect("one came");
        let stream = admit(stream, &ReceiveOptions::default()).expect("it is our own");
        drop(stream);
        let read = io::Read::read(&mut came, &mut [0]).expect("nothing was refused");
        assert_eq!(read, 0);
    }
}
