//! Choices of one prompt: the first one admitted runs it, the others join and go on from there.
//!
//! Those that are admitted later find what has run in their group, as long as one of them waits.

use std::{
    ops::ControlFlow,
    panic::{self, AssertUnwindSafe},
};

use medley_backend::BackendError;
use medley_generate::{GenerateError, Request};
use medley_kv::PageId;

use super::Worker;
use crate::{
    admission::{Need, Queued, Room},
    sequence::Sequence,
    trunk::{Branch, Forked},
    voice::Voice,
};

impl Worker {
    /// Starts a request on what an equal one has run or is running. Continues with one that has to run its own prompt.
    pub(super) fn fork_or_join(
        &mut self,
        queued: Queued,
        room: Room,
    ) -> ControlFlow<Result<(), Queued>, Queued> {
        let Some(group) = queued.group.clone() else {
            return ControlFlow::Continue(queued);
        };
        let need = self.need(&queued.request);
        if let Some(trunk) = group.trunk() {
            let pages = trunk.pages_needed(need.generated);
            let branch = self.branch(queued, need.generated, pages, room);
            return ControlFlow::Break(branch.map(|branch| self.begin(vec![trunk.fork(branch)])));
        }
        match self.running.iter().position(|running| running.takes(&group)) {
            Some(at) => {
                let branch = self.branch(queued, need.generated, need.branch_pages(), room);
                ControlFlow::Break(branch.map(|branch| self.running[at].join(branch)))
            }
            None => ControlFlow::Continue(queued),
        }
    }

    fn need(&self, request: &Request) -> Need {
        Need::of(request, &self.config, self.residency.pool().total())
    }

    /// A choice on `pages` pages of its own.
    #[expect(clippy::result_large_err, reason = "the request is given back")]
    fn branch(
        &mut self,
        queued: Queued,
        generated: usize,
        pages: usize,
        room: Room,
    ) -> Result<Branch, Queued> {
        let Some(pages) = room.pages(&mut self.residency, pages) else {
            return Err(queued);
        };
        let voice = Voice::new(&queued.request, generated, self.text.clone(), queued.events);
        Ok(Branch { voice, pages })
    }

    /// Begins with the choices whose prompts have run in the last step.
    pub(super) fn fork(&mut self) {
        let forked = self.running.iter_mut().flat_map(|s| s.take_forked()).collect();
        self.begin(forked);
    }

    fn begin(&mut self, forked: Vec<Forked>) {
        let (sequences, pairs): (Vec<_>, Vec<_>) = forked
            .into_iter()
            .map(|f| (f.sequence, (f.copy.from, f.copy.to)))
            .unzip();
        self.run_copied(sequences, &pairs);
    }

    /// Takes sequences up that go on in copies of these pages.
    pub(super) fn run_copied(&mut self, sequences: Vec<Sequence>, pairs: &[(PageId, PageId)]) {
        let copied = if pairs.is_empty() {
            Ok(())
        } else {
            self.copy(pairs)
        };
        for mut sequence in sequences {
            if copied.is_err() {
                sequence.fail(GenerateError::Engine("the model failed to copy pages".to_owned()));
            }
            self.running.push(sequence);
        }
        if let Err(error) = copied {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "pages could not be copied"
            );
            self.lost |= matches!(error, BackendError::Lost(_));
        }
    }

    fn copy(&mut self, pairs: &[(PageId, PageId)]) -> Result<(), BackendError> {
        let copy = panic::catch_unwind(AssertUnwindSafe(|| self.backend.copy_pages(pairs)));
        copy.unwrap_or_else(|_| Err(BackendError::Device("it panicked".to_owned())))
    }
}
