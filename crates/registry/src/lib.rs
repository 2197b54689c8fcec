//! What keys point to: names people chose, links, references, receipts. In SQL, written once for three engines.
