//! Serves the files of the pages: compressed, and with a tag, so that a browser that has a file does not load it again.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use touchline::domain::digest;

const LOCK: &str = "no holder of the lock panics";

/// The compressed files, by path. A file is added when it is first requested. The program contains it, so it never changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files(Arc<Mutex<HashMap<String, Arc<File>>>>);

#[derive(Debug)]
struct File {
    headers: HeaderMap,
    plain: Encoded,
    gzip: Encoded,
}

/// A file in an encoding. Each encoding has a tag of its own, as HTTP requires of a strong tag.
#[derive(Debug)]
struct Encoded {
    body: Bytes,
    tag: HeaderValue,
}

impl File {
    fn new(mut headers: HeaderMap, body: Bytes) -> Self {
        headers.remove(CONTENT_LENGTH);
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        // The URL of a file does not change with its content, so a browser asks whether it has changed.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let hash = digest(&[String::from_utf8_lossy(&body)]);
        let tag = |suffix: &str| {
            HeaderValue::try_from(format!("\"{}{suffix}\"", &hash[..20])).expect("hexadecimal digits")
        };
        let gzip = Encoded { body: compressed(&body), tag: tag("-gzip") };
        Self { headers, plain: Encoded { body, tag: tag("") }, gzip }
    }

    fn response(&self, request: &HeaderMap) -> Response {
        let contains = |name: HeaderName, part: &str| {
            request.get_all(name).iter().any(|value| value.to_str().is_ok_and(|value| value.contains(part)))
        };
        let is_compressed = contains(ACCEPT_ENCODING, "gzip");
        let Encoded { body, tag } = if is_compressed { &self.gzip } else { &self.plain };
        let is_known = contains(IF_NONE_MATCH, tag.to_str().unwrap_or("\""));
        let mut response = Response::new(if is_known { Body::empty() } else { body.clone().into() });
        *response.headers_mut() = self.headers.clone();
        response.headers_mut().insert(ETAG, tag.clone());
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else if is_compressed {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

fn compressed(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    written.expect("a vector can be written to").into()
}

/// Serves a file. Each file is compressed once.
pub(crate) async fn serve(State(files): State<Files>, request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let (path, headers) = (request.uri().path().to_owned(), request.headers().clone());
    let known = files.0.lock().expect(LOCK).get(&path).cloned();
    if let Some(file) = known {
        return file.response(&headers);
    }
    let (head, body) = next.run(request).await.into_parts();
    if head.status != StatusCode::OK {
        return Response::from_parts(head, body);
    }
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let file = Arc::new(File::new(head.headers, body));
    files.0.lock().expect(LOCK).insert(path, Arc::clone(&file));
    file.response(&headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_compressed_on_request_and_304_if_unchanged() {
        let text = "touchline ".repeat(1_000);
        let file = File::new(HeaderMap::new(), text.clone().into());
        let send = |headers: &[(HeaderName, &str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            file.response(&headers.collect())
        };
        let plain = send(&[]);
        assert!(!plain.headers().contains_key(CONTENT_ENCODING));
        let gzip = send(&[(ACCEPT_ENCODING, "br, gzip")]);
        assert_eq!(gzip.headers()[CONTENT_ENCODING], "gzip");
        assert_ne!(plain.headers()[ETAG], gzip.headers()[ETAG]);
        let tags = [plain.headers()[ETAG].clone(), gzip.headers()[ETAG].clone()]
            .map(|tag| tag.to_str().unwrap().to_owned());
        let body = axum::body::to_bytes(gzip.into_body(), usize::MAX).await.unwrap();
        assert!(body.len() < text.len() / 10);
        let decoded = touchline_stack::gzip::decoded(
            &HeaderMap::from_iter([(CONTENT_ENCODING, "gzip".parse().unwrap())]),
            body,
        );
        assert_eq!(decoded.unwrap(), text);

        for (accepted, tag, status) in [("gzip", &tags[1], 304), ("gzip", &tags[0], 200), ("", &tags[0], 304)]
        {
            let response = send(&[(ACCEPT_ENCODING, accepted), (IF_NONE_MATCH, tag)]);
            assert_eq!(response.status(), status, "{accepted} {tag}");
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert_eq!(body.is_empty(), status == 304);
        }
    }
}
