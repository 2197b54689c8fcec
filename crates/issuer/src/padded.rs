//! A value that shares no cache line with its neighbours.

/// Its own cache line (two, where the processor fetches lines in pairs), so that threads do not meet there.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub T);
