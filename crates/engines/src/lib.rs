//! Real, throwaway engines for tests and benchmarks: started from Debian's packages on loopback ports
//! in a temporary directory, and ended with the value that stands for them. One file per engine.
//!
//! An engine that is missing is an error that names its package; nothing is skipped in silence.

pub mod certificates;
pub mod etcd;
pub mod mariadb;
pub mod postgres;
pub mod process;
pub mod redis;
pub mod zookeeper;
