//! `remote` against a real sshd.

mod broken;
mod connecting;
mod names;
mod transfer;
