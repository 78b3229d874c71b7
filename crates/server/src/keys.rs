//! API keys, and whose cache a request uses.
//!
//! A key is kept as a hash only, and that hash is the tenant. Nothing is shared between tenants: theirs are different
//! namespaces of documents and prefixes. Hashes are compared in constant time, each request's with all of them.

use std::{convert::Infallible, fmt};

use axum::{extract::FromRequestParts, http::request::Parts};

/// The keys that requests may come with; without any, none is asked for.
#[derive(Clone, Default)]
pub struct ApiKeys(Vec<blake3::Hash>);

/// Whose cache a request uses: that of its API key, or of everybody where none is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tenant(Option<blake3::Hash>);

impl ApiKeys {
    /// Whether every request is welcome.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The tenant whose key this is.
    pub(crate) fn tenant(&self, key: &[u8]) -> Option<Tenant> {
        let asked = hash(key);
        // No early end: how long this takes says nothing about the keys.
        let known = self.0.iter().fold(false, |found, key| found | (*key == asked));
        known.then_some(Tenant(Some(asked)))
    }
}

impl<K: AsRef<str>> FromIterator<K> for ApiKeys {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        Self(
            keys.into_iter()
                .map(|key| hash(key.as_ref().as_bytes()))
                .collect(),
        )
    }
}

/// Says how many there are and none of them.
impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.len())
    }
}

impl Tenant {
    /// The salt that subdivides the engine's cache for a request that asks for `salt`. A key's hash has a fixed length,
    /// so that no two pairs of tenant and salt have the same one.
    pub(crate) fn salt(self, salt: Option<&str>) -> Option<String> {
        let Some(hash) = self.0 else {
            return salt.map(str::to_owned);
        };
        let separator = if salt.is_some() { ":" } else { "" };
        Some(format!("{hash}{separator}{}", salt.unwrap_or_default()))
    }
}

impl<S: Sync> FromRequestParts<S> for Tenant {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or_default())
    }
}

fn hash(key: &[u8]) -> blake3::Hash {
    blake3::Hash::from_bytes(blake3::derive_key("medley tenant v1", key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_and_salts_have_salts_of_their_own() {
        let keys: ApiKeys = ["a", "b"].into_iter().collect();
        let tenant = |key: &str| keys.tenant(key.as_bytes()).expect("known");
        let salts = [
            Tenant::default().salt(None),
            Tenant::default().salt(Some("x")),
            tenant("a").salt(None),
            tenant("b").salt(None),
            tenant("a").salt(Some("x")),
            tenant("b").salt(Some("x")),
        ];
        for (index, salt) in salts.iter().enumerate() {
            assert!(!salts[index + 1..].contains(salt), "{index}");
        }
        assert_eq!(tenant("a").salt(Some("x")), tenant("a").salt(Some("x")));
        assert_eq!(keys.tenant(b"c"), None);
        assert_eq!(keys.tenant(b""), None);
    }

    #[test]
    fn keys_are_not_shown() {
        let keys: ApiKeys = ["secret"].into_iter().collect();
        assert_eq!(format!("{keys:?}"), "ApiKeys(1)");
    }
}
