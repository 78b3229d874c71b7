//! Requests that nobody waits for.
//!
//! **Invariants**
//! - A background request is admitted when nothing else runs or waits, one at a time, on free pages, over resident
//!   documents. Where that can't be it fails at once.
//! - A step holds rows of background requests only if no other request runs. So whoever comes meanwhile waits for
//!   the step that is running and for no further one.
//! - Whoever needs more pages than are free gets those of background requests before anything is evicted.

use medley_generate::{Event, GenerateError, Priority};

use super::Worker;
use crate::{
    admission::{Queued, Room},
    sequence::Sequence,
};

impl Worker {
    /// Running requests that somebody waits for; further choices of a prompt count.
    pub(super) fn foreground(&self) -> usize {
        self.running_in(Priority::Normal).map(|(_, s)| s.choices()).sum()
    }

    /// Whose rows the next step takes.
    pub(super) fn turn(&self) -> Priority {
        match self.foreground() {
            0 => Priority::Background,
            _ => Priority::Normal,
        }
    }

    /// Running sequences of this priority, with their indices.
    pub(super) fn running_in(&self, priority: Priority) -> impl Iterator<Item = (usize, &Sequence)> {
        let all = self.running.iter().enumerate();
        all.filter(move |(_, s)| s.priority() == priority)
    }

    /// Admits a request that somebody waits for, if need be on the pages of background requests.
    #[expect(clippy::result_large_err, reason = "the request is given back")]
    pub(super) fn admit_foreground(&mut self, queued: Queued) -> Result<(), Queued> {
        if self.running_in(Priority::Background).next().is_none() {
            return self.reserve(queued, Room::Evicting);
        }
        self.reserve(queued, Room::Free).or_else(|queued| {
            self.displace();
            self.reserve(queued, Room::Evicting)
        })
    }

    /// Ends the background requests that run.
    fn displace(&mut self) {
        let background = |s: &mut Sequence| s.priority() == Priority::Background;
        for mut sequence in self.running.extract_if(.., background) {
            sequence.fail(GenerateError::Displaced);
        }
    }

    /// Admits the next background request that can run, if it is its turn.
    pub(super) fn admit_background(&mut self) {
        while self.running.is_empty() && self.waiting.is_empty() {
            let Some(queued) = self.background.pop_front() else {
                return;
            };
            if let Err(queued) = self.reserve(queued, Room::Free) {
                queued.events.send(Event::Failed(GenerateError::Displaced));
            }
        }
    }
}
