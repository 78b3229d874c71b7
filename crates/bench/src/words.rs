//! Endless text of invented words: the same for the same seed, and no text of anyone's.

use fastrand::Rng;

const ONSETS: [&str; 14] = [
    "b", "d", "f", "gr", "k", "l", "m", "n", "p", "pr", "s", "st", "t", "v",
];
const VOWELS: [&str; 7] = ["a", "e", "i", "o", "u", "ea", "ou"];
const CODAS: [&str; 8] = ["", "", "l", "n", "r", "s", "nd", "st"];

/// At least `words` words in sentences.
pub(crate) fn text(seed: u64, words: usize) -> String {
    let mut rng = Rng::with_seed(seed);
    let mut text = String::new();
    let mut count = 0;
    while count < words {
        let length = rng.usize(5..14);
        let sentence: Vec<String> = (0..length).map(|_| word(&mut rng)).collect();
        let mut sentence = sentence.join(" ");
        sentence[..1].make_ascii_uppercase();
        text.push_str(&sentence);
        text.push_str(". ");
        count += length;
    }
    text
}

fn word(rng: &mut Rng) -> String {
    let mut word = String::new();
    for _ in 0..rng.usize(1..4) {
        for part in [&ONSETS[..], &VOWELS, &CODAS] {
            word.push_str(rng.choice(part).unwrap_or(&""));
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_text() {
        assert_eq!(text(7, 50), text(7, 50));
        assert_ne!(text(7, 50), text(8, 50));
        assert!(text(7, 50).split_whitespace().count() >= 50);
    }
}
