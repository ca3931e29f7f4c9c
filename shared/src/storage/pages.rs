//! Pages of rows that are spread over shards. Rows sort by shard, then by key.

use std::future::Future;

use futures_util::future::try_join_all;

use super::error::StoreError;
use super::item::{Item, text};
use super::store::Store;
use crate::domain::UserId;
use crate::domain::prediction::shard;

/// Which page to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageQuery {
    pub shards: u8,
    pub after: Option<UserId>,
    pub limit: usize,
    /// An estimate of the number of rows in all shards. Decides how many shards are read concurrently.
    pub estimated_total: usize,
    /// Whether some rows are left out.
    pub is_filtered: bool,
}

/// Rows in order.
#[derive(Debug)]
pub struct Page<T> {
    pub rows: Vec<T>,
    /// The user of the last row examined, if there may be more rows.
    pub next: Option<UserId>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), next: None }
    }
}

/// A filtered page examines at most this many rows. A filter that matches few rows gives a short page
/// instead of an expensive one.
const MAX_EXAMINED: usize = 1_000;

/// Reads a page. `read_shard` returns up to a number of rows of one shard after a user, and whether the shard
/// has ended.
pub(super) async fn page<T, F>(
    query: PageQuery,
    read_shard: impl Fn(u8, Option<UserId>, usize) -> F,
    user_of: impl Fn(&T) -> UserId,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<Page<T>, StoreError>
where
    F: Future<Output = Result<(Vec<T>, bool), StoreError>>,
{
    let PageQuery { shards, after, limit, estimated_total, is_filtered } = query;
    // Rows are spread evenly over the shards.
    let enough = if is_filtered { MAX_EXAMINED } else { limit + 1 };
    let per_shard = estimated_total.div_ceil(usize::from(shards)).max(1);
    let concurrency = u8::try_from(enough.div_ceil(per_shard)).unwrap_or(shards).clamp(1, shards);
    let first = after.map_or(0, |user| shard(user, shards));
    let mut page = Page { rows: Vec::new(), next: after };
    let mut begin = first;
    let mut examined = 0;
    while begin < shards {
        let end = shards.min(begin.saturating_add(concurrency));
        let reads = (begin..end).map(|shard| read_shard(shard, after.filter(|_| shard == first), enough));
        for (rows, has_ended) in try_join_all(reads).await? {
            for row in rows {
                if page.rows.len() == limit {
                    return Ok(page);
                }
                examined += 1;
                page.next = Some(user_of(&row));
                if is_wanted(&row) {
                    page.rows.push(row);
                }
            }
            // The rest of this shard sorts before the rows of the next shards.
            if !has_ended {
                return Ok(page);
            }
        }
        let is_full = page.rows.len() == limit || (is_filtered && examined >= MAX_EXAMINED);
        if is_full && end < shards {
            return Ok(page);
        }
        begin = end;
    }
    Ok(Page { next: None, ..page })
}

impl Store {
    /// Up to `limit` items of a partition after a sort key, and whether the partition has ended.
    pub(super) async fn partition_page(
        &self,
        table: &str,
        partition: &str,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<Item>, bool), StoreError> {
        let (mut items, mut from) = (Vec::new(), None);
        loop {
            let missing = limit - items.len();
            // A sort key cannot be empty. A space sorts before all of ours.
            let after = after.as_deref().unwrap_or(" ");
            let page = self
                .client
                .query()
                .table_name(table)
                .key_condition_expression("pk = :partition AND sk > :after")
                .expression_attribute_values(":partition", text(partition))
                .expression_attribute_values(":after", text(after))
                .set_exclusive_start_key(from.take())
                .limit(i32::try_from(missing).unwrap_or(i32::MAX))
                .send()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            items.extend(page.items.unwrap_or_default());
            match page.last_evaluated_key {
                None => return Ok((items, true)),
                Some(_) if items.len() >= limit => return Ok((items, false)),
                // A response holds at most 1 MB.
                key => from = key,
            }
        }
    }
}
