//! What the kernel answers by netlink (rtnetlink(7)) on devices, and on the kinds of devices and queues that it knows:
//! what tools print is for people.

use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use crate::error::Failure;

/// Bytes of a message's header (struct nlmsghdr), and where an answer has the error (struct nlmsgerr).
const HEADER: usize = 16;
/// Bytes that hold an answer: what describes a device, with all its figures, takes some 2 KiB.
const ANSWER: usize = 32 << 10;
/// Every namespace has a loopback, by this number.
const LOOPBACK: i32 = 1;
/// No kind of device takes packets of one byte at most, so that none is made.
const TOO_SMALL: u32 = 1;
/// What stands for the whole device (linux/pkt_sched.h).
const TC_H_ROOT: u32 = u32::MAX;
/// The kind of a queue, and that of a device within what describes it (linux/rtnetlink.h, linux/if_link.h).
const TCA_KIND: u16 = 1;
const IFLA_INFO_KIND: u16 = 1;
/// Bytes of what stands before the attributes of a device (struct ifinfomsg).
const DEVICE_HEADER: usize = 16;
/// A device that carries packets (RFC 2863; linux/if.h).
const IF_OPER_UP: u8 = 6;

/// Whether the device of this name, in the namespace of the calling thread, carries packets (its IFLA_OPERSTATE).
/// `/sys/class/net` has the devices of the namespace in which it was mounted.
///
/// # Errors
/// `Failure::Failed` if there is no such device, or the kernel cannot be asked.
pub fn is_up(device: &str) -> Result<bool, Failure> {
    let mut body = vec![0; DEVICE_HEADER];
    body.extend(attribute(libc::IFLA_IFNAME, &text(device)));
    let answer = ask(libc::RTM_GETLINK, libc::NLM_F_REQUEST, &body)?;
    if kind_of(&answer) == Some(libc::RTM_NEWLINK) {
        let attributes = answer.get(HEADER + DEVICE_HEADER..).unwrap_or_default();
        return Ok(value_of(attributes, libc::IFLA_OPERSTATE) == Some(&[IF_OPER_UP]));
    }
    Err(match error_of(&answer)? {
        Some(error) => Failure::system(device, error),
        None => Failure::failed(format!("{device}: the kernel describes no device")),
    })
}

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
    let mut body = vec![0; DEVICE_HEADER];
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

/// The value of the first attribute of this type.
fn value_of(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let (length, rest) = attributes.split_first_chunk()?;
        let length = usize::from(u16::from_ne_bytes(*length));
        let (found, _) = rest.split_first_chunk()?;
        if u16::from_ne_bytes(*found) == kind {
            return attributes.get(4..length);
        }
        // A length of less than its own header would never end.
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

/// Ask the kernel to make something; what it answers, `None` if it did.
fn create(kind: u16, body: &[u8]) -> Result<Option<Errno>, Failure> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    error_of(&ask(kind, flags, body)?)
}

/// Send the kernel one message; the first message of its answer.
fn ask(kind: u16, flags: i32, body: &[u8]) -> Result<Vec<u8>, Failure> {
    let doing = |error| Failure::system("asking the kernel by netlink", error);
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
    let mut answer = vec![0; ANSWER];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).map_err(doing)?;
    answer.truncate(length);
    Ok(answer)
}

/// The type of a message.
fn kind_of(answer: &[u8]) -> Option<u16> {
    let kind = answer.get(4..6)?.try_into().ok()?;
    Some(u16::from_ne_bytes(kind))
}

/// The error in an answer, which is 0 or a negative number.
fn error_of(answer: &[u8]) -> Result<Option<Errno>, Failure> {
    let error = answer
        .get(HEADER..HEADER + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map(i32::from_ne_bytes);
    match (kind_of(answer), error) {
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
    use crate::net::{DEVICE, Link, LinkFailure, Shape};

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
    fn a_device_is_up_once_it_carries_packets() {
        let link = match Link::make(&Shape::default()) {
            Err(LinkFailure::Other(failure @ Failure::Failed { .. })) => panic!("{failure}"),
            Err(reason) => return eprintln!("skipped: {reason}"),
            Ok(link) => link,
        };
        let _visit = link.sender.enter().expect("it can be entered");
        assert_eq!(is_up(DEVICE), Ok(true));
        // The namespace has one, which nobody brought up.
        assert_eq!(is_up("lo"), Ok(false));
        let missing = is_up("oscope-none").expect_err("there is none");
        assert_eq!(missing.errno(), Some(Errno::ENODEV));
    }

    #[test]
    fn an_attribute_is_found_behind_others_and_broken_ones_end_the_search() {
        let attributes = [attribute(3, b"abc"), attribute(16, &[6])].concat();
        assert_eq!(value_of(&attributes, 16), Some(&[6][..]));
        assert_eq!(value_of(&attributes, 3), Some(&b"abc"[..]));
        assert_eq!(value_of(&attributes, 4), None);
        assert_eq!(value_of(&[0; 12], 16), None);
        assert_eq!(value_of(&[2, 0, 16, 0], 16), None);
        assert_eq!(value_of(&[200, 0, 16, 0], 16), None);
    }

    #[test]
    fn what_is_no_acknowledgement_is_no_answer() {
        for answer in [&[][..], &[0; 19], &[0; 36]] {
            assert!(error_of(answer).is_err());
        }
    }
}
