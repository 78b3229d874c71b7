//! A chat request, checked, rendered and turned into a prompt. Tokenises, so it is to run where blocking is allowed.

use medley_chat::{Part, RenderError, Rendered};
use medley_openai::ChatRequest;
use medley_prompt::{Composer, DocumentInput, PartInput, PartsInput, PromptInput};

use super::{
    super::{
        blend,
        bound::Bound,
        fit,
        prepare::{Prepared, PreparedPrompt},
    },
    PreparedChat,
    conversation::conversation,
    request,
};
use crate::{
    AppState, Engine,
    error::{ApiError, shorten},
};

/// Longest text of a template's refusal that is repeated, in characters.
const LONGEST_REFUSAL: usize = 500;

/// Checks `request` and composes its prompt.
pub(crate) fn prepare(
    request: ChatRequest,
    state: &AppState,
    engine: &Engine,
) -> Result<PreparedChat, ApiError> {
    let (card, config) = (engine.generate.model(), state.config());
    let dialect = engine.chat.as_ref().ok_or(ApiError::NoChatTemplate)?;
    let model = state.resolve_model(request.model.as_deref())?;
    let shape = request::shape(&request, card, config, &engine.quality)?;
    let parallel = request.parallel_tool_calls.unwrap_or(true);
    let (conversation, documents) = conversation(request, dialect, config.max_documents)?;
    let rendered = dialect.render(&conversation).map_err(refused)?;
    let reading = dialect.reading(&rendered, !conversation.tools.is_empty(), parallel);
    check_bound(&rendered, &documents, card.max_model_len, &engine.composer)?;
    let blends = !documents.is_empty();
    let prompt = engine.composer.compose_parts(parts(rendered, documents))?.prompt;
    let room = fit::room(0, &prompt, card.max_model_len)?;
    if blends && blend::falls_short(&shape.blend, &engine.quality)? {
        state.metrics().below_needed();
    }
    let prompt = PreparedPrompt {
        max_tokens: shape.max_tokens.clamp(1, room),
        prompt,
        echo: String::new(),
    };
    let prepared = Prepared {
        model,
        shape,
        prompts: vec![prompt],
    };
    Ok(PreparedChat { prepared, reading })
}

fn refused(error: RenderError) -> ApiError {
    let param = match &error {
        RenderError::NoUser | RenderError::Document(_) => "documents".to_owned(),
        RenderError::Inside => "continue_final_message".to_owned(),
        RenderError::Reserved(name) => format!("chat_template_kwargs.{}", shorten(name, 64)),
        RenderError::Refused(_) => "messages".to_owned(),
    };
    ApiError::invalid(param, shorten(&error.to_string(), LONGEST_REFUSAL))
}

fn check_bound(
    rendered: &Rendered,
    documents: &[DocumentInput],
    context: usize,
    composer: &Composer,
) -> Result<(), ApiError> {
    let texts = rendered.parts.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Control(_) | Part::Document(_) => "",
    });
    let longest = composer.tokenizer().longest_token();
    let bound = Bound { context, longest };
    bound.check(&[PromptInput::Text(texts.collect())], None, documents)
}

fn parts(rendered: Rendered, documents: Vec<DocumentInput>) -> PartsInput {
    let inputs = |parts: Vec<Part>| parts.into_iter().map(part).collect();
    PartsInput {
        parts: inputs(rendered.parts),
        when_asked: rendered.when_asked.map(inputs),
        documents,
    }
}

fn part(part: Part) -> PartInput {
    match part {
        Part::Control(spelling) => PartInput::Control(spelling),
        Part::Text(text) => PartInput::Text(text),
        Part::Document(number) => PartInput::Document(number),
    }
}
