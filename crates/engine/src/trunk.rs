//! A prompt that has run, and further choices that go on from it.
//!
//! A choice runs the prompt's last row once more, in its own copy of that row's page: so its first token is drawn like
//! every other one, on the device where that can be. A row's bits depend on its parts and on the length of its pass, which
//! are the same, so the answer is the one that the choice would have got alone.

use std::sync::{Arc, Mutex, PoisonError};

use medley_blend::Layout;
use medley_kv::{Namespace, Position, TokenId};
use medley_store::Page;

use crate::{
    account::Account,
    sequence::Sequence,
    stem::{Copy, Cut},
    voice::Voice,
};

/// What every choice of a prompt knows of it.
#[derive(Clone)]
pub(crate) struct Prompted {
    pub tokens: Arc<[TokenId]>,
    pub layout: Arc<Layout>,
    pub namespace: Namespace,
    pub account: Account,
    /// Document positions that were repaired, ascending.
    pub repaired: Arc<[Position]>,
}

/// A prompt that has run.
pub(crate) struct Trunk {
    prompted: Prompted,
    /// Rows of the final pass; none unless the prompt was blended.
    rows: Vec<Position>,
    cut: Cut,
}

/// A further choice, and the pages that are reserved for it.
pub(crate) struct Branch {
    pub voice: Voice,
    pub pages: Vec<Page>,
}

/// A choice that can run once a page is copied.
pub(crate) struct Forked {
    pub sequence: Sequence,
    pub copy: Copy,
}

impl Trunk {
    pub(crate) fn new(prompted: Prompted, rows: Vec<Position>, cut: Cut) -> Self {
        Self { prompted, rows, cut }
    }

    /// Pages that a choice of up to `generated` tokens takes.
    pub(crate) fn pages_needed(&self, generated: usize) -> usize {
        self.cut.pages_needed(generated)
    }

    /// A choice that goes on from here.
    pub(crate) fn fork(&self, branch: Branch) -> Forked {
        let Branch { voice, mut pages } = branch;
        pages.truncate(self.pages_needed(voice.left()));
        let (holdings, copy) = self.cut.branch(pages);
        let prompted = Prompted {
            account: self.prompted.account.of_branch(),
            ..self.prompted.clone()
        };
        let sequence = Sequence::behind(prompted, self.rows.clone(), holdings, voice);
        Forked { sequence, copy }
    }
}

/// Requests of one prompt that came together. Those that wait hold it.
#[derive(Default)]
pub(crate) struct Group(Mutex<Option<Arc<Trunk>>>);

impl Group {
    /// The prompt, once it has run.
    pub(crate) fn trunk(&self) -> Option<Arc<Trunk>> {
        self.lock().clone()
    }

    /// Keeps a prompt that has run for those that wait.
    pub(crate) fn keep(&self, trunk: Arc<Trunk>) {
        *self.lock() = Some(trunk);
    }

    /// Gives up what is kept: the next request runs the prompt again. Whether anything was.
    pub(crate) fn forget(&self) -> bool {
        self.lock().take().is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Trunk>>> {
        // An option can't be left half-written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
