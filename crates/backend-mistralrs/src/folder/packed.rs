//! Weights in GPTQ's and AWQ's packing: integers of 4 or 8 bits in 32-bit words, with a scale and a zero for each group of
//! inputs. They are unpacked when they are read.
//!
//! A weight is `(integer - zero) · scale`. Matrices are stored with inputs as rows:
//!
//! | | GPTQ | AWQ |
//! |---|---|---|
//! | `qweight` | `[inputs · bits / 32, outputs]`, a word has consecutive inputs | `[inputs, outputs · bits / 32]`, a word has eight outputs in the order 0 2 4 6 1 3 5 7 |
//! | `qzeros` | `[groups, outputs · bits / 32]`, consecutive outputs, one less than the zero (`gptq_v2`: the zero) | `[groups, outputs · bits / 32]`, packed as weights |
//! | `scales` | `[groups, outputs]` | `[groups, outputs]` |
//! | `g_idx` | group of each input, or in their order | in their order |
//!
//! Source: the packing code of AutoGPTQ and AutoAWQ, whose files these are.

use mistralrs_quant::QuantizedConfig;

use crate::LoadError;

/// Where each of eight outputs lies in a word of AWQ.
const AWQ_PLACES: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// How integers lie in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    layout: Layout,
    bits: usize,
    /// Inputs of a group.
    pub group: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Stored zeros are so much less than the zeros.
    Gptq {
        below: u32,
    },
    Awq,
}

/// The stored parts of a matrix.
pub(super) struct Parts {
    pub weights: Vec<u32>,
    pub zeros: Vec<u32>,
    pub scales: Vec<f32>,
    /// Group of each input.
    pub groups: Vec<u32>,
}

impl Packing {
    /// The packing of a configuration; `None` for one that is none of these.
    pub fn new(config: &QuantizedConfig) -> Option<Result<Self, LoadError>> {
        let QuantizedConfig::GptqAwq {
            bits,
            group_size,
            checkpoint_format,
            is_awq,
        } = config
        else {
            return None;
        };
        let layout = match (is_awq, checkpoint_format.as_deref()) {
            (true, None | Some("gemm")) => Some(Layout::Awq),
            (false, None | Some("gptq")) => Some(Layout::Gptq { below: 1 }),
            (false, Some("gptq_v2")) => Some(Layout::Gptq { below: 0 }),
            _ => None,
        };
        let known = *bits == 4 || *bits == 8 && !is_awq;
        Some(match layout.filter(|_| known && *group_size > 0) {
            Some(layout) => Ok(Self {
                layout,
                bits: *bits,
                group: *group_size,
            }),
            None => Err(LoadError::unsupported(
                format!(
                    "{} weights of {bits} bits, groups of {group_size}, format {}",
                    if *is_awq { "AWQ" } else { "GPTQ" },
                    checkpoint_format.as_deref().unwrap_or("unnamed"),
                ),
                "GPTQ of 4 or 8 bits (gptq, gptq_v2) and AWQ of 4 (gemm), in groups",
            )),
        })
    }

    /// Shapes of `qweight`, `qzeros` and `scales` of a matrix; `None` if it can't be packed without a rest.
    pub fn shapes(&self, outputs: usize, inputs: usize) -> Option<[[usize; 2]; 3]> {
        let word = 32 / self.bits;
        let packed = if self.layout == Layout::Awq {
            outputs
        } else {
            inputs
        };
        if !packed.is_multiple_of(word) || !outputs.is_multiple_of(word) {
            return None;
        }
        let groups = inputs.div_ceil(self.group);
        let weights = match self.layout {
            Layout::Gptq { .. } => [inputs / word, outputs],
            Layout::Awq => [inputs, outputs / word],
        };
        Some([weights, [groups, outputs / word], [groups, outputs]])
    }

    /// Whether files say in which group each input is.
    pub fn has_group_indices(&self) -> bool {
        self.layout != Layout::Awq
    }

    /// The matrix `[outputs, inputs]`. The parts have the shapes above, and every input a group that there is.
    pub fn unpack(&self, parts: &Parts, outputs: usize, inputs: usize) -> Vec<f32> {
        let groups = parts.scales.len() / outputs.max(1);
        let zeros = (0..groups).flat_map(|group| (0..outputs).map(move |output| (group, output)));
        let zeros: Vec<u32> = zeros
            .map(|(group, output)| self.zero(&parts.zeros, group, output, outputs))
            .collect();
        let mut matrix = vec![0.0; outputs * inputs];
        for input in 0..inputs {
            let group = parts.groups[input] as usize;
            for output in 0..outputs {
                let zero = zeros[group * outputs + output];
                let integer = self.integer(&parts.weights, input, output, outputs);
                let scale = parts.scales[group * outputs + output];
                matrix[output * inputs + input] = (f64::from(integer) - f64::from(zero)) as f32 * scale;
            }
        }
        matrix
    }

    fn integer(&self, words: &[u32], input: usize, output: usize, outputs: usize) -> u32 {
        match self.layout {
            Layout::Gptq { .. } => {
                let word = 32 / self.bits;
                self.bits_of(words[input / word * outputs + output], input % word)
            }
            Layout::Awq => self.among_outputs(words, input, output, outputs),
        }
    }

    fn zero(&self, words: &[u32], group: usize, output: usize, outputs: usize) -> u32 {
        let stored = self.among_outputs(words, group, output, outputs);
        match self.layout {
            // A zero of 0 is stored as the greatest integer.
            Layout::Gptq { below } => (stored + below) & ((1 << self.bits) - 1),
            Layout::Awq => stored,
        }
    }

    /// An integer of rows whose words have consecutive outputs.
    fn among_outputs(&self, words: &[u32], row: usize, output: usize, outputs: usize) -> u32 {
        let word = 32 / self.bits;
        let place = match self.layout {
            Layout::Gptq { .. } => output % word,
            Layout::Awq => AWQ_PLACES[output % word],
        };
        self.bits_of(words[row * (outputs / word) + output / word], place)
    }

    fn bits_of(&self, word: u32, place: usize) -> u32 {
        word >> (place * self.bits) & ((1 << self.bits) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packing(bits: usize, group: usize, format: Option<&str>, awq: bool) -> Result<Packing, LoadError> {
        let config = QuantizedConfig::GptqAwq {
            bits,
            group_size: group,
            checkpoint_format: format.map(str::to_owned),
            is_awq: awq,
        };
        Packing::new(&config).expect("one of these")
    }

    #[test]
    fn words_of_gptq_have_consecutive_inputs_and_zeros_that_are_one_less() {
        // 8 inputs, 8 outputs: integers 0 to 7 down the inputs, the same for all outputs.
        let parts = Parts {
            weights: vec![0x7654_3210; 8],
            zeros: vec![0x7654_3210],
            scales: (1..=8).map(|scale| scale as f32).collect(),
            groups: vec![0; 8],
        };
        let expected = |below: f32| -> Vec<f32> {
            let of = |output: usize| {
                move |input: usize| (input as f32 - (output as f32 + below)) * (output + 1) as f32
            };
            (0..8).flat_map(|output| (0..8).map(of(output))).collect()
        };
        let unpacked = |format| packing(4, 8, format, false).expect("known").unpack(&parts, 8, 8);
        assert_eq!(unpacked(None), expected(1.0));
        assert_eq!(unpacked(Some("gptq_v2")), expected(0.0));
    }

    #[test]
    fn words_of_awq_have_outputs_in_their_own_order() {
        // 1 input, 8 outputs: the word's nibbles are 0 to 7, so output 1 has the fifth of them.
        let parts = Parts {
            weights: vec![0x7654_3210],
            zeros: vec![0],
            scales: vec![1.0; 8],
            groups: vec![0],
        };
        let awq = packing(4, 128, Some("gemm"), true).expect("known");
        assert_eq!(awq.unpack(&parts, 8, 1), [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]);
        let zeros = Parts {
            weights: vec![0],
            zeros: vec![0x7654_3210],
            ..parts
        };
        assert_eq!(
            awq.unpack(&zeros, 8, 1),
            [0.0, -4.0, -1.0, -5.0, -2.0, -6.0, -3.0, -7.0]
        );
    }

    #[test]
    fn eight_bits_are_four_a_word() {
        let gptq = packing(8, 4, None, false).expect("known");
        let parts = Parts {
            weights: vec![0x04_03_02_ff; 4],
            zeros: vec![0xfe_00_00_ff],
            scales: vec![0.5; 4],
            groups: vec![0; 4],
        };
        let unpacked = gptq.unpack(&parts, 4, 4);
        assert_eq!(unpacked[..4], [127.5, 1.0, 1.5, 2.0]);
        assert_eq!(unpacked[12..], [0.0, -126.5, -126.0, -125.5]);
    }

    #[test]
    fn other_formats_and_matrices_with_a_rest_are_told() {
        for (bits, group, format, awq) in [
            (3, 128, None, false),
            (4, 0, None, false),
            (4, 128, Some("marlin"), false),
            (8, 128, None, true),
            (4, 128, Some("gemv"), true),
        ] {
            assert!(
                packing(bits, group, format, awq).is_err(),
                "{bits} {group} {format:?}"
            );
        }
        let gptq = packing(4, 128, None, false).expect("known");
        assert_eq!(gptq.shapes(64, 256), Some([[32, 64], [2, 8], [2, 64]]));
        assert_eq!(gptq.shapes(60, 256), None);
        let awq = packing(4, 128, None, true).expect("known");
        assert_eq!(awq.shapes(64, 200), Some([[200, 8], [2, 8], [2, 64]]));
    }
}
