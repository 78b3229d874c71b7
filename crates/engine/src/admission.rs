//! Admission: what a request needs, reserved in one piece before it runs.
//!
//! **Invariant:** a request is admitted with all its pages or stays in the queue with none, so running requests
//! can't block each other.

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::Instant,
};

use medley_blend::{Layout, Rule};
use medley_generate::{Priority, Request};
use medley_kv::{
    BlendMode, Document, DocumentKey, Namespace, PAGE_TOKENS, Plan, Source, Strategy, pages_for,
};
use medley_store::{Blended, DocumentLease, Miss, Page, Residency};

use crate::{
    EngineConfig,
    account::{Account, DocumentAccount},
    canonical::Computation,
    chain::{Chained, Link},
    events::Events,
    holdings::{Holdings, Occurrence},
    sequence::Sequence,
    stem::{Copy, Stem, branch_pages},
    trunk::{Group, Prompted},
    voice::Voice,
};

/// A request that waits.
pub(crate) struct Queued {
    pub request: Request,
    pub events: Events,
    pub submitted: Instant,
    /// Those of the same prompt that came together with it, if any did.
    pub group: Option<Arc<Group>>,
}

/// Why a prompt whose log-probabilities are asked for is not blended.
const EVERY_ROW: &str = "log-probabilities of the prompt need all its rows in a plain prefill";

/// What a request will need at most, known from the request alone.
pub(crate) struct Need {
    pub layout: Layout,
    pub rule: Rule,
    pub plan: Plan,
    pub reason: Option<String>,
    /// Tokens that may be generated.
    pub generated: usize,
}

impl Need {
    /// The need of a request under a configuration, in a pool of so many pages. What may be generated is clamped to
    /// the context and to what the pool holds beside the prompt.
    pub(crate) fn of(request: &Request, config: &EngineConfig, pool: usize) -> Self {
        let layout = Layout::new(&request.prompt);
        let rule = Rule::resolve(&request.blend);
        // Without a position behind the first document there is nothing that blending could run.
        let documents = layout.lead().len < request.prompt.len() as u32;
        let (plan, reason) = match (request.blend.mode, &config.unsupported) {
            (BlendMode::Off, _) => (Plan::Off, None),
            (BlendMode::Auto, None) if documents && request.prompt_logprobs.is_some() => {
                (Plan::Exact, Some(EVERY_ROW.to_owned()))
            }
            (BlendMode::Auto, Some(reason)) if documents => (Plan::Unsupported, Some(reason.clone())),
            (BlendMode::Auto, _) if documents => (Plan::Blended, None),
            _ => (Plan::Exact, None),
        };
        let room = config.max_model_len.saturating_sub(request.prompt.len());
        let mut need = Self {
            layout,
            rule,
            plan,
            reason,
            generated: 1,
        };
        let spare = pool.saturating_sub(need.pages_at_most(request)) * PAGE_TOKENS;
        need.generated = request.max_tokens.min(room).min(spare + 1).max(1);
        need
    }

    /// Pages of the exact prefix, generated tokens included where they follow it.
    fn prefix_pages(&self) -> usize {
        match self.plan {
            Plan::Blended => pages_for(self.layout.lead().len as usize),
            _ => pages_for(self.layout.len() + self.generated),
        }
    }

    /// Pages of the overlay: the largest pass, or the final one and what is generated.
    fn overlay_pages(&self) -> usize {
        if self.plan != Plan::Blended {
            return 0;
        }
        let text = self.layout.text_after_lead().count();
        let eligible: usize = self
            .layout
            .documents()
            .filter(|d| !d.exact)
            .map(|d| d.span.len as usize)
            .sum();
        // The question row and the last row are rows even where they lie in a document, and the share is rounded on
        // both sides of the question.
        let last =
            text + (self.rule.ratio.of(eligible) + 3).min(self.layout.document_tokens()) + self.generated;
        let compare = if self.rule.strategy == Strategy::Deviation {
            text + eligible
        } else {
            0
        };
        pages_for(last.max(compare))
    }

    /// Pages of the overlay: those that it shares with one that was found, and those of its own. The page of the last row
    /// that was found is copied.
    fn overlay_from(&self, found: Option<&Blended>) -> (usize, usize) {
        let Some(found) = found else {
            return (0, self.overlay_pages());
        };
        let shared = (found.rows.len() - 1) / PAGE_TOKENS;
        let behind = self.layout.len() - 1 - self.layout.question().0 as usize;
        let slots = found.rows.len() + behind + self.generated;
        (shared, pages_for(slots) - shared)
    }

    /// Pages of a further choice of the prompt at most.
    pub(crate) fn branch_pages(&self) -> usize {
        match self.plan {
            // How many rows the final pass will have is not known yet: at worst they end with a page.
            Plan::Blended => branch_pages(PAGE_TOKENS, self.generated),
            _ => branch_pages(self.layout.len(), self.generated),
        }
    }

    /// Pages if nothing at all is resident.
    pub(crate) fn pages_at_most(&self, request: &Request) -> usize {
        let documents = request
            .prompt
            .documents()
            .filter(|d| self.plan == Plan::Blended && !d.tokens.is_empty());
        let distinct: HashSet<_> = documents.map(|d| (&d.anchor, &d.tokens)).collect();
        let computed: usize = distinct
            .into_iter()
            .map(|(a, t)| Computation::pages_needed(a, t))
            .sum();
        self.prefix_pages() + self.overlay_pages() + computed
    }
}

/// What admission brought.
pub(crate) struct Admitted {
    pub sequence: Sequence,
    /// Documents that have to be computed.
    pub computations: Vec<Computation>,
    pub misses: Vec<Miss>,
    /// A page to copy before the sequence's rows run, and what keeps it until then.
    pub copy: Option<(Copy, Blended)>,
}

/// A document of a request as admission found it.
enum Found {
    /// Nothing to hold.
    Empty,
    Resident(DocumentLease),
    /// Missing; whether this request has to start the computation, and why it is missing.
    Missing {
        starts: bool,
        miss: Miss,
    },
}

/// Where an admission may take pages from.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Room {
    /// Free ones only.
    Free,
    /// Also those of residents, which are evicted.
    Evicting,
}

impl Room {
    /// Takes so many pages, or none.
    pub(crate) fn pages(self, residency: &mut Residency, count: usize) -> Option<Vec<Page>> {
        match self {
            Self::Free => residency.pool().take(count),
            Self::Evicting => residency.reserve(count),
        }
    }
}

/// Admits a request or gives it back untouched. `computing` tells whether a document is already in computation. A
/// background request is given back too if a document is missing, and its look-ups don't count.
#[expect(clippy::result_large_err, reason = "the request is given back")]
pub(crate) fn admit(
    queued: Queued,
    config: &EngineConfig,
    residency: &mut Residency,
    text: &Arc<dyn medley_generate::TokenText>,
    room: Room,
    layers: usize,
    computing: impl Fn(&DocumentKey) -> bool,
) -> Result<Admitted, Queued> {
    let request = &queued.request;
    let need = Need::of(request, config, residency.pool().total());
    let namespace = match &request.cache_salt {
        Some(salt) => config.namespace.subdivide(salt),
        None => config.namespace,
    };
    let blended = need.plan == Plan::Blended;
    let keys = keys(request, &namespace);
    let found = if blended {
        find(request, &keys, residency, computing)
    } else {
        Vec::new()
    };
    let background = request.priority == Priority::Background;
    if background && found.iter().any(|found| matches!(found, Found::Missing { .. })) {
        return Err(queued);
    }
    let tokens = request.prompt.tokens();
    // One token more than the prefix: what is looked up never covers the last one.
    let prefix_tokens = if blended {
        need.layout.lead().len as usize + 1
    } else {
        tokens.len()
    };
    let shared = match need.plan {
        Plan::Off => Vec::new(),
        _ if background || request.prompt_logprobs.is_some() => Vec::new(),
        _ => residency.prefix(&namespace, &tokens[..prefix_tokens]),
    };
    let link = Link::of(request, need.plan, &need.rule, &namespace);
    let mut resumed = link.as_ref().and_then(|link| link.find(residency));
    let started = || {
        let pairs = request.prompt.documents().zip(&keys).zip(&found);
        pairs
            .filter(|(_, found)| matches!(found, Found::Missing { starts: true, .. }))
            .map(|(pair, _)| pair)
    };
    let computed: usize = started()
        .map(|(d, _)| Computation::pages_needed(&d.anchor, &d.tokens))
        .sum();
    let others = need.prefix_pages() - shared.len() + computed;
    let mut overlay = need.overlay_from(resumed.as_ref());
    let mut pages = room.pages(residency, others + overlay.1);
    if pages.is_none() && resumed.take().is_some() {
        // What was found is in its own way: it keeps a page more than the request needs without it, and can leave now.
        overlay = need.overlay_from(None);
        pages = room.pages(residency, others + overlay.1);
    }
    let Some(mut pages) = pages else {
        return Err(queued);
    };
    let (overlay_shared, overlay_own) = overlay;
    let mut take = |n: usize| pages.drain(..n).collect::<Vec<_>>();
    let own = take(need.prefix_pages() - shared.len());
    let overlay = take(overlay_own);
    let computation = |(document, key): (&Document, &DocumentKey)| {
        let pages = take(Computation::pages_needed(&document.anchor, &document.tokens));
        Computation::new(*key, document.anchor.clone(), document.tokens.clone(), pages)
    };
    let computations = started().map(computation).collect();

    let prompt = &request.prompt;
    let mut account = Account::new(
        need.plan,
        need.reason,
        need.rule,
        request.blend.report,
        prompt,
        layers,
        queued.submitted,
    );
    account.exact_prefix = shared.len() * PAGE_TOKENS;
    let (mut occurrences, mut awaited, mut misses) = (Vec::new(), Vec::new(), Vec::new());
    for (region, ((document, key), found)) in need
        .layout
        .documents()
        .zip(prompt.documents().zip(&keys).zip(found))
    {
        let (lease, source) = match found {
            Found::Empty => (None, config.resident_source),
            Found::Resident(lease) => (Some(lease), config.resident_source),
            Found::Missing { miss, .. } => {
                awaited.push((region.index, *key));
                misses.push(miss);
                (None, Source::Computed)
            }
        };
        occurrences.push(Occurrence {
            span: region.span,
            anchor_len: region.anchor_len,
            lease,
        });
        account.documents.push(DocumentAccount {
            name: document.name.clone(),
            key: *key,
            span: region.span,
            source,
        });
    }
    let voice = Voice::new(request, need.generated, text.clone(), queued.events);
    let copy = resumed.as_ref().map(|blended| Copy {
        from: blended.pages[overlay_shared].id(),
        to: overlay[0].id(),
    });
    let stem = Stem {
        prefix_len: shared.len() * PAGE_TOKENS,
        shared,
        common: Vec::new(),
        documents: occurrences,
        overlay: resumed
            .as_ref()
            .map_or_else(Vec::new, |b| b.pages[..overlay_shared].to_vec()),
    };
    let holdings = Holdings::on(stem, own, overlay);
    let prompted = Prompted {
        tokens: tokens.into(),
        layout: Arc::new(need.layout),
        namespace,
        account,
        repaired: resumed
            .as_ref()
            .map_or_else(|| Arc::new([]) as Arc<[_]>, |b| b.repaired.clone()),
    };
    let group = queued.group.as_ref().map_or_else(Weak::new, Arc::downgrade);
    let chained = match &resumed {
        Some(blended) => Chained::Found(blended.rows.clone()),
        None => link.map_or(Chained::No, Chained::Keep),
    };
    let sequence = Sequence::new(prompted, holdings, awaited, voice, group, chained);
    Ok(Admitted {
        sequence,
        computations,
        misses,
        copy: copy.zip(resumed),
    })
}

fn keys(request: &Request, namespace: &Namespace) -> Vec<DocumentKey> {
    request
        .prompt
        .documents()
        .map(|d| DocumentKey::new(namespace, &d.anchor, &d.tokens))
        .collect()
}

fn find(
    request: &Request,
    keys: &[DocumentKey],
    residency: &mut Residency,
    computing: impl Fn(&DocumentKey) -> bool,
) -> Vec<Found> {
    let find = |(index, document): (usize, &Document)| {
        let key = &keys[index];
        if document.tokens.is_empty() {
            return Found::Empty;
        }
        let found = match request.priority {
            Priority::Normal => residency.document(*key, &document.anchor, &document.tokens),
            Priority::Background => residency
                .peek_document(*key, &document.anchor, &document.tokens)
                .ok_or(Miss::Absent),
        };
        match found {
            Ok(lease) => Found::Resident(lease),
            Err(miss) => Found::Missing {
                starts: !keys[..index].contains(key) && !computing(key),
                miss,
            },
        }
    };
    request.prompt.documents().enumerate().map(find).collect()
}
