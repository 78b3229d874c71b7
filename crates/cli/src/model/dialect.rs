//! How a model chats, from its own files or from what was given in their place.

use std::sync::Arc;

use medley_chat::{Dialect, Specials, Template};
use medley_prompt::Tokenizer;

use crate::{config::Chat, settings::Misconfigured};

/// The dialect; none for a model without a template, or with one that can't be read, which is logged. A given template
/// must be one.
pub fn dialect(
    given: &Chat,
    own: Option<&str>,
    tokenizer: &Tokenizer,
) -> Result<Option<Arc<Dialect>>, Misconfigured> {
    let source = given.template.as_ref().map(|template| template.value.as_str());
    let Some(source) = source.or(own) else {
        tracing::info!("the model has no chat template");
        return Ok(None);
    };
    match (Template::new(source, specials(tokenizer)), &given.template) {
        (Ok(template), _) => Ok(Some(Arc::new(Dialect::new(template, given.tools)))),
        (Err(error), Some(template)) => Err(Misconfigured::new(&template.origin, error)),
        (Err(error), None) => {
            tracing::warn!(%error, "the model does not chat: its chat template can't be used");
            Ok(None)
        }
    }
}

fn specials(tokenizer: &Tokenizer) -> Specials {
    let named = |token: Option<_>| token.map(|token| tokenizer.token_text(token).to_owned());
    Specials {
        all: tokenizer
            .control_tokens()
            .map(|(_, text)| text.to_owned())
            .collect(),
        bos: named(tokenizer.bos()),
        eos: named(tokenizer.end_of_text().first().copied()),
    }
}

#[cfg(test)]
mod tests {
    use medley_prompt::GgufVocabulary;

    use super::*;
    use crate::{config::Asked, settings::Origin};

    fn tokenizer() -> Tokenizer {
        let tokens: Vec<_> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
        let vocabulary = GgufVocabulary {
            model: "llama".to_owned(),
            token_types: vec![6; 256],
            scores: vec![0.0; 256],
            tokens,
            ..GgufVocabulary::default()
        };
        Tokenizer::from_gguf(vocabulary).expect("a tokenizer")
    }

    fn given(source: &str) -> Chat {
        Chat {
            template: Some(Asked {
                value: source.to_owned(),
                origin: Origin::Flag("chat-template"),
            }),
            tools: None,
        }
    }

    #[test]
    fn a_given_template_goes_before_the_models_own() {
        let dialect = |given: &Chat, own| dialect(given, own, &tokenizer());
        let takes_tools = |given: &Chat, own| {
            let dialect = dialect(given, own).expect("no mistake");
            dialect.map(|dialect| dialect.takes_tools())
        };
        assert_eq!(takes_tools(&given("{{ tools }}"), Some("{{ a }}")), Some(true));
        assert_eq!(takes_tools(&Chat::default(), Some("{{ a }}")), Some(false));
        assert_eq!(takes_tools(&Chat::default(), None), None);
        assert_eq!(takes_tools(&Chat::default(), Some("{% bad")), None);
        let refused = dialect(&given("{% bad"), None).err().expect("no template");
        assert!(refused.to_string().starts_with("--chat-template: "), "{refused}");
    }
}
