//! The answering half of a sequence: from logits to events.

use std::sync::Arc;

use medley_generate::{
    Capture, Event, FinishReason, GenerateError, Priority, PromptToken, Request, TokenEvent, TokenText,
    Witness,
};
use medley_kv::{Report, TokenId};

use crate::{
    adjust::Adjuster,
    chunk::{Following, Wanted},
    events::Events,
    sampler,
    sampler::Sampler,
    text::TextStream,
};

/// Chooses tokens, assembles text and sends events.
pub(crate) struct Voice {
    events: Events,
    token_text: Arc<dyn TokenText>,
    sampler: Sampler,
    adjuster: Adjuster,
    text: TextStream,
    stop_tokens: Arc<[TokenId]>,
    logprobs: Option<u8>,
    prompt_logprobs: Option<u8>,
    capture: Capture,
    priority: Priority,
    witness: Option<Arc<dyn Witness>>,
    /// Tokens that may still be generated.
    left: usize,
    said: usize,
}

/// What follows a token.
pub(crate) enum Next {
    /// The token is fed and another one follows.
    Feed(TokenId),
    /// The text is complete.
    End(FinishReason),
}

impl Voice {
    /// The voice of a request that may generate at most `limit` tokens.
    pub(crate) fn new(
        request: &Request,
        limit: usize,
        token_text: Arc<dyn TokenText>,
        events: Events,
    ) -> Self {
        Self {
            events,
            token_text,
            sampler: Sampler::new(request.sampling),
            adjuster: Adjuster::new(request),
            text: TextStream::new(&request.stop),
            stop_tokens: request.stop_tokens.clone(),
            logprobs: request.logprobs,
            prompt_logprobs: request.prompt_logprobs,
            capture: request.capture.clone(),
            priority: request.priority,
            witness: request.witness.clone(),
            left: request
                .capture
                .forced
                .as_ref()
                .map_or(limit, |f| limit.min(f.len()).max(1)),
            said: 0,
        }
    }

    /// Whether nobody listens any more.
    pub(crate) fn abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// Who goes first.
    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    /// Tokens that may still be generated.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Says that the plan is final.
    pub(crate) fn planned(&self, report: Report) {
        self.send(Event::Planned(Box::new(report)));
    }

    /// Whether log-probabilities of the prompt are asked for.
    pub(crate) fn scores_prompt(&self) -> bool {
        self.prompt_logprobs.is_some()
    }

    /// Says tokens of the prompt, with the logits in whose places they stand. The first token of all has none.
    pub(crate) fn score(&self, first: Option<TokenId>, scored: &[(TokenId, Vec<f32>)]) {
        let Some(count) = self.prompt_logprobs else { return };
        let first = first.map(|token| PromptToken {
            token,
            logprob: None,
            top: Vec::new(),
        });
        let behind = scored.iter().map(|(token, logits)| {
            let (logprob, top) = sampler::logprobs(logits, *token, count.into());
            PromptToken {
                token: *token,
                logprob: Some(logprob),
                top,
            }
        });
        let tokens: Vec<_> = first.into_iter().chain(behind).collect();
        if !tokens.is_empty() {
            self.send(Event::Prompt(tokens));
        }
    }

    /// What the next token is chosen from.
    pub(crate) fn wanted(&self) -> Wanted {
        match self.logprobs.is_some() || self.capture.logits || self.adjuster.is_active() {
            true => Wanted::Logits,
            false => Wanted::Token(self.sampler.draw()),
        }
    }

    /// Says the token that follows.
    pub(crate) fn say(&mut self, following: Following) -> Next {
        let token = self.choose(&following);
        let stop = self.capture.forced.is_none() && self.stop_tokens.contains(&token);
        let bytes = if stop { &[] } else { self.token_text.bytes(token) };
        let pushed = match self.adjuster.must_go_on() {
            true => self.text.push_through(bytes),
            false => self.text.push(bytes),
        };
        self.adjuster.said(token);
        let logits = match following {
            Following::Logits(logits) => Some(logits),
            Following::Token(_) => None,
        };
        let (logprob, top) = match (self.logprobs, &logits) {
            (Some(count), Some(logits)) => {
                let (logprob, top) = sampler::logprobs(logits, token, count.into());
                (Some(logprob), top)
            }
            _ => (None, Vec::new()),
        };
        let logits = logits.filter(|_| self.capture.logits);
        self.witness.iter().for_each(|witness| witness.token(token));
        self.send(Event::Token(TokenEvent {
            token,
            text: pushed.text,
            logprob,
            top,
            logits,
        }));
        self.said += 1;
        self.left -= 1;
        match (stop || pushed.stopped, self.left) {
            (true, _) => Next::End(FinishReason::Stop),
            (false, 0) => Next::End(FinishReason::Length),
            (false, _) => Next::Feed(token),
        }
    }

    fn choose(&mut self, following: &Following) -> TokenId {
        let forced = self
            .capture
            .forced
            .as_ref()
            .and_then(|f| f.get(self.said).copied());
        let drawn = match following {
            Following::Logits(logits) => self.draw(logits),
            Following::Token(token) => *token,
        };
        self.sampler.advance();
        forced.unwrap_or(drawn)
    }

    fn draw(&self, logits: &[f32]) -> TokenId {
        if !self.adjuster.is_active() {
            return medley_backend::draw(logits, &self.sampler.draw());
        }
        let mut adjusted = logits.to_vec();
        self.adjuster.apply(&mut adjusted);
        medley_backend::draw(&adjusted, &self.sampler.draw())
    }

    /// Ends the text. The witness hears of it once the listener has everything.
    pub(crate) fn finish(&mut self, reason: FinishReason, report: Report) {
        let (text, plan) = (self.text.finish(), report.plan);
        let heard = self.events.send(Event::Finished {
            reason,
            text,
            report: Box::new(report),
        });
        if let Some(witness) = self.witness.take().filter(|_| heard) {
            witness.answered(plan);
        }
    }

    /// Ends the request without an answer.
    pub(crate) fn fail(&self, error: GenerateError) {
        self.send(Event::Failed(error));
    }

    /// A listener that went away is found by [`Voice::abandoned`] before the next step.
    fn send(&self, event: Event) {
        self.events.send(event);
    }
}
