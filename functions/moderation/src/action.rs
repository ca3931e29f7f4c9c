//! What all actions have in common: who acts, why, the audit entry, and the id that makes a repeated action return the
//! result of the first one.

use serde::Deserialize;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::audit::AuditEntry;
use touchline::domain::coins::ReferenceId;
use touchline::domain::{Reason, digest, limit, text};

use crate::error::ModerationError;

/// An action as an operator orders it.
#[derive(Debug, Deserialize)]
pub struct Action<S> {
    #[serde(flatten)]
    pub subject: S,
    /// The name of the operator. Anyone who may invoke the function can write any name here; `CloudTrail` has the AWS identity.
    operator: String,
    reason: String,
    /// The idempotency key.
    id: Option<String>,
}

/// An action that has an audit entry and can be carried out.
#[derive(Debug)]
pub struct Begun {
    audit_id: String,
    has_id: bool,
}

/// The result of [`Action::begin`].
#[derive(Debug)]
pub enum Beginning {
    New(Begun),
    /// An earlier invocation with the same id has finished the action, with this result.
    Replay(Value),
}

impl<S> Action<S> {
    /// Begins the action `name` on `subject`: writes its audit entry, so that no change is without one.
    pub async fn begin(&self, app: &App, name: &str, subject: String) -> Result<Beginning, ModerationError> {
        let operator = text::line(&self.operator, 100).map_err(bad("operator"))?;
        let reason = text::line(&self.reason, 500).map_err(bad("reason"))?;
        let now = app.clock.now();
        let (audit_id, at) = match &self.id {
            None => (limit::request_id(now, app.random.number()), now),
            Some(id) => {
                let id = ReferenceId::parse(id).map_err(bad("id"))?.as_str().to_owned();
                let content = digest(&[name, &subject, &operator, &reason]);
                let begun = app.store.begin_action(&id, &content, now).await?;
                let begun = begun.ok_or_else(|| ModerationError::IdUsed(id.clone()))?;
                if let Some(result) = begun.result {
                    let mut result: Value = serde_json::from_str(&result).unwrap_or_default();
                    result["replayed"] = true.into();
                    return Ok(Beginning::Replay(result));
                }
                (id, begun.at)
            }
        };
        tracing::info!(action = name, subject, operator, audit_id, "an operator acts");
        let entry =
            AuditEntry { id: audit_id.clone(), at, action: name.to_owned(), subject, operator, reason };
        app.store.add_audit_entry(&entry).await?;
        Ok(Beginning::New(Begun { audit_id, has_id: self.id.is_some() }))
    }
}

impl Begun {
    /// Finishes the action with its result.
    pub async fn finish(self, app: &App, result: Value) -> Result<Value, ModerationError> {
        let result = self.with_audit_id(result);
        if self.has_id {
            app.store.finish_action(&self.audit_id, &result.to_string()).await?;
        }
        Ok(result)
    }

    /// Returns the result of an action that is not complete. The next invocation with the same id goes on with it.
    pub fn pause(self, result: Value) -> Value {
        self.with_audit_id(result)
    }

    fn with_audit_id(&self, mut result: Value) -> Value {
        result["audit_id"] = json!(self.audit_id);
        result["replayed"] = false.into();
        result
    }
}

/// Returns the error for an invalid field.
pub fn bad(field: &'static str) -> impl Fn(Reason) -> ModerationError {
    move |problem| ModerationError::BadField { field, problem: problem.to_string() }
}
