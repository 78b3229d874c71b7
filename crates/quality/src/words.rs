//! Token-level F1 of short answers, as question-answering benchmarks count it.

use std::collections::HashMap;

/// The words of an answer that count: lower case, without punctuation, without articles.
pub fn normalise(text: &str) -> Vec<String> {
    let spaced: String = text
        .to_lowercase()
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { ' ' })
        .collect();
    let words = spaced
        .split_whitespace()
        .filter(|word| !matches!(*word, "a" | "an" | "the"));
    words.map(str::to_owned).collect()
}

/// Harmonic mean of the precision and recall of an answer's words, for the best of the accepted answers; 0 without
/// any. Two answers without words are equal.
pub fn f1<S: AsRef<str>>(answer: &str, accepted: &[S]) -> f64 {
    let answer = normalise(answer);
    let scores = accepted
        .iter()
        .map(|gold| overlap(&answer, &normalise(gold.as_ref())));
    scores.fold(0.0, f64::max)
}

fn overlap(answer: &[String], gold: &[String]) -> f64 {
    if answer.is_empty() || gold.is_empty() {
        return if answer.len() == gold.len() { 1.0 } else { 0.0 };
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in gold {
        *left.entry(word).or_default() += 1;
    }
    let mut common = 0usize;
    for word in answer {
        if let Some(count) = left.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    2.0 * common as f64 / (answer.len() + gold.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_punctuation_and_articles_do_not_count() {
        assert_eq!(
            normalise("The U.S. Army's, an  Ärmel"),
            ["u", "s", "army", "s", "ärmel"]
        );
        assert_eq!(f1("the Eiffel Tower!", &["Eiffel tower"]), 1.0);
    }

    #[test]
    fn the_best_accepted_answer_counts_and_words_count_once() {
        // One common word of 2 and 3: precision 1/2, recall 1/3.
        assert!((f1("paris paris", &["x", "paris in france"]) - 0.4).abs() < 1e-12);
        assert_eq!(f1("no", &["yes"]), 0.0);
        assert_eq!(f1("anything", &[] as &[&str]), 0.0);
    }

    #[test]
    fn answers_without_words_equal_only_each_other() {
        assert_eq!(f1("...", &["the"]), 1.0);
        assert_eq!(f1("", &["paris"]), 0.0);
    }
}
