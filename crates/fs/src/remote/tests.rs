//! `remote` against a real sshd.

mod broken;
mod changes;
mod connecting;
mod hostile;
mod names;
mod transfer;
