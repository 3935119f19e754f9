//! What every workload must keep to. A workload is tested by being in the registry; nothing here names one, save where
//! it says so.

mod cleanup;
mod peers;
mod requests;
mod support;
mod wire;
