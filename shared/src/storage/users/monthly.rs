//! Lists that are divided by month, so that no partition grows forever: reports and audit entries.

use chrono::{DateTime, Utc};

use super::super::client::Call as _;
use crate::domain::month::Month;
use crate::storage::error::StoreError;
use crate::storage::item::{Item, text};
use crate::storage::store::Store;

/// A position in a list: after this sort key of this month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonthlyPosition {
    pub month: Month,
    pub sk: String,
}

/// Which part of a list to read.
#[derive(Debug, Clone)]
pub(super) struct MonthlyQuery<'a> {
    /// Returns the partition of a month.
    pub partition: fn(Month) -> String,
    /// The prefix of the sort keys.
    pub prefix: &'a str,
    pub is_newest_first: bool,
    pub after: Option<MonthlyPosition>,
    pub limit: usize,
}

impl Store {
    /// Reads up to `limit` items of a list. Also returns the position of the next page: `None` on the last page.
    pub(super) async fn monthly_page(
        &self,
        query: &MonthlyQuery<'_>,
        now: DateTime<Utc>,
    ) -> Result<(Vec<Item>, Option<MonthlyPosition>), StoreError> {
        let mut months: Vec<Month> = Month::FIRST.to(Month::of(now)).collect();
        if query.is_newest_first {
            months.reverse();
        }
        let begin =
            query.after.as_ref().and_then(|after| months.iter().position(|month| *month == after.month));
        let mut items: Vec<Item> = Vec::new();
        for month in &months[begin.unwrap_or(0)..] {
            let partition = (query.partition)(*month);
            let after = query.after.as_ref().filter(|after| after.month == *month);
            let start = after.map(|after| {
                Item::from([("pk".to_owned(), text(&partition)), ("sk".to_owned(), text(&after.sk))])
            });
            let page = self
                .client
                .query()
                .table_name(&self.tables.users)
                .key_condition_expression("pk = :partition AND begins_with(sk, :prefix)")
                .expression_attribute_values(":partition", text(&partition))
                .expression_attribute_values(":prefix", text(query.prefix))
                .scan_index_forward(!query.is_newest_first)
                .consistent_read(true)
                .set_exclusive_start_key(start)
                .limit(i32::try_from(query.limit - items.len()).unwrap_or(i32::MAX))
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            items.extend(page.items.unwrap_or_default());
            let is_cut = page.last_evaluated_key.is_some();
            if is_cut || items.len() >= query.limit {
                let last = items.last().and_then(|item| item.get("sk")?.as_s().ok().cloned());
                // The page may be empty only if DynamoDB cut it, which it does not do to a page without a filter.
                return Ok((items, last.map(|sk| MonthlyPosition { month: *month, sk })));
            }
        }
        Ok((items, None))
    }
}
