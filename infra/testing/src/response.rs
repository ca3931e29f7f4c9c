use lambda_http::http::{HeaderMap, StatusCode};
use serde_json::Value;

/// What the API responded.
#[derive(Debug, Clone)]
pub struct Response {
    /// The method and the path, such as `POST /api/auth/coins/deduct`, for the messages of failed tests.
    pub request: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

/// The fields that error bodies can have beside `message`, `code` and `errors`, each with the error code that
/// it belongs to. `retry_after` is not in the list, because it depends on the status, not on the code.
const FACTS: [(&str, &str); 3] = [
    ("balance", "insufficient_balance"),
    ("required", "insufficient_balance"),
    ("next_claim_at", "already_claimed"),
];

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

    /// Checks the status, the error code, and that the body and the headers have the shape that all errors
    /// share.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) {
        self.expect_status(status);
        assert_eq!(self.body["code"], code, "{} returned {}", self.request, self.body);
        self.expect_error_shape();
    }

    /// Checks for a 422 `validation_error` with errors for exactly these fields. The caller lists the fields in
    /// alphabetical order.
    #[track_caller]
    pub fn expect_invalid(&self, fields: &[&str]) {
        self.expect_error(422, "validation_error");
        let named: Vec<_> =
            self.body["errors"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
        assert_eq!(named, fields, "{} returned {}", self.request, self.body);
    }

    /// Checks the status and the `errcode` of an error in the Matrix format. The endpoints that the homeserver calls
    /// use this format.
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
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let code = text("code").ok_or("code is not a string")?;
        let message =
            text("message").filter(|message| message.len() > 10).ok_or("message is not a sentence")?;
        for name in body.keys() {
            let fact = FACTS.iter().find(|(fact, _)| fact == name);
            if fact.is_none() && !["message", "code", "errors", "retry_after"].contains(&name.as_str()) {
                return Err(format!("errors have no field {name}"));
            }
        }
        if let Some((fact, of)) = FACTS.iter().find(|(fact, of)| body.contains_key(*fact) != (*of == code)) {
            return Err(format!("{fact} is for {of}, and only for {of}"));
        }
        let is_invalid = self.status == 422;
        if body.contains_key("errors") != is_invalid {
            return Err("errors is for 422, and only for 422".into());
        }
        if is_invalid {
            check_sentences(&body["errors"], message)?;
        }
        if self.headers.contains_key("www-authenticate") != (self.status == 401) {
            return Err("the header WWW-Authenticate is for 401, and only for 401".into());
        }
        let is_temporary = self.status == 429 || self.status == 503;
        let (field, header) = (body.get("retry_after"), self.header("retry-after"));
        if field.is_some() != is_temporary || header.is_some() != is_temporary {
            return Err("retry_after and Retry-After are for 429 and 503, and only for them".into());
        }
        if field.map(Value::to_string).as_deref() != header {
            return Err("retry_after differs from the header Retry-After".into());
        }
        Ok(())
    }

    /// Returns the body's `message`.
    #[track_caller]
    #[must_use]
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_else(|| panic!("{} returned {}", self.request, self.body))
    }

    /// Returns a header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns whether this response repeats the result of an earlier request with the same idempotency key.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    #[track_caller]
    fn expect_status(&self, status: u16) {
        assert_eq!(self.status, status, "{} returned {}", self.request, self.body);
    }
}

/// Checks that `errors` has a list of sentences for each field, and that the message is the first sentence of
/// one of the fields. The API uses the first field, but the parsed JSON object does not keep the order of the
/// fields.
fn check_sentences(errors: &Value, message: &str) -> Result<(), String> {
    let fields = errors.as_object().filter(|fields| !fields.is_empty()).ok_or("errors has no fields")?;
    for (field, sentences) in fields {
        let are_sentences =
            sentences.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string));
        if !are_sentences {
            return Err(format!("errors.{field} is not a list of sentences"));
        }
    }
    if !fields.values().any(|sentences| sentences[0] == message) {
        return Err("message is not the first sentence of errors".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lambda_http::http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn problem(status: u16, headers: &[(&'static str, &'static str)], body: Value) -> Option<String> {
        let headers = headers.iter().map(|(name, value)| {
            (lambda_http::http::HeaderName::from_static(name), HeaderValue::from_static(value))
        });
        let response = Response {
            request: "GET /".into(),
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.collect(),
            body,
        };
        response.error_shape().err()
    }

    #[test]
    fn errors_of_the_required_shape_are_accepted() {
        let body = json!({ "message": "This room does not exist.", "code": "room_not_found" });
        assert_eq!(problem(404, &[], body), None);
        let sentence = "Include the country code.";
        let body =
            json!({ "message": sentence, "code": "validation_error", "errors": { "phone": [sentence] } });
        assert_eq!(problem(422, &[], body), None);
        let body = json!({ "message": "Try again in a moment.", "code": "busy", "retry_after": 1 });
        assert_eq!(problem(503, &[("retry-after", "1")], body), None);
    }

    #[test]
    fn each_difference_from_the_required_shape_is_found() {
        let message = "A sentence for the user.";
        for (status, headers, body, expected) in [
            (404, vec![], json!({ "code": "x" }), "message is not a sentence"),
            (
                404,
                vec![],
                json!({ "message": message, "code": "x", "trace": "y" }),
                "errors have no field trace",
            ),
            (404, vec![], json!({ "message": message, "code": "x", "balance": 1 }), "balance is for"),
            (400, vec![], json!({ "message": message, "code": "already_claimed" }), "next_claim_at is for"),
            (422, vec![], json!({ "message": message, "code": "x" }), "errors is for 422"),
            (
                422,
                vec![],
                json!({ "message": message, "code": "x", "errors": { "a": ["Another sentence."] } }),
                "message is not the first sentence of errors",
            ),
            (
                422,
                vec![],
                json!({ "message": message, "code": "x", "errors": { "a": [] } }),
                "errors.a is not a list of sentences",
            ),
            (
                401,
                vec![],
                json!({ "message": message, "code": "x" }),
                "the header WWW-Authenticate is for 401",
            ),
            (503, vec![("retry-after", "1")], json!({ "message": message, "code": "x" }), "retry_after and"),
            (
                429,
                vec![("retry-after", "2")],
                json!({ "message": message, "code": "x", "retry_after": 1 }),
                "retry_after differs",
            ),
        ] {
            let found = problem(status, &headers, body.clone()).unwrap_or_default();
            assert!(found.starts_with(expected), "{body}: {found}");
        }
    }
}
