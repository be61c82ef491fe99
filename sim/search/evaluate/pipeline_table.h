// Facts that follow from a pipeline's shape alone: equal stages, micro-batches in flight, and the
// passes on the longest path through a step. Computed once per shape of a search; seconds and bytes
// come from elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/program/lower/layout/stage.h"
#include "sim/program/schedules/schedule.h"
#include "sim/search/evaluate/plan_key.h"

namespace foretrain {

// Bits that tell the layers of a chunk apart, with their kind: layers with equal bits run equal
// blocks.
enum LayerTraits : unsigned { kRecomputes = 1, kSeesAll = 2, kFirstKind = 4 };
inline constexpr std::array kLayerKinds = {BlockKind::kLayer, BlockKind::kExpertLayer,
                                           BlockKind::kDecoderLayer, BlockKind::kFirstDecoderLayer};
inline constexpr std::size_t kLayerTraitCount = kLayerKinds.size() * kFirstKind;
constexpr unsigned TraitsOf(BlockKind kind) {
  unsigned number = 0;
  while (kLayerKinds[number] != kind) ++number;
  return number * kFirstKind;
}
constexpr BlockKind KindOf(std::size_t traits) { return kLayerKinds[traits / kFirstKind]; }

// The blocks of one chunk of layers. Chunks of the same class take the same time and memory.
struct ChunkClass {
  bool embedding = false;
  bool head = false;
  std::array<int, kLayerTraitCount> layers{};  // by LayerTraits

  bool operator==(const ChunkClass&) const = default;
};

// Passes of a chunk: forward, backward, its input and weight halves; then forward and backward as
// halves of an overlapped pair.
enum ChunkPass : unsigned { kF, kB, kI, kW, kPairF, kPairB };
inline constexpr std::size_t kChunkPassCount = 6;
using PassSeconds = std::array<double, kChunkPassCount>;  // seconds by ChunkPass

// State of a rank when it begins a slot.
struct Moment {
  ChunkPass pass = kF;
  int chunk = 0;
  bool paired = false;  // overlapped with the backward of chunk `other`
  int other = 0;
  // By chunk: micro-batches between their forward and their (input half of the) backward, and
  // micro-batches that still wait for their weight half.
  std::vector<std::int32_t> in_flight, owed;
  // By chunk c: micro-batches whose weight gradients exist, or are about to, for chunk c + 1 but
  // not yet for chunk c.
  std::vector<std::int32_t> open;
};

class PipelineForm {
 public:
  PipelineForm(const ModelSpec& model, const Plan& plan);

  struct Rank {
    std::vector<int> chunks;  // index into classes(), by chunk
    int composition = 0;      // ranks with equal chunks share the number
    // Moments that may be the fullest. Dominated ones are dropped: another moment of the same pass,
    // of this rank or an earlier one of its composition, has at least as much of everything. Empty
    // if steps overlap.
    std::vector<Moment> moments;
  };
  const std::vector<ChunkClass>& classes() const { return classes_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  // The first rank of each composition.
  const std::vector<int>& examples() const { return examples_; }
  // True if boundary tensors may arrive while earlier ones still wait to be read.
  bool receives_ahead() const { return receives_ahead_; }

  // Seconds from the first forward to the last backward; `times` by class of chunk. The result is
  // the length, at these times, of the path that is longest for similar times (each within 7 %). It
  // is never more than the longest path. It equals it if the same path is longest here. If
  // micro-batches repeat a cycle, the path is found for a few and extended. O(classes); O(slots)
  // the first time for dissimilar times.
  double Makespan(const std::vector<PassSeconds>& times, double send_s);

 private:
  struct Way {
    std::vector<std::array<double, kChunkPassCount>> passes;  // count, by class and ChunkPass
    double sends = 0;
  };
  Way Longest(const std::vector<PassSeconds>& times, double send_s) const;
  Way Play(int m, const std::vector<PassSeconds>& times, double send_s) const;
  void FillMoments(const Stage& stage, Rank& rank, int pp) const;

  PipelineShape shape_;
  ScheduleKind schedule_;
  bool overlaps_;
  bool pairs_;
  bool receives_ahead_;
  std::vector<ChunkClass> classes_;
  std::vector<Rank> ranks_;
  std::vector<int> examples_;
  std::unordered_map<std::uint64_t, Way> ways_;
};

// Pipelines by shape. Not safe from several threads: each has its own.
class PipelineTable {
 public:
  PipelineTable(const ModelSpec& model, const VaryingFields& varying);
  PipelineForm& Find(const Plan& plan);

 private:
  const ModelSpec& model_;
  PlanKey key_;
  std::unordered_map<std::uint64_t, std::unique_ptr<PipelineForm>> pipelines_;
};

}  // namespace foretrain
