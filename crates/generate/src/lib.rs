//! The port of the server: submit a prepared request, receive a stream of events.
//!
//! Whoever implements [`Generate`] runs requests; the server, the benchmarks and the evaluation only know this
//! port. It carries tokens and text, no HTTP and no tensors.

mod event;
mod request;
mod status;
mod witness;

pub use event::{Event, EventStream, FinishReason, GenerateError, PromptToken, TokenEvent, TopLogprob};
pub use request::{Adjustments, Capture, Priority, Request, Sampling, SubmitError, TokenText};
pub use status::{Gauges, ModelCard};
pub use witness::Witness;

/// Runs requests.
pub trait Generate: Send + Sync {
    /// Queues requests, all or none. The events of each arrive on its stream; dropping a stream cancels its request
    /// within one step. Equal prompts among them may share one prefill.
    fn submit_all(&self, requests: Vec<Request>) -> Result<Vec<EventStream>, SubmitError>;

    /// Queues one request.
    fn submit(&self, request: Request) -> Result<EventStream, SubmitError> {
        let streams = self.submit_all(vec![request])?;
        streams.into_iter().next().ok_or(SubmitError::ShuttingDown)
    }

    /// What is served.
    fn model(&self) -> &ModelCard;

    /// What is held and waiting right now.
    fn gauges(&self) -> Gauges;
}
