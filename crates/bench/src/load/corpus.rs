//! The documents of requests: a few are asked for often, most hardly ever.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use serde::Deserialize;

use crate::words;

/// Documents, the most popular one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus(Vec<String>);

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    title: Option<String>,
    text: String,
}

impl Corpus {
    /// Invented documents of at least so many words each.
    pub fn invented(documents: usize, words: usize, seed: u64) -> Self {
        let seeds = seed..seed + documents as u64;
        Self(seeds.map(|seed| words::text(seed, words)).collect())
    }

    /// Reads JSON lines of `{"title": .., "text": ..}`; titles may be missing.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("can't read {shown}"))?;
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        let documents = lines.map(|(at, line)| {
            let line: Line =
                serde_json::from_str(line).with_context(|| format!("{shown}, line {}", at + 1))?;
            let title = line.title.map_or(String::new(), |title| format!("{title}\n\n"));
            Ok(title + &line.text)
        });
        let documents: Vec<_> = documents.collect::<Result<_>>()?;
        ensure!(!documents.is_empty(), "{shown} has no documents");
        Ok(Self(documents))
    }

    /// Documents there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A document by its rank.
    pub(super) fn get(&self, rank: usize) -> &str {
        &self.0[rank]
    }
}

/// Draws ranks by Zipf's law: rank `i`, from 0, has the weight `(i + 1)^(-s)`.
pub(super) struct Zipf {
    /// Sums of weights up to and with each rank.
    cumulative: Vec<f64>,
}

impl Zipf {
    pub(super) fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let add = |rank| {
            sum += (rank as f64 + 1.0).powf(-exponent);
            sum
        };
        Self {
            cumulative: (0..ranks).map(add).collect(),
        }
    }

    /// So many different ranks, or all there are, in the order in which they were drawn.
    pub(super) fn draw(&self, count: usize, rng: &mut Rng) -> Vec<usize> {
        let Some(sum) = self.cumulative.last() else {
            return Vec::new();
        };
        let mut drawn = Vec::new();
        while drawn.len() < count.min(self.cumulative.len()) {
            let at = rng.f64() * sum;
            let rank = self.cumulative.partition_point(|&below| below <= at);
            if rank < self.cumulative.len() && !drawn.contains(&rank) {
                drawn.push(rank);
            }
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_their_weights_say() {
        let zipf = Zipf::new(50, 1.0);
        let mut rng = Rng::with_seed(2);
        let mut counts = [0usize; 50];
        for _ in 0..100_000 {
            counts[zipf.draw(1, &mut rng)[0]] += 1;
        }
        let harmonic: f64 = (1..=50).map(|i| 1.0 / f64::from(i)).sum();
        for (rank, &count) in counts.iter().enumerate() {
            let expected = 100_000.0 / harmonic / (rank as f64 + 1.0);
            assert!(
                (count as f64 - expected).abs() < 5.0 * expected.sqrt(),
                "{rank}: {count}, {expected}"
            );
        }
    }

    #[test]
    fn a_draw_has_no_rank_twice_and_ends_with_the_ranks() {
        let zipf = Zipf::new(4, 2.0);
        let mut rng = Rng::with_seed(3);
        for count in 0..8 {
            let mut drawn = zipf.draw(count, &mut rng);
            assert_eq!(drawn.len(), count.min(4));
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), count.min(4));
        }
        assert!(Zipf::new(0, 1.0).draw(3, &mut rng).is_empty());
    }

    #[test]
    fn a_corpus_is_read_from_json_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c.jsonl");
        std::fs::write(
            &path,
            "{\"title\": \"A\", \"text\": \"b\"}\n\n{\"text\": \"c\"}\n",
        )
        .expect("written");
        assert_eq!(
            Corpus::read(&path).expect("read"),
            Corpus(vec!["A\n\nb".to_owned(), "c".to_owned()])
        );
        std::fs::write(&path, "{\"text\": \"c\"}\n{}\n").expect("written");
        let error = Corpus::read(&path).expect_err("no text");
        assert!(error.to_string().ends_with("line 2"), "{error}");
        std::fs::write(&path, "\n").expect("written");
        assert!(Corpus::read(&path).is_err());
    }
}
