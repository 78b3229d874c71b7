//! Bad files are errors that say what is wrong; none panics.

use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use medley_backend_mistralrs::{LoadError, LoadOptions, ModelSource, PoolSize, load};

use crate::tiny::{Tiny, options};

type Metadata = Vec<(String, Value)>;

fn error_of(source: ModelSource) -> LoadError {
    load(&source, &options(4))
        .err()
        .unwrap_or_else(|| panic!("{source} was loaded"))
}

/// The error of a GGUF file after a change to model and metadata.
fn gguf_error(change: impl FnOnce(&mut Tiny, &mut Metadata)) -> LoadError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.gguf");
    let mut model = Tiny::new("llama", true, 1);
    let mut metadata = model.metadata();
    change(&mut model, &mut metadata);
    model.write_gguf_with(&path, GgmlDType::F32, &metadata);
    error_of(ModelSource::Gguf(path))
}

/// The error of a folder after a change to its configuration.
fn folder_error(key: &str, value: serde_json::Value) -> LoadError {
    let folder = tempfile::tempdir().unwrap();
    let model = Tiny::new("llama", true, 1);
    model.write_folder(folder.path(), 1);
    let mut config = model.config_json();
    config[key] = value;
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    error_of(ModelSource::Folder(folder.path().to_owned()))
}

fn set(metadata: &mut Metadata, key: &str, value: Value) {
    metadata.retain(|(name, _)| name != key);
    metadata.push((key.to_owned(), value));
}

#[test]
fn an_unknown_architecture_is_named_with_those_that_are_known() {
    let text = Value::String("mamba".to_owned());
    let gguf = gguf_error(|_, metadata| set(metadata, "general.architecture", text));
    let folder = folder_error("model_type", "mamba".into());
    for error in [gguf, folder] {
        let text = error.to_string();
        assert!(matches!(error, LoadError::Architecture { .. }), "{text}");
        assert!(text.contains("mamba") && text.contains("qwen2"), "{text}");
    }
}

#[test]
fn a_missing_tensor_is_named() {
    let error = gguf_error(|model, _| drop(model.tensors.remove("model.layers.1.mlp.up_proj.weight")));
    assert!(
        matches!(&error, LoadError::MissingTensor { name } if name == "blk.1.ffn_up.weight"),
        "{error}"
    );
}

#[test]
fn a_wrong_shape_is_reported_with_both_shapes() {
    let error = gguf_error(|model, _| {
        model.tensors.insert(
            "model.layers.0.self_attn.o_proj.weight".to_owned(),
            (vec![64, 64], vec![0.0; 64 * 64]),
        );
    });
    let LoadError::Shape {
        name,
        expected,
        found,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (name.as_str(), expected, found),
        ("blk.0.attn_output.weight", vec![64, 192], vec![64, 64])
    );
}

#[test]
fn a_tensor_that_nobody_reads_is_refused() {
    let error = gguf_error(|model, _| {
        model.tensors.insert(
            "model.layers.0.self_attn.o_proj.bias".to_owned(),
            (vec![64], vec![0.0; 64]),
        );
    });
    assert!(
        matches!(&error, LoadError::Unsupported { feature, .. } if feature.contains("attn_output.bias")),
        "{error}"
    );
}

#[test]
fn attention_that_would_be_computed_wrongly_is_refused() {
    let window = || gguf_error(|_, metadata| set(metadata, "llama.attention.sliding_window", Value::U32(64)));
    let scaling = |name: &str| {
        let name = Value::String(name.to_owned());
        gguf_error(|_, metadata| set(metadata, "llama.rope.scaling.type", name))
    };
    let dynamic = serde_json::json!({"type": "dynamic", "factor": 2.0});
    let long = serde_json::json!({"rope_type": "longrope", "factor": 2.0});
    let errors = [
        window(),
        scaling("longrope"),
        folder_error("sliding_window", 64.into()),
        folder_error("rope_scaling", dynamic),
        folder_error("rope_scaling", long.clone()),
        folder_error("rope_parameters", long),
        folder_error("attention_bias", true.into()),
        folder_error("hidden_act", "gelu".into()),
        folder_error(
            "quantization_config",
            serde_json::json!({"quant_method": "gptq", "bits": 3, "group_size": 128}),
        ),
        gguf_error(|_, metadata| set(metadata, "llama.expert_count", Value::U32(8))),
        gguf_error(|_, metadata| set(metadata, "llama.rope.dimension_count", Value::U32(16))),
    ];
    for error in errors {
        assert!(matches!(error, LoadError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn a_window_as_long_as_the_context_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let model = Tiny::new("llama", true, 1);
    model.write_folder(folder.path(), 1);
    let mut config = model.config_json();
    config["sliding_window"] = 64.into();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let short = LoadOptions {
        max_model_len: Some(64),
        ..options(4)
    };
    assert!(load(&ModelSource::Folder(folder.path().to_owned()), &short).is_ok());
}

#[test]
fn impossible_numbers_are_configuration_errors() {
    for (key, value) in [
        ("llama.attention.head_count", Value::U32(0)),
        ("llama.attention.head_count", Value::U32(7)),
        ("llama.attention.head_count_kv", Value::U32(0)),
        ("llama.block_count", Value::U32(0)),
        ("llama.block_count", Value::U32(u32::MAX)),
        ("llama.block_count", Value::I32(-1)),
        ("llama.context_length", Value::U64(u64::MAX)),
        ("llama.attention.key_length", Value::U32(33)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(f32::NAN)),
        ("llama.rope.freq_base", Value::F32(0.0)),
        ("llama.embedding_length", Value::String("64".to_owned())),
        ("tokenizer.ggml.tokens", Value::Array(Vec::new())),
    ] {
        let shown = format!("{key} = {value:?}");
        let error = gguf_error(|_, metadata| set(metadata, key, value));
        assert!(matches!(error, LoadError::Config { .. }), "{shown}: {error}");
    }
    for (key, value) in [
        ("num_attention_heads", 0),
        ("hidden_size", 0),
        ("num_hidden_layers", -1),
    ] {
        let error = folder_error(key, value.into());
        assert!(matches!(error, LoadError::Config { .. }), "{key}: {error}");
    }
}

#[test]
fn absent_and_incomplete_sources_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent.gguf");
    assert!(
        matches!(error_of(ModelSource::Gguf(absent.clone())), LoadError::Read { path, .. } if path == absent)
    );
    let absent = folder.path().join("absent");
    assert!(
        matches!(error_of(ModelSource::Folder(absent.clone())), LoadError::Read { path, .. } if path == absent)
    );
    let model = Tiny::new("llama", true, 1);
    for missing in ["tokenizer.json", "model-00002-of-00002.safetensors"] {
        model.write_folder(folder.path(), 2);
        std::fs::remove_file(folder.path().join(missing)).unwrap();
        let error = error_of(ModelSource::Folder(folder.path().to_owned()));
        assert!(
            matches!(&error, LoadError::Incomplete { missing: named, .. } if named == missing),
            "{error}"
        );
    }
}

#[test]
fn a_pool_without_pages_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    Tiny::new("llama", true, 1).write_folder(folder.path(), 1);
    let source = ModelSource::Folder(folder.path().to_owned());
    for pool in [
        PoolSize::Pages(0),
        PoolSize::Bytes(1),
        PoolSize::Pages(usize::MAX),
    ] {
        let error = load(&source, &LoadOptions { pool, ..options(1) })
            .err()
            .expect("no pool");
        assert!(matches!(error, LoadError::Pool(_)), "{error}");
    }
}

#[test]
fn a_cut_file_is_an_error_wherever_it_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    Tiny::new("llama", true, 1).write_gguf(&folder.path().join("whole.gguf"), GgmlDType::F32);
    let whole = std::fs::read(folder.path().join("whole.gguf")).unwrap();
    let path = folder.path().join("cut.gguf");
    for cut in (0..200).chain((200..whole.len() - 32).step_by(4999)) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = error_of(ModelSource::Gguf(path.clone()));
        assert!(
            matches!(error, LoadError::Damaged { .. } | LoadError::Truncated { .. }),
            "cut at {cut}: {error}"
        );
    }
    folder_cut_anywhere_is_an_error(folder.path());
}

fn folder_cut_anywhere_is_an_error(folder: &Path) {
    Tiny::new("llama", true, 1).write_folder(folder, 1);
    let path = folder.join("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    for cut in (0..100).chain((100..whole.len() - 1).step_by(4999)) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = error_of(ModelSource::Folder(folder.to_owned()));
        assert!(
            matches!(error, LoadError::Damaged { .. } | LoadError::Truncated { .. }),
            "cut at {cut}: {error}"
        );
    }
}

#[test]
fn a_header_with_wrong_bytes_never_panics() {
    let seed = 77;
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noisy.gguf");
    Tiny::new("qwen2", true, 1).write_gguf(&path, GgmlDType::F32);
    let whole = std::fs::read(&path).unwrap();
    let header = 7000.min(whole.len());
    for case in 0..400 {
        let mut noisy = whole.clone();
        for _ in 0..random.usize(1..4) {
            noisy[random.usize(0..header)] = if random.bool() { random.u8(..) } else { 255 };
        }
        std::fs::write(&path, &noisy).unwrap();
        let result = std::panic::catch_unwind(|| load(&ModelSource::Gguf(path.clone()), &options(1)).is_ok());
        assert!(result.is_ok(), "seed {seed}, case {case}");
    }
}
