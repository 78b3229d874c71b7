//! The forward pass as plainly as it can be written: f64, one row and head at a time, keys rotated at absolute
//! positions when they are used. Shares no code with the backend.

use crate::tiny::{EPSILON, HEAD_DIM, HEADS, INNER, KV_HEADS, LAYERS, THETA, Tiny, VOCAB, WIDTH};

/// A token's keys (not rotated) and values, one of each a layer.
#[derive(Clone)]
pub struct Kv {
    pub layers: Vec<(Vec<f64>, Vec<f64>)>,
}

/// Something that rows see: a token's KV at a position.
#[derive(Clone)]
pub struct Seen {
    pub position: u32,
    pub kv: Kv,
}

/// What a row gives.
pub struct RowResult {
    pub kv: Kv,
    pub logits: Vec<f64>,
    /// Attention to each of the seen tokens, then to each row, summed over layers and heads.
    pub masses: Vec<f64>,
}

/// Runs rows `(token, position)` that see `context` and one another, each up to its own position.
pub fn run(model: &Tiny, context: &[Seen], rows: &[(u32, u32)]) -> Vec<RowResult> {
    let tensor = |name: &str| model.values(name).unwrap_or_else(|| panic!("{name}"));
    let embedding = tensor("model.embed_tokens.weight");
    let mut hidden: Vec<Vec<f64>> = rows
        .iter()
        .map(|&(token, _)| row(embedding, token as usize, WIDTH))
        .collect();
    let mut results: Vec<RowResult> = rows
        .iter()
        .map(|_| RowResult::empty(context.len() + rows.len()))
        .collect();
    for layer in 0..LAYERS {
        let weights = LayerWeights { model, layer };
        let normed: Vec<_> = hidden
            .iter()
            .map(|x| norm(x, weights.get("input_layernorm.weight")))
            .collect();
        for (x, result) in normed.iter().zip(&mut results) {
            let key = weights.heads(x, "k");
            result.kv.layers.push((key, weights.heads(x, "v")));
        }
        let own = rows.iter().zip(&results).map(|(&(_, position), result)| Seen {
            position,
            kv: result.kv.clone(),
        });
        let seen: Vec<_> = context.iter().cloned().chain(own).collect();
        for (i, x) in normed.iter().enumerate() {
            let query = weights.heads(x, "q");
            let attended = attend(&query, rows[i].1, &seen, layer, &mut results[i].masses);
            add(
                &mut hidden[i],
                &product(weights.get("self_attn.o_proj.weight"), &attended),
            );
            let x = norm(&hidden[i], weights.get("post_attention_layernorm.weight"));
            let gate = product(weights.get("mlp.gate_proj.weight"), &x);
            let up = product(weights.get("mlp.up_proj.weight"), &x);
            let inner: Vec<_> = (0..INNER)
                .map(|j| gate[j] / (1.0 + (-gate[j]).exp()) * up[j])
                .collect();
            add(
                &mut hidden[i],
                &product(weights.get("mlp.down_proj.weight"), &inner),
            );
        }
    }
    let head = model.values("lm_head.weight").unwrap_or(embedding);
    for (x, result) in hidden.iter().zip(&mut results) {
        result.logits = product(head, &norm(x, tensor("model.norm.weight")));
        assert_eq!(result.logits.len(), VOCAB);
    }
    results
}

/// Consecutive tokens from position 0, with nothing before them.
pub fn prefill(model: &Tiny, tokens: &[u32]) -> Vec<RowResult> {
    let rows: Vec<_> = tokens
        .iter()
        .enumerate()
        .map(|(i, &token)| (token, i as u32))
        .collect();
    run(model, &[], &rows)
}

impl RowResult {
    fn empty(seen: usize) -> Self {
        Self {
            kv: Kv { layers: Vec::new() },
            logits: Vec::new(),
            masses: vec![0.0; seen],
        }
    }
}

struct LayerWeights<'a> {
    model: &'a Tiny,
    layer: usize,
}

impl<'a> LayerWeights<'a> {
    fn find(&self, suffix: &str) -> Option<&'a [f32]> {
        self.model
            .values(&format!("model.layers.{}.{suffix}", self.layer))
    }

    fn get(&self, suffix: &str) -> &'a [f32] {
        self.find(suffix).unwrap_or_else(|| panic!("{suffix}"))
    }

    /// Projected heads, with bias and head norm where the family has them.
    fn heads(&self, x: &[f64], projection: &str) -> Vec<f64> {
        let mut heads = product(self.get(&format!("self_attn.{projection}_proj.weight")), x);
        if let Some(bias) = self.find(&format!("self_attn.{projection}_proj.bias")) {
            heads.iter_mut().zip(bias).for_each(|(x, b)| *x += f64::from(*b));
        }
        match self.find(&format!("self_attn.{projection}_norm.weight")) {
            Some(weight) => heads
                .chunks_exact(HEAD_DIM)
                .flat_map(|head| norm(head, weight))
                .collect(),
            None => heads,
        }
    }
}

fn attend(query: &[f64], position: u32, seen: &[Seen], layer: usize, masses: &mut [f64]) -> Vec<f64> {
    let mut out = Vec::new();
    for head in 0..HEADS {
        let kv_head = head / (HEADS / KV_HEADS);
        let part = |x: &[f64], head: usize| x[head * HEAD_DIM..(head + 1) * HEAD_DIM].to_vec();
        let query = rotate(&part(query, head), position);
        let visible: Vec<_> = seen
            .iter()
            .enumerate()
            .filter(|(_, seen)| seen.position <= position)
            .collect();
        let logit = |seen: &Seen| {
            let key = rotate(&part(&seen.kv.layers[layer].0, kv_head), seen.position);
            dot(&query, &key) / (HEAD_DIM as f64).sqrt()
        };
        let weights: Vec<f64> = visible.iter().map(|(_, seen)| logit(seen).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let mut mixed = vec![0.0; HEAD_DIM];
        for ((index, seen), weight) in visible.iter().zip(&weights) {
            masses[*index] += weight / sum;
            let value = part(&seen.kv.layers[layer].1, kv_head);
            mixed
                .iter_mut()
                .zip(value)
                .for_each(|(x, v)| *x += weight / sum * v);
        }
        out.extend(mixed);
    }
    out
}

/// Pairs `(i, i + d/2)` turned by `position / theta^(2i/d)`.
fn rotate(head: &[f64], position: u32) -> Vec<f64> {
    let half = HEAD_DIM / 2;
    let mut out = head.to_vec();
    for i in 0..half {
        let angle = f64::from(position) * THETA.powf(-2.0 * i as f64 / HEAD_DIM as f64);
        out[i] = head[i] * angle.cos() - head[i + half] * angle.sin();
        out[i + half] = head[i] * angle.sin() + head[i + half] * angle.cos();
    }
    out
}

fn norm(x: &[f64], weight: &[f32]) -> Vec<f64> {
    let mean = dot(x, x) / x.len() as f64;
    x.iter()
        .zip(weight)
        .map(|(x, w)| x / (mean + EPSILON).sqrt() * f64::from(*w))
        .collect()
}

fn product(matrix: &[f32], x: &[f64]) -> Vec<f64> {
    matrix
        .chunks_exact(x.len())
        .map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum())
        .collect()
}

fn row(matrix: &[f32], index: usize, width: usize) -> Vec<f64> {
    matrix[index * width..(index + 1) * width]
        .iter()
        .map(|&x| f64::from(x))
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}
