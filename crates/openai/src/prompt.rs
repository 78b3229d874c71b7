//! The four forms of a completion's prompt.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use utoipa::ToSchema;

/// One prompt or a batch of prompts, as texts or as token ids. An empty list is an empty batch of texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum PromptParam {
    /// One text.
    Text(String),
    /// A batch of texts.
    Texts(Vec<String>),
    /// One list of token ids.
    Tokens(Vec<u32>),
    /// A batch of lists of token ids.
    TokenLists(Vec<Vec<u32>>),
}

impl<'de> Deserialize<'de> for PromptParam {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptVisitor)
    }
}

struct PromptVisitor;

impl<'de> Visitor<'de> for PromptVisitor {
    type Value = PromptParam;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prompt: a string, a list of strings, a list of token ids or a list of such lists")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PromptParam, E> {
        Ok(PromptParam::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<PromptParam, E> {
        Ok(PromptParam::Text(text))
    }

    /// The first element decides the form; the others must follow it.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PromptParam, A::Error> {
        Ok(match list.next_element()? {
            None => PromptParam::Texts(Vec::new()),
            Some(Element::Text(first)) => PromptParam::Texts(rest(first, list)?),
            Some(Element::Id(first)) => PromptParam::Tokens(rest(first, list)?),
            Some(Element::Ids(first)) => PromptParam::TokenLists(rest(first, list)?),
        })
    }
}

fn rest<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(first: T, mut list: A) -> Result<Vec<T>, A::Error> {
    let mut all = vec![first];
    while let Some(next) = list.next_element()? {
        all.push(next);
    }
    Ok(all)
}

enum Element {
    Text(String),
    Id(u32),
    Ids(Vec<u32>),
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a token id or a list of token ids")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Element, E> {
        Ok(Element::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Element, E> {
        Ok(Element::Text(text))
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Element, E> {
        u32::try_from(id)
            .map(Element::Id)
            .map_err(|_| E::custom(format_args!("{id} is not a token id")))
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<Element, E> {
        u32::try_from(id)
            .map(Element::Id)
            .map_err(|_| E::custom(format_args!("{id} is not a token id")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Element, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Element::Ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_forms_are_told_apart() {
        let cases = [
            (r#""a""#, PromptParam::Text("a".into())),
            (r#"["a","b"]"#, PromptParam::Texts(vec!["a".into(), "b".into()])),
            ("[1,2]", PromptParam::Tokens(vec![1, 2])),
            (
                "[[1,2],[],[3]]",
                PromptParam::TokenLists(vec![vec![1, 2], vec![], vec![3]]),
            ),
            ("[]", PromptParam::Texts(vec![])),
        ];
        for (json, expected) in cases {
            assert_eq!(serde_json::from_str::<PromptParam>(json).expect(json), expected);
        }
    }

    #[test]
    fn mixed_lists_and_other_types_are_refused() {
        for bad in [
            "1",
            "{}",
            r#"["a",1]"#,
            r#"[1,"a"]"#,
            "[1,[2]]",
            "[[1],2]",
            "[-1]",
            "[4294967296]",
            "[1.5]",
            "[null]",
        ] {
            assert!(
                serde_json::from_str::<PromptParam>(bad).is_err(),
                "{bad} accepted"
            );
        }
    }
}
