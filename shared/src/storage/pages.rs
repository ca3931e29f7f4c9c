//! Pages of rows that are spread over shards. Rows sort by shard, then by sort key. Each row belongs to one
//! user.

use std::future::Future;

use futures_util::future::try_join_all;

use super::client::Call as _;
use super::error::StoreError;
use super::item::{Item, text};
use super::store::{Reads, Store};
use crate::domain::UserId;
use crate::domain::prediction::shard;

/// Which page to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageQuery<'a> {
    pub shards: u8,
    /// The shards to read, in order, each with its estimated number of rows. The numbers decide how many shards are read
    /// concurrently.
    pub used: &'a [(u8, usize)],
    pub after: Option<UserId>,
    pub limit: usize,
    /// Whether the `is_wanted` of [`page`] can reject rows.
    pub is_filtered: bool,
}

/// A page of rows, sorted by shard and then by sort key.
#[derive(Debug)]
pub struct Page<T> {
    pub rows: Vec<T>,
    /// The user of the last examined row. The next page begins after that row. `None` on the last page.
    pub next: Option<UserId>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), next: None }
    }
}

/// The number of examined rows after which a filtered page ends. A filter that matches few rows gives a short
/// page instead of an expensive one.
const MAX_EXAMINED: usize = 1_000;

/// Reads a page. `read_shard` takes a shard, the user after whom to begin and a maximum number of rows. It
/// returns rows and whether they reach the end of the shard.
pub(super) async fn page<T, F>(
    query: PageQuery<'_>,
    read_shard: impl Fn(u8, Option<UserId>, usize) -> F,
    user_of: impl Fn(&T) -> UserId,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<Page<T>, StoreError>
where
    F: Future<Output = Result<(Vec<T>, bool), StoreError>>,
{
    let PageQuery { shards, used, after, limit, is_filtered } = query;
    let enough = if is_filtered { MAX_EXAMINED } else { limit + 1 };
    let first = after.map_or(0, |user| shard(user, shards));
    let mut page = Page { rows: Vec::new(), next: after };
    let mut left = &used[used.partition_point(|(shard, _)| *shard < first)..];
    let mut examined = 0;
    while !left.is_empty() {
        // Read as many shards concurrently as together hold enough rows.
        let mut expected = 0;
        let count = left.iter().take_while(|(_, rows)| {
            let is_needed = expected < enough;
            expected += rows;
            is_needed
        });
        let (next, later) = left.split_at(count.count());
        let reads =
            next.iter().map(|(shard, _)| read_shard(*shard, after.filter(|_| *shard == first), enough));
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
            // More rows of this shard follow. They come before the rows of the next shards, so this page must end
            // here.
            if !has_ended {
                return Ok(page);
            }
        }
        let is_full = page.rows.len() == limit || (is_filtered && examined >= MAX_EXAMINED);
        if is_full && !later.is_empty() {
            return Ok(page);
        }
        left = later;
    }
    Ok(Page { next: None, ..page })
}

impl Store {
    /// Reads up to `limit` items of a partition whose sort keys begin with `prefix`, beginning after the sort key
    /// `after`. Returns the items and whether they are the last ones.
    pub(super) async fn partition_page(
        &self,
        table: &str,
        partition: &str,
        prefix: &str,
        after: Option<String>,
        limit: usize,
        reads: Reads,
    ) -> Result<(Vec<Item>, bool), StoreError> {
        // A prefix is followed by a number. A space sorts before all digits, so no key is between `after` and `from_key`. `~` sorts
        // after all digits. The range excludes the markers of recounts, which are in the same partition.
        let from_key = after.map_or_else(|| prefix.to_owned(), |after| format!("{after} "));
        let to_key = format!("{prefix}~");
        let (mut items, mut from) = (Vec::new(), None);
        loop {
            let missing = limit - items.len();
            let page = self
                .client
                .query()
                .table_name(table)
                .key_condition_expression("pk = :partition AND sk BETWEEN :from AND :to")
                .expression_attribute_values(":partition", text(partition))
                .expression_attribute_values(":from", text(&from_key))
                .expression_attribute_values(":to", text(&to_key))
                .consistent_read(reads == Reads::Consistent)
                .set_exclusive_start_key(from.take())
                .limit(i32::try_from(missing).unwrap_or(i32::MAX))
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            items.extend(page.items.unwrap_or_default());
            match page.last_evaluated_key {
                None => return Ok((items, true)),
                Some(_) if items.len() >= limit => return Ok((items, false)),
                // The response was cut at 1 MB, DynamoDB's limit. Read on.
                key => from = key,
            }
        }
    }
}
