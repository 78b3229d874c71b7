// What attention runs over: tiles of rows against blocks of paged keys. Shared by all attention kernels.
//
// A sequence's parts (exact prefix, documents, overlay) are a list of blocks, one block a page of 64 slots, in the
// order of the parts. Rows of one sequence that run together are cut into tiles. A row sees a slot if the slot is
// not hidden and its position is at most the row's own.
//
// Queries come as the projection left them, not rotated. Before they meet a block they are rotated at
// `position - turn`, in f32 and rounded once: keys of a document stand rotated at document-local positions, and
// rotations add up.
#pragma once
#include <cuda_bf16.h>
#include <stdint.h>

constexpr int PAGE = 64;

// One page of keys and values as a sequence sees it. 40 bytes.
struct Block {
  uint32_t page;
  // Queries are rotated at (their position - turn).
  int32_t turn;
  // Position of slot 0, if positions follow each other; else the index of slot 0 in `slot_positions`.
  int32_t first;
  // 0: slot i holds position first + i. 1: slot i holds slot_positions[first + i].
  int32_t listed;
  // Bit i: slot i is not visible. Slots beyond the part's end are hidden.
  uint64_t hidden;
  // Least and greatest position of the slots that are not hidden; low > high if all are hidden.
  int32_t low;
  int32_t high;
  // For a probe: index of slot 0 in the masses; -1 if the block is not scored.
  int32_t mass;
  int32_t reserved;
};

// Some rows of one sequence, ascending in position, against some of its blocks. 32 bytes.
struct Tile {
  int32_t first_row;
  int32_t rows;
  // Blocks [begin, end) of the block list.
  int32_t block_begin;
  int32_t block_end;
  // Positions of the first and the last row.
  int32_t low;
  int32_t high;
  // -1: the tile has all of its rows' blocks and writes the output. Else the number of the partial result.
  int32_t partial;
  int32_t reserved;
};

// Arguments of every attention kernel. Head h of row r: q + r * q_stride + h * head_dim.
struct AttentionArgs {
  const __nv_bfloat16* q;
  // [rows, heads, head_dim]
  __nv_bfloat16* out;
  // Natural logarithm of the sum of exponentials of scaled logits, [rows, heads]; may be null.
  float* lse;
  // Keys and values of one layer, [page, k | v, kv_head, 64, head_dim].
  __nv_bfloat16* pool;
  // (cos, sin) in f32, [position, head_dim / 2]
  const float2* angles;
  // [rows]
  const int32_t* positions;
  const Block* blocks;
  const int32_t* slot_positions;
  const Tile* tiles;
  // Partial results: [partial, kv_head, partial_rows, head_dim] and their (max, sum), base 2.
  float* partial_out;
  float2* partial_sums;
  int32_t q_stride;
  int32_t heads;
  int32_t kv_heads;
  // Pairs are (2i, 2i + 1) if not 0, else (i, i + head_dim / 2).
  int32_t interleaved;
  // Factor on logits, with log2(e) in it.
  float scale_log2;
  int32_t tiles_count;
  // Tile rows (rows x heads of a group) that a partial result has room for.
  int32_t partial_rows;
};

// Partial results of the same rows, to be merged in their order.
struct Merge {
  int32_t first_row;
  int32_t rows;
  int32_t partial_begin;
  int32_t partial_count;
};

// A row whose attention is added up; `weight` is a factor on it. Blocks [except_begin, except_end) it does not score.
struct MassRow {
  int32_t row;
  float weight;
  int32_t except_begin;
  int32_t except_end;
};

// Some mass rows of one sequence against its blocks.
struct MassTile {
  int32_t first;
  int32_t count;
  int32_t block_begin;
  int32_t block_end;
};
