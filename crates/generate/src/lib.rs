//! The port of the server: submit a prepared request, receive a stream of events.
//!
//! Whoever implements [`Generate`] runs requests; the server, the benchmarks and the evaluation only know this
//! port. It carries tokens and text, no HTTP and no tensors.

mod event;
mod request;
mod status;

pub use event::{Event, EventStream, FinishReason, GenerateError, TokenEvent, TopLogprob};
pub use request::{Capture, Request, Sampling, SubmitError, TokenText};
pub use status::{Gauges, ModelCard};

/// Runs requests.
pub trait Generate: Send + Sync {
    /// Queues a request. Its events arrive on the stream; dropping the stream cancels the request within one step.
    fn submit(&self, request: Request) -> Result<EventStream, SubmitError>;

    /// What is served.
    fn model(&self) -> &ModelCard;

    /// What is held and waiting right now.
    fn gauges(&self) -> Gauges;
}
