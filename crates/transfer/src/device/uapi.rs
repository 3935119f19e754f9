//! What `kernel/modules/oscope_transfer.h` says, in Rust: the test below compares them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

/// Bytes that an opener can map.
pub const AREA: usize = 2 << 20;
/// `RECEIVE`: wait for all of the length, or the end.
pub const WHOLE: u64 = 1;
/// `DESCRIPTOR`: the page is there.
pub const ALLOCATED: u64 = 1;
/// `DESCRIPTOR`: a mapping of the caller has it in its range; whether it was touched, the entry says.
pub const MAPPED: u64 = 2;
/// `DESCRIPTOR`: its page table entry could be read.
pub const PTE: u64 = 4;

/// A structure that an ioctl takes, the command being part of its type.
///
/// # Safety
/// It is laid out as the kernel's, without padding, and any bytes are a value of it.
pub unsafe trait Command: Sized {
    /// The direction bits: 1 the kernel reads it, 3 it writes it too.
    const DIRECTION: u64;
    /// The command's number.
    const NUMBER: u64;

    /// The whole number of the ioctl (include/uapi/asm-generic/ioctl.h).
    const REQUEST: u64 = Self::DIRECTION << 30
        | (size_of::<Self>() as u64) << 16
        | (b'O' as u64) << 8
        | Self::NUMBER;
}

/// `struct oscope_transfer_endpoint`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Endpoint {
    family: u32,
    port: u32,
    scope: u32,
    reserved: u32,
    address: [u8; 16],
}

/// `struct oscope_transfer_listen`.
#[repr(C)]
pub struct Listen {
    pub size: u64,
    pub flags: u64,
    pub endpoint: Endpoint,
}

/// `struct oscope_transfer_accept`.
#[repr(C)]
pub struct Accept {
    pub size: u64,
    pub flags: u64,
    pub timeout_ms: u64,
    pub stall_ms: u64,
    pub peer: Endpoint,
}

/// `struct oscope_transfer_connect`.
#[repr(C)]
pub struct Connect {
    pub size: u64,
    pub flags: u64,
    pub timeout_ms: u64,
    pub stall_ms: u64,
    pub endpoint: Endpoint,
}

/// `struct oscope_transfer_move` of `SEND`.
#[repr(C)]
pub struct Send {
    pub size: u64,
    pub flags: u64,
    pub offset: u64,
    pub length: u64,
}

/// `struct oscope_transfer_move` of `RECEIVE`.
#[repr(C)]
pub struct Receive {
    pub size: u64,
    pub flags: u64,
    pub offset: u64,
    pub length: u64,
}

/// `struct oscope_transfer_finish`.
#[repr(C)]
pub struct Finish {
    pub size: u64,
    pub flags: u64,
    pub timeout_ms: u64,
    pub reserved: u64,
}

/// `struct oscope_transfer_descriptor`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Descriptor {
    pub size: u64,
    pub offset: u64,
    pub flags: u64,
    pub address: u64,
    pub pfn: u64,
    pub pte: u64,
    pub page_flags: u64,
    pub refcount: u64,
    pub mapcount: u64,
    pub reserved: u64,
}

/// The commands: each its direction and its number.
macro_rules! commands {
    ($($command:ident: $direction:literal, $number:literal;)*) => {$(
        // SAFETY: it is `repr(C)` of integers, without padding; the test compares it with the header.
        unsafe impl Command for $command {
            const DIRECTION: u64 = $direction;
            const NUMBER: u64 = $number;
        }
    )*};
}

commands! {
    Listen: 3, 0x60;
    Accept: 3, 0x61;
    Send: 1, 0x62;
    Finish: 1, 0x63;
    Connect: 1, 0x64;
    Receive: 1, 0x65;
    Descriptor: 3, 0x66;
}

/// Give a command to a device; what it answers.
///
/// # Errors
/// What the module's ioctl(2) answers (kernel/modules/connection.c); `ENOTTY` where the device is no such one.
pub fn give<C: Command>(device: &impl AsRawFd, command: &mut C) -> io::Result<usize> {
    // SAFETY: the kernel touches `size_of::<C>()` bytes at the pointer, which the request's number says and `Command`
    // promises.
    let answer =
        unsafe { libc::ioctl(device.as_raw_fd(), C::REQUEST, std::ptr::from_mut(command)) };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; 16];
        let (family, scope) = match address {
            SocketAddr::V4(v4) => {
                bytes[..4].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, 0)
            }
            SocketAddr::V6(v6) => {
                bytes = v6.ip().octets();
                (libc::AF_INET6, v6.scope_id())
            }
        };
        Self {
            family: family as u32,
            port: address.port().into(),
            scope,
            reserved: 0,
            address: bytes,
        }
    }
}

impl Endpoint {
    /// The address, without the scope, which a peer need not know.
    pub fn address(&self) -> SocketAddr {
        let [a, b, c, d, ..] = self.address;
        let ip: IpAddr = match self.family as i32 {
            libc::AF_INET6 => Ipv6Addr::from(self.address).into(),
            _ => Ipv4Addr::new(a, b, c, d).into(),
        };
        SocketAddr::new(ip, self.port as u16)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command as Program;

    use super::*;

    #[test]
    fn numbers_and_sizes_are_those_of_the_header() {
        let header = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../kernel/modules/oscope_transfer.h"
        );
        let folder = std::env::temp_dir().join(format!("oscope-uapi-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let source = folder.join("numbers.c");
        let names = [
            "LISTEN",
            "ACCEPT",
            "SEND",
            "FINISH",
            "CONNECT",
            "RECEIVE",
            "DESCRIPTOR",
        ];
        let prints: String = names
            .iter()
            .map(|name| format!("printf(\"%lu\\n\", (unsigned long)OSCOPE_TRANSFER_{name});\n"))
            .collect();
        let program = format!(
            "#include <stdio.h>\n#include \"{header}\"\nint main(void) {{ {prints} return 0; }}\n"
        );
        std::fs::write(&source, program).expect("a source");
        let built = folder.join("numbers");
        let compiled = Program::new("cc")
            .arg("-o")
            .arg(&built)
            .arg(&source)
            .status();
        assert!(compiled.expect("a C compiler").success());
        let printed = Program::new(&built).output().expect("it runs").stdout;
        std::fs::remove_dir_all(&folder).expect("it can be removed");
        let printed: Vec<u64> = String::from_utf8(printed)
            .expect("digits")
            .lines()
            .map(|line| line.parse().expect("a number"))
            .collect();
        // The number of a command holds its size, so that the structures are compared too.
        assert_eq!(
            printed,
            [
                Listen::REQUEST,
                Accept::REQUEST,
                Send::REQUEST,
                Finish::REQUEST,
                Connect::REQUEST,
                Receive::REQUEST,
                Descriptor::REQUEST
            ]
        );
    }

    #[test]
    fn an_address_comes_back_as_it_went() {
        for text in ["127.0.0.1:7025", "[fe80::1]:65535"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(Endpoint::from(address).address(), address);
        }
    }
}
