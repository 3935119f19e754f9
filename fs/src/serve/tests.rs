//! The server on its own: packets in, packets out.
