//! Where the events of a request go, and the place that it takes in the engine.
//!
//! **Invariant:** the place is free before anybody can know that the request has ended, so whoever has the whole
//! answer can submit the next request.

use std::{cell::Cell, sync::Arc};

use medley_generate::{Event, Priority};
use tokio::sync::mpsc::UnboundedSender;

use crate::shared::Shared;

/// One of the requests that may run and wait; free again when dropped.
pub(crate) struct Place {
    shared: Arc<Shared>,
    priority: Priority,
}

impl Place {
    /// A place that has been counted.
    pub(crate) fn new(shared: Arc<Shared>, priority: Priority) -> Self {
        Self { shared, priority }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.leave(self.priority);
    }
}

/// The sending end of a request's stream.
pub(crate) struct Events {
    sender: UnboundedSender<Event>,
    place: Cell<Option<Place>>,
}

impl Events {
    pub(crate) fn new(sender: UnboundedSender<Event>, place: Place) -> Self {
        let place = Cell::new(Some(place));
        Self { sender, place }
    }

    /// Whether nobody listens any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends an event; whether anybody listens. The last one gives the place back first.
    pub(crate) fn send(&self, event: Event) -> bool {
        if matches!(event, Event::Finished { .. } | Event::Failed(_)) {
            self.place.take();
        }
        self.sender.send(event).is_ok()
    }
}
