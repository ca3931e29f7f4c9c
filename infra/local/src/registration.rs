//! The Matrix registration file, with which a homeserver recognises this service.

use std::path::Path;

use touchline::ports::random::Random;
use touchline_stack::yaml;

/// The parts of a registration file that the stack uses.
pub(crate) struct Registration {
    pub as_token: String,
    pub hs_token: String,
    /// The name of the homeserver. Only registration files that this program generated have this field. It
    /// is not in the Matrix specification.
    pub server_name: Option<String>,
}

const SERVER_NAME: &str = "io.touchline.server_name";

impl Registration {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let file = yaml::parse(&text).map_err(|error| error.to_string())?;
        let field = |name: &str| file[name].as_str().map(str::to_owned);
        let token = |name: &str| field(name).ok_or_else(|| format!("it has no {name}"));
        Ok(Self {
            as_token: token("as_token")?,
            hs_token: token("hs_token")?,
            server_name: field(SERVER_NAME),
        })
    }
}

/// Returns the text of a new registration file. Users have the same username in the product and in Matrix, so
/// the file reserves all valid usernames of the product on the homeserver.
#[must_use]
pub fn registration(server_name: &str, url: &str, random: &(dyn Random + 'static)) -> String {
    let name = server_name.replace('.', "\\.");
    let (as_token, hs_token) = (random.word(48), random.word(48));
    format!(
        "# Registers Touchline with the homeserver of {server_name}. List this file in app_service_config_files.
# It contains two secret tokens. Keep it private.
id: touchline
url: {url}
as_token: {as_token}
hs_token: {hs_token}
sender_localpart: touchline-service
rate_limited: false
namespaces:
  users:
    - {{ exclusive: true, regex: '@[a-z0-9_.]{{3,30}}:{name}' }}
  aliases:
    - {{ exclusive: true, regex: '#touchline-.*:{name}' }}
  rooms: []
{SERVER_NAME}: {server_name}
"
    )
}

#[cfg(test)]
mod tests {
    use touchline::ports::random::SystemRandom;

    use super::*;

    #[test]
    fn a_printed_registration_file_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("touchline.yaml");
        let text = registration("hs.example.org", "http://127.0.0.1:3000", &SystemRandom);
        std::fs::write(&path, &text).unwrap();
        let read = Registration::read(&path).unwrap();
        assert_eq!(read.server_name.as_deref(), Some("hs.example.org"));
        assert!(read.as_token.len() == 48 && read.as_token != read.hs_token);
        assert!(text.contains(r"regex: '@[a-z0-9_.]{3,30}:hs\.example\.org'"), "{text}");
    }

    #[test]
    fn incomplete_and_missing_registration_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("touchline.yaml");
        std::fs::write(&path, "id: touchline\nas_token: x\n").unwrap();
        assert_eq!(Registration::read(&path).err().unwrap(), "it has no hs_token");
        assert!(Registration::read(Path::new("/nowhere")).is_err());
    }
}
