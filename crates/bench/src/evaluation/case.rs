//! Questions with their passages.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// A question, the answers that are accepted, and passages that may contain them.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its name: the file's own, or its place in the file.
    #[serde(default)]
    pub id: String,
    /// What is asked.
    pub question: String,
    /// Accepted answers.
    #[serde(default)]
    pub answers: Vec<String>,
    /// Passages in the order of the prompt.
    #[serde(rename = "ctxs")]
    pub passages: Vec<Passage>,
}

/// A passage.
#[derive(Clone, Debug, Deserialize)]
pub struct Passage {
    /// May be empty.
    #[serde(default)]
    pub title: String,
    /// The text.
    pub text: String,
}

/// Reads a JSON array of cases, or JSON lines if the name ends in `.jsonl`.
pub fn read(path: &Path) -> Result<Vec<Case>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {shown}"))?;
    let lines = path.extension().is_some_and(|extension| extension == "jsonl");
    let cases = if lines {
        from_lines(&text)
    } else {
        Ok(serde_json::from_str(&text)?)
    };
    let cases =
        cases.with_context(|| format!("{shown} does not hold cases of question, answers and ctxs"))?;
    ensure!(!cases.is_empty(), "{shown} holds no cases");
    Ok(numbered(cases))
}

fn from_lines(text: &str) -> Result<Vec<Case>> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| serde_json::from_str(line).with_context(|| format!("line {}", at + 1)))
        .collect()
}

fn numbered(mut cases: Vec<Case>) -> Vec<Case> {
    for (at, case) in cases.iter_mut().enumerate() {
        if case.id.is_empty() {
            case.id = at.to_string();
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cases_and_a_bad_one_is_named() {
        let good = r#"{"id":"x","question":"q","answers":["a"],"ctxs":[{"title":"t","text":"p","extra":1}]}"#;
        let cases = from_lines(&format!("{good}\n\n{good}\n")).expect("two cases");
        assert_eq!((cases.len(), cases[0].passages[0].text.as_str()), (2, "p"));
        let error = from_lines(&format!("{good}\n{{}}\n")).expect_err("line 2 is no case");
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn cases_without_a_name_are_called_by_their_place() {
        let case = r#"{"question":"q","answers":[],"ctxs":[]}"#;
        let cases = serde_json::from_str(&format!("[{case},{case}]")).expect("two cases");
        let ids: Vec<String> = numbered(cases).into_iter().map(|c| c.id).collect();
        assert_eq!(ids, ["0", "1"]);
    }
}
