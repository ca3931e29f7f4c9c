//! Decompresses responses of the functions.

use std::io::{self, Read as _};

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use flate2::read::GzDecoder;

/// Returns a body as it was before its compression. The headers say whether it is compressed.
pub fn decoded(headers: &HeaderMap, body: Bytes) -> io::Result<Bytes> {
    if headers.get(CONTENT_ENCODING).is_none_or(|encoding| encoding != "gzip") || body.is_empty() {
        return Ok(body);
    }
    let mut decoded = Vec::new();
    GzDecoder::new(body.as_ref()).read_to_end(&mut decoded)?;
    Ok(decoded.into())
}
