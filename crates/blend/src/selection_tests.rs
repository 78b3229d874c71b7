//! Every rule against an obvious implementation, and what holds for all rules, on random prompts.

use std::collections::BTreeSet;

use medley_kv::{Position, Prompt, Ratio, Segment, Strategy};

use crate::{
    DocumentRegion, HEADS, Layout, Observed, Pass, Repairs, Rule, Selection,
    prompts::{document, random, text},
};

fn rule(strategy: Strategy, ratio: f64, rounds: u8, hops: u8) -> Rule {
    Rule {
        strategy,
        ratio: Ratio::new(ratio).expect("a ratio"),
        hops,
        rounds,
        check_layer: 3,
    }
}

/// A model in place of a model: the mass that a row at `asker` gives to `token` with `repaired` in force.
fn attention(seed: u64, asker: Position, repaired: &[Position], token: Position) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed ^ u64::from(asker.0) << 40 ^ u64::from(token.0) << 8);
    let shift = repaired
        .iter()
        .filter(|p| **p <= asker)
        .map(|p| u64::from(p.0))
        .sum::<u64>()
        % 3;
    let hidden = repaired.contains(&token) || token > asker;
    if hidden { 0 } else { rng.u64(..6 + shift) << 20 }
}

fn answer(seed: u64, layout: &Layout, repaired: &[Position], observed: &Observed) -> Vec<Vec<u64>> {
    let askers = match observed {
        Observed::Question => vec![(layout.question(), 1.0)],
        Observed::Rows(rows) => rows.clone(),
    };
    let mass = |token: Position| {
        let one = |&(asker, weight): &(Position, f32)| {
            (attention(seed, asker, repaired, token) as f64 * f64::from(weight)) as u64
        };
        askers.iter().map(one).sum()
    };
    layout
        .documents()
        .map(|d| d.span.positions().map(mass).collect())
        .collect()
}

fn deviations(seed: u64, layout: &Layout) -> Vec<Vec<f32>> {
    let one = |position: Position| {
        let mut rng = fastrand::Rng::with_seed(seed ^ u64::from(position.0) << 20);
        [f32::NAN, 0.0, 1.0, 2.0, 3.0, rng.f32()][rng.usize(..6)]
    };
    layout
        .documents()
        .map(|d| d.span.positions().map(one).collect())
        .collect()
}

/// Runs a selection to its end; also the number of passes.
fn run(seed: u64, layout: &Layout, rule: Rule) -> (Repairs, usize) {
    let mut selection = Selection::new(layout, rule);
    for passes in 0..600 {
        assert_eq!(selection.next(), selection.next());
        match selection.next() {
            Pass::Probe { repaired, observed } => {
                assert!(
                    repaired.windows(2).all(|w| w[0] < w[1])
                        && repaired.iter().all(|p| *p <= layout.question())
                );
                assert_observed(&observed, &repaired);
                selection.feed_scores(&answer(seed, layout, &repaired, &observed));
            }
            Pass::Compare { layer } => {
                assert_eq!(layer, rule.check_layer as usize);
                selection.feed_deviations(&deviations(seed, layout));
            }
            Pass::Done(repairs) => return (repairs, passes),
        }
    }
    panic!("seed {seed}: no end");
}

/// Rows that are observed are repaired, and stand in order; the largest weight is 1.
fn assert_observed(observed: &Observed, repaired: &[Position]) {
    let Observed::Rows(rows) = observed else { return };
    assert!(rows.windows(2).all(|w| w[0].0 < w[1].0));
    assert!(rows.iter().all(|row| repaired.contains(&row.0)));
    assert_eq!(rows.iter().map(|row| row.1).fold(0.0, f32::max), 1.0);
}

fn forced(layout: &Layout) -> BTreeSet<Position> {
    [layout.question(), layout.last()]
        .into_iter()
        .filter(|p| layout.document_at(*p).is_some())
        .collect()
}

fn eligible(layout: &Layout) -> impl Iterator<Item = (DocumentRegion, Position)> {
    layout
        .documents()
        .filter(|d| !d.exact)
        .flat_map(|d| d.span.positions().map(|p| (*d, p)))
}

const RULES: [(Strategy, u8, u8); 8] = [
    (Strategy::Heads, 1, 0),
    (Strategy::Deviation, 1, 0),
    (Strategy::Query, 1, 0),
    (Strategy::Query, 2, 0),
    (Strategy::Query, 4, 0),
    (Strategy::Query, 1, 1),
    (Strategy::Query, 1, 3),
    (Strategy::Query, 2, 2),
];

#[test]
fn every_rule_spends_exactly_its_budget_and_never_on_exact_documents() {
    for seed in 0..400 {
        let layout = Layout::new(&random(seed));
        for (strategy, rounds, hops) in RULES {
            for ratio in [0.0, 0.1, 0.3, 0.5, 0.9, 1.0] {
                let rule = rule(strategy, ratio, rounds, hops);
                let (repairs, passes) = run(seed, &layout, rule);
                assert!(repairs.positions().windows(2).all(|w| w[0] < w[1]), "seed {seed}");
                assert!(
                    passes <= usize::from(rounds + hops),
                    "seed {seed}: {passes} passes"
                );
                let forced = forced(&layout);
                for behind in [false, true] {
                    let side: Vec<_> = eligible(&layout)
                        .map(|e| e.1)
                        .filter(|p| (*p > layout.question()) == behind)
                        .collect();
                    let paid = side.iter().filter(|p| forced.contains(p)).count();
                    let taken = side.iter().filter(|p| repairs.positions().contains(p)).count();
                    assert_eq!(
                        taken,
                        rule.ratio.of(side.len()).max(paid),
                        "seed {seed} {strategy} {ratio}"
                    );
                }
                let free = layout
                    .documents()
                    .filter(|d| d.exact)
                    .flat_map(|d| repairs.in_span(d.span));
                assert!(
                    free.into_iter().all(|p| forced.contains(p)),
                    "seed {seed}: an exact document is repaired"
                );
                assert!(
                    forced.iter().all(|p| repairs.positions().contains(p)),
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn nothing_and_everything_need_no_pass() {
    for seed in 0..100 {
        let layout = Layout::new(&random(seed));
        for (strategy, rounds, hops) in RULES {
            let (none, passes) = run(seed, &layout, rule(strategy, 0.0, rounds, hops));
            assert_eq!(
                (none.positions(), passes),
                (&forced(&layout).into_iter().collect::<Vec<_>>()[..], 0)
            );
            let (all, passes) = run(seed, &layout, rule(strategy, 1.0, rounds, hops));
            assert_eq!(passes, 0);
            assert!(
                eligible(&layout).all(|(_, p)| all.positions().contains(&p)),
                "seed {seed}"
            );
        }
    }
}

/// Two documents of which the question sees everything: (layout, budget at `ratio`).
fn plain(lens: &[usize]) -> Layout {
    let mut segments = vec![text(&[1])];
    segments.extend(lens.iter().map(|len| document(&[1, 2], &vec![7; *len])));
    segments.push(text(&[8, 9]));
    Layout::new(&Prompt::new(segments).expect("a prompt"))
}

fn set(positions: impl IntoIterator<Item = u32>) -> Vec<Position> {
    positions.into_iter().map(Position).collect()
}

#[test]
fn heads_are_the_largest_equal_heads_that_fit_and_then_the_next_tokens_in_order() {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let lens: Vec<usize> = (0..rng.usize(1..6)).map(|_| rng.usize(..15)).collect();
        let layout = plain(&lens);
        let rule = rule(Strategy::Heads, rng.f64(), 1, 0);
        let budget = rule.ratio.of(lens.iter().sum());
        let total = |h: usize| lens.iter().map(|len| h.min(*len)).sum::<usize>();
        let h = (0..=15).rev().find(|h| total(*h) <= budget).expect("0 fits");
        let spans: Vec<_> = layout.documents().map(|d| d.span).collect();
        let mut expected: BTreeSet<_> = spans
            .iter()
            .flat_map(|s| (s.start..s.end()).take(h))
            .map(Position)
            .collect();
        let next = spans
            .iter()
            .filter(|s| s.len as usize > h)
            .map(|s| Position(s.start + h as u32));
        expected.extend(next.take(budget - total(h)));
        let (repairs, _) = run(seed, &layout, rule);
        assert_eq!(
            repairs.positions(),
            expected.into_iter().collect::<Vec<_>>(),
            "seed {seed} {lens:?}"
        );
    }
}

/// Picks one after the other, each time the best that is left: larger score, then lower position.
fn pick(scores: &[(Position, f64)], taken: &mut BTreeSet<Position>, count: usize) -> Vec<Position> {
    let mut picked = Vec::new();
    for _ in 0..count {
        let mut best: Option<(Position, f64)> = None;
        for &(position, score) in scores.iter().filter(|s| !taken.contains(&s.0)) {
            if best.is_none_or(|b| score > b.1) {
                best = Some((position, score));
            }
        }
        let Some((position, _)) = best else { break };
        taken.insert(position);
        picked.push(position);
    }
    picked.sort_unstable();
    picked
}

#[test]
fn deviation_takes_the_largest_with_nan_on_top() {
    for seed in 0..300 {
        let layout = plain(&[5, 0, 9, 4]);
        let rule = rule(Strategy::Deviation, fastrand::Rng::with_seed(seed).f64(), 1, 0);
        let flat: Vec<_> = deviations(seed, &layout).concat();
        let scores: Vec<_> = eligible(&layout)
            .zip(flat)
            .map(|((_, p), d)| (p, if d.is_nan() { f64::MAX } else { f64::from(d) }))
            .collect();
        let mut expected = BTreeSet::new();
        pick(&scores, &mut expected, rule.ratio.of(18));
        assert_eq!(
            run(seed, &layout, rule).0.positions(),
            expected.into_iter().collect::<Vec<_>>(),
            "seed {seed}"
        );
    }
}

#[test]
fn rounds_and_hops_follow_the_obvious_implementation() {
    for seed in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let layout = plain(&[6, 9, 0, 7]);
        let (rounds, hops) = (rng.u8(1..4), rng.u8(..3));
        let rule = rule(Strategy::Query, rng.f64(), rounds, hops);
        let budget = rule.ratio.of(22);
        let (mut newest, mut question) = (Vec::new(), Vec::new());
        let settled = budget == 22;
        // The documents' beginnings, token by token, as far as half of the budget goes.
        let beginnings =
            (0..HEADS as u32).flat_map(|token| [(1, 6), (7, 9), (16, 7)].map(|(at, len)| (at, len, token)));
        let heads = beginnings.filter(|(_, len, token)| token < len);
        let heads = heads.map(|(at, _, token)| Position(at + token)).take(budget / 2);
        let mut chosen: BTreeSet<_> = heads.collect();
        let first = chosen.len();
        for stage in 1..=usize::from(rounds + hops) {
            let share =
                ((budget - first) * stage).div_ceil(usize::from(rounds + hops)) - (chosen.len() - first);
            if share == 0 || settled {
                continue;
            }
            let repaired: Vec<_> = chosen.iter().copied().collect();
            let hop = stage > usize::from(rounds);
            let observed = if hop {
                weigh(&newest, &question)
            } else {
                Observed::Question
            };
            let mass: Vec<f64> = answer(seed, &layout, &repaired, &observed)
                .concat()
                .iter()
                .map(|m| *m as f64)
                .collect();
            let sum = mass.iter().sum::<f64>().max(1.0);
            let positions = eligible(&layout).map(|e| e.1);
            let shares: Vec<_> = positions.zip(mass.iter().map(|m| m / sum)).collect();
            if !hop {
                question = shares.clone();
            }
            let scores: Vec<_> = shares
                .iter()
                .zip(&question)
                .map(|((p, hop_share), (_, q))| (*p, if hop { q + hop_share } else { *q }))
                .collect();
            // Attention counts for less the further into its document a token stands.
            let place = |p: Position| {
                f64::from(p.0 - [1, 7, 16].into_iter().rfind(|at| *at <= p.0).expect("a document"))
            };
            let scores: Vec<_> = scores
                .into_iter()
                .map(|(p, score)| (p, score * (place(p) + 1.0).powf(-0.25)))
                .collect();
            newest = pick(&scores, &mut chosen, share);
        }
        let expected: Vec<_> = if settled {
            set(1..23)
        } else {
            chosen.into_iter().collect()
        };
        let (repairs, _) = run(seed, &layout, rule);
        assert_eq!(
            repairs.positions(),
            expected,
            "seed {seed} rounds {rounds} hops {hops} budget {budget}"
        );
    }
}

fn weigh(newest: &[Position], question: &[(Position, f64)]) -> Observed {
    let share = |p: &Position| question.iter().find(|q| q.0 == *p).map_or(0.0, |q| q.1);
    let largest = newest.iter().map(share).fold(0.0, f64::max);
    let weight = |p: &Position| {
        if largest > 0.0 {
            (share(p) / largest) as f32
        } else {
            1.0
        }
    };
    Observed::Rows(newest.iter().map(|p| (*p, weight(p))).collect())
}

#[test]
fn what_stands_behind_the_question_row_changes_nothing_up_to_it() {
    for seed in 0..400 {
        let prompt = random(seed);
        let layout = Layout::new(&prompt);
        let question = layout.question();
        let mut segments = cut(&prompt);
        segments.push(text(&[40, 41, 42]));
        segments.push(document(&[1, 2], &[9; 11]));
        segments.push(text(&[43]));
        let other = Layout::new(&Prompt::with_question(segments, prompt.question()).expect("a prompt"));
        for (strategy, rounds, hops) in RULES {
            let rule = rule(strategy, 0.4, rounds, hops);
            let upto = |layout: &Layout| {
                let (repairs, _) = run(seed, layout, rule);
                repairs
                    .positions()
                    .iter()
                    .copied()
                    .filter(|p| *p <= question)
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                upto(&layout),
                upto(&other),
                "seed {seed} {strategy} {rounds} {hops}"
            );
        }
    }
}

/// The prompt up to its question row.
fn cut(prompt: &Prompt) -> Vec<Segment> {
    let mut left = prompt.question() + 1;
    let mut segments = Vec::new();
    for segment in prompt.segments() {
        let ids: Vec<u32> = segment.tokens().iter().take(left).map(|t| t.0).collect();
        left -= ids.len();
        segments.push(match segment {
            Segment::Text(_) => text(&ids),
            Segment::Document(d) => document(&d.anchor.iter().map(|t| t.0).collect::<Vec<_>>(), &ids),
        });
    }
    segments
}

#[test]
fn a_question_row_inside_a_document_is_repaired_in_every_pass() {
    let segments = vec![
        text(&[1]),
        document(&[1, 2], &[5; 10]),
        document(&[1, 2], &[6; 4]),
    ];
    let layout = Layout::new(&Prompt::new(segments).expect("a prompt"));
    let mut selection = Selection::new(&layout, rule(Strategy::Query, 0.3, 1, 0));
    let Pass::Probe { repaired, observed } = selection.next() else {
        panic!("no probe")
    };
    assert_eq!(
        (repaired.as_slice(), observed),
        (&set([1, 14])[..], Observed::Question)
    );
    selection.feed_scores(&[vec![0, 0, 0, 9, 0, 0, 0, 0, 9, 0], vec![1, 9, 0, 99]]);
    assert_eq!(selection.next(), Pass::Done(Repairs::new(set([1, 4, 12, 14]))));
}

#[test]
fn the_last_row_of_an_exact_document_is_forced_and_costs_nothing() {
    let segments = vec![text(&[1]), document(&[1], &[5; 4])];
    let layout = Layout::new(&Prompt::new(segments).expect("a prompt"));
    for ratio in [0.0, 0.5, 1.0] {
        let (repairs, passes) = run(0, &layout, rule(Strategy::Query, ratio, 1, 0));
        assert_eq!((repairs.positions(), passes), (&set([4])[..], 0));
    }
}

/// Documents of which the question row, the last token of the first text, sees none.
fn unseen() -> Layout {
    let segments = vec![
        text(&[1]),
        document(&[1, 2], &[5; 4]),
        document(&[1, 2], &[6; 4]),
        text(&[8]),
    ];
    Layout::new(&Prompt::with_question(segments, 0).expect("a prompt"))
}

#[test]
fn deviation_compares_though_all_documents_stand_behind_the_question_row() {
    let mut selection = Selection::new(&unseen(), rule(Strategy::Deviation, 0.25, 1, 0));
    assert_eq!(selection.next(), Pass::Compare { layer: 3 });
    selection.feed_deviations(&[vec![0.0, 0.0, 7.0, 1.0], vec![0.0, 0.0, 0.0, 9.0]]);
    assert_eq!(selection.next(), Pass::Done(Repairs::new(set([3, 8]))));
}

#[test]
fn query_and_heads_take_heads_of_what_stands_behind_the_question_row() {
    for strategy in [Strategy::Query, Strategy::Heads] {
        let (repairs, passes) = run(0, &unseen(), rule(strategy, 0.5, 1, 0));
        assert_eq!((repairs.positions(), passes), (&set([1, 2, 5, 6])[..], 0));
    }
}

#[test]
fn heads_of_a_document_that_the_question_row_cuts_begin_behind_it() {
    let segments = vec![
        text(&[1]),
        document(&[1, 2], &[5; 8]),
        document(&[1, 2], &[6; 4]),
        text(&[8]),
    ];
    let layout = Layout::new(&Prompt::with_question(segments, 4).expect("a prompt"));
    // Up to the question row 2 of 4, itself among them; behind it 4 of 8, two in each document.
    let (repairs, _) = run(0, &layout, rule(Strategy::Heads, 0.5, 1, 0));
    assert_eq!(repairs.positions(), set([1, 4, 5, 6, 9, 10]));
}

#[test]
fn a_question_row_inside_an_exact_document_is_repaired_in_every_pass() {
    let segments = vec![
        text(&[1]),
        document(&[1, 2], &[5; 4]),
        document(&[1, 5, 5, 5, 5], &[6; 3]),
    ];
    let layout = Layout::new(&Prompt::new(segments).expect("a prompt"));
    let mut selection = Selection::new(&layout, rule(Strategy::Query, 0.75, 1, 1));
    for passes in 0..2 {
        let Pass::Probe { repaired, .. } = selection.next() else {
            panic!("no probe")
        };
        assert_eq!(
            (repaired.len(), repaired.last()),
            (passes + 2, Some(&Position(7)))
        );
        selection.feed_scores(&[vec![0, 9, 0, 8], Vec::new()]);
    }
    assert_eq!(selection.next(), Pass::Done(Repairs::new(set([1, 2, 4, 7]))));
}

#[test]
fn a_probe_ends_with_the_last_row_that_it_observes() {
    let layout = plain(&[5, 5]);
    let rows = [(3, 1.0), (9, 0.5), (4, 0.1)].map(|(p, weight)| (Position(p), weight));
    assert_eq!(Observed::Rows(rows.to_vec()).last(&layout), Position(9));
    assert_eq!(Observed::Question.last(&layout), Position(12));
    assert_eq!(Observed::Question.last(&unseen()), Position(0));
}
