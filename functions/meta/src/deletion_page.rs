use touchline::api::meta::{DeletionPage, Html};
use touchline::{App, Call, Error, Reply};

const PAGE: &str = include_str!("deletion_page.html");

/// Allows nothing but the page's own script and style, and requests to this service. The hashes are those of the script and the
/// style.
const POLICY: &str = "default-src 'none'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
    script-src 'sha256-0S58Fd9dD1c376U/WdJWCKlgVYiA5IbbxtIlqEyXPGA='; \
    style-src 'sha256-8zpuZcLz8Sv51yeIuQeXH/QXyhKW1YcPq2m/sXxOxis='";

pub async fn handle(_: App, _: Call<DeletionPage>) -> Result<Reply<Html>, Error> {
    Ok(Reply::from(Html(PAGE))
        .header("content-security-policy", POLICY)
        .header("referrer-policy", "no-referrer"))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use sha2::{Digest as _, Sha256};
    use touchline_testing::TestApp;

    use super::*;

    #[tokio::test]
    async fn the_page_is_html_that_no_other_page_can_embed() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let response = app.anonymous().get("/account/delete").await;
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(response.header("content-security-policy"), Some(POLICY));
    }

    /// A browser runs the script and applies the style only with these hashes.
    #[test]
    fn the_policy_has_the_hashes_of_the_script_and_the_style() {
        for tag in ["script", "style"] {
            let (_, rest) = PAGE.split_once(&format!("<{tag}>")).unwrap();
            let (text, _) = rest.split_once(&format!("</{tag}>")).unwrap();
            let hash = BASE64_STANDARD.encode(Sha256::digest(text));
            assert!(POLICY.contains(&format!("{tag}-src 'sha256-{hash}'")), "{tag}-src: {hash}");
        }
    }
}
