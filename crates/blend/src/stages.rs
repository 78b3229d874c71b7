//! How the budget of `query` is spread over its probes.
//!
//! Rounds come first, hops after them; every stage has an equal share, rounded up in order, so that the first
//! stage is never empty. Stages that would choose nothing are left out: they cost a pass and change nothing.

/// Who asks in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The question row.
    Question,
    /// The tokens that were chosen last.
    Newest,
}

/// One probe and the number of candidates to choose by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub asker: Asker,
    pub share: usize,
}

/// The stages that spend `room`, at most `rounds + hops`, each with a share of at least 1.
pub(crate) fn stages(room: usize, rounds: u8, hops: u8) -> Vec<Stage> {
    let rounds = usize::from(rounds.max(1));
    let count = rounds + usize::from(hops);
    let spent = |stage: usize| (room * stage).div_ceil(count);
    let all = (0..count).map(|i| Stage {
        asker: if i < rounds {
            Asker::Question
        } else {
            Asker::Newest
        },
        share: spent(i + 1) - spent(i),
    });
    all.filter(|stage| stage.share > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_the_budget_and_start_with_the_question() {
        for room in 0..40 {
            for (rounds, hops) in [(0, 0), (1, 0), (1, 1), (1, 3), (2, 0), (4, 2), (255, 255)] {
                let stages = stages(room, rounds, hops);
                assert_eq!(stages.iter().map(|s| s.share).sum::<usize>(), room);
                assert!(stages.iter().all(|s| s.share > 0));
                assert!(stages.first().is_none_or(|s| s.asker == Asker::Question));
            }
        }
    }

    #[test]
    fn shares_are_equal_up_to_one_and_rounds_precede_hops() {
        let stages = stages(10, 2, 1);
        assert_eq!(stages.iter().map(|s| s.share).collect::<Vec<_>>(), [4, 3, 3]);
        assert_eq!(
            stages
                .iter()
                .map(|s| s.asker == Asker::Newest)
                .collect::<Vec<_>>(),
            [false, false, true]
        );
    }
}
