//! Keys from whichever server answers.

use std::sync::atomic::{AtomicU64, Ordering};

use keymill_id::KeyspaceName;
use keymill_wire::grpc::StreamRequest;
use tonic::Status;

use crate::{
    chunk::Chunk,
    core::{Core, Line, Watch},
    error::Error,
};

/// How many keys, and how many of them at a time; 0: as many as the server likes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub count: u64,
    pub batch: u32,
}

impl Core {
    /// Fetches keys and hands them to `sink` as they come. On an error some may have come; they are
    /// the caller's all the same.
    pub(crate) async fn fetch(
        &self,
        keyspace: &KeyspaceName,
        order: Order,
        watch: Watch<'_>,
        sink: &(dyn Fn(Chunk) + Send + Sync),
    ) -> Result<(), Error> {
        // An attempt that was cut off has brought some of them.
        let left = &AtomicU64::new(order.count);
        self.call(self.deadline(), watch, |line| self.stream(line, keyspace, left, order.batch, sink)).await
    }

    async fn stream(
        &self,
        line: Line,
        keyspace: &KeyspaceName,
        left: &AtomicU64,
        batch: u32,
        sink: &(dyn Fn(Chunk) + Send + Sync),
    ) -> Result<(), Status> {
        let count = left.load(Ordering::Relaxed);
        if count == 0 {
            return Ok(());
        }
        let request = StreamRequest { keyspace: keyspace.as_ref().to_owned(), count, batch };
        let request = line.request(request);
        let mut client = line.client.clone();
        let mut batches = line.begin(client.stream(request)).await?.into_inner();
        while let Some(batch) = line.go_on(batches.message()).await? {
            let chunk = Chunk::read(batch)
                .map_err(|why| Status::data_loss(format!("it sent {why}; compare the versions")))?;
            let came = u64::from(chunk.count());
            self.counters.keys_fetched.add(came);
            left.fetch_sub(came.min(left.load(Ordering::Relaxed)), Ordering::Relaxed);
            sink(chunk);
        }
        match left.load(Ordering::Relaxed) {
            0 => Ok(()),
            missing => Err(Status::data_loss(format!("it ended {missing} keys early"))),
        }
    }
}
