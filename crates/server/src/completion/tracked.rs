//! The events of one choice, measured as they pass.
//!
//! Invariant: every choice ends exactly once in the metrics, also if its stream breaks off or nobody waits for it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::Stream;
use medley_generate::{Event, EventStream, GenerateError};

use crate::metrics::Meter;

/// Events with the index of their choice, ending behind `Finished` or `Failed`.
pub(super) struct Tracked {
    index: usize,
    events: EventStream,
    meter: Meter,
    ended: bool,
}

impl Tracked {
    pub(super) fn new(index: usize, events: EventStream, meter: Meter) -> Self {
        Self {
            index,
            events,
            meter,
            ended: false,
        }
    }

    /// The choice is given up because another of the same request failed.
    pub(super) fn give_up(&mut self) {
        self.meter.give_up();
    }

    /// The choice is ended because the server has no more time.
    pub(super) fn cut_off(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.meter.observe(&Event::Failed(GenerateError::ShuttingDown));
        }
    }
}

impl Stream for Tracked {
    type Item = (usize, Event);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(event) = self.events.poll_recv(context) else {
            return Poll::Pending;
        };
        let event = event.unwrap_or_else(broken_off);
        self.meter.observe(&event);
        self.ended = matches!(event, Event::Finished { .. } | Event::Failed(_));
        Poll::Ready(Some((self.index, event)))
    }
}

/// What a stream that ends without a last event stands for.
fn broken_off() -> Event {
    Event::Failed(GenerateError::Engine("the events broke off".to_owned()))
}
