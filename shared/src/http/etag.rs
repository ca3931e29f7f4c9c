//! The `ETag` of a response, and the `If-None-Match` of a request (RFC 9110).

use lambda_http::http::header::IF_NONE_MATCH;
use lambda_http::http::{HeaderMap, HeaderValue};

use crate::domain::digest;

/// A strong entity tag, without its quotes. It changes with every byte of the body.
///
/// The compressed body has a tag of its own, because its bytes differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntityTag(String);

impl EntityTag {
    pub(super) fn of(body: &str, is_compressed: bool) -> Self {
        let suffix = if is_compressed { "-gzip" } else { "" };
        Self(digest(&[body]) + suffix)
    }

    /// Returns the tag as the value of a header.
    pub(super) fn header(&self) -> HeaderValue {
        HeaderValue::try_from(format!("\"{}\"", self.0)).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
    }
}

/// The condition of a request: respond with the body only if the client does not have it yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IfNoneMatch {
    /// `*`: the client has the body, whatever its tag.
    Any,
    /// The tags of the bodies that the client has. Empty if the request has no condition.
    Tags(Vec<String>),
}

impl IfNoneMatch {
    /// Reads the condition. Ignores what follows a malformed tag.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut tags = Vec::new();
        for value in headers.get_all(IF_NONE_MATCH) {
            let value = String::from_utf8_lossy(value.as_bytes());
            if value.trim() == "*" {
                return Self::Any;
            }
            let mut rest = value.as_ref();
            while let Some((tag, after)) = first_tag(rest) {
                tags.push(tag.to_owned());
                rest = after;
            }
        }
        Self::Tags(tags)
    }

    /// Returns whether the client has the body with this tag. The comparison is weak, as the RFC requires: a proxy that
    /// changes the encoding of a body can make its tag weak.
    pub(super) fn includes(&self, tag: &EntityTag) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.contains(&tag.0),
        }
    }
}

/// Splits the first tag, without its quotes, from the rest of a list. Drops the mark of weak tags. A tag can contain commas.
fn first_tag(list: &str) -> Option<(&str, &str)> {
    let list = list.trim_start_matches([' ', '\t', ',']);
    let quoted = list.strip_prefix("W/").unwrap_or(list).strip_prefix('"')?;
    quoted.split_once('"')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn condition(values: &[&str]) -> IfNoneMatch {
        let values = values.iter().map(|value| (IF_NONE_MATCH, HeaderValue::from_str(value).unwrap()));
        IfNoneMatch::of(&values.collect())
    }

    #[test]
    fn a_condition_is_a_list_of_strong_and_weak_tags_or_a_star() {
        let tag = EntityTag("abc".into());
        for values in [
            &[r#""abc""#] as &[_],
            &[r#"W/"abc""#],
            &[r#""x", "abc""#],
            &[r#""x","abc""#],
            &[" ,\t, W/\"x\" ,, \"abc\" ,"],
            &[r#""a,b", "abc""#],
            &[r#""x""#, r#""abc""#],
            &["*"],
            &[" * "],
        ] {
            assert!(condition(values).includes(&tag), "{values:?}");
        }
        for values in [
            &[] as &[_],
            &[""],
            &["abc"],
            &[r#""abc"#],
            &[r#"abc""#],
            &[r#"w/"abc""#],
            &[r#""ABC""#],
            &[r#""abc ""#],
            &[r#""x,abc""#],
            &[r#""x" nonsense "abc""#],
            &[r#""*""#],
        ] {
            assert!(!condition(values).includes(&tag), "{values:?}");
        }
    }

    #[test]
    fn bodies_and_encodings_have_different_tags() {
        let tags = [("a", false), ("b", false), ("a", true)].map(|(body, gzip)| EntityTag::of(body, gzip));
        assert!(tags[0] != tags[1] && tags[0] != tags[2]);
        assert_eq!(tags[0], EntityTag::of("a", false));
        assert_eq!(tags[2].header().to_str().unwrap().len(), "\"\"".len() + 32 + "-gzip".len());
    }

    proptest! {
        #[test]
        fn a_tag_is_found_in_any_list_that_contains_it(
            before in proptest::collection::vec("(W/)?\"[!#-~]{0,5}\"", 0..4),
            after in proptest::collection::vec("(W/)?\"[!#-~]{0,5}\"", 0..4),
            body in ".{0,8}",
            separator in "[ \t]?,[ \t]?",
        ) {
            let tag = EntityTag::of(&body, false);
            let without: Vec<_> = before.iter().chain(&after).cloned().collect();
            let with: Vec<_> = before.into_iter().chain([format!("\"{}\"", tag.0)]).chain(after).collect();
            prop_assert!(condition(&[&with.join(&separator)]).includes(&tag));
            prop_assert!(!condition(&[&without.join(&separator)]).includes(&tag));
        }

        #[test]
        fn no_header_makes_the_parser_panic(value in "[ -~\t\u{80}-\u{ff}]{0,40}") {
            condition(&[&value]);
        }
    }
}
