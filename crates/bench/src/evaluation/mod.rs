//! Quality of blended answers: rules and ratios against a full prefill.
//!
//! For every case the model answers greedily on an exact prefill. Then that answer is forced on the exact and on
//! every blended prompt, and the next-token distributions are compared position by position. Results are appended
//! to a file as they come; what is already in it is not run again.
//!
//! What this does not do: judge a model. A weak model has a low F1 with a full prefill too.

mod case;
mod ledger;
mod listing;
mod measure;
mod plot;
mod recipe;
mod row;
mod rule;
mod summary;
mod table;

use std::path::PathBuf;

use anyhow::{Context, Result};
use futures::{StreamExt as _, future, stream};
use medley_kv::{Prompt, Ratio};

pub use case::Case;
pub use ledger::Record;
pub use listing::{Entry, Shipped, listing};
pub use plot::{Axis, UnknownAxis, plot};
pub use row::Row;
pub use rule::{Rule, Unknown};
pub use summary::{Results, summarise};
pub use table::{Place, Table};

use crate::{Subject, progress::Steps};
use ledger::{Key, Ledger};
use measure::Measurement;
use row::FULL;

/// Tokens of the answer that distributions are compared over, at most.
const COMPARED_TOKENS: usize = 20;
/// Tokens of an answer that F1 counts, at most.
const ANSWER_TOKENS: usize = 32;

/// What to evaluate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Cases: a JSON array, or JSON lines if the name ends in `.jsonl`.
    pub data: PathBuf,
    /// Cases to run, from the first; those whose prompt is longer than the context are passed over.
    pub cases: usize,
    /// Rules to compare.
    pub rules: Vec<Rule>,
    /// Ratios for every rule but `none`, 0 to 1.
    pub ratios: Vec<Ratio>,
    /// Layer of the deviation rule.
    pub check_layer: u32,
    /// Whether each rule also answers on its own, for F1.
    pub answers: bool,
    /// The rule that others are compared with at the same ratio, in the table.
    pub against: String,
    /// Cases that are measured at once, at least 1. Results do not depend on it.
    pub parallel: usize,
    /// Results as JSON lines; appended to.
    pub out: PathBuf,
}

/// Runs what is not in the results yet, and sums up all of them.
pub async fn run(subject: &Subject, options: &Options) -> Result<Table> {
    let cases = case::read(&options.data)?;
    let data = options
        .data
        .file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut ledger = Ledger::open(&options.out)?;
    let prompts = recipe::prompts(subject, &cases)?;
    let room = subject.card().max_model_len.saturating_sub(ANSWER_TOKENS);
    let fitting = prompts
        .into_iter()
        .filter(|(_, prompt)| prompt.len() <= room)
        .take(options.cases);
    let fitting: Vec<_> = fitting.collect();
    let plan = plan(options);
    let missing = |case: &Case| {
        let key = |&(rule, ratio): &(Rule, Ratio)| Key::new(subject, &data, case, &rule.label(), ratio.get());
        let missing = plan.iter().map(|pair| (*pair, key(pair)));
        missing
            .filter(|(_, key)| !ledger.has(key, options.answers))
            .collect::<Vec<_>>()
    };
    let work: Vec<_> = fitting
        .iter()
        .map(|(case, prompt)| (*case, prompt, missing(case)))
        .filter(|(.., missing)| !missing.is_empty())
        .collect();
    let steps = Steps::new(work.iter().map(|(.., missing)| missing.len()).sum());
    let measured = work.into_iter().map(|(case, prompt, missing)| {
        let full = Key::new(subject, &data, case, FULL, 1.0);
        measure(subject, options, (case, prompt), full, missing)
    });
    let mut measured = stream::iter(measured).buffered(options.parallel.max(1));
    while let Some(records) = measured.next().await {
        for record in records? {
            steps.now(&format!("case {}: {}", record.key.case, record.key.rule));
            if record.key.rule != FULL {
                steps.step();
            }
            ledger.append(record)?;
        }
    }
    drop(measured);
    steps.finish();
    let ids: Vec<&str> = fitting.iter().map(|(case, _)| case.id.as_str()).collect();
    let place = Place {
        model: subject.name.clone(),
        anchor: subject.anchor.clone(),
        data,
    };
    let ours = |r: &&Record| Place::of(r) == place && ids.contains(&r.key.case.as_str());
    let records: Vec<&Record> = ledger.records().iter().filter(ours).collect();
    Ok(Table::new(place.clone(), &records, &options.against))
}

/// Measures a case with all its rules at once: the full prefill's result first.
async fn measure(
    subject: &Subject,
    options: &Options,
    (case, prompt): (&Case, &Prompt),
    full: Key,
    missing: Vec<((Rule, Ratio), Key)>,
) -> Result<Vec<Record>> {
    let measurement = Measurement::new(subject, options, case, prompt).await?;
    let of = |((rule, ratio), key): ((Rule, Ratio), Key)| {
        let record = measurement.of(rule, ratio, key);
        async move {
            record
                .await
                .with_context(|| format!("case {}, {}", case.id, rule.label()))
        }
    };
    let records = future::try_join_all(missing.into_iter().map(of)).await?;
    Ok(std::iter::once(measurement.reference(full))
        .chain(records)
        .collect())
}

/// All pairs of rule and ratio.
fn plan(options: &Options) -> Vec<(Rule, Ratio)> {
    let of_rule = |rule: Rule| {
        let ratios = if rule.repairs() {
            options.ratios.clone()
        } else {
            vec![Ratio::ZERO]
        };
        ratios.into_iter().map(move |ratio| (rule, ratio))
    };
    options.rules.iter().copied().flat_map(of_rule).collect()
}
