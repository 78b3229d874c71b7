//! Where a slot's keys and values stand in a layer's pool.

use std::ops::Range;

use super::PAGE_TOKENS;

/// Shape of one layer's pool: `[page, k|v, kv_head, 64, head_dim]`. A slot is `page · 64 + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Pages.
    pub pages: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements a head.
    pub head_dim: usize,
}

impl PoolShape {
    /// Elements of the pool.
    #[expect(clippy::len_without_is_empty, reason = "a shape, not a collection")]
    pub fn len(&self) -> usize {
        self.pages * self.page_len()
    }

    /// Elements of a page.
    pub fn page_len(&self) -> usize {
        2 * self.kv_heads * self.tile_len()
    }

    /// Where the key of `slot` stands.
    pub fn key_range(&self, slot: u32, kv_head: usize) -> Range<usize> {
        self.row(slot, kv_head)
    }

    /// Where the value of `slot` stands.
    pub fn value_range(&self, slot: u32, kv_head: usize) -> Range<usize> {
        self.row(slot, self.kv_heads + kv_head)
    }

    /// The keys `[64, head_dim]` of a page's head.
    pub(super) fn keys(&self, page: u32, kv_head: usize) -> Range<usize> {
        let start = page as usize * self.page_len() + kv_head * self.tile_len();
        start..start + self.tile_len()
    }

    /// The values `[64, head_dim]` of a page's head.
    pub(super) fn values(&self, page: u32, kv_head: usize) -> Range<usize> {
        self.keys(page, self.kv_heads + kv_head)
    }

    fn tile_len(&self) -> usize {
        PAGE_TOKENS * self.head_dim
    }

    fn row(&self, slot: u32, tile: usize) -> Range<usize> {
        let (page, offset) = (slot / PAGE_TOKENS as u32, slot as usize % PAGE_TOKENS);
        let start = self.keys(page, tile).start + offset * self.head_dim;
        start..start + self.head_dim
    }
}

/// Puts keys and values of rows, both `[rows, kv_heads, head_dim]`, into their slots.
pub fn write_rows(shape: PoolShape, pool: &mut [f32], slots: &[u32], k: &[f32], v: &[f32]) {
    let (dim, width) = (shape.head_dim, shape.kv_heads * shape.head_dim);
    assert_eq!(
        k.len(),
        slots.len() * width,
        "keys are not [rows, kv_heads, head_dim]"
    );
    assert_eq!(v.len(), k.len(), "keys and values differ");
    for ((&slot, k), v) in slots.iter().zip(k.chunks_exact(width)).zip(v.chunks_exact(width)) {
        for (head, (k, v)) in k.chunks_exact(dim).zip(v.chunks_exact(dim)).enumerate() {
            pool[shape.key_range(slot, head)].copy_from_slice(k);
            pool[shape.value_range(slot, head)].copy_from_slice(v);
        }
    }
}
