//! What the embedded store does when its file, its disk or its neighbours are not what they should be.

mod backup;
mod commits;
mod failing_disk;
mod folder;
mod opening;
mod rot;
