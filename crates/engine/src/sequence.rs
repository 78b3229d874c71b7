//! An admitted request: one state machine from its first row to its last token.
//!
//! ```text
//! Prefix ──► Documents ──► Select ⟲ ──► Repair ──► Decode ──► Ended      blended
//!    └───────────────────────────────────────────────►┘                  exact
//! ```
//! **Invariant:** all pages that the sequence will ever need are reserved before it exists, so it never waits for
//! memory and is never preempted.

use std::sync::{Arc, Weak};

use medley_backend::{ANY_LENGTH, Depth};
use medley_blend::{Layout, Repairs, Selection};
use medley_generate::{FinishReason, GenerateError, Priority};
use medley_kv::{DocumentKey, Namespace, PAGE_TOKENS, Plan, Position, TokenId};
use medley_store::{DocumentLease, Residency};

use crate::{
    account::Account,
    chain::{Chained, rows_asked},
    chunk::{Chunk, ChunkRow, Following, Results},
    holdings::Holdings,
    pass::Pass,
    stem::Cut,
    trunk::{Branch, Forked, Group, Prompted, Trunk},
    voice::{Next, Voice},
};

/// Where a sequence stands.
enum Phase {
    /// Rows of the exact prefix up to `end`.
    Prefix { end: usize },
    /// Waiting for documents in computation.
    Documents,
    /// Finding out which rows to repair.
    Select { selection: Box<Selection>, pass: Pass },
    /// The final pass over repaired and fresh rows.
    Repair { pass: Pass },
    /// Feeding `next` and its successors.
    Decode { next: TokenId },
    /// Nothing more to run.
    Ended,
}

/// An admitted request, and until its prompt has run the further choices of that prompt.
pub(crate) struct Sequence {
    tokens: Arc<[TokenId]>,
    layout: Arc<Layout>,
    namespace: Namespace,
    holdings: Holdings,
    /// Documents in computation, by index in the prompt.
    awaited: Vec<(usize, DocumentKey)>,
    account: Account,
    voice: Voice,
    /// Further choices, which begin when the prompt has run.
    branches: Vec<Branch>,
    /// Those that have begun and are not taken yet.
    forked: Vec<Forked>,
    /// Who of the same prompt may still come; nobody once it has run.
    group: Weak<Group>,
    /// Whether the plan was said.
    planned: bool,
    repaired: Arc<[Position]>,
    chained: Chained,
    /// Generated tokens that have been fed.
    fed: usize,
    phase: Phase,
}

impl Sequence {
    /// A sequence that begins with its prefix. `awaited` are the documents that are not there yet.
    pub(crate) fn new(
        prompted: Prompted,
        holdings: Holdings,
        awaited: Vec<(usize, DocumentKey)>,
        voice: Voice,
        group: Weak<Group>,
        chained: Chained,
    ) -> Self {
        let blended = prompted.account.plan == Plan::Blended;
        let end = if blended {
            prompted.layout.lead().len as usize
        } else {
            prompted.tokens.len()
        };
        let mut sequence = Self::of(prompted, holdings, voice, Phase::Prefix { end });
        (sequence.awaited, sequence.group, sequence.chained) = (awaited, group, chained);
        if !blended {
            sequence.say_plan();
        }
        sequence.settle_prefix();
        sequence
    }

    /// A sequence whose prompt has run but for its last row, in a final pass over `rows` if it was blended.
    pub(crate) fn behind(prompted: Prompted, rows: Vec<Position>, holdings: Holdings, voice: Voice) -> Self {
        let phase = match prompted.account.plan {
            Plan::Blended => {
                let length = rows.len()
                    - rows_asked(&prompted.layout, &rows)
                        .filter(|&asked| asked < rows.len())
                        .unwrap_or(0);
                Phase::Repair {
                    pass: Pass::repeat_last(rows, prompted.repaired.to_vec(), length),
                }
            }
            _ => Phase::Prefix {
                end: prompted.tokens.len(),
            },
        };
        let mut sequence = Self::of(prompted, holdings, voice, phase);
        sequence.say_plan();
        sequence
    }

    fn of(prompted: Prompted, holdings: Holdings, voice: Voice, phase: Phase) -> Self {
        Self {
            tokens: prompted.tokens,
            layout: prompted.layout,
            namespace: prompted.namespace,
            holdings,
            awaited: Vec::new(),
            account: prompted.account,
            voice,
            branches: Vec::new(),
            forked: Vec::new(),
            group: Weak::new(),
            planned: false,
            repaired: prompted.repaired,
            chained: Chained::No,
            fed: 0,
            phase,
        }
    }

    /// Choices that the sequence answers.
    pub(crate) fn choices(&self) -> usize {
        1 + self.branches.len()
    }

    /// Lets go of choices that nobody listens to; whether any is left. Another choice takes over a prompt whose first one
    /// is gone.
    pub(crate) fn keep_listeners(&mut self) -> bool {
        self.branches.retain(|branch| !branch.voice.abandoned());
        if !self.voice.abandoned() {
            return true;
        }
        if self.branches.is_empty() {
            return false;
        }
        self.voice = self.branches.remove(0).voice;
        if self.planned {
            self.say_plan();
        }
        true
    }

    /// Whether further choices of `group` can join: they are of this prompt, and it has not run yet.
    pub(crate) fn takes(&self, group: &Arc<Group>) -> bool {
        !self.ended() && std::ptr::eq(self.group.as_ptr(), Arc::as_ptr(group))
    }

    /// A further choice of the prompt.
    pub(crate) fn join(&mut self, branch: Branch) {
        self.branches.push(branch);
    }

    /// Choices that have begun since the last time.
    pub(crate) fn take_forked(&mut self) -> Vec<Forked> {
        std::mem::take(&mut self.forked)
    }

    /// Whether the sequence has nothing more to run.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Who goes first.
    pub(crate) fn priority(&self) -> Priority {
        self.voice.priority()
    }

    /// Whether the sequence streams tokens.
    pub(crate) fn decoding(&self) -> bool {
        matches!(self.phase, Phase::Decode { .. })
    }

    /// Documents that the sequence waits for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = DocumentKey> {
        self.awaited.iter().map(|a| a.1)
    }

    /// The sequence's pages and leases.
    pub(crate) fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Ends the sequence without an answer.
    pub(crate) fn fail(&mut self, error: GenerateError) {
        for branch in self.branches.drain(..) {
            branch.voice.fail(error.clone());
        }
        self.voice.fail(error);
        self.phase = Phase::Ended;
    }

    /// Whether rows of the prompt are run for their log-probabilities.
    pub(crate) fn scores(&self) -> bool {
        matches!(self.phase, Phase::Prefix { .. }) && self.voice.scores_prompt()
    }

    fn say_plan(&mut self) {
        self.planned = true;
        self.voice.planned(self.account.report(&self.repaired));
    }

    /// Rows that can run now, as there is room.
    pub(crate) fn offer(&self, room: usize) -> Option<Chunk> {
        match &self.phase {
            Phase::Prefix { end } => {
                let done = self.holdings.prefix_len;
                self.offer_prefix((done + room).min(*end))
            }
            Phase::Select { pass, .. } | Phase::Repair { pass } => {
                pass.offer(room, &self.tokens, &self.holdings, self.voice.wanted())
            }
            Phase::Decode { next } => Some(self.offer_decode(*next)),
            Phase::Documents | Phase::Ended => None,
        }
    }

    fn offer_prefix(&self, end: usize) -> Option<Chunk> {
        let row = |i: usize| ChunkRow {
            token: self.tokens[i],
            position: Position(i as u32),
            slot: self.holdings.prefix_slot(i),
        };
        let rows: Vec<_> = (self.holdings.prefix_len..end).map(row).collect();
        let parts = self.holdings.parts(end, &[], &[]).into_iter().take(1).collect();
        let last = self.account.plan != Plan::Blended && end == self.tokens.len();
        let scored = match self.voice.scores_prompt() {
            true => end.min(self.tokens.len() - 1) - self.holdings.prefix_len,
            false => 0,
        };
        (!rows.is_empty()).then(|| Chunk {
            parts,
            pass_rows: ANY_LENGTH,
            rows,
            depth: Depth::Full,
            scored,
            wanted: last.then(|| self.voice.wanted()),
            ..Chunk::default()
        })
    }

    fn offer_decode(&self, token: TokenId) -> Chunk {
        let position = Position((self.tokens.len() + self.fed) as u32);
        let prefix_len = self.holdings.prefix_len;
        let (slot, parts) = if self.account.plan == Plan::Blended {
            let used = self.holdings.overlay_positions.len();
            let positions = [self.holdings.overlay_positions.as_slice(), &[position]].concat();
            (
                self.holdings.overlay_slot(used),
                self.holdings.parts(prefix_len, &self.repaired, &positions),
            )
        } else {
            (
                self.holdings.prefix_slot(prefix_len),
                self.holdings.parts(prefix_len + 1, &[], &[]),
            )
        };
        Chunk {
            parts,
            pass_rows: 1,
            rows: vec![ChunkRow {
                token,
                position,
                slot,
            }],
            wanted: Some(self.voice.wanted()),
            ..Chunk::default()
        }
    }

    /// Takes what `rows` rows of the last offer brought.
    pub(crate) fn accept(&mut self, rows: usize, mut results: Results, residency: &mut Residency) {
        self.say_scores(std::mem::take(&mut results.scored));
        match &mut self.phase {
            Phase::Prefix { end } => {
                self.holdings.prefix_len += rows;
                if self.holdings.prefix_len == *end {
                    self.publish_prefix(residency);
                    self.settle_prefix();
                    self.continue_with(results.following);
                }
            }
            Phase::Select { pass, .. } => {
                pass.accept(rows, &mut results);
                if pass.complete() {
                    self.select_further();
                }
            }
            Phase::Repair { pass } => {
                pass.accept(rows, &mut results);
                if pass.complete() {
                    let (rows, ends) = (pass.rows().to_vec(), pass.ends());
                    self.keep_chained(&rows, residency);
                    if ends {
                        self.holdings.overlay_positions = rows;
                        self.continue_with(results.following);
                    } else {
                        self.run_behind(rows);
                    }
                }
            }
            Phase::Decode { next: _ } => {
                self.count_fed();
                self.continue_with(results.following);
            }
            Phase::Documents | Phase::Ended => {}
        }
    }

    /// Says the log-probabilities of prompt tokens behind the rows whose logits these are, the next of the prefix.
    fn say_scores(&self, logits: Vec<Vec<f32>>) {
        if !self.scores() {
            return;
        }
        let done = self.holdings.prefix_len;
        let first = (done == 0).then(|| self.tokens[0]);
        let next = self.tokens[done + 1..].iter().copied();
        let scored: Vec<_> = next.zip(logits).collect();
        self.voice.score(first, &scored);
    }

    /// Full pages of prompt tokens become shared; what decoding writes never does, nor what runs in the background.
    fn publish_prefix(&mut self, residency: &mut Residency) {
        if self.account.plan == Plan::Off || self.priority() == Priority::Background {
            return;
        }
        let pages = self.holdings.prefix_len / PAGE_TOKENS;
        let (namespace, tokens) = (&self.namespace, &self.tokens[..pages * PAGE_TOKENS]);
        self.holdings.publish(pages, |shared, fresh| {
            residency.keep_prefix(namespace, tokens, shared, fresh)
        });
    }

    /// Leaves the prefix phase of a blended prompt once the prefix is complete.
    fn settle_prefix(&mut self) {
        let Phase::Prefix { end } = self.phase else { return };
        if self.account.plan == Plan::Blended && self.holdings.prefix_len == end {
            // What is missing is waited for, whatever else runs in the same steps.
            let lap = self.account.lap();
            if self.awaited.is_empty() {
                self.account.timing.prefill += lap;
            } else {
                self.account.timing.compute_documents += lap;
            }
            self.phase = Phase::Documents;
            self.settle_documents();
        }
    }

    /// A document that was awaited is there.
    pub(crate) fn deliver(&mut self, key: DocumentKey, lease: &DocumentLease) {
        let before = self.awaited.len();
        let arrived = self.awaited.extract_if(.., |(_, awaited)| *awaited == key);
        for (index, _) in arrived {
            self.holdings.documents[index].lease = Some(lease.clone());
        }
        if self.awaited.len() < before {
            self.account.timing.compute_documents += self.account.lap();
        }
        self.settle_documents();
    }

    fn settle_documents(&mut self) {
        if matches!(self.phase, Phase::Documents) && self.awaited.is_empty() {
            match std::mem::replace(&mut self.chained, Chained::No) {
                Chained::Found(rows) => self.resume(&rows),
                other => {
                    self.chained = other;
                    self.follow(Selection::new(&self.layout, self.account.rule));
                }
            }
        }
    }

    /// Starts the pass that the selection asks for next.
    fn follow(&mut self, selection: Selection) {
        use medley_blend::Pass as Ask;
        let pass = match selection.next() {
            Ask::Probe { repaired, observed } => Pass::probe(
                self.rows_with(&repaired),
                repaired,
                &observed,
                self.layout.question(),
            ),
            Ask::Compare { layer } => {
                let rows: Vec<Position> = self.eligible().collect();
                Pass::compare(self.rows_up_to_last(&rows), rows, layer)
            }
            Ask::Done(repairs) => return self.repair(&repairs),
        };
        self.account.rows += pass.whole_rows(self.account.layers);
        let selection = Box::new(selection);
        self.phase = Phase::Select { selection, pass };
    }

    fn select_further(&mut self) {
        let Phase::Select { mut selection, pass } = std::mem::replace(&mut self.phase, Phase::Documents)
        else {
            return;
        };
        if matches!(selection.next(), medley_blend::Pass::Compare { .. }) {
            selection.feed_deviations(&pass.deviations(&self.holdings));
        } else {
            selection.feed_scores(&pass.scores(&self.holdings));
        }
        self.follow(*selection);
    }

    fn repair(&mut self, repairs: &Repairs) {
        self.account.timing.probe = self.account.lap();
        self.repaired = repairs.positions().into();
        let mut rows = self.rows_with(&self.repaired);
        self.account.rows += rows.len();
        self.say_plan();
        // Room for what decoding adds was reserved on top of the largest pass; keep just what is left to fill.
        self.holdings.shrink_overlay(rows.len() + self.voice.left());
        let all = rows.len();
        rows.truncate(rows_asked(&self.layout, &rows).unwrap_or(all));
        let ends = rows.len() == all;
        self.phase = Phase::Repair {
            pass: Pass::repair(rows, self.repaired.to_vec(), ends),
        };
    }

    /// Goes on from the overlay of an equal prompt up to the question. What was the last row of all is run again.
    fn resume(&mut self, rows: &[Position]) {
        self.account.timing.probe = self.account.lap();
        let behind = self.layout.question() != self.layout.last();
        let texts = rows.len() - self.repaired.len();
        self.account.resumed = Some(if behind { texts } else { texts - 1 });
        if behind {
            self.run_behind(rows.to_vec());
        } else {
            let pass = Pass::repeat_last(rows.to_vec(), self.repaired.to_vec(), rows.len());
            self.phase = Phase::Repair { pass };
        }
        if let Phase::Repair { pass } = &self.phase {
            self.account.rows += pass.left();
        }
        self.say_plan();
    }

    /// Runs the text behind `rows`, which end with the question.
    fn run_behind(&mut self, mut rows: Vec<Position>) {
        let done = rows.len();
        rows.extend((self.layout.question().0 + 1..=self.layout.last().0).map(Position));
        self.phase = Phase::Repair {
            pass: Pass::rest(rows, self.repaired.to_vec(), done),
        };
    }

    /// Keeps the overlay of rows that have run up to the question.
    fn keep_chained(&mut self, rows: &[Position], residency: &mut Residency) {
        if let Chained::Keep(link) = std::mem::replace(&mut self.chained, Chained::No) {
            link.keep(rows, &self.repaired, &self.holdings, residency);
        }
    }

    /// Text behind the first document and `repaired`, ascending.
    fn rows_with(&self, repaired: &[Position]) -> Vec<Position> {
        let mut rows: Vec<_> = self
            .layout
            .text_after_lead()
            .chain(repaired.iter().copied())
            .collect();
        rows.sort_unstable();
        rows
    }

    /// The same, without what lies behind the last of `repaired`.
    fn rows_up_to_last(&self, repaired: &[Position]) -> Vec<Position> {
        let mut rows = self.rows_with(repaired);
        rows.truncate(
            repaired
                .last()
                .map_or(0, |last| rows.partition_point(|p| p <= last)),
        );
        rows
    }

    /// Positions of documents that can be repaired.
    fn eligible(&self) -> impl Iterator<Item = Position> {
        self.layout
            .documents()
            .filter(|d| !d.exact)
            .flat_map(|d| d.span.positions())
    }

    fn count_fed(&mut self) {
        let position = Position((self.tokens.len() + self.fed) as u32);
        if self.account.plan == Plan::Blended {
            self.holdings.overlay_positions.push(position);
        } else {
            self.holdings.prefix_len += 1;
        }
        self.fed += 1;
    }

    /// The prompt or the last token has run: says the next token.
    fn continue_with(&mut self, following: Option<Following>) {
        let Some(following) = following else { return };
        if self.fed == 0 && !self.decoding() {
            self.account.timing.prefill += self.account.lap();
            self.fork();
        }
        match self.voice.say(following) {
            Next::Feed(token) => self.phase = Phase::Decode { next: token },
            Next::End(reason) => self.end(reason),
        }
    }

    /// The prompt has run: further choices begin, those that wait will.
    fn fork(&mut self) {
        let waiting = std::mem::take(&mut self.group).upgrade();
        if self.branches.is_empty() && waiting.is_none() {
            return;
        }
        let rows = self.holdings.overlay_positions.clone();
        let cut = Cut::behind(&mut self.holdings, rows.len());
        let prompted = Prompted {
            tokens: self.tokens.clone(),
            layout: self.layout.clone(),
            namespace: self.namespace,
            account: self.account.clone(),
            repaired: self.repaired.clone(),
        };
        let trunk = Arc::new(Trunk::new(prompted, rows, cut));
        self.forked = self.branches.drain(..).map(|branch| trunk.fork(branch)).collect();
        if let Some(group) = waiting {
            group.keep(trunk);
        }
    }

    fn end(&mut self, reason: FinishReason) {
        self.voice.finish(reason, self.account.report(&self.repaired));
        self.phase = Phase::Ended;
    }
}
