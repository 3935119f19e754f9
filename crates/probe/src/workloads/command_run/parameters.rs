//! What `command.run` takes.

use serde::Deserialize;

use crate::description::Describe;

/// The parameters, as deserialised.
#[derive(Debug, Clone, Deserialize, Describe)]
pub struct Parameters {
    /// The file to execute: an absolute path. PATH is not searched, and no shell is used.
    #[parameter(path("/bin/true"))]
    pub program: String,
    /// Its arguments, from its own name (argv[0]) on; empty: its path alone.
    #[parameter(arguments())]
    pub arguments: Vec<String>,
    /// Run before the repetitions of a block, outside the clock: an absolute path and its arguments.
    #[parameter(arguments())]
    pub setup: Vec<String>,
    /// Run before each repetition, outside the clock.
    #[parameter(arguments())]
    pub prepare: Vec<String>,
    /// Run after the repetitions of a block, outside the clock; also after a failure or a signal.
    #[parameter(arguments())]
    pub cleanup: Vec<String>,
    /// A trivial program; start_ns is the time from its start to its end.
    #[parameter(arguments())]
    pub reference: Vec<String>,
    /// A shell that runs nothing; shell_ns is the time from its start to its end.
    #[parameter(arguments())]
    pub shell: Vec<String>,
    /// Variables beside those of the probe: NAME=VALUE.
    #[parameter(arguments())]
    pub environment: Vec<String>,
    /// Working folder; empty for the probe's.
    #[parameter(path(""))]
    pub folder: String,
    /// File on standard input; empty for /dev/null.
    #[parameter(path(""))]
    pub input: String,
    /// File that takes standard output, emptied before each repetition; empty for /dev/null.
    #[parameter(path(""))]
    pub output: String,
    /// Files that are evicted from the page cache before each repetition (proved).
    #[parameter(arguments())]
    pub cold: Vec<String>,
    /// The CPU that the program may use; free: all those allowed to the probe.
    #[parameter(words("free", &["free"]).or("cpu:N"))]
    pub cpu: String,
    /// Runs before the repetitions of a block that are not reported.
    #[parameter(integer(1, 0..=1_000_000))]
    pub warmup: u64,
    /// After this time the program is killed, and the point is given up.
    #[parameter(seconds(600.0, 0.1..=604800.0))]
    pub timeout: f64,
    /// Count runs that end with another exit code than 0 or by a signal, too.
    #[parameter(boolean(false))]
    pub ignore_failure: bool,
}
