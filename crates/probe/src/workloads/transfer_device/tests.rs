use std::path::Path;

use serde_json::json;

use super::*;
use crate::clock::{Clock, RequestedClock};
use crate::workload::Shared;

fn prepare(method: &str) -> Result<TransferDevice, Failure> {
    let parameters = json!({
        "method": method, "files": 10, "sizes": "document", "size": 0, "content": "random",
        "buffer": 4096, "folder": "/dev/shm",
    });
    let parameters = serde_json::from_value(parameters).expect("they are parameters");
    let clock = Clock::open(RequestedClock::Auto).expect("a clock");
    let shared = Shared::default();
    let allowed = oscope_sys::affinity::allowed().expect("CPUs");
    TransferDevice::prepare(parameters, &Context::new(&clock, None, &allowed, &shared))
}

/// With the modules, `tests/test_modules_devices.py` runs it in a guest.
#[test]
fn without_the_modules_it_is_unavailable_and_says_what_to_do() {
    let there = Path::new(node::SENDER).exists() || Path::new("/run/oscope/modules").exists();
    for method in ["fcntl", "mmap"] {
        match prepare(method) {
            Ok(_) => assert!(there),
            Err(Failure::Unavailable {
                message,
                remedy: Some(remedy),
                ..
            }) => {
                assert!(message.contains("/dev/oscope_sender"), "{message}");
                assert!(remedy.contains("oscope kernel build"), "{remedy}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}
