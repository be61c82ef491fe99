// Seconds and bytes of a block's passes, worked out once for each distinct block of a search.
// Leaves out what a block's place in the pipeline and its data-parallel peers add (state_table.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

#include "sim/memory/peak_memory.h"
#include "sim/program/blocks/blocks.h"
#include "sim/search/block_times.h"
#include "sim/search/plan_key.h"

namespace foretrain {

// Passes that the block has not are zero. `input` and `weight` are filled where the schedule splits
// backwards, `again` where the block is recomputed in full.
struct BlockFigures {
  PassFigures forward, backward, input, weight, again;
  bool has_halves = false;  // `input` and `weight` are filled
  bool has_bytes = false;   // of the passes but the halves
  bool has_bytes_of_halves = false;
  // A layer's input and saved tensors: what offloaded activations move.
  std::int64_t kept_bytes = 0;
};

// Which of a plan's blocks.
struct BlockChoice {
  BlockKind kind = BlockKind::kLayer;
  RecomputeKind recompute = RecomputeKind::kNone;
  bool global = false;        // attention sees all tokens
  bool shared_table = false;  // embedding and tied head lie on one rank
};

// A plan's part of the keys of its blocks.
// Of layers without experts, those with, and embedding and head.
struct BlockKeys {
  std::uint64_t dense = 0, experts = 0, ends = 0;
};

class BlockMaker;

// Not safe from several threads: each has its own.
class BlockTable {
 public:
  // Borrows all but `varying`.
  BlockTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying);
  ~BlockTable();

  BlockKeys KeysOf(const Plan& plan);
  // `keys` are the plan's. Without `bytes` those of the passes may be 0: working them out takes as
  // long as all else.
  const BlockFigures& Find(const Plan& plan, const BlockChoice& choice, const BlockKeys& keys,
                           bool bytes = true);
  std::size_t size() const { return figures_.size(); }
  void Clear() { figures_ = {}; }

 private:
  // The maker of the block of that key, with what it has built so far where it is one of the last.
  BlockMaker& MakerOf(std::uint64_t key, const Plan& plan, const BlockChoice& choice);

  const ModelSpec& model_;
  BlockTimes& times_;
  PlanKey expert_key_, dense_key_, end_key_;
  std::unordered_map<std::uint64_t, BlockFigures> figures_;
  // Bytes are mostly asked for shortly after seconds, of the same ops. The oldest first.
  std::deque<std::pair<std::uint64_t, std::unique_ptr<BlockMaker>>> makers_;
};

}  // namespace foretrain
