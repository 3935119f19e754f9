//! Why there is no link.

use thiserror::Error;

use crate::error::Failure;

/// Why no link was made. What to do instead is known to who asked for it.
#[derive(Debug, Error)]
pub enum LinkFailure {
    /// This machine makes no namespaces, or no devices between them.
    #[error(transparent)]
    NoNetwork(Failure),
    /// The kernel has nothing that delays and loses packets.
    #[error("delay and loss need netem, which this kernel lacks (CONFIG_NET_SCH_NETEM)")]
    NoDelay,
    /// The kernel has nothing that limits a rate.
    #[error(
        "a rate needs netem or tbf, and this kernel has neither (CONFIG_NET_SCH_NETEM, CONFIG_NET_SCH_TBF)"
    )]
    NoRate,
    /// Something else went wrong, or a program is missing.
    #[error(transparent)]
    Other(#[from] Failure),
}
