use lambda_http::http::{HeaderMap, StatusCode};
use serde_json::Value;

/// What the API responded.
#[derive(Debug, Clone)]
pub struct Response {
    /// `POST /api/auth/coins/deduct`, for the messages of failed tests.
    pub request: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

/// The fields that an error body can have. Each error code has its own facts, such as the balance.
const ERROR_FIELDS: [&str; 7] =
    ["message", "code", "errors", "balance", "required", "next_claim_at", "retry_after"];

impl Response {
    /// Checks the status; returns the body.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "often the status is all that a test wants to know")]
    pub fn expect(self, status: u16) -> Value {
        self.expect_status(status);
        self.body
    }

    /// Checks the status; returns the body's `data`.
    #[track_caller]
    #[must_use]
    pub fn expect_data(self, status: u16) -> Value {
        self.expect(status)["data"].take()
    }

    /// Checks the status, the error code, and that the body and the headers have the one shape of all errors.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) {
        self.expect_status(status);
        assert_eq!(self.body["code"], code, "{} returned {}", self.request, self.body);
        self.expect_error_shape();
    }

    /// Checks for a 422 `validation_error` that names these fields, in alphabetical order, and no others.
    #[track_caller]
    pub fn expect_invalid(&self, fields: &[&str]) {
        self.expect_error(422, "validation_error");
        let named: Vec<_> =
            self.body["errors"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
        assert_eq!(named, fields, "{} returned {}", self.request, self.body);
    }

    /// Checks the status and the `errcode` of an error in the Matrix format, which the homeserver's endpoints use.
    #[track_caller]
    pub fn expect_matrix_error(&self, status: u16, errcode: &str) {
        self.expect_status(status);
        assert_eq!(self.body["errcode"], errcode, "{} returned {}", self.request, self.body);
    }

    /// Checks that an error body and its headers have the shape that all errors share.
    #[track_caller]
    pub fn expect_error_shape(&self) {
        if let Err(problem) = self.error_shape() {
            panic!("{} returned {}: {problem}", self.request, self.body);
        }
    }

    fn error_shape(&self) -> Result<(), String> {
        let body = self.body.as_object().ok_or("the body is not an object")?;
        if let Some(unknown) = body.keys().find(|name| !ERROR_FIELDS.contains(&name.as_str())) {
            return Err(format!("errors have no field {unknown}"));
        }
        if !body.get("code").is_some_and(Value::is_string) {
            return Err("code is not a string".into());
        }
        if body.get("message").and_then(Value::as_str).is_none_or(|message| message.len() <= 10) {
            return Err("message is not a sentence".into());
        }
        if body.contains_key("errors") != (self.status == 422) {
            return Err("errors is for 422, and only for 422".into());
        }
        let mut has_message = self.status != 422;
        for (field, sentences) in body.get("errors").and_then(Value::as_object).into_iter().flatten() {
            let sentences = sentences.as_array().map_or(&[][..], Vec::as_slice);
            if sentences.is_empty() || !sentences.iter().all(Value::is_string) {
                return Err(format!("errors.{field} is not a list of sentences"));
            }
            has_message |= sentences.contains(&body["message"]);
        }
        if !has_message {
            return Err("message is not the sentence of a field".into());
        }
        if self.headers.contains_key("www-authenticate") != (self.status == 401) {
            return Err("the header WWW-Authenticate is for 401, and only for 401".into());
        }
        let header = self.headers.get("retry-after").map(|value| value.to_str().unwrap_or_default());
        if header.is_some() != (self.status == 429 || self.status == 503) {
            return Err("the header Retry-After is for 429 and 503, and only for them".into());
        }
        if let Some(seconds) = body.get("retry_after")
            && header != Some(seconds.to_string().as_str())
        {
            return Err("retry_after differs from the header Retry-After".into());
        }
        Ok(())
    }

    /// The body's `message`.
    #[track_caller]
    #[must_use]
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_else(|| panic!("{} returned {}", self.request, self.body))
    }

    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether this repeats the result of an earlier request with the same idempotency key.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    #[track_caller]
    fn expect_status(&self, status: u16) {
        assert_eq!(self.status, status, "{} returned {}", self.request, self.body);
    }
}
