//! Who may do what.
//!
//! Tokens live in the ledger, hashed ([`record`]). A node holds all of them in memory (`guard`), looks for
//! changes twice a second (`keeper`), and keeps the last set it read while the ledger is away. A front end
//! turns what a request shows into a [`Caller`], which says what may be done; `route` says what each HTTP
//! address needs. Nothing here is asked while `auth.mode` is off.

mod caller;
mod guard;
mod keeper;
mod pattern;
pub mod record;
mod route;
mod token;

pub(crate) use caller::Caller;
pub(crate) use guard::{Guard, is_needed};
pub(crate) use keeper::keep;
pub(crate) use route::{Right, need};
