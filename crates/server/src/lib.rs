//! The Keymill server: configuration, HTTP front end, lifecycle.
