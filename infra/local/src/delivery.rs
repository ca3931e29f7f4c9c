//! Lets an HTTP request wait until its own writes are delivered to the Lambda functions that read the streams.
//!
//! Each event source mapping has an inbox and a worker. After a write to the mapping's table, the worker makes a pass:
//! it reads the stream and delivers the new records to the mapping's function. An HTTP request waits for the passes
//! that deliver its own writes. The functions that these passes invoke can write too, and the HTTP request also waits
//! for the delivery of those writes. It does not wait for the writes of other HTTP requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use touchline_stack::Stack;
use touchline_stack::resources::StreamMapping;

use crate::spans::Span;

const LOCK: &str = "no holder of the lock panics";

/// How many finished passes an inbox remembers, each with the deliveries that the pass caused. After a write, an HTTP
/// request looks up the passes that can have delivered the write. They are few and have just finished, so the inbox
/// still remembers them.
const REMEMBERED_PASSES: usize = 256;

/// The maximum number of deliveries in a chain that an HTTP request waits for. Each delivery in a chain causes the
/// next one. The product's longest chain has three deliveries: a prediction with new points, then the user's
/// statistics, then the user's memberships. Without a maximum, an HTTP request could wait forever under load: the
/// passes also deliver the writes of other HTTP requests, and each of those writes can start a chain.
const MAX_CHAIN: usize = 6;

/// The maximum time that an HTTP request waits for deliveries. A Lambda function that keeps failing must not block
/// every HTTP request.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The numbers of the latest pass that was requested, the latest that began and the latest that finished. Passes are
/// numbered from 1.
#[derive(Debug, Clone, Copy, Default)]
struct Passes {
    requested: u64,
    begun: u64,
    finished: u64,
}

/// Tracks the passes of one mapping: requested, begun and finished.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// A number that no other inbox has.
    id: usize,
    pub(crate) function: String,
    pub(crate) mapping: StreamMapping,
    passes: watch::Sender<Passes>,
    /// The last finished passes that had an effect.
    finished: Mutex<VecDeque<FinishedPass>>,
}

#[derive(Debug)]
struct FinishedPass {
    number: u64,
    /// The deliveries that the pass caused.
    caused: Vec<Ticket>,
    /// What the pass did. Empty if no console page was open.
    spans: Vec<Span>,
}

/// Identifies the delivery of one or more writes, so that an HTTP request can wait for it.
#[derive(Debug, Clone)]
pub(crate) struct Ticket {
    inbox: Arc<Inbox>,
    /// The first and the last pass that can deliver the writes.
    first: u64,
    last: u64,
}

impl Inbox {
    fn new(id: usize, function: &str, mapping: &StreamMapping) -> Self {
        Self {
            id,
            function: function.to_owned(),
            mapping: mapping.clone(),
            passes: watch::Sender::default(),
            finished: Mutex::default(),
        }
    }

    /// Requests a pass that begins after this call.
    pub(crate) fn request_pass(&self) {
        self.passes.send_modify(|passes| passes.requested = passes.begun + 1);
    }

    /// Waits until a pass is requested, and begins it. Returns the number of the pass.
    pub(crate) async fn begin_pass(&self) -> u64 {
        let mut passes = self.passes.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = passes.wait_for(|passes| passes.requested > passes.begun).await;
        drop(passes);
        let mut number = 0;
        self.passes.send_modify(|passes| {
            passes.begun += 1;
            number = passes.begun;
        });
        number
    }

    /// Ends a pass. `caused` has the tickets for the writes that the invoked function made, and `spans` what it did.
    pub(crate) fn finish_pass(&self, number: u64, caused: Vec<Ticket>, spans: Vec<Span>) {
        if !caused.is_empty() || !spans.is_empty() {
            let mut remembered = self.finished.lock().expect(LOCK);
            remembered.push_back(FinishedPass { number, caused, spans });
            if remembered.len() > REMEMBERED_PASSES {
                remembered.pop_front();
            }
        }
        self.passes.send_modify(|passes| passes.finished = number);
    }

    /// Returns whether the mapping's filters may accept the record of a write. `keys` are the keys of the written
    /// item, if they are known.
    fn expects(&self, keys: Option<&Value>) -> bool {
        keys.is_none_or(|keys| self.mapping.may_accept(keys))
    }
}

impl Ticket {
    /// Waits for the delivery; returns the deliveries that it caused. Adds what its passes did to `work`, each pass
    /// once.
    async fn delivered(&self, work: &mut BTreeMap<(usize, u64), Vec<Span>>) -> Vec<Ticket> {
        let mut passes = self.inbox.passes.subscribe();
        let _ = passes.wait_for(|passes| passes.finished >= self.last).await;
        let remembered = self.inbox.finished.lock().expect(LOCK);
        let mut caused = Vec::new();
        for pass in remembered.iter().filter(|pass| (self.first..=self.last).contains(&pass.number)) {
            work.entry((self.inbox.id, pass.number)).or_insert_with(|| pass.spans.clone());
            caused.extend(pass.caused.iter().cloned());
        }
        caused
    }
}

/// The tickets of one HTTP request, or of the invocations in one pass. There is at most one ticket for each inbox.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Vec<Ticket>);

impl Tickets {
    fn add(&mut self, ticket: Ticket) {
        match self.0.iter_mut().find(|known| known.inbox.id == ticket.inbox.id) {
            Some(known) => {
                known.first = known.first.min(ticket.first);
                known.last = known.last.max(ticket.last);
            }
            None => self.0.push(ticket),
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Ticket> {
        self.0
    }

    /// Waits until the writes of the tickets are delivered. Then waits for the writes that these deliveries caused.
    /// Returns what the deliveries did, if a console page was open. They can have delivered the writes of other requests,
    /// too.
    pub(crate) async fn delivered(self) -> Vec<Span> {
        let mut work = BTreeMap::new();
        if tokio::time::timeout(MAX_WAIT, self.follow(&mut work)).await.is_err() {
            tracing::warn!("a request stopped waiting for the delivery of its writes");
        }
        work.into_values().flatten().collect()
    }

    async fn follow(mut self, work: &mut BTreeMap<(usize, u64), Vec<Span>>) {
        for _ in 0..MAX_CHAIN {
            let mut caused = Self::default();
            for ticket in self.0 {
                for next in ticket.delivered(work).await {
                    caused.add(next);
                }
            }
            if caused.0.is_empty() {
                return;
            }
            self = caused;
        }
    }
}

/// The inboxes of all mappings, by table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inboxes(Arc<BTreeMap<String, Vec<Arc<Inbox>>>>);

/// A DynamoDB call that writes and has not ended. Dropping this value requests the passes that deliver the write. This
/// includes a cancelled call, because DynamoDB may have carried it out.
#[derive(Debug)]
pub(crate) struct PendingWrite {
    /// The inboxes of the mappings that may deliver the write, each with the number of the earliest pass that can
    /// deliver it.
    inboxes: Vec<(Arc<Inbox>, u64)>,
    tickets: Option<Arc<Mutex<Tickets>>>,
}

impl Inboxes {
    pub(crate) fn new(stack: &Stack) -> Self {
        let mut inboxes = BTreeMap::<String, Vec<Arc<Inbox>>>::new();
        let mut ids = 0..;
        for function in &stack.functions {
            for (mapping, id) in function.streams.iter().zip(&mut ids) {
                let inbox = Arc::new(Inbox::new(id, &function.name, mapping));
                inboxes.entry(mapping.table.clone()).or_default().push(inbox);
            }
        }
        Self(Arc::new(inboxes))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Inbox>> {
        self.0.values().flatten()
    }

    /// Returns whether no table has a mapping.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Announces a write to `items`, each given by its table and, if known, its keys. When the write ends, it adds
    /// its tickets to `tickets`.
    pub(crate) fn begin_write(
        &self,
        items: &[(String, Option<Value>)],
        tickets: Option<Arc<Mutex<Tickets>>>,
    ) -> PendingWrite {
        let mut write = PendingWrite { inboxes: Vec::new(), tickets };
        for (table, keys) in items {
            for inbox in self.0.get(table).into_iter().flatten() {
                let is_known = write.inboxes.iter().any(|(known, _)| known.id == inbox.id);
                if !is_known && inbox.expects(keys.as_ref()) {
                    // The first pass that can deliver the write is the next pass to finish. That pass may already
                    // be in progress.
                    write.inboxes.push((Arc::clone(inbox), inbox.passes.borrow().finished + 1));
                }
            }
        }
        write
    }
}

impl PendingWrite {
    /// Ends a write that was not carried out.
    pub(crate) fn reject(mut self) {
        self.inboxes.clear();
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        for (inbox, first) in self.inboxes.drain(..) {
            inbox.request_pass();
            if let Some(tickets) = &self.tickets {
                let last = inbox.passes.borrow().requested;
                tickets.lock().expect(LOCK).add(Ticket { inbox, first, last });
            }
        }
    }
}
