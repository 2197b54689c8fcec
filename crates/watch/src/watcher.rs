//! The doer: looks every so often, has the watch judge, and carries out its orders.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::{task::JoinSet, time::MissedTickBehavior};

use crate::{
    board::Board,
    delivery::Letterbox,
    filler::RestartFiller,
    heartbeat::Heartbeat,
    moment::Moment,
    notice::{Notice, Status},
    sink::Sink,
    target::Target,
    watch::Order,
    web::{Address, Web},
};

/// However short the interval is, a look may take this long.
const LOOK_PATIENCE_MIN: Duration = Duration::from_secs(1);

/// How long a look may take.
pub fn patience(interval: Duration) -> Duration {
    interval.max(LOOK_PATIENCE_MIN)
}

/// What a watcher needs to run.
#[derive(Debug)]
pub struct Watcher {
    pub target: Arc<dyn Target>,
    /// `None`: nobody can be started anew.
    pub filler: Option<Arc<dyn RestartFiller>>,
    pub sinks: Vec<Box<dyn Sink>>,
    pub heartbeat_url: Option<Address>,
    pub web: Arc<dyn Web>,
    pub interval: Duration,
    pub board: Arc<Board>,
}

impl Watcher {
    /// Watches until it is dropped.
    pub async fn run(self) {
        let Self { target, filler, sinks, heartbeat_url, web, interval, board } = self;
        let letterboxes: Vec<Arc<Letterbox>> = sinks.into_iter().map(Letterbox::new).collect();
        let heartbeat = heartbeat_url.map(|url| Heartbeat::new(url, web.clone()));
        // Ends with us, whatever is under way.
        let mut tasks = JoinSet::new();
        for letterbox in &letterboxes {
            tasks.spawn(letterbox.clone().deliver(web.clone(), board.clone()));
        }
        let begun = Instant::now();
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let look = target.look(patience(interval)).await;
            let now = Moment { elapsed: begun.elapsed(), wall: SystemTime::now() };
            let judgement = board.judge(&look, now);
            for order in judgement.orders {
                match order {
                    Order::Tell(notice) => {
                        say(&notice);
                        letterboxes.iter().for_each(|letterbox| letterbox.put(notice.clone()));
                    }
                    Order::Restart { keyspace, attempt } => {
                        if let Some(filler) = filler.clone() {
                            tasks.spawn(restart(filler, keyspace, attempt));
                        }
                    }
                }
            }
            if let Some(heartbeat) = heartbeat.as_ref().filter(|_| judgement.is_healthy) {
                heartbeat.beat();
            }
            while tasks.try_join_next().is_some() {}
        }
    }
}

async fn restart(filler: Arc<dyn RestartFiller>, keyspace: String, attempt: usize) {
    tracing::warn!(
        keyspace,
        attempt,
        "`{keyspace}` is low and not recovering: restarting its filler ({attempt})"
    );
    if let Err(trouble) = filler.restart(&keyspace).await {
        tracing::error!(
            keyspace,
            attempt,
            trouble,
            "the filler of `{keyspace}` was not restarted: {trouble}"
        );
    }
}

fn say(notice: &Notice) {
    let Notice { subject, kind, summary, .. } = notice;
    let kind = kind.as_str();
    match notice.status {
        Status::Firing => tracing::error!(%subject, kind, level_keys = notice.level, "{summary}"),
        Status::Resolved => tracing::info!(%subject, kind, level_keys = notice.level, "{summary}"),
    }
}
