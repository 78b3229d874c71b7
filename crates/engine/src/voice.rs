//! The answering half of a sequence: from logits to events.

use std::sync::Arc;

use medley_generate::{
    Capture, Event, FinishReason, GenerateError, Priority, Request, TokenEvent, TokenText, Witness,
};
use medley_kv::{Report, TokenId};

use crate::{
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
    text: TextStream,
    stop_tokens: Arc<[TokenId]>,
    logprobs: Option<u8>,
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
            text: TextStream::new(&request.stop),
            stop_tokens: request.stop_tokens.clone(),
            logprobs: request.logprobs,
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

    /// What the next token is chosen from.
    pub(crate) fn wanted(&self) -> Wanted {
        match self.logprobs.is_none() && !self.capture.logits {
            true => Wanted::Token(self.sampler.draw()),
            false => Wanted::Logits,
        }
    }

    /// Says the token that follows.
    pub(crate) fn say(&mut self, following: Following) -> Next {
        let token = self.choose(&following);
        let stop = self.capture.forced.is_none() && self.stop_tokens.contains(&token);
        let pushed = self
            .text
            .push(if stop { &[] } else { self.token_text.bytes(token) });
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
            Following::Logits(logits) => medley_backend::draw(logits, &self.sampler.draw()),
            Following::Token(token) => *token,
        };
        self.sampler.advance();
        forced.unwrap_or(drawn)
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
