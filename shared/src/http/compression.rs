//! Compresses response bodies for clients that accept it (RFC 9110).

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use lambda_http::http::HeaderMap;
use lambda_http::http::header::ACCEPT_ENCODING;

/// The minimum length of a body that is compressed. A shorter body and its headers fit into one packet anyway.
pub(super) const MIN_LENGTH: usize = 1_024;

/// Level 3 of 9. Level 6 takes half as much time again, for a list that is a tenth smaller.
const LEVEL: u32 = 3;

pub(super) fn gzip(body: &str) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::new(LEVEL));
    encoder.write_all(body.as_bytes())?;
    encoder.finish()
}

/// How much a client wants an encoding, in thousandths. 0 means not at all.
type Quality = u16;

/// Returns whether a client accepts gzip, and does not prefer the body as it is.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut identity, mut others): (Option<Quality>, Option<Quality>, _) = (None, None, None);
    for value in headers.get_all(ACCEPT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes());
        for item in value.split(',') {
            let (name, quality) = coding(item);
            let kept = match name.as_str() {
                "gzip" | "x-gzip" => &mut gzip,
                "identity" => &mut identity,
                "*" => &mut others,
                _ => continue,
            };
            *kept = (*kept).max(Some(quality));
        }
    }
    // `*` is about the codings that the header does not name. Without a word about `identity`, the body as it is would be
    // acceptable, but is not what the client asks for.
    let gzip = gzip.or(others).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

/// Reads a coding and its quality: `gzip;q=0.5`. A malformed quality counts as 0.
fn coding(item: &str) -> (String, Quality) {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let quality = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim_end().eq_ignore_ascii_case("q").then(|| quality(value.trim_start()))
    });
    (name, quality.unwrap_or(1_000))
}

/// Reads a number from 0 to 1 with up to three decimals. Returns 0 for anything else.
fn quality(text: &str) -> Quality {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = matches!(whole, "0" | "1")
        && decimals.len() <= 3
        && decimals.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number {
        return 0;
    }
    format!("{whole}{decimals:0<3}").parse().ok().filter(|quality| *quality <= 1_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use lambda_http::http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn accepts(values: &[&str]) -> bool {
        let values = values.iter().map(|value| (ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap()));
        accepts_gzip(&values.collect())
    }

    #[test]
    fn gzip_is_used_only_if_the_client_accepts_it() {
        for values in [
            &["gzip"] as &[_],
            &["GZip"],
            &["x-gzip"],
            &["gzip, deflate, br"],
            &["br;q=1.0, gzip;q=0.8, *;q=0.1"],
            &["deflate,gzip;q=0.001"],
            &["gzip ; Q = 0.5"],
            &["*"],
            &["identity;q=0.5, *;q=0.8"],
            &["identity, gzip"],
            &["deflate", "gzip"],
            &["gzip;q=1.000"],
            &["gzip;level=9;q=1"],
        ] {
            assert!(accepts(values), "{values:?}");
        }
        for values in [
            &[] as &[_],
            &[""],
            &["identity"],
            &["br, deflate"],
            &["gzip;q=0"],
            &["gzip;q=0.000"],
            &["gzip;q=0, *"],
            &["*;q=0"],
            &["gzip;q=0.5, identity"],
            &["gzip;q=0.5, identity;q=0.6"],
            &["gzip;q=2"],
            &["gzip;q=-1"],
            &["gzip;q=1.001"],
            &["gzip;q=0.0001"],
            &["gzip;q=high"],
            &["gzipped"],
        ] {
            assert!(!accepts(values), "{values:?}");
        }
    }

    #[test]
    fn a_list_is_much_smaller_after_compression() {
        let row =
            r#"{"id":1,"tournament":{"id":1,"name":"Harbour League"},"home_team":{"id":1,"name":"Rovers"}},"#;
        assert!(gzip(&row.repeat(20)).unwrap().len() < 20 * row.len() / 5);
    }

    proptest! {
        #[test]
        fn decompression_restores_every_body(body in ".{0,3000}") {
            let mut restored = String::new();
            flate2::read::GzDecoder::new(gzip(&body).unwrap().as_slice()).read_to_string(&mut restored).unwrap();
            prop_assert_eq!(restored, body);
        }

        #[test]
        fn no_header_makes_the_parser_panic(value in "[ -~\t\u{80}-\u{ff}]{0,40}") {
            accepts(&[&value]);
        }
    }
}
