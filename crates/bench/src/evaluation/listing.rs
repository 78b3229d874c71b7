//! Tables as a list of rows in JSON, each complete in itself.

use medley_kv::BlendOptions;
use serde::Serialize;

use super::{Rule, row::Row, table::Table};

/// What a server does unless it is told otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Shipped {
    rule: String,
    ratio: f32,
    anchor: String,
}

/// A rule at a ratio of a model, an anchor and a set. `…_low` and `…_high` bound the 95 % interval of a mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    model: String,
    set: String,
    rule: String,
    ratio: f32,
    anchor: String,
    default: bool,
    kl: f64,
    kl_low: f64,
    kl_high: f64,
    top1: f64,
    top1_low: f64,
    top1_high: f64,
    f1: Option<f64>,
    f1_low: Option<f64>,
    f1_high: Option<f64>,
    rows: Option<f64>,
    repaired: f64,
    cases: usize,
}

impl Shipped {
    /// The default options behind the default anchor.
    pub fn behind(anchor: String) -> Self {
        let options = BlendOptions::default();
        Self {
            rule: Rule::resolved(&options).label(),
            ratio: options.ratio.get(),
            anchor,
        }
    }

    fn is(&self, anchor: &str, row: &Row) -> bool {
        self.rule == row.rule && self.ratio == row.ratio && self.anchor == anchor
    }
}

/// All rows of all tables.
pub fn listing(tables: &[Table], shipped: &Shipped) -> Vec<Entry> {
    let of = |table: &'_ Table| -> Vec<Entry> {
        let entry = |row| Entry::new(table, row, shipped);
        table.rows.iter().map(entry).collect()
    };
    tables.iter().flat_map(of).collect()
}

impl Entry {
    fn new(table: &Table, row: &Row, shipped: &Shipped) -> Self {
        let place = &table.place;
        let (kl, top1, f1) = (row.kl, row.top1, row.f1);
        Self {
            model: place.model.clone(),
            set: place.data.clone(),
            rule: row.rule.clone(),
            ratio: row.ratio,
            anchor: place.anchor.clone(),
            default: shipped.is(&place.anchor, row),
            kl: rounded(kl.mean),
            kl_low: rounded(kl.low),
            kl_high: rounded(kl.high),
            top1: rounded(top1.mean),
            top1_low: rounded(top1.low),
            top1_high: rounded(top1.high),
            f1: f1.map(|f1| rounded(f1.mean)),
            f1_low: f1.map(|f1| rounded(f1.low)),
            f1_high: f1.map(|f1| rounded(f1.high)),
            rows: row.rows.map(rounded),
            repaired: rounded(row.repaired),
            cases: row.cases,
        }
    }
}

/// Six decimals: more are noise in a file that is read and compared.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::ledger::sample;

    #[test]
    fn what_ships_is_marked_and_nothing_else() {
        let mut records = Vec::new();
        for anchor in ["bos", "neutral"] {
            for (rule, ratio) in [
                ("full", 1.0),
                ("query", 0.1),
                ("query", 0.15),
                ("query+hops1", 0.15),
                ("heads", 0.15),
            ] {
                let mut record = sample("0", rule, 0.5);
                (record.key.anchor, record.key.ratio) = (anchor.into(), ratio);
                records.push(record);
            }
        }
        let entries = listing(&Table::all(&records, "heads"), &Shipped::behind("bos".into()));
        let default: Vec<_> = entries.iter().filter(|e| e.default).collect();
        assert_eq!(entries.len(), 10);
        assert_eq!(default.len(), 1);
        assert_eq!(
            (
                default[0].rule.as_str(),
                default[0].ratio,
                default[0].anchor.as_str()
            ),
            ("query", 0.15, "bos")
        );
    }

    #[test]
    fn an_entry_has_these_fields_and_no_others() {
        let tables = Table::all(&[sample("0", "query", 1.0 / 3.0)], "heads");
        let json = serde_json::to_string(&listing(&tables, &Shipped::behind("bos".into()))).expect("JSON");
        assert_eq!(
            json,
            r#"[{"model":"m","set":"d","rule":"query","ratio":0.1,"anchor":"bos","default":false,"#
                .to_owned()
                + r#""kl":0.333333,"kl_low":0.333333,"kl_high":0.333333,"top1":1.0,"top1_low":1.0,"top1_high":1.0,"#
                + r#""f1":null,"f1_low":null,"f1_high":null,"rows":null,"repaired":0.1,"cases":1}]"#
        );
    }
}
