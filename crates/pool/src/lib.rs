//! Pools as rows: keys that lie in Redis or in SQL tables, where other programs pop them too.
