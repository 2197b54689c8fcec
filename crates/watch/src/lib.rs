//! Checks judge levels, findings say what is wrong, sinks tell someone.
//!
//! What is watched is the output – is the level recovering? – and never whether some process runs. Two layers
//! protect a pool: below the first mark its filler is started anew, below the second a human is told. Not to know
//! a level is a finding too, and the watcher itself is watched by a heartbeat that only leaves while all is well.
//!
//! [`Watch`] decides and never does: looks and the time come in, orders go out. [`Watcher`] looks, restarts and
//! beats; a letterbox per sink delivers. A new sink touches no check, a new target touches neither.

mod board;
mod case;
mod checks;
mod delivery;
mod filler;
mod finding;
mod forecast;
mod heartbeat;
mod history;
mod incident;
mod marks;
mod moment;
mod notice;
mod outbox;
mod restarts;
mod sample;
mod sink;
mod target;
mod trail;
mod watch;
mod watcher;
mod web;

pub use board::Board;
pub use filler::{RestartCommand, RestartFiller};
pub use finding::{Finding, Kind, Severity, Subject};
pub use forecast::exhausted_at;
pub use history::Standing;
pub use incident::Incident;
pub use marks::Marks;
pub use moment::{Moment, rfc3339};
pub use notice::{Notice, Status};
pub use sample::{Ground, GroundState, Look, Reading, Sample, Seen, Supply};
pub use sink::{Sink, SinkError, SinkKind, SinkSettings, Template, TemplateError};
pub use target::{Keymill, RedisPool, SqlPool, Target};
pub use trail::Point;
pub use watch::{Glance, Judgement, Order, Watch};
pub use watcher::{Watcher, patience};
pub use web::{Address, Answer, Method, NotAnAddress, Request, Web};
