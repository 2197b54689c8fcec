//! The model: every interleaving of a small world, explored over the real decision code.
