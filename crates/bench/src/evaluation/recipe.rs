//! The prompt of a case, composed as a completion request with documents.
//!
//! The recipe is that of short-answer questions over passages, in the ChatML form of the models it is used with.

use anyhow::{Result, ensure};
use medley_kv::Prompt;
use medley_prompt::{Body, CompletionInput, Composer, DocumentInput, PromptInput, Specials};

use super::case::{Case, Passage};
use crate::Subject;

const INSTRUCTIONS: &str = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nAnswer the \
question based on the given passages. Only give me the answer and do not output any other words.\n\nThe following are \
given passages.";
const TASK: &str = "\nAnswer the question based on the given passages. Answer the question within 5 words. Do NOT \
repeat the question or output any other words.\nQuestion: ";
const TURN: &str = "<|im_end|>\n<|im_start|>assistant\n";

/// The prompts of all cases. A model that does not speak ChatML is refused.
pub(super) fn prompts<'c>(subject: &Subject, cases: &'c [Case]) -> Result<Vec<(&'c Case, Prompt)>> {
    let turn = subject.tokenizer().encode("<|im_start|>", Specials::AsTokens);
    ensure!(
        turn.len() == 1,
        "the evaluation's prompts are ChatML, and {} has no <|im_start|> token",
        subject.name
    );
    cases
        .iter()
        .map(|case| Ok((case, prompt(&subject.composer, case)?)))
        .collect()
}

fn prompt(composer: &Composer, case: &Case) -> Result<Prompt> {
    let input = CompletionInput {
        prompt: PromptInput::Text(format!("{TASK}{}{TURN}", case.question)),
        instructions: Some(INSTRUCTIONS.to_owned()),
        documents: Some(case.passages.iter().map(document).collect()),
        add_special_tokens: true,
    };
    Ok(composer.compose(input)?.prompt)
}

fn document(passage: &Passage) -> DocumentInput {
    DocumentInput {
        id: None,
        title: Some(passage.title.clone()),
        body: Body::Text(passage.text.clone()),
        context: None,
    }
}
