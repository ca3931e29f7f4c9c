//! The event that API Gateway sends to a function for an HTTP request: HTTP API, payload format 2.0.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

/// A request as the gateway received it.
#[derive(Debug, Clone)]
pub struct HttpRequest<'a> {
    pub method: &'a str,
    /// The path as the client sent it, still percent-encoded.
    pub path: &'a str,
    /// The query as the client sent it, without the question mark.
    pub query: &'a str,
    /// Names are in lower case. A repeated header appears once for each value.
    pub headers: Vec<(String, String)>,
    pub body: &'a [u8],
    /// The client's IP address.
    pub source: &'a str,
    pub id: &'a str,
    pub at: DateTime<Utc>,
    /// The route that matched, as declared in the template: `/api/events/{event}`.
    pub route: &'a str,
    pub path_parameters: Map<String, Value>,
}

#[must_use]
pub fn http_event(request: &HttpRequest<'_>) -> Value {
    let mut headers = Map::new();
    let mut cookies = Vec::new();
    for (name, value) in &request.headers {
        // API Gateway joins repeated headers with commas and lists cookies separately.
        if name == "cookie" {
            cookies.extend(value.split("; ").map(Value::from));
        } else if let Some(Value::String(before)) = headers.get_mut(name) {
            before.push(',');
            before.push_str(value);
        } else {
            headers.insert(name.clone(), value.clone().into());
        }
    }
    let mut event = json!({
        "version": "2.0",
        "routeKey": format!("{} {}", request.method, request.route),
        "rawPath": request.path,
        "rawQueryString": request.query,
        "headers": headers,
        "requestContext": {
            "accountId": "000000000000",
            "apiId": "local",
            "domainName": "localhost",
            "domainPrefix": "local",
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": "HTTP/1.1",
                "sourceIp": request.source,
                "userAgent": headers.get("user-agent").cloned().unwrap_or_else(|| "".into()),
            },
            "requestId": request.id,
            "routeKey": format!("{} {}", request.method, request.route),
            "stage": "$default",
            "time": request.at.format("%d/%b/%Y:%H:%M:%S +0000").to_string(),
            "timeEpoch": request.at.timestamp_millis(),
        },
        "isBase64Encoded": false,
    });
    let query = query_parameters(request.query);
    let fields = event.as_object_mut().expect("the event is an object");
    if !cookies.is_empty() {
        fields.insert("cookies".into(), cookies.into());
    }
    if !query.is_empty() {
        fields.insert("queryStringParameters".into(), query.into());
    }
    if !request.path_parameters.is_empty() {
        fields.insert("pathParameters".into(), request.path_parameters.clone().into());
    }
    if !request.body.is_empty() {
        if let Ok(text) = std::str::from_utf8(request.body) {
            fields.insert("body".into(), text.into());
        } else {
            fields.insert("isBase64Encoded".into(), true.into());
            fields.insert("body".into(), aws_smithy_types::base64::encode(request.body).into());
        }
    }
    event
}

/// Returns the decoded query parameters. Values of a repeated parameter are joined with commas.
fn query_parameters(query: &str) -> Map<String, Value> {
    let mut parameters = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if let Some(Value::String(before)) = parameters.get_mut(name.as_ref()) {
            before.push(',');
            before.push_str(&value);
        } else {
            parameters.insert(name.into_owned(), value.into_owned().into());
        }
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_has_the_format_that_lambda_http_reads() {
        let event = http_event(&HttpRequest {
            method: "POST",
            path: "/a/b%20c",
            query: "x=1&x=2&y=%2B44",
            headers: vec![
                ("accept".into(), "a".into()),
                ("accept".into(), "b".into()),
                ("cookie".into(), "k=v; l=w".into()),
            ],
            body: &[0xff, 0x00],
            source: "203.0.113.9",
            id: "r1",
            at: DateTime::from_timestamp(1_763_171_495, 0).unwrap(),
            route: "/a/{name}",
            path_parameters: Map::from_iter([("name".into(), "b c".into())]),
        });
        assert_eq!(event["headers"]["accept"], "a,b");
        assert_eq!(event["cookies"], json!(["k=v", "l=w"]));
        assert_eq!(event["queryStringParameters"], json!({ "x": "1,2", "y": "+44" }));
        assert_eq!(event["isBase64Encoded"], true);
        assert_eq!(event["requestContext"]["time"], "15/Nov/2025:01:51:35 +0000");

        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        assert_eq!(request.uri().path(), "/a/b%20c");
        assert_eq!(request.body().as_ref(), [0xff, 0x00]);
    }
}
