//! Documents are reused in any order, and every answer says so.

use medley_generate::Generate;
use medley_kv::{BlendMode, Plan, Segment};

use crate::harness::{Answer, Ask, Engines, ask, document, text};

/// Instructions, documents by seed and length, a question.
fn prompt(documents: &[(u64, usize)]) -> Vec<Segment> {
    let documents = documents.iter().map(|&(seed, len)| document(seed, len));
    [text(900, 30)]
        .into_iter()
        .chain(documents)
        .chain([text(901, 12)])
        .collect()
}

/// The sums that every report keeps.
fn check_sums(answer: &Answer, prompt: &[Segment]) {
    let total: usize = prompt.iter().map(|s| s.tokens().len()).sum();
    assert_eq!(answer.report.tokens.total(), total, "{:?}", answer.report.tokens);
    let mut offset = 0;
    let mut reports = answer.report.documents.iter();
    for segment in prompt {
        if let Segment::Document(document) = segment {
            let report = reports.next().expect("a report for every document");
            assert_eq!((report.offset, report.tokens), (offset, document.tokens.len()));
            assert_eq!(report.reused + report.computed + report.repaired, report.tokens);
        }
        offset += segment.tokens().len();
    }
    assert!(reports.next().is_none());
}

fn run(engine: &dyn Generate, prompt: &[Segment]) -> Answer {
    let answer = ask(engine, &Ask::new(prompt.to_vec()));
    check_sums(&answer, prompt);
    assert_eq!(answer.report.plan, Plan::Blended);
    answer
}

#[test]
fn documents_in_a_new_order_are_reused() {
    for len in [300, 20, 64, 1] {
        let engine = Engines::default().start();
        let (a, b, c) = ((1, len), (2, len + 17), (3, len + 1));
        let cold = run(&engine, &prompt(&[a, b, c]));
        assert_eq!(cold.report.tokens.reused, 0);
        assert_eq!(cold.sources(), ["computed"; 3]);
        let warm = run(&engine, &prompt(&[c, a, b]));
        assert_eq!(warm.sources(), ["host"; 3]);
        assert_eq!(warm.report.tokens.computed, 0);
        assert!(
            warm.report
                .documents
                .iter()
                .all(|d| d.reused + d.repaired == d.tokens)
        );
    }
}

#[test]
fn a_document_may_stand_twice() {
    let engine = Engines::default().start();
    let (a, b) = ((1, 150), (2, 80));
    let cold = run(&engine, &prompt(&[a, b, a]));
    assert_eq!(cold.sources(), ["computed"; 3]);
    assert_eq!(engine.gauges().documents, 2);
    let warm = run(&engine, &prompt(&[b, a, a]));
    assert_eq!(warm.sources(), ["host"; 3]);
}

#[test]
fn known_documents_behind_an_unknown_one_are_reused() {
    let engine = Engines::default().start();
    run(&engine, &prompt(&[(2, 100), (3, 100)]));
    let mixed = run(&engine, &prompt(&[(1, 100), (2, 100), (3, 100)]));
    assert_eq!(mixed.sources(), ["computed", "host", "host"]);
    assert_eq!(mixed.report.documents[0].reused, 0);
}

#[test]
fn an_empty_document_takes_nothing() {
    let engine = Engines::default().start();
    let answer = run(&engine, &prompt(&[(1, 0), (2, 90)]));
    assert_eq!(answer.report.documents[0].tokens, 0);
    assert_eq!(answer.text, ask(&engine, &Ask::new(prompt(&[(2, 90)]))).text);
    let only_empty = run(&engine, &prompt(&[(1, 0)]));
    assert_eq!(
        only_empty.report.tokens.fresh + only_empty.report.tokens.exact_prefix,
        42
    );
}

#[test]
fn text_may_stand_between_documents() {
    let engine = Engines::default().start();
    let prompt = [
        text(5, 9),
        document(1, 70),
        text(6, 3),
        document(2, 130),
        document(3, 10),
        text(7, 5),
    ];
    let cold = run(&engine, &prompt);
    let warm = run(&engine, &prompt);
    assert_eq!(warm.first_logits(), cold.first_logits());
    assert_eq!(warm.sources(), ["host"; 3]);
}

#[test]
fn a_prompt_may_end_in_a_document() {
    let engine = Engines::default().start();
    let prompt = [text(5, 9), document(1, 70)];
    let exact = ask(&engine, &Ask::new(prompt.to_vec()).mode(BlendMode::Exact));
    let blended = ask(&engine, &Ask::new(prompt.to_vec()).ratio(0.0));
    assert_eq!(blended.report.tokens.repaired, 1);
    assert_ne!(blended.first_logits(), exact.first_logits());
    let all = ask(&engine, &Ask::new(prompt.to_vec()).ratio(1.0));
    assert_eq!(all.first_logits(), exact.first_logits());
}

#[test]
fn exact_prefixes_are_reused_page_by_page() {
    let engine = Engines::default().start();
    let ask_exact = |question| {
        let prompt = vec![text(900, 200), document(1, 100), text(question, 20)];
        ask(&engine, &Ask::new(prompt).mode(BlendMode::Exact))
    };
    let (first, second) = (ask_exact(1), ask_exact(2));
    assert_eq!(first.report.tokens.exact_prefix, 0);
    assert_eq!(second.report.tokens.exact_prefix, 256);
    assert_eq!(second.report.plan, Plan::Exact);
    let again = ask_exact(1);
    assert_eq!(
        (&again.text, again.first_logits()),
        (&first.text, first.first_logits())
    );
}

#[test]
fn off_neither_reads_nor_stores() {
    let engine = Engines::default().start();
    let prompt = vec![text(900, 200), document(1, 100), text(3, 20)];
    let off = ask(&engine, &Ask::new(prompt.clone()).mode(BlendMode::Off));
    assert_eq!(engine.gauges().resident_pages, 0);
    let exact = ask(&engine, &Ask::new(prompt.clone()).mode(BlendMode::Exact));
    assert_eq!(exact.report.tokens.exact_prefix, 0);
    let off_again = ask(&engine, &Ask::new(prompt).mode(BlendMode::Off));
    assert_eq!(off_again.report.tokens.exact_prefix, 0);
    assert_eq!((off.text, off_again.report.plan), (exact.text, Plan::Off));
}

#[test]
fn nothing_is_shared_across_salts() {
    let engine = Engines::default().start();
    let prompt = prompt(&[(1, 100), (2, 100)]);
    let asks = ["a", "b"].map(|salt| Ask::new(prompt.clone()).salt(salt));
    let [a, b] = asks.each_ref().map(|a| ask(&engine, a));
    assert_eq!(b.sources(), ["computed"; 2]);
    assert_eq!(a.text, b.text);
    assert_ne!(
        a.report.documents[0].document_id,
        b.report.documents[0].document_id
    );
    assert_eq!(ask(&engine, &asks[0]).sources(), ["host"; 2]);
}
