//! Prompts that a chat template has put together.
//!
//! Between control tokens and documents text is tokenised as one, template's words and client's words alike: those
//! are the tokens that the model was trained on. A document has the tokens that it has in every other prompt.

use std::sync::Arc;

use medley_kv::{Document, Prompt, TokenId};

use super::{ComposeError, Composed, Composer, PartInput, PartsInput, segments::Segments};
use crate::Specials;

impl Composer {
    /// The prompt of a rendered conversation. BOS is put in front if the model expects it and the template wrote
    /// none.
    ///
    /// The question row is the last one before the answer to the text that follows the documents. In the first turn
    /// that is the prompt's end. In later ones it stays where it was, so that the same document tokens are repaired,
    /// and what was said in between keeps its context.
    pub fn compose_parts(&self, input: PartsInput) -> Result<Composed, ComposeError> {
        let empty = || ComposeError::EmptyPrompt {
            param: "messages".to_owned(),
        };
        let documents = self.compose_documents(&input.documents)?;
        let segments = self.segments(&input.parts, &documents).finish();
        let prompt = Prompt::new(segments).map_err(|_| empty())?;
        let asked = input.when_asked.map(|parts| self.segments(&parts, &documents));
        let question = asked.and_then(|asked| question(&prompt, asked));
        let prompt = match question {
            Some(question) => {
                Prompt::with_question(prompt.segments().to_vec(), question).map_err(|_| empty())?
            }
            None => prompt,
        };
        Ok(Composed { prompt })
    }

    fn segments(&self, parts: &[PartInput], documents: &[Document]) -> Segments {
        let mut segments = Segments::default();
        if let Some(bos) = self.missing_bos(parts) {
            segments.text(&[bos]);
        }
        for part in parts {
            match part {
                PartInput::Control(spelling) => {
                    segments.text(&self.tokenizer.encode(spelling, Specials::AsTokens));
                }
                PartInput::Text(text) => segments.text(&self.tokenizer.encode(text, Specials::AsText)),
                PartInput::Document(number) => {
                    documents.get(*number).cloned().into_iter().for_each(|document| {
                        segments.document(document);
                    });
                }
            }
        }
        segments
    }

    fn missing_bos(&self, parts: &[PartInput]) -> Option<TokenId> {
        let bos = self.tokenizer.bos().filter(|_| self.tokenizer.adds_bos())?;
        let written = match parts.first() {
            Some(PartInput::Control(spelling)) => spelling == self.tokenizer.token_text(bos),
            _ => false,
        };
        (!written).then_some(bos)
    }
}

/// The last row of what was asked, if `prompt` begins with it.
fn question(prompt: &Prompt, asked: Segments) -> Option<usize> {
    let asked = Prompt::new(asked.finish()).ok()?;
    let documents = |prompt: &Prompt| -> Vec<Arc<[TokenId]>> {
        prompt
            .documents()
            .map(|document| Arc::clone(&document.tokens))
            .collect()
    };
    let begins = prompt.tokens().starts_with(&asked.tokens()) && documents(prompt) == documents(&asked);
    begins.then(|| asked.question())
}

#[cfg(test)]
mod tests {
    use medley_kv::Segment;

    use super::*;
    use crate::{
        Anchor, Body, CompletionInput, DocumentInput, GgufVocabulary, PromptInput, Tokenizer, test_vocabulary,
    };

    fn composer(vocabulary: GgufVocabulary) -> Composer {
        let tokenizer = Tokenizer::from_gguf(vocabulary).expect("a vocabulary");
        Composer::new(tokenizer, &Anchor::Bos, None).expect("a composer")
    }

    fn byte_level() -> Composer {
        composer(test_vocabulary::byte_level())
    }

    fn control(spelling: &str) -> PartInput {
        PartInput::Control(spelling.to_owned())
    }

    fn text(text: &str) -> PartInput {
        PartInput::Text(text.to_owned())
    }

    fn document(text: &str) -> DocumentInput {
        DocumentInput {
            id: None,
            title: Some("T".to_owned()),
            body: Body::Text(text.to_owned()),
            context: None,
        }
    }

    fn compose(composer: &Composer, parts: Vec<PartInput>, documents: Vec<DocumentInput>) -> Prompt {
        let input = PartsInput {
            parts,
            when_asked: None,
            documents,
        };
        composer.compose_parts(input).expect("composed").prompt
    }

    /// What a plain tokenizer makes of a rendered chat in which nobody plays tricks.
    #[test]
    fn the_tokens_are_those_of_the_whole_text() {
        for (vocabulary, bos, end) in [
            (test_vocabulary::byte_level(), "<bos>", "<|im_end|>"),
            (test_vocabulary::sentencepiece(), "<s>", "</s>"),
        ] {
            let composer = composer(vocabulary);
            let parts = vec![
                control(bos),
                text("hello ab<tool>"),
                control(end),
                text(" a\n"),
                control(end),
            ];
            let whole = format!("{bos}hello ab<tool>{end} a\n{end}");
            let expected = composer.tokenizer().encode(&whole, Specials::AsTokens);
            assert_eq!(compose(&composer, parts, Vec::new()).tokens(), expected);
        }
    }

    #[test]
    fn text_that_spells_a_control_token_is_text() {
        let composer = byte_level();
        let prompt = compose(
            &composer,
            vec![control("<bos>"), text("a<|im_end|>b")],
            Vec::new(),
        );
        assert_eq!(prompt.tokens()[0], TokenId(0));
        assert!(
            !prompt.tokens()[1..].iter().any(|token| token.0 < 2),
            "{prompt:?}"
        );
        assert_eq!(composer.tokenizer().decode(&prompt.tokens()), "a<|im_end|>b");
    }

    #[test]
    fn bos_is_there_once() {
        let composer = byte_level();
        for parts in [vec![text("a")], vec![control("<bos>"), text("a")]] {
            let tokens = compose(&composer, parts, Vec::new()).tokens();
            assert_eq!(
                tokens.iter().filter(|token| token.0 == 0).count(),
                1,
                "{tokens:?}"
            );
        }
        let none = GgufVocabulary {
            add_bos: Some(false),
            ..test_vocabulary::byte_level()
        };
        let tokens = compose(&self::composer(none), vec![text("a")], Vec::new()).tokens();
        assert!(tokens.iter().all(|token| token.0 != 0), "{tokens:?}");
    }

    #[test]
    fn a_document_is_that_of_a_completion() {
        let composer = byte_level();
        let documents = vec![document("a<|im_end|>"), document("ab")];
        let completion = composer.compose(CompletionInput {
            prompt: PromptInput::Text("q".to_owned()),
            instructions: None,
            documents: Some(documents.clone()),
            add_special_tokens: true,
        });
        let completion = completion.expect("composed").prompt;
        let parts = vec![
            text("x"),
            PartInput::Document(1),
            PartInput::Document(0),
            text("q"),
        ];
        let chat = compose(&composer, parts, documents);
        let (mut of_chat, of_completion): (Vec<_>, Vec<_>) =
            (chat.documents().collect(), completion.documents().collect());
        of_chat.reverse();
        assert_eq!(of_chat, of_completion);
        assert!(matches!(chat.segments().last(), Some(Segment::Text(_))));
    }

    #[test]
    fn the_question_row_is_the_end_until_the_documents_were_asked_about() {
        let composer = byte_level();
        let first = vec![
            control("<bos>"),
            PartInput::Document(0),
            text("q"),
            control("<|im_end|>"),
        ];
        let prompt = compose(&composer, first.clone(), vec![document("a")]);
        assert_eq!(prompt.question(), prompt.len() - 1);
        let later = |second: &str| {
            let input = PartsInput {
                parts: [first.clone(), vec![text(second), control("<|im_end|>")]].concat(),
                when_asked: Some(first.clone()),
                documents: vec![document("a")],
            };
            composer.compose_parts(input).expect("composed").prompt
        };
        assert_eq!(later("more").question(), prompt.question());
        assert!(later("more").len() > prompt.len());
        // A template that renders an earlier turn in another way has no such row.
        let other = PartsInput {
            parts: first,
            when_asked: Some(vec![control("<bos>"), text("other")]),
            documents: vec![document("a")],
        };
        let other = composer.compose_parts(other).expect("composed").prompt;
        assert_eq!(other.question(), other.len() - 1);
    }

    #[test]
    fn nothing_is_no_prompt() {
        let none = GgufVocabulary {
            add_bos: Some(false),
            ..test_vocabulary::byte_level()
        };
        let input = PartsInput {
            parts: vec![text("")],
            when_asked: None,
            documents: Vec::new(),
        };
        let refused = composer(none).compose_parts(input).expect_err("empty");
        assert_eq!(refused.param(), "messages");
    }
}
