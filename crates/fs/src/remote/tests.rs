//! `remote` against a real sshd.

mod broken;
mod connecting;
mod hostile;
mod names;
mod transfer;
