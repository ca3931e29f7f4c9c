//! The `sms_logs` table: every attempt to send a code. One partition per day and shard.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use chrono::serde::{ts_milliseconds, ts_seconds};
use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::client::Call as _;
use super::error::StoreError;
use super::item::{from_item, text, to_item};
use super::keys;
use super::store::Store;
use crate::domain::sms::{LogPosition, SmsLogEntry, SmsStatus};
use crate::domain::{CodeId, OneTimeCode, Phone};

/// How long log entries are kept.
pub const KEPT_FOR: TimeDelta = TimeDelta::days(7);

#[derive(Debug, Serialize, Deserialize)]
struct LogItem {
    id: u64,
    issue: CodeId,
    phone: Phone,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    status: SmsStatus,
    provider: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(with = "ts_milliseconds")]
    created_at: DateTime<Utc>,
    attempts: u32,
    /// When DynamoDB may delete this log entry. Unrelated to the expiry of the code.
    #[serde(with = "ts_seconds")]
    expires_at: DateTime<Utc>,
}

impl From<LogItem> for SmsLogEntry {
    fn from(item: LogItem) -> Self {
        Self {
            id: item.id,
            code_id: item.issue,
            phone: item.phone,
            code: item.code.and_then(|code| OneTimeCode::parse(&code).ok()),
            status: item.status,
            provider: item.provider,
            error: item.error,
            created_at: item.created_at,
            attempts: item.attempts,
        }
    }
}

/// Which log entries to list.
#[derive(Debug, Clone)]
pub struct Filter {
    pub phone: Option<Phone>,
    pub date: Option<NaiveDate>,
    pub status: Option<SmsStatus>,
    /// List only entries older than the entry at this position.
    pub before: Option<LogPosition>,
}

impl Store {
    /// Stores a log entry.
    pub async fn log_sms(&self, entry: &SmsLogEntry) -> Result<(), StoreError> {
        let key = keys::sms_log(entry.created_at.date_naive(), &entry.phone, &LogPosition::of(entry));
        let item = LogItem {
            id: entry.id,
            issue: entry.code_id.clone(),
            phone: entry.phone.clone(),
            code: entry.code.as_ref().map(|code| code.as_str().to_owned()),
            status: entry.status,
            provider: entry.provider.clone(),
            error: entry.error.clone(),
            created_at: entry.created_at,
            attempts: entry.attempts,
            expires_at: entry.created_at + KEPT_FOR,
        };
        self.client
            .put_item()
            .table_name(&self.tables.sms_logs)
            .set_item(Some(to_item(key, &item)?))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        Ok(())
    }

    /// Reads up to `limit` log entries that match the filter, newest first.
    pub async fn sms_logs(
        &self,
        filter: &Filter,
        limit: usize,
        today: NaiveDate,
    ) -> Result<Vec<SmsLogEntry>, StoreError> {
        let oldest = today - KEPT_FOR;
        // The clock of another instance may be ahead of ours, so an entry may be dated tomorrow.
        let newest = filter.before.as_ref().and_then(LogPosition::day).unwrap_or(today + Days::new(1));
        let days: Vec<NaiveDate> = match filter.date {
            // DynamoDB deletes expired entries late, so they may still exist. They are not listed.
            Some(day) if day < oldest => Vec::new(),
            Some(day) => vec![day],
            None => oldest.iter_days().take_while(|day| *day <= newest).take(9).collect(),
        };
        let shards: Vec<u32> = match &filter.phone {
            Some(phone) => vec![keys::sms_log_shard(phone)],
            None => (0..keys::SMS_LOG_SHARDS).collect(),
        };
        let mut entries = Vec::new();
        for day in days.into_iter().rev() {
            let missing = limit - entries.len();
            let reads = shards.iter().map(|shard| self.shard_entries(filter, day, *shard, missing));
            let mut found: Vec<_> = try_join_all(reads).await?.into_iter().flatten().collect();
            found.sort_by_key(|entry| std::cmp::Reverse(LogPosition::of(entry)));
            entries.extend(found.into_iter().take(missing));
            if entries.len() == limit {
                break;
            }
        }
        Ok(entries)
    }

    /// Deletes the log entries of a phone until a time.
    pub(super) async fn delete_sms_logs(
        &self,
        phone: &Phone,
        until: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let filter = Filter { phone: Some(phone.clone()), date: None, status: None, before: None };
        for entry in self.sms_logs(&filter, usize::MAX, until.date_naive()).await? {
            if entry.created_at <= until {
                let day = entry.created_at.date_naive();
                let key = keys::sms_log(day, phone, &LogPosition::of(&entry));
                self.delete_item(&self.tables.sms_logs, key).await?;
            }
        }
        Ok(())
    }

    async fn shard_entries(
        &self,
        filter: &Filter,
        day: NaiveDate,
        shard: u32,
        limit: usize,
    ) -> Result<Vec<SmsLogEntry>, StoreError> {
        // With a filter, the number of entries to read is not known in advance.
        let is_filtered = filter.phone.is_some() || filter.status.is_some();
        let page_size = i32::try_from(limit).ok().filter(|_| !is_filtered);
        let mut entries = Vec::new();
        let mut from = None;
        loop {
            let page = filtered(self.client.query(), filter)
                .table_name(&self.tables.sms_logs)
                .expression_attribute_values(":day", text(keys::sms_log_day(day, shard)))
                .scan_index_forward(false)
                .set_limit(page_size)
                .set_exclusive_start_key(from.take())
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            for item in page.items.unwrap_or_default() {
                entries.push(from_item::<LogItem>(item)?.into());
            }
            from = page.last_evaluated_key;
            if from.is_none() || entries.len() >= limit {
                return Ok(entries);
            }
        }
    }
}

fn filtered(query: QueryFluentBuilder, filter: &Filter) -> QueryFluentBuilder {
    let mut query = match &filter.before {
        Some(position) => query
            .key_condition_expression("pk = :day AND sk < :before")
            .expression_attribute_values(":before", text(position.as_str())),
        None => query.key_condition_expression("pk = :day"),
    };
    let mut conditions = Vec::new();
    if let Some(phone) = &filter.phone {
        conditions.push("phone = :phone");
        query = query.expression_attribute_values(":phone", text(phone.as_str()));
    }
    if let Some(status) = filter.status {
        conditions.push("#status = :status");
        query = query.expression_attribute_names("#status", "status").expression_attribute_values(
            ":status",
            text(match status {
                SmsStatus::Sent => "sent",
                SmsStatus::Failed => "failed",
            }),
        );
    }
    if conditions.is_empty() { query } else { query.filter_expression(conditions.join(" AND ")) }
}
