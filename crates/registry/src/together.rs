//! Questions that come while others are under way, asked together.
//!
//! Over the wire a statement costs much the same whether it is about one row or about twenty, and so does a commit.
//! Whoever comes while nothing is under way is asked for at once; whoever comes later goes with all who wait by then.
//! So the more callers there are the less each of them costs, and one who is alone waits for nobody.
//!
//! Each caller has an answer of its own. What the engine refuses to all is asked again one by one, so that nobody is
//! refused for somebody else; only what nobody knows – a commit that was not answered – is unknown to all of them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use keymill_sql::{Database, SqlError};
use tokio::sync::{Notify, oneshot};

use crate::{
    ops::{On, Operation},
    tables::Tables,
};

/// Questions of one group.
const GROUP_MAX: usize = 128;
/// Groups under way at a time. The second and later ones are there for large crowds and for slow engines: of the same
/// questions fewer groups are less work for all.
const UNDER_WAY_MAX: usize = 4;
/// Another group departs beside those under way once so many wait…
const CROWD: usize = 32;
/// … or the first of them has waited for so long.
const LONG: Duration = Duration::from_millis(5);
/// The runtime's clock tells no shorter times apart.
const TICK: Duration = Duration::from_millis(1);

/// A question that many can ask at once.
pub(crate) trait Question: Operation + Clone {
    /// One operation for all of them, which answers in their order. `None`: that one has to be asked by itself.
    type All: Operation<Answer = Vec<Option<Self::Answer>>>;

    fn all(questions: Vec<Self>) -> Self::All;
}

/// Those who ask one kind of question of one database.
pub(crate) struct Together<Q: Question> {
    database: Database,
    /// How long a question may wait for its turn.
    patience: Duration,
    state: Mutex<State<Q>>,
    /// As many wait as are [expected](State::expected).
    gathered: Notify,
}

struct State<Q: Question> {
    waiting: VecDeque<Waiting<Q>>,
    under_way: usize,
    expected: usize,
}

impl<Q: Question> State<Q> {
    /// Whether those who wait are worth a group beside so many others.
    fn has_room(&self, others: usize) -> bool {
        let is_long = || self.waiting.front().is_some_and(|first| first.since.elapsed() >= LONG);
        others == 0 || others < UNDER_WAY_MAX && (self.waiting.len() >= CROWD || is_long())
    }
}

struct Waiting<Q: Question> {
    question: Q,
    since: Instant,
    reply: oneshot::Sender<Result<Q::Answer, SqlError>>,
}

impl<Q: Question> Together<Q> {
    pub(crate) fn new(database: &Database, patience: Duration) -> Arc<Self> {
        let state = Mutex::new(State { waiting: VecDeque::new(), under_way: 0, expected: 0 });
        Arc::new(Self { database: database.clone(), patience, state, gathered: Notify::new() })
    }

    /// Answers as [`Database::run`] does. A caller who gives up while it waits is not asked for any more.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        tables: &Arc<Tables>,
        question: Q,
    ) -> Result<Q::Answer, SqlError> {
        let (reply, answer) = oneshot::channel();
        if let Some(turn) = self.join(Waiting { question, since: Instant::now(), reply }) {
            // A task of its own: the caller it was begun for may give up, and the others must not notice.
            tokio::spawn(turn.serve(tables.clone()));
        }
        answer.await.unwrap_or_else(|_| Err(SqlError::Unknown("this process is stopping".to_owned())))
    }

    /// A turn for the group that begins with this question, if there is room for one.
    fn join(self: &Arc<Self>, waiting: Waiting<Q>) -> Option<Turn<Q>> {
        let mut state = self.state();
        state.waiting.push_back(waiting);
        if state.waiting.len() == state.expected {
            self.gathered.notify_one();
        }
        if !state.has_room(state.under_way) {
            return None;
        }
        state.under_way += 1;
        Some(Turn { together: self.clone(), is_over: false })
    }

    fn state(&self) -> MutexGuard<'_, State<Q>> {
        self.state.lock().expect("nothing panics while it holds this")
    }

    /// What becomes of each, in their order.
    async fn carry_out(&self, tables: &Arc<Tables>, group: Vec<Q>) -> Vec<Result<Q::Answer, SqlError>> {
        let together = match self.run(tables, Q::all(group.clone())).await {
            Ok(answers) => answers,
            // Nothing was done, and one of them may be why.
            Err(SqlError::Refused(_) | SqlError::Unexpected(_) | SqlError::Aborted(_)) => {
                group.iter().map(|_| None).collect()
            }
            Err(error) => return group.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut answers = Vec::with_capacity(group.len());
        for (question, answer) in group.into_iter().zip(together) {
            answers.push(match answer {
                Some(answer) => Ok(answer),
                None => self.run(tables, question).await,
            });
        }
        answers
    }

    async fn run<O: Operation>(&self, tables: &Arc<Tables>, operation: O) -> Result<O::Answer, SqlError> {
        self.database.run(On { tables: tables.clone(), operation }).await
    }
}

/// A place among the groups under way, for one group after another.
struct Turn<Q: Question> {
    together: Arc<Together<Q>>,
    is_over: bool,
}

impl<Q: Question> Turn<Q> {
    async fn serve(mut self, tables: Arc<Tables>) {
        // Whoever is as ready as the first comes along.
        tokio::task::yield_now().await;
        while let Some(group) = self.next() {
            let begun = Instant::now();
            let (questions, replies): (Vec<_>, Vec<_>) =
                group.into_iter().map(|waiting| (waiting.question, waiting.reply)).unzip();
            let count = questions.len();
            let answers = self.together.carry_out(&tables, questions).await;
            for (reply, answer) in replies.into_iter().zip(answers) {
                // The caller may have given up; what was done stays.
                let _ = reply.send(answer);
            }
            self.gather(count, begun.elapsed()).await;
        }
    }

    /// Whoever was just answered tends to come back with the next question, a moment later than those who waited
    /// meanwhile. If the first to come departed at once, all others would wait for it: where that takes long, as a
    /// commit does, they are waited for instead, for a part of that time.
    async fn gather(&self, answered: usize, took: Duration) {
        let hold = (took / 2).min(LONG);
        let (mut waiting, expected) = {
            let mut state = self.together.state();
            state.expected = answered + state.waiting.len();
            (state.waiting.len(), state.expected)
        };
        if hold >= TICK && expected > 1 {
            let _ = tokio::time::timeout(hold, self.together.gathered.notified()).await;
            return;
        }
        // Where it does not, they are let go first, as long as they keep coming.
        loop {
            tokio::task::yield_now().await;
            let before = std::mem::replace(&mut waiting, self.together.state().waiting.len());
            if waiting <= before || waiting >= expected {
                return;
            }
        }
    }

    /// Those who wait and still want to know. `None`: there are too few to be worth it, and the turn is over.
    fn next(&mut self) -> Option<Vec<Waiting<Q>>> {
        let mut state = self.together.state();
        let mut group = Vec::new();
        let size_max = if state.has_room(state.under_way - 1) { GROUP_MAX } else { 0 };
        while group.len() < size_max
            && let Some(waiting) = state.waiting.pop_front()
        {
            if waiting.since.elapsed() > self.together.patience {
                let busy = SqlError::Unavailable("all connections are in use".to_owned());
                let _ = waiting.reply.send(Err(busy));
            } else if !waiting.reply.is_closed() {
                group.push(waiting);
            }
        }
        if group.is_empty() {
            state.under_way -= 1;
            self.is_over = true;
            return None;
        }
        Some(group)
    }
}

impl<Q: Question> Drop for Turn<Q> {
    /// Cut short, by an assertion that failed or a process that stops: whom nobody would serve is told so.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.together.state();
        state.under_way -= 1;
        if state.under_way == 0 {
            state.waiting.clear();
        }
    }
}
