//! What the verbs take.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::values;

const AFTER: &str = "Exit codes: 0 done, 1 something failed, 2 the request is wrong. Sizes and durations are written \
    like 512M, 10GiB, 500ms, 30s.";

/// A folder of another machine as a folder here: whole files over SFTP, cached and served locally, copied back on
/// close.
#[derive(Parser)]
#[command(name = "oscope-fs", version, after_help = AFTER, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Subcommand)]
pub enum Verb {
    /// Mount a folder of another machine.
    #[command(after_help = AFTER)]
    Mount(Mount),
    /// Unmount, and wait until all is copied back.
    #[command(after_help = AFTER)]
    Umount(Umount),
    /// Tell what is mounted, what is not yet copied back, and what went wrong.
    #[command(after_help = AFTER)]
    Status(Status),
    /// Have the server asked anew about files or folders in a mount.
    #[command(after_help = AFTER)]
    Refresh(Refresh),
    /// Copy back what a mount that was killed or cut off could not.
    #[command(after_help = AFTER)]
    Recover(Recover),
    /// Tell which operations of FUSE there are, and what each does.
    #[command(after_help = AFTER)]
    Operations(Operations),
    /// Serve files on standard input and output: what `mount --helper` starts on the server.
    #[command(after_help = AFTER)]
    Serve,
}

/// How the server is reached. ssh's own configuration, agent and known hosts hold; an unknown host key is refused.
#[derive(Args, Clone, Default)]
pub struct Ssh {
    /// The server's port [default: as ssh has it].
    #[arg(short = 'p', long = "port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// ssh's configuration file [default: ssh's own].
    #[arg(short = 'F', long = "ssh-config", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// An option of ssh, as after `ssh -o`; may be repeated.
    #[arg(
        short = 'o',
        long = "ssh-option",
        value_name = "OPTION",
        allow_hyphen_values = true
    )]
    pub options: Vec<String>,
    /// Have the server run `oscope-fs serve`, which keeps what SFTP cannot: owners, exact times, special files.
    /// PROGRAM: its path there.
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 0..=1,
        default_missing_value = "oscope-fs",
        require_equals = true
    )]
    pub helper: Option<String>,
    /// How long an operation waits for the server before it fails with EIO.
    #[arg(long, value_name = "T", default_value = "30s", value_parser = values::waiting_time)]
    pub timeout: Duration,
}

/// `mount`.
#[derive(Args)]
pub struct Mount {
    /// The folder on the server: its path, or one relative to the user's home there. An IPv6 address stands in
    /// brackets.
    #[arg(value_name = "[USER@]HOST:DIR")]
    pub target: OsString,
    /// An empty folder here.
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: PathBuf,
    /// How the server is reached.
    #[command(flatten)]
    pub ssh: Ssh,
    /// The folder for cached files [default: $XDG_CACHE_HOME/oscope/fs/ID, one for each target].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Room for cached files; the least recently used go first.
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = values::size)]
    pub cache_size: u64,
    /// How long attributes and folders are trusted before the server is asked again.
    #[arg(long, value_name = "T", default_value = "1s", value_parser = values::duration)]
    pub attribute_time: Duration,
    /// Serve reads and writes through this program even where the kernel could do without it.
    #[arg(long)]
    pub no_passthrough: bool,
    /// Let other users in as well; the modes of the files hold for them.
    #[arg(long)]
    pub allow_other: bool,
    /// Allow no change.
    #[arg(long)]
    pub read_only: bool,
    /// Stay in the foreground, and log to standard error as well.
    #[arg(short, long)]
    pub foreground: bool,
}

/// `umount`.
#[derive(Args)]
pub struct Umount {
    /// Where it is mounted.
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: PathBuf,
    /// How long to wait for what is being copied back; it goes on afterwards.
    #[arg(long, value_name = "T", default_value = "5m", value_parser = values::waiting_time)]
    pub timeout: Duration,
}

/// `status`.
#[derive(Args)]
pub struct Status {
    /// Where it is mounted [default: all mounts of this user].
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: Option<PathBuf>,
    /// Print JSON: an object, or without MOUNTPOINT an array of them.
    #[arg(long)]
    pub json: bool,
}

/// `refresh`.
#[derive(Args)]
pub struct Refresh {
    /// Files or folders in a mount of this user; a folder stands for all below it. What is open stays as it is.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// `recover`.
#[derive(Args)]
pub struct Recover {
    /// What was mounted [default: what the cache folder says].
    #[arg(value_name = "[USER@]HOST:DIR")]
    pub target: Option<OsString>,
    /// How the server is reached; without a target as the mount reached it.
    #[command(flatten)]
    pub ssh: Ssh,
    /// The cache folder [default: the target's, or without a target all of this user].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

/// `operations`.
#[derive(Args)]
pub struct Operations {
    /// Print a JSON array.
    #[arg(long)]
    pub json: bool,
}
