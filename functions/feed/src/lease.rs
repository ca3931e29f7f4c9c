//! The lease that lets one run of this function work at a time.
//!
//! The schedule starts a run every minute, and a run that creates many rooms takes longer. Overlapping runs are safe,
//! because every write has a condition. But they would create the same rooms and publish the same rows twice.

use std::time::Duration;

use chrono::{DateTime, Utc};
use touchline::App;
use touchline::storage::{Retry, StoreError};

/// How often an operator's run tries to take the lease, and the wait between two attempts: 20 seconds in total. Most
/// scheduled runs end sooner.
const ATTEMPTS: u32 = 41;
const WAIT: Duration = Duration::from_millis(500);

pub struct Lease<'a> {
    app: &'a App,
    holder: String,
}

impl<'a> Lease<'a> {
    /// Takes the lease, or returns `None` if another run has it. If the process crashes, the lease ends at `deadline`:
    /// no process works longer.
    pub async fn take(app: &'a App, deadline: DateTime<Utc>) -> Result<Option<Self>, StoreError> {
        let holder = app.random.word(16);
        let is_taken = app.store.take_feed_lease(&holder, app.clock.now(), deadline).await?;
        Ok(is_taken.then_some(Self { app, holder }))
    }

    /// Takes the lease, and waits if another run has it: for at most 20 seconds, and not after `until`.
    pub async fn wait(
        app: &'a App,
        deadline: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<Option<Self>, StoreError> {
        let mut retry = Retry::immediate("lease", ATTEMPTS);
        loop {
            let lease = Self::take(app, deadline).await?;
            if lease.is_some() || app.clock.now() >= until || retry.again_after(WAIT).await.is_err() {
                return Ok(lease);
            }
        }
    }

    /// Gives the lease back. If this fails, the next runs wait until the lease ends by itself.
    pub async fn release(self) {
        if let Err(error) = self.app.store.release_feed_lease(&self.holder).await {
            tracing::warn!(%error, "cannot release the lease; no run works until it ends");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use chrono::TimeDelta;
    use futures_util::future::join;
    use serde_json::{Value, json};
    use touchline_testing::{TestApp, WebStandIn};

    use super::*;
    use crate::RESERVE;

    const SAMPLE: &str = include_str!("../../../events/feed/touchline.json");

    fn sample() -> Value {
        serde_json::from_str(SAMPLE).unwrap()
    }

    /// Starts an app with a feed. Returns both, and the number of fetches.
    async fn app() -> (TestApp, WebStandIn, Arc<AtomicU32>) {
        let fetches = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&fetches);
        let web = WebStandIn::start(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            (200, SAMPLE.to_owned())
        })
        .await;
        let app = TestApp::serving(&[])
            .variable("FEED_URL", &format!("{}/matches", web.url()))
            .variable("FEED_FORMAT", "touchline")
            .start()
            .await;
        (app, web, fetches)
    }

    /// Takes the lease for a run that never ends by itself.
    async fn crashed_run(app: &TestApp) -> DateTime<Utc> {
        let end = app.clock.now() + TimeDelta::minutes(5);
        assert!(Lease::take(app, end).await.unwrap().is_some());
        end
    }

    /// Invokes `feed` so late that it does not wait for the lease.
    async fn run_without_wait(app: &TestApp, payload: Value) -> Result<Value, String> {
        let deadline = app.clock.now() + RESERVE;
        crate::handle(App::clone(app), payload, deadline).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn one_of_two_concurrent_scheduled_runs_works_and_the_other_one_is_skipped() {
        let (app, _web, fetches) = app().await;
        let run = || app.invoke(crate::handle, json!({}));
        let (first, second) = join(run(), run()).await;
        let skipped = json!({ "skipped": "another run of feed is working" });
        assert_eq!([&first, &second].into_iter().filter(|result| **result == skipped).count(), 1);
        assert_eq!([&first, &second].into_iter().filter(|result| result["created"] == 9).count(), 1);
        assert_eq!(fetches.load(Ordering::Relaxed), 1);
        assert_eq!(run().await["unchanged"], 9, "the lease is released");
    }

    #[tokio::test]
    async fn an_operator_is_told_to_try_again_and_nothing_is_imported() {
        let (app, _web, _) = app().await;
        crashed_run(&app).await;
        for payload in [sample(), json!({ "rebuild": true }), json!({ "promote": 1 })] {
            let error = run_without_wait(&app, payload).await.unwrap_err();
            assert!(error.contains("invoke feed again with the same payload in a minute"), "{error}");
        }
        assert!(touchline::storage::catalog::load_latest(&app.store, None).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn an_operators_import_waits_for_a_run_that_ends_soon() {
        let (app, _web, _) = app().await;
        let (first, second) =
            join(app.invoke(crate::handle, sample()), app.invoke(crate::handle, sample())).await;
        assert_eq!([&first["created"], &second["created"]], [9, 0]);
        assert_eq!(second["unchanged"], 9);
    }

    #[tokio::test]
    async fn the_lease_of_a_crashed_run_ends_at_its_deadline() {
        let (app, _web, _) = app().await;
        let end = crashed_run(&app).await;
        app.clock.advance(end - app.clock.now() - TimeDelta::seconds(1));
        assert!(app.invoke(crate::handle, json!({})).await["skipped"].is_string());
        app.clock.advance(TimeDelta::seconds(1));
        assert_eq!(app.invoke(crate::handle, json!({})).await["created"], 9);
    }

    #[tokio::test]
    async fn a_run_that_fails_releases_the_lease() {
        let (app, _web, _) = app().await;
        assert!(run_without_wait(&app, json!({ "format": "csv" })).await.unwrap_err().contains("csv"));
        assert_eq!(run_without_wait(&app, sample()).await.unwrap()["unchanged"], 0);
    }

    /// A run that lasted too long must not release the lease of the next one.
    #[tokio::test]
    async fn a_lease_is_released_only_by_its_holder() {
        let (app, _web, _) = app().await;
        let now = app.clock.now();
        let first = Lease::take(&app, now).await.unwrap().unwrap();
        let second = Lease::take(&app, now + TimeDelta::minutes(5)).await.unwrap();
        assert!(second.is_some(), "the first lease has ended");
        first.release().await;
        assert!(Lease::take(&app, now + TimeDelta::minutes(5)).await.unwrap().is_none());
    }
}
