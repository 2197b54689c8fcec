//! Wire shapes: what requests and answers look like, and the one table of refusals.
