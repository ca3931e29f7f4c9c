//! Test support: an app on a real store, personas that send requests, and verbs that build the requests.
//!
//! ```ignore
//! let app = TestApp::serving(&[crate::router]).start().await;
//! let (alice, bob) = (app.user("alice").await, app.user("bob").await);
//! let room = alice.creates_room("Corner").private().await.room_id();
//! bob.joins(&room).await.expect_error(403, "not_allowed");
//! alice.invites_to(&room).user(bob.id).await.expect(200);
//! bob.joins(&room).await.expect(200);
//! ```
//!
//! **The app.** [`TestApp`] runs the routers that it is given, on a store of its own. It derefs to `touchline::App`:
//! `app.store`, `app.config`. `app.clock` stands still until a test advances it, `app.sns` holds the text messages,
//! `app.faults` injects faults into the store. `app.invoke(feed::handle, payload)` invokes a background function. All
//! clones of a `TestApp` share the same store, clock and faults.
//!
//! **Personas** send requests:
//!
//! | persona | |
//! |---|---|
//! | `app.user("alice").await` | a new [`User`], written to the store; has `id`, `username`, `phone`, `token`, `chat_id()` |
//! | `app.user("alice").id(7).await` | the same, with an id of your choice |
//! | `app.sign_in(phone).await` | a [`User`] who logs in through the API; `.username("alice")` for a first login |
//! | `app.anonymous()` | a caller without a token |
//! | `app.with_token("tl_1_x")` | a caller with this token, which may be invalid |
//! | `app.homeserver()` | the chat network's homeserver |
//!
//! **Verbs** are methods of personas. [`verbs`] has one file for each group of endpoints. A verb returns a [`Request`].
//! Awaiting the request sends it and returns a [`Response`]. Methods of the request set its options. If a row of this
//! table has several verbs, an option need not belong to all of them:
//!
//! | verb | options |
//! |---|---|
//! | `requests_code(phone)`, `receives_code(phone)` (returns the code) | |
//! | `verifies_code(phone, code)`, `logs_in(phone, code)` | `.username(name)` |
//! | `logs_out()`, `checks_username(name)`, `generates_usernames(base)` | `.include_numbers(true)` |
//! | `views_profile()`, `updates_profile()` | `.name(…)` `.email(…)` `.date_of_birth(…)` `.username(…)` |
//! | `initiates_verification(phone)`, `verifies_phone(phone, code)`, `requests_new_code(phone)` | |
//! | `creates_room(name)` | `.topic(…)` `.about_event(id)` `.private()` |
//! | `lists_rooms()` | `.joined()` `.about_event(id)` `.search(…)` `.per_page(n)` `.cursor(…)` |
//! | `joins(&room)`, `leaves(&room)`, `invites_to(&room)` | `.user(id)` or `.username(name)` |
//! | `views_room(&room)`, `views_member_stats(&room)`, `requests_chat_credentials()` | |
//! | `reports(reason)` | `.user(id)`, `.room(id)` or `.message(id)` |
//! | `blocks(user)`, `unblocks(user)`, `lists_blocks()` | `.per_page(n)` `.cursor(…)` |
//! | `pushes(transaction, events)`, `queries_user(id)`, `queries_room(alias)`, `pings()` | (the homeserver) |
//! | `predicts(event)` | `.home()` `.draw()` `.away()` `.pick(…)` `.score(2, 1)` `.confidence(80)` |
//! | `lists_own_predictions()`, `lists_event_predictions(event)`, `lists_room_predictions(&room)` | `.user(id)` `.pick(…)` `.per_page(n)` `.cursor(…)` |
//! | `lists_events()`, `views_event(id)` | `.status(…)` `.tournament(id)` `.team(id)` `.date(…)` `.page(n)` `.per_page(n)` |
//! | `deducts(amount)`, `claims_daily_coins()`, `views_coins()` | `.reason(…)` `.reference(…)`; `.per_page(n)` `.cursor(…)` |
//! | `lists_teams()`, `saves_primary_team(id)`, `saves_other_teams(&ids)` | `.sport(id)` `.search(…)` `.page(n)` `.per_page(n)` |
//! | `lists_sms_logs()` | `.phone(…)` `.date(…)` `.status(…)` `.per_page(n)` `.cursor(…)` |
//! | `get(path)`, `post(path, body)`, `put(path, body)`, `request(method, path)` | |
//!
//! Every request also has `.field(name, value)`, `.without(name)`, `.body(value)`, `.bytes(content_type, bytes)`,
//! `.query(name, value)`, `.header(name, value)`, `.idempotency_key(key)` and `.from_address(ip)`. Use them for input
//! that the verb's own options do not allow: `alice.deducts(1).field("amount", "ten")`. A request can be cloned and
//! sent again.
//!
//! **Responses.** `.expect(200)` returns the body and `.expect_data(200)` its `data`. `.expect_error(409, "code")`
//! checks the status, the code and the shape that all errors share. `.expect_invalid(&["amount"])` expects a 422
//! `validation_error` that names only these fields. `.room_id()` returns the id of a created room. `.is_replay()`
//! returns whether the response repeats the result of an earlier request with the same idempotency key. `status`,
//! `headers` and `body` are public.
//!
//! **Races**: `concurrently(20, |n| alice.deducts(1).reference(format!("order-{n}"))).await` returns 20 responses.
//!
//! The HTTP suite in `tests/suite` uses the same personas and verbs over real HTTP. Its `HttpApi` implements [`Api`],
//! as [`TestApp`] does.

mod api;
mod app;
mod chat;
mod clock;
mod faults;
mod function;
mod homeserver;
pub mod persona;
mod random;
mod request;
mod response;
mod sns;
pub mod verbs;
mod web;

pub use api::{Api, RawRequest};
pub use app::{Builder, HS_TOKEN, NewUserBuilder, TestApp};
pub use clock::TestClock;
pub use faults::{Attempt, Fault, Faults};
pub use function::Function;
pub use homeserver::{HomeserverStandIn, next_position};
pub use persona::SignIn;
pub use random::SeededRandom;
pub use request::{Plain, Request};
pub use response::Response;
pub use sns::SnsStandIn;
pub use web::WebStandIn;

use std::future::IntoFuture;

use tokio::task::JoinSet;

/// The allocator of all tests and simulations. The SDK and the embedded store make many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs many tasks concurrently, on all threads of the runtime. Returns their results in the order of the task
/// numbers.
///
/// A request is a task: `concurrently(20, |_| alice.claims_daily_coins())`.
///
/// # Panics
///
/// When a task panics.
pub async fn concurrently<T, F>(count: usize, task: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: IntoFuture<Output = T, IntoFuture: Send + 'static>,
{
    let mut tasks = JoinSet::new();
    for n in 0..count {
        let running = task(n).into_future();
        tasks.spawn(async move { (n, running.await) });
    }
    let mut results = tasks.join_all().await;
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A caller of the API. Without a type argument, the API is a [`TestApp`].
pub type Persona<A = TestApp> = persona::Persona<A>;

/// A persona with an account. Without a type argument, the account is in a [`TestApp`].
pub type User<A = TestApp> = persona::User<A>;
