// Seconds and bytes of a block's passes, computed once per distinct block of a search. Leaves out
// the costs of pipeline and data parallelism (chunk_costs.h, state_table.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

#include "sim/program/blocks/blocks.h"
#include "sim/search/evaluate/block_times.h"
#include "sim/search/evaluate/plan_key.h"

namespace foretrain {

// Costs of a block's passes; a pass that the block does not have is 0. `input` and `weight` are set
// if the schedule splits backwards, `again` if the block is recomputed in full.
struct BlockCosts {
  PassCosts forward, backward, input, weight, again;
  bool has_halves = false;  // `input` and `weight` are filled
  bool has_bytes = false;   // of all passes except the halves
  bool has_bytes_of_halves = false;
  // Filled if the plan offloads activations and the block is a layer without experts.
  bool has_kept = false;
  std::int64_t kept_bytes = 0;  // that offloading moves to the host
  double kept_s = 0;            // of the copy to pinned memory; the copy back takes as long
  double kept_nvme_s = 0;       // of the slowest hop to NVMe and back, if the plan uses it
};

// Selects one of a plan's blocks.
struct BlockChoice {
  BlockKind kind = BlockKind::kLayer;
  RecomputeKind recompute = RecomputeKind::kNone;
  bool global = false;        // attention sees all tokens
  bool shared_table = false;  // embedding and tied head lie on one rank
};

// The plan's share of the keys of its blocks: dense layers, layers with experts, and embedding and
// head.
struct BlockKeys {
  std::uint64_t dense = 0, experts = 0, ends = 0;
};

class BlockMaker;

// Not safe from several threads: each has its own.
class BlockTable {
 public:
  // Borrows `model` and `times`.
  BlockTable(const ModelSpec& model, BlockTimes& times, const VaryingFields& varying);
  ~BlockTable();

  BlockKeys KeysOf(const Plan& plan);
  // Costs of a block; `keys` belong to the plan. If `bytes` is false, bytes of the passes may be 0:
  // they take as long to compute as everything else. The reference is valid until Clear.
  const BlockCosts& Find(const Plan& plan, const BlockChoice& choice, const BlockKeys& keys,
                         bool bytes = true);
  void Clear() { figures_ = {}; }

 private:
  // The maker of the block with that key. It reuses ops that are already built if the block is
  // among the latest.
  BlockMaker& MakerOf(std::uint64_t key, const Plan& plan, const BlockChoice& choice);

  const ModelSpec& model_;
  BlockTimes& times_;
  PlanKey expert_key_, dense_key_, end_key_;
  std::unordered_map<std::uint64_t, BlockCosts> figures_;
  // Makers of the latest blocks, oldest first. Bytes are often asked for soon after seconds and
  // come from the same ops.
  std::deque<std::pair<std::uint64_t, std::unique_ptr<BlockMaker>>> makers_;
};

}  // namespace foretrain
