//! Pages of rows that are spread over shards: in the order of shards, then of keys.

use std::future::Future;

use futures_util::future::try_join_all;

use super::{Item, Store, StoreError, text};
use crate::domain::UserId;
use crate::domain::prediction::shard;

/// Which rows are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub shards: u8,
    pub after: Option<UserId>,
    pub most: usize,
    /// How many there are in all, about: decides how many shards are asked at once.
    pub about: usize,
    /// Whether not every row counts.
    pub is_filtered: bool,
}

#[derive(Debug)]
pub struct Page<T> {
    pub rows: Vec<T>,
    /// The user of the last row that was looked at, where there may be more after it.
    pub next: Option<UserId>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), next: None }
    }
}

/// A filtered page looks at no more rows than this: one that few pass is cut short, not paid for.
const LOOKED_AT: usize = 1_000;

/// Reads a page. `part` gives up to so many rows of one shard, and whether those are the last.
pub(super) async fn page<T, F>(
    wanted: Wanted,
    part: impl Fn(u8, Option<UserId>, usize) -> F,
    user_of: impl Fn(&T) -> UserId,
    counts: impl Fn(&T) -> bool,
) -> Result<Page<T>, StoreError>
where
    F: Future<Output = Result<(Vec<T>, bool), StoreError>>,
{
    let Wanted { shards, after, most, about, is_filtered } = wanted;
    // Rows are spread evenly, so that the number of all says how many shards a page needs.
    let enough = if is_filtered { LOOKED_AT } else { most + 1 };
    let per_shard = about.div_ceil(usize::from(shards)).max(1);
    let at_once = u8::try_from(enough.div_ceil(per_shard)).unwrap_or(shards).clamp(1, shards);
    let first = after.map_or(0, |user| shard(user, shards));
    let mut page = Page { rows: Vec::new(), next: after };
    let mut begin = first;
    let mut looked_at = 0;
    while begin < shards {
        let end = shards.min(begin.saturating_add(at_once));
        let parts = (begin..end).map(|shard| part(shard, after.filter(|_| shard == first), enough));
        for (rows, ended) in try_join_all(parts).await? {
            for row in rows {
                if page.rows.len() == most {
                    return Ok(page);
                }
                looked_at += 1;
                page.next = Some(user_of(&row));
                if counts(&row) {
                    page.rows.push(row);
                }
            }
            // What the other shards of the wave gave comes after what is still in this one.
            if !ended {
                return Ok(page);
            }
        }
        let enough_seen = page.rows.len() == most || (is_filtered && looked_at >= LOOKED_AT);
        if enough_seen && end < shards {
            return Ok(page);
        }
        begin = end;
    }
    Ok(Page { next: None, ..page })
}

impl Store {
    /// Up to `most` items of a partition whose sort keys come after one, and whether those are the last.
    pub(super) async fn partition_page(
        &self,
        table: &str,
        partition: &str,
        after: Option<String>,
        most: usize,
    ) -> Result<(Vec<Item>, bool), StoreError> {
        let (mut items, mut from) = (Vec::new(), None);
        loop {
            let wanted = most - items.len();
            // An empty text is no sort key, and sorts before all.
            let after = after.as_deref().unwrap_or(" ");
            let page = self
                .client
                .query()
                .table_name(table)
                .key_condition_expression("pk = :partition AND sk > :after")
                .expression_attribute_values(":partition", text(partition))
                .expression_attribute_values(":after", text(after))
                .set_exclusive_start_key(from.take())
                .limit(i32::try_from(wanted).unwrap_or(i32::MAX))
                .send()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            items.extend(page.items.unwrap_or_default());
            match page.last_evaluated_key {
                None => return Ok((items, true)),
                Some(_) if items.len() >= most => return Ok((items, false)),
                // A page of the store holds 1 MB at most.
                key => from = key,
            }
        }
    }
}
