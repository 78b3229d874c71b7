//! GGUF files and folders describe the same models.

use std::collections::HashMap;

use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Tensor};
use medley_backend_mistralrs::{Architecture, LoadError, Loaded, ModelSource, TokenizerSource, load, open};

use crate::reference;
use crate::sequences::{self, Pages, distance, tokens};
use crate::tiny::{self, Tiny, VOCAB, options};

fn folder(model: &Tiny, shards: usize) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    model.write_folder(folder.path(), shards);
    load(&ModelSource::Folder(folder.path().to_owned()), &options(8)).unwrap()
}

fn gguf(model: &Tiny, dtype: GgmlDType) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    model.write_gguf(&path, dtype);
    load(&ModelSource::Gguf(path), &options(8)).unwrap()
}

fn logits(loaded: &mut Loaded, text: &[u32]) -> Vec<Vec<f32>> {
    let pages = Pages::of(loaded.backend.pages()).take(text.len());
    loaded
        .backend
        .run(&sequences::prefill(&pages, text))
        .unwrap()
        .logits
}

#[test]
fn an_opened_model_says_its_size_before_its_weights_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let model = Tiny::new("llama", false, 3);
    let (path, folder) = (
        directory.path().join("tiny.gguf"),
        directory.path().join("folder"),
    );
    std::fs::create_dir(&folder).unwrap();
    model.write_gguf(&path, GgmlDType::F32);
    model.write_folder(&folder, 1);
    for source in [ModelSource::Gguf(path), ModelSource::Folder(folder)] {
        let opened = open(&source, &options(8)).unwrap();
        let size = (opened.context_length(), opened.layers());
        let loaded = opened.load(&options(8)).unwrap();
        let layers = loaded.backend.geometry().layers as usize;
        assert_eq!(size, (loaded.info.context_length, layers));
    }
}

#[test]
fn a_folder_gives_the_reference_logits_in_one_file_or_several() {
    let text = tokens(1, 80);
    for (family, tied, shards) in [
        ("llama", true, 1),
        ("llama", false, 3),
        ("qwen2", false, 1),
        ("qwen2", true, 2),
    ] {
        let model = Tiny::new(family, tied, 5);
        let found = logits(&mut folder(&model, shards), &text);
        for (found, expected) in found.iter().zip(reference::prefill(&model, &text)) {
            assert!(
                distance(found, &expected.logits) < 1e-4,
                "{family} {tied} {shards}"
            );
        }
    }
}

#[test]
fn a_quantised_file_gives_the_logits_of_its_dequantised_weights() {
    let text = tokens(2, 80);
    for dtype in [GgmlDType::Q8_0, GgmlDType::Q4_1, GgmlDType::F16] {
        // Rounding and permuting rows commute: blocks lie inside rows.
        let model = Tiny::new("llama", false, 6);
        let expected = reference::prefill(&model.clone().rounded(dtype), &text);
        for (found, expected) in logits(&mut gguf(&model, dtype), &text).iter().zip(expected) {
            assert!(distance(found, &expected.logits) < 1e-4, "{dtype:?}");
        }
    }
}

#[test]
fn what_is_known_of_a_model_comes_with_it() {
    let model = Tiny::new("qwen2", false, 7);
    let Loaded {
        info,
        tokenizer,
        backend,
    } = gguf(&model, GgmlDType::Q8_0);
    assert_eq!(
        (info.name.as_str(), info.architecture),
        ("tiny", Architecture::Qwen2)
    );
    assert_eq!(
        (info.context_length, info.vocab, info.eos_tokens),
        (tiny::CONTEXT, VOCAB, vec![2])
    );
    assert_eq!(info.quantisation, "Q8_0");
    let parameters: usize = model.tensors.values().map(|(_, values)| values.len()).sum();
    assert_eq!(info.parameters, parameters as u64);
    assert_eq!(
        backend.geometry().bytes_per_token(),
        2 * tiny::LAYERS * tiny::KV_HEADS * tiny::HEAD_DIM * 4
    );
    let TokenizerSource::Gguf {
        model,
        tokens,
        eos,
        add_bos,
        ..
    } = tokenizer
    else {
        panic!("no GGUF tokenizer")
    };
    assert_eq!(
        (model.as_str(), tokens.len(), eos, add_bos),
        ("gpt2", VOCAB, Some(2), None)
    );
}

#[test]
fn another_weight_or_precision_gives_another_fingerprint() {
    let print = |model: &Tiny, dtype| gguf(model, dtype).info.fingerprint;
    let model = Tiny::new("llama", true, 8);
    let mut other = model.clone();
    other.tensors.values_mut().next_back().unwrap().1[0] += 0.25;
    let prints = [
        print(&model, GgmlDType::F32),
        print(&other, GgmlDType::F32),
        print(&model, GgmlDType::Q8_0),
    ];
    assert_eq!(prints[0], print(&model, GgmlDType::F32));
    assert!(prints[0] != prints[1] && prints[0] != prints[2] && prints[1] != prints[2]);
    assert_eq!(
        folder(&model, 2).info.fingerprint,
        folder(&model, 2).info.fingerprint
    );
    assert_ne!(
        folder(&model, 2).info.fingerprint,
        folder(&other, 2).info.fingerprint
    );
}

#[test]
fn a_shorter_maximum_length_is_served_as_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tiny.gguf");
    Tiny::new("llama", true, 9).write_gguf(&path, GgmlDType::F32);
    let mut options = options(8);
    options.max_model_len = Some(100);
    assert_eq!(
        load(&ModelSource::Gguf(path), &options)
            .unwrap()
            .info
            .context_length,
        100
    );
}

/// Replaces the layers' matrices by random 8-bit floats with a scale for each block of `[32, 64]`, and returns
/// what a folder of them holds.
fn in_fp8(model: &mut Tiny) -> HashMap<String, Tensor> {
    let mut random = fastrand::Rng::with_seed(15);
    let mut stored = HashMap::new();
    for (name, (shape, values)) in &mut model.tensors {
        let tensor = if shape.len() == 2 && name.starts_with("model.layers") {
            let blocks = (shape[0].div_ceil(32), shape[1].div_ceil(64));
            let scales: Vec<f32> = (0..blocks.0 * blocks.1)
                .map(|_| 0.02 + 0.05 * random.f32())
                .collect();
            let bytes: Vec<u8> = values
                .iter()
                .map(|_| random.u8(0..32) + 40 + 128 * random.u8(0..2))
                .collect();
            for (i, value) in values.iter_mut().enumerate() {
                let block = i / shape[1] / 32 * blocks.1 + i % shape[1] / 64;
                *value = float8(bytes[i]) * scales[block];
            }
            let scales = Tensor::from_vec(scales, blocks, &Device::Cpu).unwrap();
            stored.insert(name.replace(".weight", ".weight_scale_inv"), scales);
            Tensor::from_raw_buffer(&bytes, DType::F8E4M3, shape, &Device::Cpu).unwrap()
        } else {
            Tensor::from_vec(values.clone(), shape.clone(), &Device::Cpu).unwrap()
        };
        stored.insert(name.clone(), tensor);
    }
    stored
}

/// A normal number of sign, four exponent bits (bias 7) and three of mantissa.
fn float8(byte: u8) -> f32 {
    let magnitude = (1.0 + f32::from(byte & 7) / 8.0) * 2f32.powi(i32::from(byte >> 3 & 15) - 7);
    if byte >= 128 { -magnitude } else { magnitude }
}

#[test]
fn weights_in_fp8_are_scaled_block_by_block() {
    let directory = tempfile::tempdir().unwrap();
    let mut model = Tiny::new("llama", false, 12);
    model.write_folder(directory.path(), 1);
    let stored = in_fp8(&mut model);
    candle_core::safetensors::save(&stored, directory.path().join("model.safetensors")).unwrap();
    let mut config = model.config_json();
    config["quantization_config"] = serde_json::json!({"quant_method": "fp8", "weight_block_size": [32, 64]});
    std::fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    let mut loaded = load(&ModelSource::Folder(directory.path().to_owned()), &options(8)).unwrap();
    assert_eq!(loaded.info.quantisation, "fp8");
    let text = tokens(3, 80);
    for (found, expected) in logits(&mut loaded, &text)
        .iter()
        .zip(reference::prefill(&model, &text))
    {
        assert!(distance(found, &expected.logits) < 1e-4);
    }
    // Without its scales such a weight would be read as if they were one.
    std::fs::write(
        directory.path().join("config.json"),
        model.config_json().to_string(),
    )
    .unwrap();
    let error = load(&ModelSource::Folder(directory.path().to_owned()), &options(8))
        .err()
        .expect("refused");
    assert!(matches!(error, LoadError::Unsupported { .. }), "{error}");
}

/// Replaces the layers' matrices by random 4-bit integers in groups of 32 inputs, and returns what a folder of them holds in
/// GPTQ's packing, its groups in any order, or in AWQ's.
fn in_four_bits(model: &mut Tiny, awq: bool) -> HashMap<String, Tensor> {
    const GROUP: usize = 32;
    let mut random = fastrand::Rng::with_seed(16);
    let mut stored = HashMap::new();
    for (name, (shape, values)) in &mut model.tensors {
        if shape.len() != 2 || !name.starts_with("model.layers") {
            let tensor = Tensor::from_vec(values.clone(), shape.clone(), &Device::Cpu).unwrap();
            stored.insert(name.clone(), tensor);
            continue;
        }
        let (outputs, inputs) = (shape[0], shape[1]);
        let groups = inputs / GROUP;
        let mut group_of: Vec<usize> = (0..inputs).map(|input| input / GROUP).collect();
        if !awq {
            random.shuffle(&mut group_of);
        }
        let scales: Vec<f32> = (0..groups * outputs)
            .map(|_| random.u32(10..20) as f32 / 1024.0)
            .collect();
        let zeros: Vec<u32> = (0..groups * outputs).map(|_| random.u32(1..16)).collect();
        let (rows, columns) = if awq {
            (inputs, outputs / 8)
        } else {
            (inputs / 8, outputs)
        };
        let mut words = vec![0u32; rows * columns];
        let mut zero_words = vec![0u32; groups * outputs / 8];
        // Where output o of eight lies in a word.
        let place = |o: usize| if awq { [0, 4, 1, 5, 2, 6, 3, 7][o] } else { o };
        for (i, &zero) in zeros.iter().enumerate() {
            let kept = if awq { zero } else { zero - 1 };
            zero_words[i / 8] |= kept << (4 * place(i % 8));
        }
        for output in 0..outputs {
            for input in 0..inputs {
                let integer = random.u32(0..16);
                let at = group_of[input] * outputs + output;
                values[output * inputs + input] = (integer as f32 - zeros[at] as f32) * scales[at];
                match awq {
                    true => words[input * columns + output / 8] |= integer << (4 * place(output % 8)),
                    false => words[input / 8 * columns + output] |= integer << (4 * (input % 8)),
                }
            }
        }
        let mut keep = |part: &str, values: Vec<u32>, shape: &[usize]| {
            let bytes: Vec<u8> = values.iter().flat_map(|word| word.to_le_bytes()).collect();
            let tensor = Tensor::from_raw_buffer(&bytes, DType::I32, shape, &Device::Cpu).unwrap();
            stored.insert(name.replace("weight", part), tensor);
        };
        keep("qweight", words, &[rows, columns]);
        keep("qzeros", zero_words, &[groups, outputs / 8]);
        if !awq {
            keep(
                "g_idx",
                group_of.iter().map(|&group| group as u32).collect(),
                &[inputs],
            );
        }
        let scales = Tensor::from_vec(scales, (groups, outputs), &Device::Cpu).unwrap();
        stored.insert(
            name.replace("weight", "scales"),
            scales.to_dtype(DType::F16).unwrap(),
        );
    }
    stored
}

#[test]
fn weights_in_four_bits_are_unpacked() {
    for (method, awq) in [("gptq", false), ("awq", true)] {
        let directory = tempfile::tempdir().unwrap();
        let mut model = Tiny::new("llama", false, 13);
        model.write_folder(directory.path(), 1);
        let stored = in_four_bits(&mut model, awq);
        candle_core::safetensors::save(&stored, directory.path().join("model.safetensors")).unwrap();
        let mut config = model.config_json();
        config["quantization_config"] =
            serde_json::json!({"quant_method": method, "bits": 4, "group_size": 32});
        std::fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
        let mut loaded = load(&ModelSource::Folder(directory.path().to_owned()), &options(8)).unwrap();
        let text = tokens(3, 80);
        for (found, expected) in logits(&mut loaded, &text)
            .iter()
            .zip(reference::prefill(&model, &text))
        {
            assert!(distance(found, &expected.logits) < 1e-4, "{method}");
        }
    }
}
