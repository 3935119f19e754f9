//! Whose a TCP socket of this network namespace is, as the kernel reports by `sock_diag(7)`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR` of linux/netlink.h.
const ERROR: u16 = 2;
/// Bytes of `struct nlmsghdr`.
const HEAD: usize = 16;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// Where `struct inet_diag_msg` has the socket's ports, its user and its inode.
const PORTS: usize = 4;
const USER: usize = 64;
const INODE: usize = 68;
/// Bytes of `struct inet_diag_msg`.
const ANSWER: usize = 72;

/// Whose a socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// This user's, who made it.
    User(u32),
    /// Nobody's: it is closed, or nobody has accepted it yet.
    Nobody,
}

/// Whose the TCP socket is that is connected from `local` to `remote`; `None` if this network namespace has no such
/// socket.
///
/// The whole 4-tuple is matched by the kernel, in one step. What an IPv6 socket has of IPv4 is found by its IPv4
/// addresses.
///
/// # Errors
/// The errno of socket(2), send(2) or recv(2) of sock_diag(7).
pub fn owner(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Owner>> {
    let (local, remote) = (canonical(local), canonical(remote));
    let asked = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    send(
        asked.as_raw_fd(),
        &request(local, remote),
        MsgFlags::empty(),
    )?;
    let mut answer = [0; 4096];
    // The kernel has answered before `send` returns (`netlink_unicast_kernel`).
    let length = recv(asked.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    judged(&answer[..length], local, remote)
}

/// An address as IPv4 where it is one that IPv6 sockets have as `::ffff:a.b.c.d`.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = match local {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let mut bytes = Vec::with_capacity(HEAD + REQUEST);
    bytes.extend_from_slice(&((HEAD + REQUEST) as u32).to_ne_bytes());
    bytes.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    // Its state: not looked at in a request for one socket.
    bytes.extend_from_slice(&[0xff; 4]);
    bytes.extend_from_slice(&local.port().to_be_bytes());
    bytes.extend_from_slice(&remote.port().to_be_bytes());
    for address in [local, remote] {
        let mut field = [0; 16];
        match address.ip() {
            IpAddr::V4(ip) => field[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => field = ip.octets(),
        }
        bytes.extend_from_slice(&field);
    }
    // The interface of an address that is only good there (`fe80::`), and no cookie.
    let scope = match local {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    };
    bytes.extend_from_slice(&scope.to_ne_bytes());
    bytes.extend_from_slice(&[0xff; 8]);
    bytes
}

/// What the kernel answered.
fn judged(answer: &[u8], local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Owner>> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = answer.get(4..6).ok_or_else(damaged)?;
    let message = answer.get(HEAD..).ok_or_else(damaged)?;
    if kind == ERROR.to_ne_bytes() {
        let number = number(message, 0).ok_or_else(damaged)? as i32;
        return match Errno::from_raw(-number) {
            Errno::ENOENT => Ok(None),
            error => Err(error.into()),
        };
    }
    if kind != BY_FAMILY.to_ne_bytes() || message.len() < ANSWER {
        return Err(damaged());
    }
    let ports = [local.port().to_be_bytes(), remote.port().to_be_bytes()].concat();
    if message[PORTS..PORTS + 4] != ports {
        // Where there is no such connection, the kernel names the socket that listens there.
        return Ok(None);
    }
    let user = number(message, USER).ok_or_else(damaged)?;
    // A closed socket has no inode, and some kernels then name root as its user.
    Ok(Some(match number(message, INODE) {
        None | Some(0) => Owner::Nobody,
        Some(_) => Owner::User(user),
    }))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Whether an address is this machine's own: of the loopback network, or of one of this network namespace's interfaces.
///
/// # Errors
/// The errno of getifaddrs(3).
pub fn is_own_address(address: IpAddr) -> io::Result<bool> {
    let address = address.to_canonical();
    if address.is_loopback() {
        return Ok(true);
    }
    let is_it = |found: nix::ifaddrs::InterfaceAddress| {
        let found = found.address?;
        let four = found.as_sockaddr_in().map(|four| IpAddr::V4(four.ip()));
        four.or_else(|| found.as_sockaddr_in6().map(|six| IpAddr::V6(six.ip())))
    };
    Ok(getifaddrs()?.filter_map(is_it).any(|own| own == address))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};

    use super::*;

    fn met(at: IpAddr, to: IpAddr) -> (TcpListener, TcpStream, TcpStream) {
        let listener = TcpListener::bind((at, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let came = TcpStream::connect((to, port)).expect("it listens");
        let (accepted, _) = listener.accept().expect("one came");
        (listener, came, accepted)
    }

    fn peer_of(accepted: &TcpStream) -> Option<Owner> {
        let here = accepted.local_addr().expect("it is connected");
        let there = accepted.peer_addr().expect("it was connected");
        owner(there, here).expect("the kernel reports it")
    }

    fn own() -> Option<Owner> {
        Some(Owner::User(nix::unistd::geteuid().as_raw()))
    }

    const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    #[test]
    fn a_peer_on_this_machine_is_found_by_either_family() {
        for (at, to) in [
            (FOUR, FOUR),
            (SIX, SIX),
            (Ipv6Addr::UNSPECIFIED.into(), FOUR),
            (FOUR, Ipv4Addr::LOCALHOST.to_ipv6_mapped().into()),
        ] {
            let (_listener, _came, accepted) = met(at, to);
            assert_eq!(peer_of(&accepted), own(), "{at} from {to}");
        }
    }

    #[test]
    fn a_peer_that_has_closed_is_nobody_and_never_root() {
        let (_listener, came, accepted) = met(FOUR, FOUR);
        drop(came);
        assert_eq!(peer_of(&accepted), Some(Owner::Nobody));
        let (_listener, came, accepted) = met(FOUR, FOUR);
        came.shutdown(Shutdown::Write).expect("it is connected");
        assert_eq!(peer_of(&accepted), own());
    }

    #[test]
    fn a_socket_that_nobody_accepted_is_nobodys() {
        let listener = TcpListener::bind((FOUR, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let came = TcpStream::connect(address).expect("it listens");
        assert_eq!(peer_of(&came), Some(Owner::Nobody));
    }

    #[test]
    fn a_listening_socket_is_no_connection() {
        let (listener, came, accepted) = met(FOUR, FOUR);
        let here = listener.local_addr().expect("its address");
        let there = SocketAddr::new(FOUR, 9);
        assert_eq!(owner(here, there).expect("the kernel reports it"), None);
        drop((came, accepted));
    }

    #[test]
    fn own_addresses_are_distinguished_from_others() {
        let is_own = |text: &str| {
            let address = text.parse().expect("an address");
            is_own_address(address).expect("the kernel reports it")
        };
        assert!(is_own("127.0.0.1") && is_own("127.9.9.9") && is_own("::1"));
        assert!(is_own("::ffff:127.0.0.1"));
        assert!(!is_own("192.0.2.200") && !is_own("2001:db8::1"));
    }
}
