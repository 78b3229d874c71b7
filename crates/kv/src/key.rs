//! Content keys: 256-bit BLAKE3 hashes with a stable encoding of their own.
//!
//! A key never depends on `std::hash`, on pointer sizes or on byte order of the machine. Every field is
//! length-prefixed, so no two different lists of fields share an encoding. Keys only find candidates: whoever
//! finds an entry by key compares its token ids before using it.

use std::fmt;

use crate::{Segment, TokenId};

/// Everything outside the tokens that decides a KV entry's bits: model, weights revision, quantisation, KV
/// format, RoPE parameters, numerical recipe and tenant.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Namespace([u8; 32]);

/// Collects the named fields of a [`Namespace`].
#[derive(Clone)]
pub struct NamespaceBuilder(blake3::Hasher);

impl Namespace {
    /// Starts a namespace with the version of this encoding.
    pub fn builder() -> NamespaceBuilder {
        NamespaceBuilder(blake3::Hasher::new_derive_key("medley namespace v1"))
    }

    /// The namespace of a subdivision of this one, such as a tenant's `cache_salt`.
    pub fn subdivide(&self, salt: &str) -> Self {
        let mut builder = NamespaceBuilder(blake3::Hasher::new_derive_key("medley namespace salt v1"));
        builder.0.update(&self.0);
        builder.field("salt", salt.as_bytes()).build()
    }
}

impl Namespace {
    /// A name for what lies in it, such as a file: 40 hexadecimal digits.
    pub fn id(&self) -> String {
        hex(&self.0[..20])
    }
}

impl NamespaceBuilder {
    /// Adds a field; order matters.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        frame(&mut self.0, name.as_bytes());
        frame(&mut self.0, value.as_ref());
        self
    }

    /// The finished namespace.
    pub fn build(&self) -> Namespace {
        Namespace(*self.0.finalize().as_bytes())
    }
}

/// The key of a document's canonical KV: its tokens behind its anchor, in a namespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey([u8; 32]);

impl DocumentKey {
    /// Key of `tokens` computed behind `anchor`.
    pub fn new(namespace: &Namespace, anchor: &[TokenId], tokens: &[TokenId]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&namespace.0);
        hasher.update(b"document");
        frame_tokens(&mut hasher, anchor);
        frame_tokens(&mut hasher, tokens);
        Self(*hasher.finalize().as_bytes())
    }

    /// The public id: `doc_` and 40 hexadecimal digits.
    pub fn document_id(&self) -> String {
        format!("doc_{}", hex(&self.0[..20]))
    }
}

/// The key of a run of exact KV: all tokens from the start of the sequence to the end of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixKey([u8; 32]);

impl PrefixKey {
    /// The key of the empty prefix.
    pub fn root(namespace: &Namespace) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&namespace.0);
        hasher.update(b"prefix");
        Self(*hasher.finalize().as_bytes())
    }

    /// The key of this prefix continued by `tokens`.
    pub fn extend(&self, tokens: &[TokenId]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        frame_tokens(&mut hasher, tokens);
        Self(*hasher.finalize().as_bytes())
    }
}

/// The key of blended KV: a prompt's segments up to its question row, in a namespace that says how they were blended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlendedKey([u8; 32]);

impl BlendedKey {
    /// Key of the prompt that begins with `segments`.
    pub fn new(namespace: &Namespace, segments: &[Segment]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&namespace.0);
        hasher.update(b"blended");
        for segment in segments {
            match segment {
                Segment::Text(_) => frame(&mut hasher, b"text"),
                Segment::Document(document) => {
                    frame(&mut hasher, b"document");
                    frame_tokens(&mut hasher, &document.anchor);
                }
            }
            frame_tokens(&mut hasher, segment.tokens());
        }
        Self(*hasher.finalize().as_bytes())
    }
}

fn frame(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

fn frame_tokens(hasher: &mut blake3::Hasher, tokens: &[TokenId]) {
    hasher.update(&(tokens.len() as u64).to_le_bytes());
    for token in tokens {
        hasher.update(&token.0.to_le_bytes());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

macro_rules! debug_as_hex {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), hex(&self.0[..6]))
            }
        }
    )*};
}
debug_as_hex!(Namespace, DocumentKey, PrefixKey, BlendedKey);

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: &[u32]) -> Vec<TokenId> {
        ids.iter().copied().map(TokenId).collect()
    }

    #[test]
    fn keys_separate_namespace_anchor_and_tokens() {
        let a = Namespace::builder().field("model", "a").build();
        let b = Namespace::builder().field("model", "b").build();
        let key =
            |ns: &Namespace, anchor: &[u32], doc: &[u32]| DocumentKey::new(ns, &tokens(anchor), &tokens(doc));
        let all = [
            key(&a, &[1], &[2, 3]),
            key(&b, &[1], &[2, 3]),
            key(&a, &[1, 2], &[3]),
            key(&a, &[], &[1, 2, 3]),
            key(&a.subdivide("t"), &[1], &[2, 3]),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|y| x != y), "key {i} collides");
        }
        assert_eq!(key(&a, &[1], &[2, 3]), all[0]);
    }

    #[test]
    fn fields_can_not_run_into_each_other() {
        let one = Namespace::builder().field("a", "bc").build();
        let two = Namespace::builder().field("ab", "c").build();
        assert_ne!(one, two);
    }

    #[test]
    fn prefix_keys_chain() {
        let ns = Namespace::builder().build();
        let root = PrefixKey::root(&ns);
        assert_ne!(root.extend(&tokens(&[1])), root.extend(&tokens(&[2])));
        assert_ne!(
            root.extend(&tokens(&[1])).extend(&tokens(&[2])),
            root.extend(&tokens(&[1, 2]))
        );
    }

    #[test]
    fn blended_keys_separate_what_is_text_and_what_a_document_is_behind() {
        let ns = Namespace::builder().build();
        let text = |ids: &[u32]| Segment::Text(tokens(ids).into());
        let document = |anchor: &[u32], ids: &[u32], name: &str| {
            Segment::Document(crate::Document {
                name: Some(name.to_owned()),
                tokens: tokens(ids).into(),
                anchor: tokens(anchor).into(),
            })
        };
        let key = |segments: &[Segment]| BlendedKey::new(&ns, segments);
        let all = [
            key(&[text(&[1]), document(&[9], &[2], "a"), text(&[3])]),
            key(&[text(&[1]), document(&[9, 2], &[], "a"), text(&[3])]),
            key(&[text(&[1]), document(&[8], &[2], "a"), text(&[3])]),
            key(&[text(&[1]), text(&[2]), text(&[3])]),
            key(&[text(&[1, 2]), document(&[9], &[], "a"), text(&[3])]),
            BlendedKey::new(
                &ns.subdivide("t"),
                &[text(&[1]), document(&[9], &[2], "a"), text(&[3])],
            ),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|y| x != y), "key {i} collides");
        }
        assert_eq!(
            key(&[text(&[1]), document(&[9], &[2], "b"), text(&[3])]),
            all[0],
            "names are no part of it"
        );
    }

    #[test]
    fn the_encoding_is_stable() {
        let ns = Namespace::builder().field("model", "m").build();
        let id = DocumentKey::new(&ns, &tokens(&[1]), &tokens(&[2, 3])).document_id();
        assert_eq!(id.len(), 44);
        assert_eq!(id, "doc_0bee314751a882b50e6e7bd4dcfb26a15e492d19");
    }
}
