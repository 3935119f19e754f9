//! Whether `gethostid` is answered by this machine.
//!
//! Without `/etc/hostid` the C library looks the host's name up (gethostid(3)). Where the name is not in `/etc/hosts` that asks a name
//! server, and each call takes the network's time, up to many seconds.

use std::time::Duration;

use crate::error::Failure;

/// How often it is tried: the first call may load the resolver's libraries.
const TRIES: u32 = 3;
/// No name server answers as quickly as this.
const LOCAL_ANSWER: Duration = Duration::from_millis(1);
/// After a try of this length, no further one is worth the wait.
const HOPELESS: Duration = Duration::from_millis(500);

/// Refuse a `gethostid` that asks a name server; `trial` makes a call and tells how long it took.
///
/// # Errors
/// `Failure::Unavailable`, with the remedy, if no trial is answered at once.
pub fn answers_locally(mut trial: impl FnMut() -> Duration) -> Result<(), Failure> {
    for _ in 0..TRIES {
        match trial() {
            elapsed if elapsed < LOCAL_ANSWER => return Ok(()),
            elapsed if elapsed > HOPELESS => break,
            _ => {}
        }
    }
    Err(Failure::unavailable(
        "gethostid asks a name server on this machine, so that its time would be the network's",
        "add the host's name to /etc/hosts: echo \"127.0.1.1 $(hostname)\" >> /etc/hosts",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(lengths_ms: &[u64]) -> (bool, usize) {
        let mut made = 0;
        let answer = answers_locally(|| {
            made += 1;
            Duration::from_millis(lengths_ms[made - 1])
        });
        (answer.is_ok(), made)
    }

    #[test]
    fn one_answer_at_once_is_enough() {
        assert_eq!(trials(&[0]), (true, 1));
        assert_eq!(trials(&[8, 0]), (true, 2));
    }

    #[test]
    fn a_name_server_is_refused_and_a_hopeless_one_is_tried_once() {
        assert_eq!(trials(&[8, 8, 8]), (false, 3));
        assert_eq!(trials(&[5000]), (false, 1));
    }
}
