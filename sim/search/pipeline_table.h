// What a pipeline's shape alone says of a plan: which stages are alike, how many micro-batches each
// rank holds when, and which passes the longest way through a step counts. Worked out once for each
// shape of a search; leaves out seconds and bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sim/program/lower/stage.h"
#include "sim/program/schedules/schedule.h"
#include "sim/search/plan_key.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Layers of a chunk by what tells their blocks apart.
enum LayerTraits : unsigned { kRecomputes = 1, kSeesAll = 2, kHasExperts = 4 };
inline constexpr std::size_t kLayerTraitCount = 8;

// The blocks of one chunk of layers; chunks of equal classes take as long and as much memory.
struct ChunkClass {
  bool embedding = false;
  bool head = false;
  std::array<int, kLayerTraitCount> layers{};  // by LayerTraits

  bool operator==(const ChunkClass&) const = default;
};

// Passes of a chunk: by themselves, and as half of a pair.
enum ChunkPass : unsigned { kF, kB, kI, kW, kPairF, kPairB };
inline constexpr std::size_t kChunkPassCount = 6;
using PassSeconds = std::array<double, kChunkPassCount>;  // seconds by ChunkPass

// When a rank begins a slot: micro-batches of each chunk that have had their forward and not their
// (input half of the) backward, and those that wait for their weight half.
struct Moment {
  ChunkPass pass = kF;
  int chunk = 0;
  bool paired = false;  // with the backward of chunk `other`
  int other = 0;
  std::vector<std::int32_t> in_flight, owed;  // by chunk
  // Of chunks c and c + 1: micro-batches that have made weight gradients of the later one alone, or
  // are about to.
  std::vector<std::int32_t> open;
};

class PipelineForm {
 public:
  PipelineForm(const ModelSpec& model, const Plan& plan);

  struct Rank {
    std::vector<int> chunks;  // class of each
    int composition = 0;      // ranks of equal chunks have the same
    // None is below another of the same slot, of this rank or an earlier one of its composition;
    // none where steps overlap.
    std::vector<Moment> moments;
  };
  const std::vector<ChunkClass>& classes() const { return classes_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  // Of each composition, a rank that has it.
  const std::vector<int>& examples() const { return examples_; }
  // Whether boundary tensors may come, from another rank or another chunk, while others of their
  // kind wait to be read.
  bool receives_ahead() const { return receives_ahead_; }

  // Seconds from first forward to last backward, by the class of chunks. The way through the slots
  // that is the longest for times near these (each to 7 %), taken at these: never more than the
  // longest way, and exact where that is the same. A way that many micro-batches repeat is
  // found for few. O(classes), first O(slots) for times unlike those before.
  double Makespan(const std::vector<PassSeconds>& times, double send_s);

 private:
  struct Way {
    std::vector<std::array<double, kChunkPassCount>> passes;  // how many, by class
    double sends = 0;
  };
  Way Longest(const std::vector<PassSeconds>& times, double send_s) const;
  Way Play(int m, const std::vector<PassSeconds>& times, double send_s) const;
  void FillMoments(const Stage& stage, Rank& rank, int pp) const;

  PipelineShape shape_;
  ScheduleKind schedule_;
  bool overlaps_;
  bool receives_ahead_;
  std::vector<ChunkClass> classes_;
  std::vector<Rank> ranks_;
  std::vector<int> examples_;
  std::unordered_map<std::uint64_t, Way> ways_;
};

// Not safe from several threads: each has its own.
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
