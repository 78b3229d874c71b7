//! Who may ask over HTTP, how much and for how long.

use std::time::Duration;

use http::HeaderValue;
use medley_server::{ApiKeys, CorsOrigins};

use super::{Bytes, Time};
use crate::settings::{Layers, Misconfigured};

/// What the HTTP interface is told.
#[derive(Clone, Debug)]
pub struct Http {
    /// The keys that requests must come with; without any, none is asked for.
    pub api_keys: ApiKeys,
    /// Whose pages may call from a browser.
    pub cors: CorsOrigins,
    /// Bytes that a body may have.
    pub body_limit: usize,
    /// Time that a body may take to arrive.
    pub body_timeout: Duration,
    /// Time that the head of a request may take to arrive.
    pub header_timeout: Duration,
    /// Time that an answer may take; for ever if none.
    pub request_timeout: Option<Duration>,
}

impl Http {
    /// Checks the settings of the HTTP interface.
    pub fn new(layers: &Layers) -> Result<Self, Misconfigured> {
        Ok(Self {
            api_keys: api_keys(layers)?,
            cors: cors(layers)?,
            body_limit: layers.required("max-body-size", size)?,
            body_timeout: layers.required("body-timeout", time)?,
            header_timeout: layers.required("header-timeout", time)?,
            request_timeout: layers.optional("request-timeout", time)?,
        })
    }
}

/// The keys given one by one and those of the file. What is wrong with one is said without it.
fn api_keys(layers: &Layers) -> Result<ApiKeys, Misconfigured> {
    let mut keys = Vec::new();
    for (name, read) in [
        (
            "api-key",
            one_by_one as fn(&[String]) -> Result<Vec<String>, String>,
        ),
        ("api-key-file", of_file),
    ] {
        let Some(given) = layers.given(name) else { continue };
        let refuse = |reason: String| Misconfigured::new(&given.origin, reason);
        let found = read(&given.texts).map_err(refuse)?;
        if let Some(index) = found.iter().position(|key| !is_key(key)) {
            let reason = format!(
                "key {} is empty or has characters that a header can't carry: printable ASCII without spaces is taken",
                index + 1
            );
            return Err(refuse(reason));
        }
        keys.extend(found);
    }
    Ok(keys.iter().collect())
}

fn one_by_one(texts: &[String]) -> Result<Vec<String>, String> {
    Ok(texts.to_vec())
}

/// The keys of a file, one a line. Empty lines and lines that begin with `#` are none.
fn of_file(paths: &[String]) -> Result<Vec<String>, String> {
    let path = paths.last().map_or("", String::as_str);
    let text = std::fs::read_to_string(path).map_err(|error| format!("`{path}` can't be read: {error}"))?;
    let lines = text.lines().map(str::trim);
    let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    if keys.is_empty() {
        return Err(format!("`{path}` has no keys"));
    }
    Ok(keys)
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `*` alone is everybody, `none` alone nobody.
fn cors(layers: &Layers) -> Result<CorsOrigins, Misconfigured> {
    let Some(given) = layers.given("cors-allow-origin") else {
        return Ok(CorsOrigins::Any);
    };
    let texts: Vec<&str> = given.texts.iter().map(String::as_str).collect();
    match texts.as_slice() {
        ["*"] => return Ok(CorsOrigins::Any),
        ["none"] => return Ok(CorsOrigins::List(Vec::new())),
        _ => {}
    }
    let origins = texts.into_iter().map(|text| {
        let refuse = || Misconfigured::new(&given.origin, format!("`{text}` {ORIGIN}"));
        origin(text).ok_or_else(refuse)
    });
    origins.collect::<Result<_, _>>().map(CorsOrigins::List)
}

const ORIGIN: &str = "is not an origin as browsers send it, such as https://example.org or http://localhost:3000; `*` \
                      alone is everybody, `none` alone nobody";

/// A scheme and a host, perhaps a port, and nothing behind them.
fn origin(text: &str) -> Option<HeaderValue> {
    let (scheme, host) = text.split_once("://")?;
    let plain = |part: &str, others: &[u8]| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase() || others.contains(&byte))
    };
    let fits = plain(scheme, b"+-.") && plain(host, b"-.:[]");
    fits.then(|| HeaderValue::from_str(text).ok()).flatten()
}

fn size(text: &str) -> Result<usize, String> {
    let Bytes(bytes) = text.parse()?;
    match usize::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("is not a size that a body can have".to_owned()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let Time(time) = text.parse()?;
    if time.is_zero() {
        return Err("is not a time in which anything could arrive".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Environment;

    fn http(flags: &[(&'static str, &[&str])], environment: Environment) -> Result<Http, Misconfigured> {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let flags = flags.iter().map(|(name, given)| (*name, texts(given))).collect();
        Http::new(&Layers::new(flags, None, environment)?)
    }

    #[test]
    fn without_settings_everybody_may_ask() {
        let http = http(&[], Environment::default()).expect("valid");
        assert!(http.api_keys.is_empty());
        assert_eq!(http.cors, CorsOrigins::Any);
        assert_eq!(http.body_limit, 32 << 20);
        assert_eq!(http.body_timeout, Duration::from_secs(30));
        assert_eq!(http.header_timeout, Duration::from_secs(75));
        assert_eq!(http.request_timeout, None);
    }

    #[test]
    fn keys_come_from_flags_variables_and_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        std::fs::write(&path, "# ops\nc\n\n  d  \n").expect("written");
        let path = path.to_str().expect("text");
        let variables = Environment::from([("MEDLEY_API_KEY", "a, b"), ("MEDLEY_API_KEY_FILE", path)]);
        assert_eq!(http(&[], variables).expect("valid").api_keys.len(), 4);
        let flags = [("api-key", &["a", "b"][..])];
        assert_eq!(
            http(&flags, Environment::default())
                .expect("valid")
                .api_keys
                .len(),
            2
        );
    }

    #[test]
    fn wrong_keys_are_refused_and_not_shown() {
        for wrong in ["", "se cret", "sécret"] {
            let refused = http(&[("api-key", &["fine", wrong])], Environment::default());
            let message = refused.expect_err("no key").to_string();
            assert!(message.starts_with("--api-key: key 2 "), "{message}");
            assert!(wrong.is_empty() || !message.contains(wrong), "{message}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        std::fs::write(&path, "# none\n").expect("written");
        for path in [path.to_str().expect("text"), "/no/such/file"] {
            let refused = http(&[("api-key-file", &[path])], Environment::default());
            let message = refused.expect_err("no keys").to_string();
            assert!(message.starts_with("--api-key-file: `"), "{message}");
        }
    }

    #[test]
    fn origins_are_taken_as_browsers_send_them() {
        let cors = |given: &[&str]| {
            http(&[("cors-allow-origin", given)], Environment::default()).map(|http| http.cors)
        };
        let list = |origins: &[&'static str]| {
            CorsOrigins::List(origins.iter().copied().map(HeaderValue::from_static).collect())
        };
        assert_eq!(cors(&["*"]), Ok(CorsOrigins::Any));
        assert_eq!(cors(&["none"]), Ok(list(&[])));
        let two = ["https://a.example", "http://localhost:3000"];
        assert_eq!(cors(&two), Ok(list(&two)));
        for wrong in [
            "a.example",
            "https://a.example/",
            "https://",
            "https://A.example",
            "*",
            "none",
            "",
        ] {
            assert!(cors(&["https://a.example", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_and_sizes_of_nothing_are_refused() {
        for (name, text) in [
            ("max-body-size", "0"),
            ("body-timeout", "0s"),
            ("header-timeout", "0"),
            ("request-timeout", "0ms"),
        ] {
            let refused = http(&[(name, &[text])], Environment::default());
            let message = refused.expect_err("nothing").to_string();
            assert!(
                message.starts_with(&format!("--{name}: `{text}` is ")),
                "{message}"
            );
        }
    }
}
