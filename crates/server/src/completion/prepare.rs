//! A request, checked and turned into prompts. Tokenises, so it is to run where blocking is allowed.

use medley_kv::Prompt;
use medley_openai::{CompletionRequest, DocumentParam, PromptParam};
use medley_prompt::{CompletionInput, Composed, Composer, DocumentInput, PromptInput};

use super::{blend, bound::Bound, documents, fit, shape::Shape};
use crate::{AppState, Engine, error::ApiError};

/// A request that can be run.
pub(crate) struct Prepared {
    /// The model's name in the answer.
    pub(crate) model: String,
    /// Everything but the prompts.
    pub(crate) shape: Shape,
    /// The prompts in order; at least one.
    pub(super) prompts: Vec<PreparedPrompt>,
}

/// A prompt that fits.
pub(super) struct PreparedPrompt {
    pub(super) prompt: Prompt,
    /// Tokens to generate at most; at least 1.
    pub(super) max_tokens: usize,
    /// What the texts begin with; empty without `echo`.
    pub(super) echo: String,
}

/// Checks `request` and composes its prompts.
pub(crate) fn prepare(
    request: CompletionRequest,
    state: &AppState,
    engine: &Engine,
) -> Result<Prepared, ApiError> {
    let card = engine.generate.model();
    let model = state.resolve_model(request.model.as_deref())?;
    let shape = Shape::new(&request, card, state.config(), &engine.quality)?;
    let source = Source::new(request, &shape, state)?;
    source.check_bound(card.max_model_len, &engine.composer)?;
    let echoes = source.echoes(shape.echo);
    let composed = source.compose(&engine.composer)?;
    let fitted = composed
        .into_iter()
        .zip(echoes)
        .enumerate()
        .map(|(index, (composed, echo))| {
            let prompt = composed.prompt;
            documents::check_count(&prompt, state.config().max_documents)?;
            let room = fit::room(index, &prompt, card.max_model_len)?;
            let rendered = || engine.composer.tokenizer().decode(&prompt.tokens());
            let echo = if shape.echo {
                echo.unwrap_or_else(rendered)
            } else {
                String::new()
            };
            Ok(PreparedPrompt {
                max_tokens: shape.max_tokens.clamp(1, room),
                prompt,
                echo,
            })
        });
    let prompts = fitted.collect::<Result<Vec<PreparedPrompt>, ApiError>>()?;
    let documents = prompts
        .iter()
        .any(|prompt| prompt.prompt.documents().next().is_some());
    if documents && blend::falls_short(&shape.blend, &engine.quality)? {
        state.metrics().below_needed();
    }
    Ok(Prepared {
        model,
        shape,
        prompts,
    })
}

/// What the prompts are made of.
struct Source {
    prompts: Vec<PromptInput>,
    is_batch: bool,
    instructions: Option<String>,
    documents: Vec<DocumentInput>,
    add_special_tokens: bool,
}

impl Source {
    fn new(request: CompletionRequest, shape: &Shape, state: &AppState) -> Result<Self, ApiError> {
        let config = state.config();
        let (prompts, is_batch) = prompts(request.prompt.ok_or(ApiError::Missing("prompt"))?);
        let choices = prompts.len().saturating_mul(shape.best_of);
        if prompts.is_empty() {
            return Err(ApiError::invalid("prompt", "the list of prompts is empty"));
        }
        if choices > config.max_choices {
            let message = format!(
                "prompts × {} may be {} at most, not {choices}",
                shape.factor(),
                config.max_choices
            );
            return Err(ApiError::invalid(shape.multiplier(), message));
        }
        let given: Vec<DocumentParam> = request.documents.unwrap_or_default();
        Ok(Self {
            prompts,
            is_batch,
            instructions: request.instructions,
            documents: documents::inputs(given, config.max_documents)?,
            add_special_tokens: request.add_special_tokens.unwrap_or(true),
        })
    }

    fn check_bound(&self, context: usize, composer: &Composer) -> Result<(), ApiError> {
        let longest = composer.tokenizer().longest_token();
        let bound = Bound { context, longest };
        bound.check(&self.prompts, self.instructions.as_deref(), &self.documents)
    }

    /// The texts to echo where they are the whole prompt; `None` where the prompt must be rendered from its tokens.
    fn echoes(&self, wanted: bool) -> Vec<Option<String>> {
        let bare = self.documents.is_empty() && self.instructions.as_deref().unwrap_or_default().is_empty();
        let text = |prompt: &PromptInput| match prompt {
            PromptInput::Text(text) if wanted && bare => Some(text.clone()),
            _ => None,
        };
        self.prompts.iter().map(text).collect()
    }

    fn compose(mut self, composer: &Composer) -> Result<Vec<Composed>, ApiError> {
        let only = if self.is_batch { None } else { self.prompts.pop() };
        if let Some(prompt) = only {
            let input = CompletionInput {
                prompt,
                instructions: self.instructions,
                documents: Some(self.documents),
                add_special_tokens: self.add_special_tokens,
            };
            return Ok(vec![composer.compose(input)?]);
        }
        let (instructions, documents) = (self.instructions.as_deref(), &self.documents);
        Ok(composer.compose_batch(&self.prompts, instructions, documents, self.add_special_tokens)?)
    }
}

/// The prompts of a request and whether they were sent as a list of prompts.
fn prompts(param: PromptParam) -> (Vec<PromptInput>, bool) {
    match param {
        PromptParam::Text(text) => (vec![PromptInput::Text(text)], false),
        PromptParam::Tokens(ids) => (vec![PromptInput::Tokens(ids)], false),
        PromptParam::Texts(texts) => (texts.into_iter().map(PromptInput::Text).collect(), true),
        PromptParam::TokenLists(lists) => (lists.into_iter().map(PromptInput::Tokens).collect(), true),
    }
}
