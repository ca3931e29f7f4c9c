use std::collections::BTreeMap;

use chrono::TimeDelta;
use touchline::App;
use touchline::domain::catalog::{Catalog, Match};
use touchline::storage::catalog::{Replacement, Written};
use touchline::storage::settlements::Due;
use touchline::storage::{Retry, StoreError};

use super::base::Base;
use super::chunks::{Rows, changed_chunks};
use super::slug::Slugs;

/// How long a replaced or unpublished chunk stays stored. Lambda functions may still be reading a replaced chunk.
const EXPIRY: TimeDelta = TimeDelta::hours(1);

/// Publishes a snapshot with `rows` in it. If a concurrent import publishes first, builds the snapshot again,
/// on top of the snapshot of that import.
pub async fn publish(app: &App, mut base: Base, mut rows: Rows) -> Result<(), StoreError> {
    let mut retry = Retry::immediate("catalog head", 20);
    loop {
        if let Base::Rows { .. } = base {
            rows = Rows::load_all(app).await?;
        }
        let catalog = base.published();
        separate_slugs(app, &catalog, &mut rows).await?;
        let changed = changed_chunks(&catalog, &rows);
        let no_rows = matches!(base, Base::Nothing) && rows.is_empty();
        if no_rows || (matches!(base, Base::Snapshot(_)) && changed.is_empty()) {
            return Ok(());
        }
        let mut index = base.index();
        let head = base.head();
        // Each attempt stores its chunks in a partition of its own, so that concurrent imports do not overwrite
        // each other's chunks.
        let at = format!("{}.{}", head.map_or(0, |head| head.version) + 1, app.random.word(8));
        let (mut replaced, mut ours) = (Vec::new(), Vec::new());
        for (name, chunk) in changed {
            let before = match chunk {
                Some(chunk) => {
                    let bytes = chunk.encode().map_err(|_| StoreError::Unreadable("a chunk"))?;
                    let stored = app.store.put_chunk(&at, name, &bytes).await?;
                    ours.push((name, stored.clone()));
                    index.set(name, stored)
                }
                None => index.remove(name),
            };
            replaced.extend(before.map(|chunk| (name, chunk)));
        }
        let end = app.clock.now() + EXPIRY;
        if app.store.publish_index(head, &at, &index).await? {
            app.store.expire_chunks(&replaced, head, end).await?;
            return Ok(());
        }
        // A concurrent import moved the head. Load its snapshot, reload our rows, and build again.
        base = Base::load(app).await?;
        if let Base::Snapshot(loaded) = &base {
            // Our write may have moved the head although its response was lost. If the other import then
            // built on our snapshot, its snapshot can list our chunks. Those chunks must not expire.
            ours.retain(|(name, chunk)| !loaded.lists(*name, chunk));
        }
        app.store.expire_chunks(&ours, None, end).await?;
        rows = rows.reload(app).await?;
        retry.again().await?;
    }
}

/// Notes that results of `matches` are published, so that `points` can settle them. Every import does this for all matches
/// of its document. So it also completes an import that crashed after the publication.
pub async fn note_publication(app: &App, matches: &BTreeMap<u32, Match>) -> Result<(), StoreError> {
    // At revision 0, a match never had a result.
    if matches.values().all(|row| row.revision == 0) {
        return Ok(());
    }
    for due in app.store.due().await? {
        let is_ours = matches.get(&due.event_id).is_some_and(|row| row.revision >= due.revision);
        if is_ours && !due.is_published {
            app.store.put_due(&Due { since: app.clock.now(), is_published: true, ..due }).await?;
        }
    }
    Ok(())
}

/// Makes the slugs of teams unique. Concurrent imports can give two teams the same slug, and the import that
/// publishes second changes the slug of its own team.
async fn separate_slugs(app: &App, catalog: &Catalog, rows: &mut Rows) -> Result<(), StoreError> {
    let mut slugs = Slugs::of(catalog.teams().map(|team| (team.slug.clone(), team.id)));
    for team in rows.teams.values_mut() {
        let slug = slugs.claim(team.id, &team.slug);
        if slug != team.slug {
            let read = team.clone();
            team.slug = slug;
            let written = app.store.put_rows(&[Replacement { row: team.clone(), read: Some(read) }]).await?;
            if let [Written::Changed(found)] = written.as_slice() {
                *team = found.clone();
            }
        }
    }
    Ok(())
}
