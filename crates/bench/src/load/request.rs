//! What is asked: decided by the number of the request and the seed, whatever the order in which requests end.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    Traffic,
    corpus::{Corpus, Zipf},
};

/// How documents are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// In the field `documents`.
    #[default]
    Documents,
    /// As text before the question: what any server takes.
    Prompt,
}

/// One request.
pub(super) struct Request {
    pub body: Value,
    pub stream: bool,
    /// The client goes away after this time.
    pub hangs_up: Option<Duration>,
}

/// Makes requests by their numbers.
pub(super) struct Requests {
    model: String,
    traffic: Traffic,
    corpus: Corpus,
    zipf: Zipf,
}

/// Clients that go away do so within this time.
const PATIENCE: f64 = 1.0;

impl Requests {
    pub(super) fn new(model: String, traffic: Traffic, corpus: Corpus) -> Self {
        let zipf = Zipf::new(corpus.len(), traffic.zipf);
        Self {
            model,
            traffic,
            corpus,
            zipf,
        }
    }

    pub(super) fn get(&self, number: usize) -> Request {
        let traffic = &self.traffic;
        let mut rng = Rng::with_seed(
            traffic
                .seed
                .wrapping_add(number as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
        let ranks = self.zipf.draw(traffic.documents, &mut rng);
        let documents: Vec<&str> = ranks.iter().map(|&rank| self.corpus.get(rank)).collect();
        let question = format!("Question {number}: what is said here?\nAnswer:");
        let stream = rng.f64() < traffic.stream;
        let hangs_up = rng.f64() < traffic.hang_up;
        let mut body = json!({
            "model": self.model,
            "max_tokens": traffic.max_tokens,
            "temperature": 0,
            "stream": stream,
        });
        match traffic.form {
            Form::Documents => {
                body["prompt"] = question.into();
                body["documents"] = documents.into();
            }
            Form::Prompt => body["prompt"] = (documents.join("\n\n") + "\n\n" + &question).into(),
        }
        if stream {
            body["stream_options"] = json!({"include_usage": true});
        }
        if traffic.ignore_eos {
            body["ignore_eos"] = true.into();
        }
        Request {
            body,
            stream,
            hangs_up: hangs_up.then(|| Duration::from_secs_f64(rng.f64() * PATIENCE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(traffic: Traffic) -> Requests {
        Requests::new("m".to_owned(), traffic, Corpus::invented(20, 5, 1))
    }

    #[test]
    fn a_number_and_a_seed_decide_a_request() {
        let body = |seed, number| {
            let traffic = Traffic {
                seed,
                ..Traffic::default()
            };
            requests(traffic).get(number).body
        };
        assert_eq!(body(1, 7), body(1, 7));
        assert_ne!(body(1, 7)["documents"], body(1, 8)["documents"]);
        assert_ne!(body(1, 7)["documents"], body(2, 7)["documents"]);
    }

    #[test]
    fn shares_of_streams_and_of_clients_that_go_away_are_those_asked_for() {
        let made = requests(Traffic {
            stream: 0.25,
            hang_up: 0.1,
            ..Traffic::default()
        });
        let all: Vec<_> = (0..4000).map(|number| made.get(number)).collect();
        let share = |of: fn(&Request) -> bool| all.iter().filter(|r| of(r)).count() as f64 / 4000.0;
        assert!((share(|r| r.stream) - 0.25).abs() < 0.03);
        assert!((share(|r| r.hangs_up.is_some()) - 0.1).abs() < 0.03);
        assert!(
            all.iter()
                .all(|r| r.stream == r.body["stream_options"].is_object())
        );
    }

    #[test]
    fn documents_are_a_field_or_text_before_the_question() {
        let field = requests(Traffic::default()).get(3).body;
        let text = requests(Traffic {
            form: Form::Prompt,
            ..Traffic::default()
        });
        let text = text.get(3).body;
        let documents: Vec<_> = field["documents"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|d| d.as_str().expect("text"))
            .collect();
        let expected = documents.join("\n\n") + "\n\n" + field["prompt"].as_str().expect("a text");
        assert_eq!(text["prompt"], expected.as_str());
        assert!(text["documents"].is_null());
    }
}
