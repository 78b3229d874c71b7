//! Who waits, in the order in which they go.

use super::Worker;
use crate::admission::Queued;

impl Worker {
    /// Puts a request behind all that go before it: those of lower or equal precedence.
    pub(super) fn line_up(&mut self, queued: Queued) {
        let precedence = queued.request.precedence;
        let at = self
            .waiting
            .partition_point(|waiting| waiting.request.precedence <= precedence);
        if at == 0 {
            self.stuck = None;
        }
        self.waiting.insert(at, queued);
    }

    /// Gives up prompts that have run and are kept for requests that wait, `queued` among them; whether there were any.
    pub(super) fn forget_trunks(&mut self, queued: &Queued) -> bool {
        let groups = self
            .waiting
            .iter()
            .chain([queued])
            .filter_map(|q| q.group.as_ref());
        groups.filter(|group| group.forget()).count() > 0
    }
}
