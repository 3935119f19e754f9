//! Which kinds of devices and queues the kernel knows, by the number that it answers (rtnetlink(7)): what tools print
//! is for people.

use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use crate::error::Failure;

/// Bytes of a message's header (struct nlmsghdr), and where an answer has the error (struct nlmsgerr).
const HEADER: usize = 16;
/// Every namespace has a loopback, by this number.
const LOOPBACK: i32 = 1;
/// No kind of device takes packets of one byte at most, so that none is made.
const TOO_SMALL: u32 = 1;
/// What stands for the whole device (linux/pkt_sched.h).
const TC_H_ROOT: u32 = u32::MAX;
/// The kind of a queue, and that of a device within what describes it (linux/rtnetlink.h, linux/if_link.h).
const TCA_KIND: u16 = 1;
const IFLA_INFO_KIND: u16 = 1;

/// Whether the kernel knows no queueing discipline of this kind. The calling thread is in a namespace of its own.
///
/// # Errors
/// `Failure::Failed` if the kernel cannot be asked.
pub fn is_unknown_queue(kind: &str) -> Result<bool, Failure> {
    // struct tcmsg: family, device, handle, parent, information.
    let mut body = vec![0; 4];
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(0_u32.to_ne_bytes());
    body.extend(TC_H_ROOT.to_ne_bytes());
    body.extend(0_u32.to_ne_bytes());
    // Without options, a kind that needs some refuses them (EINVAL).
    body.extend(attribute(TCA_KIND, &text(kind)));
    Ok(create(libc::RTM_NEWQDISC, &body)? == Some(Errno::ENOENT))
}

/// Whether the kernel knows no network device of this kind. The calling thread is in a namespace of its own.
///
/// # Errors
/// `Failure::Failed` if the kernel cannot be asked.
pub fn is_unknown_device(kind: &str) -> Result<bool, Failure> {
    // struct ifinfomsg: any family, no number.
    let mut body = vec![0; 16];
    body.extend(attribute(libc::IFLA_MTU, &TOO_SMALL.to_ne_bytes()));
    let kind = attribute(IFLA_INFO_KIND, &text(kind));
    body.extend(attribute(libc::IFLA_LINKINFO, &kind));
    Ok(create(libc::RTM_NEWLINK, &body)? == Some(Errno::EOPNOTSUPP))
}

/// A text as the kernel reads it.
fn text(kind: &str) -> Vec<u8> {
    [kind.as_bytes(), &[0]].concat()
}

/// An attribute: its length, its type, and what it holds, filled up to a multiple of 4 (struct rtattr).
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Ask the kernel to make something; what it answers, `None` if it did.
fn create(kind: u16, body: &[u8]) -> Result<Option<Errno>, Failure> {
    let doing = |error| Failure::system("asking the kernel by netlink", error);
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    // Number and sender: there is one message, and the kernel knows who sends it.
    message.extend([0; 8]);
    message.extend(body);
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
    .map_err(doing)?;
    send(socket.as_raw_fd(), &message, MsgFlags::empty()).map_err(doing)?;
    let mut answer = [0; 4096];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).map_err(doing)?;
    error_of(&answer[..length])
}

/// The error in an answer, which is 0 or a negative number.
fn error_of(answer: &[u8]) -> Result<Option<Errno>, Failure> {
    let kind = answer.get(4..6).map(|bytes| [bytes[0], bytes[1]]);
    let error = answer
        .get(HEADER..HEADER + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map(i32::from_ne_bytes);
    match (kind.map(u16::from_ne_bytes), error) {
        (Some(kind), Some(error)) if i32::from(kind) == libc::NLMSG_ERROR => {
            Ok((error != 0).then(|| Errno::from_raw(-error)))
        }
        _ => Err(Failure::failed(
            "the kernel's answer by netlink is no acknowledgement",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::namespace::Namespace;
    use crate::net::{Link, Shape};

    #[test]
    fn a_kind_that_the_kernel_lacks_is_distinguished_from_one_that_it_has() {
        let namespace = match Namespace::new() {
            Err(Failure::Unavailable { message, .. }) => return eprintln!("skipped: {message}"),
            other => other.expect("a namespace"),
        };
        let has_devices = Link::make(&Shape::default()).is_ok();
        let _visit = namespace.enter().expect("it can be entered");
        assert_eq!(is_unknown_queue("oscope-none"), Ok(true));
        // Built into every kernel that has queues.
        assert_eq!(is_unknown_queue("pfifo"), Ok(false));
        assert_eq!(is_unknown_device("oscope-none"), Ok(true));
        if has_devices {
            assert_eq!(is_unknown_device("veth"), Ok(false));
            let devices = std::fs::read_dir("/proc/thread-self/net/dev_snmp6").map(Iterator::count);
            assert!(devices.is_ok_and(|count| count <= 1), "a device was made");
        }
    }

    #[test]
    fn what_is_no_acknowledgement_is_no_answer() {
        for answer in [&[][..], &[0; 19], &[0; 36]] {
            assert!(error_of(answer).is_err());
        }
    }
}
