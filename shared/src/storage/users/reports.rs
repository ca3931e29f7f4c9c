//! Reports. A report is an item of its reporter. Its text is deleted with the account. An entry in the list of its status
//! and month points to it.

use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem, Update};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::super::client::Call as _;
use super::monthly::{MonthlyPosition, MonthlyQuery};
use crate::domain::UserId;
use crate::domain::month::Month;
use crate::domain::report::{Report, ReportId, ReportStatus};
use crate::storage::condition::{condition_held, item_that_failed_in_transaction};
use crate::storage::conflict_retry::Retry;
use crate::storage::error::StoreError;
use crate::storage::item::{Item, from_item, number, text, to_item};
use crate::storage::keys::{self, Key};
use crate::storage::store::{Reads, Store, every_item};

/// How long an open report is kept.
const OPEN_KEPT: TimeDelta = TimeDelta::days(730);

/// How long a report is kept after it was closed.
const CLOSED_KEPT: TimeDelta = TimeDelta::days(180);

/// The result of [`Store::save_report`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedReport {
    pub opened_at: DateTime<Utc>,
    /// Whether the report is new or was closed before.
    pub is_new: bool,
}

/// A page of a list of reports.
#[derive(Debug)]
pub struct ReportsPage {
    pub reports: Vec<(ReportId, Report)>,
    pub next: Option<MonthlyPosition>,
}

impl Store {
    /// Reads a report, strongly consistent.
    pub async fn report(&self, id: &ReportId) -> Result<Option<Report>, StoreError> {
        self.get(&self.tables.users, keys::report(id), Reads::Consistent).await
    }

    /// Stores a report. If the user has reported the subject before, the new reason and text replace the old ones. A
    /// closed report is opened again.
    pub async fn save_report(&self, id: &ReportId, report: &Report) -> Result<SavedReport, StoreError> {
        let mut retry = Retry::immediate("a report", 5).of_own_item();
        loop {
            let saved = match self.report(id).await? {
                None => self.create_report(id, report).await?,
                Some(before) if before.status == ReportStatus::Open => {
                    self.update_report(id, &before, report).await?
                }
                Some(before) => self.reopen_report(id, &before, report).await?,
            };
            if let Some(saved) = saved {
                return Ok(saved);
            }
            retry.again().await?;
        }
    }

    /// Creates a report. Returns `None` if there is one already.
    async fn create_report(&self, id: &ReportId, report: &Report) -> Result<Option<SavedReport>, StoreError> {
        let create = Put::builder()
            .table_name(&self.tables.users)
            .set_item(Some(report_item(id, report)?))
            .condition_expression("attribute_not_exists(pk)")
            .build()?;
        let writes = vec![TransactWriteItem::builder().put(create).build(), self.list_report(id, report)?];
        let is_new = self.write_report(writes).await?;
        Ok(is_new.then_some(SavedReport { opened_at: report.opened_at, is_new }))
    }

    /// Replaces the reason and the text of an open report. Returns `None` if it has changed since it was read.
    async fn update_report(
        &self,
        id: &ReportId,
        before: &Report,
        report: &Report,
    ) -> Result<Option<SavedReport>, StoreError> {
        let mut set = "SET reason = :reason, updated_at = :at".to_owned();
        let mut update = self.client.update_item().table_name(&self.tables.users);
        match &report.text {
            Some(written) => {
                set.push_str(", #text = :text");
                update = update.expression_attribute_values(":text", text(written));
            }
            None => set.push_str(" REMOVE #text"),
        }
        let updated = update
            .set_key(Some(keys::report(id).into()))
            .update_expression(set)
            .condition_expression("#status = :open AND opened_at = :opened")
            .expression_attribute_names("#text", "text")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":reason", text(report.reason.as_str()))
            .expression_attribute_values(":at", number(report.updated_at.timestamp_millis()))
            .expression_attribute_values(":open", text(ReportStatus::Open.as_str()))
            .expression_attribute_values(":opened", number(before.opened_at.timestamp_millis()))
            .call()
            .await;
        let is_updated = condition_held("UpdateItem", updated)?;
        Ok(is_updated.then_some(SavedReport { opened_at: before.opened_at, is_new: false }))
    }

    /// Replaces a closed report by an open one. Returns `None` if it has changed since it was read.
    async fn reopen_report(
        &self,
        id: &ReportId,
        before: &Report,
        report: &Report,
    ) -> Result<Option<SavedReport>, StoreError> {
        let replace = Put::builder()
            .table_name(&self.tables.users)
            .set_item(Some(report_item(id, report)?))
            .condition_expression("#status = :closed AND closed_at = :at")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":closed", text(ReportStatus::Closed.as_str()))
            .expression_attribute_values(":at", number(before.listed_at().timestamp_millis()))
            .build()?;
        let writes = vec![
            TransactWriteItem::builder().put(replace).build(),
            self.list_report(id, report)?,
            self.unlist_report(id, before)?,
        ];
        let is_new = self.write_report(writes).await?;
        Ok(is_new.then_some(SavedReport { opened_at: report.opened_at, is_new }))
    }

    /// Closes an open report. Returns false and changes nothing if it has changed since it was read.
    pub async fn close_report(
        &self,
        id: &ReportId,
        open: &Report,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let closed = Report { status: ReportStatus::Closed, closed_at: Some(now), ..open.clone() };
        let close = Update::builder()
            .table_name(&self.tables.users)
            .set_key(Some(keys::report(id).into()))
            .update_expression("SET #status = :closed, closed_at = :now, expires_at = :expires")
            .condition_expression("#status = :open AND opened_at = :opened")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":closed", text(ReportStatus::Closed.as_str()))
            .expression_attribute_values(":open", text(ReportStatus::Open.as_str()))
            .expression_attribute_values(":opened", number(open.opened_at.timestamp_millis()))
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .expression_attribute_values(":expires", number(expires(&closed).timestamp()))
            .build()?;
        let writes = vec![
            TransactWriteItem::builder().update(close).build(),
            self.list_report(id, &closed)?,
            self.unlist_report(id, open)?,
        ];
        self.write_report(writes).await
    }

    /// Reads all reports that a user has sent.
    pub async fn reports_by(&self, user: UserId) -> Result<Vec<Report>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.users)
            .key_condition_expression("pk = :user AND begins_with(sk, :report)")
            .expression_attribute_values(":user", text(keys::user_partition(user)))
            .expression_attribute_values(":report", text(keys::REPORT));
        every_item(query).await?.into_iter().map(from_item).collect()
    }

    /// Reads up to `limit` reports with a status, oldest first. Reports that no longer exist are left
    /// out, so a page can have fewer. `limit` is at most 100.
    pub async fn reports_page(
        &self,
        status: ReportStatus,
        after: Option<MonthlyPosition>,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<ReportsPage, StoreError> {
        #[derive(Deserialize)]
        struct Entry {
            reporter_id: UserId,
            digest: String,
        }
        #[derive(Deserialize)]
        struct Stored {
            pk: String,
            sk: String,
            #[serde(flatten)]
            report: Report,
        }
        let prefix = keys::report_list_prefix(status);
        let query = MonthlyQuery {
            partition: keys::reports_of,
            prefix: &prefix,
            is_newest_first: false,
            after,
            limit,
        };
        let (items, next) = self.monthly_page(&query, now).await?;
        let mut ids = Vec::with_capacity(items.len());
        for item in items {
            let Entry { reporter_id, digest } = from_item(item)?;
            let id = ReportId { reporter: reporter_id, digest };
            // An expired entry can still be there after its report was made again.
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let keys = ids.iter().map(|id| keys::report(id).into()).collect();
        let mut stored = Vec::with_capacity(ids.len());
        for item in self.batch_get(&self.tables.users, keys, Reads::Consistent).await? {
            let Stored { pk, sk, report } = from_item(item)?;
            stored.push((Key { pk, sk }, report));
        }
        let found = |id: ReportId| {
            let key = keys::report(&id);
            let report = stored.iter().find(|(stored, report)| *stored == key && report.status == status);
            report.map(|(_, report)| (id, report.clone()))
        };
        Ok(ReportsPage { reports: ids.into_iter().filter_map(found).collect(), next })
    }

    /// Returns the write that adds a report to the list of its status.
    fn list_report(&self, id: &ReportId, report: &Report) -> Result<TransactWriteItem, StoreError> {
        let mut item = Item::from(list_key(id, report));
        item.insert("reporter_id".into(), number(id.reporter));
        item.insert("digest".into(), text(&id.digest));
        item.insert("expires_at".into(), number(expires(report).timestamp()));
        let put = Put::builder().table_name(&self.tables.users).set_item(Some(item)).build()?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// Returns the write that removes a report from the list of its status.
    fn unlist_report(&self, id: &ReportId, report: &Report) -> Result<TransactWriteItem, StoreError> {
        let key = Some(list_key(id, report).into());
        let delete = Delete::builder().table_name(&self.tables.users).set_key(key).build()?;
        Ok(TransactWriteItem::builder().delete(delete).build())
    }

    /// Makes writes of which the first has a condition. Returns false if the condition failed.
    async fn write_report(&self, writes: Vec<TransactWriteItem>) -> Result<bool, StoreError> {
        match self.client.transact_write_items().set_transact_items(Some(writes)).call().await {
            Ok(_) => Ok(true),
            Err(error) if item_that_failed_in_transaction(&error, 0).is_some() => Ok(false),
            Err(error) => Err(StoreError::from_sdk("TransactWriteItems", &error)),
        }
    }
}

fn list_key(id: &ReportId, report: &Report) -> Key {
    keys::listed_report(Month::of(report.listed_at()), report.status, report.listed_at(), id)
}

fn expires(report: &Report) -> DateTime<Utc> {
    report.listed_at() + if report.status == ReportStatus::Open { OPEN_KEPT } else { CLOSED_KEPT }
}

fn report_item(id: &ReportId, report: &Report) -> Result<Item, StoreError> {
    let mut item = to_item(keys::report(id), report)?;
    item.insert("expires_at".into(), number(expires(report).timestamp()));
    Ok(item)
}
