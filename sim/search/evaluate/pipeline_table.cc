#include "sim/search/evaluate/pipeline_table.h"

#include <algorithm>
#include <cmath>

#include "sim/config/schedule/placement.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/layout/stage.h"
#include "sim/program/lower/model/recompute.h"
#include "sim/search/evaluate/step_path.h"

namespace foretrain {
namespace {

// Layers are counted by traits, so the class ignores their order and their numbers.
ChunkClass ClassOf(const ModelSpec& model, const Plan& plan, const Stage& stage,
                   const Chunk& chunk) {
  ChunkClass out;
  for (int block = chunk.first_block; block <= chunk.last_block; ++block) {
    const BlockKind kind = stage.KindOf(block);
    if (kind == BlockKind::kEmbedding) out.embedding = true;
    if (kind == BlockKind::kHead) out.head = true;
    if (!IsLayer(kind)) continue;
    unsigned traits = TraitsOf(kind);
    if (IsGlobal(model, plan, block)) traits |= kSeesAll;
    if (RecomputeOf(plan, stage, block) != RecomputeKind::kNone) traits |= kRecomputes;
    ++out.layers[traits];
  }
  return out;
}

// Micro-batches after which the steady state repeats itself; a custom schedule need not have one.
int CycleOf(ScheduleKind schedule, int p) {
  return schedule == ScheduleKind::kDualPipe ? 2 * p : p;
}

// A smaller number of micro-batches that fills the pipeline for `cycles` cycles. It equals m modulo
// a cycle, so warm-up and cool-down are the same and only the steady state is shorter.
int Enough(ScheduleKind schedule, int p, int m, int cycles) {
  const int cycle = CycleOf(schedule, p);
  const int few = cycles * cycle + m % cycle;
  // A last round with fewer micro-batches has its own order of slots, so it is not shortened.
  if (schedule == ScheduleKind::kInterleaved && m % p != 0) return m;
  if (schedule == ScheduleKind::kCustom) return m;
  return std::min(m, few);
}

ChunkPass PassOf(const Slot& slot) {
  switch (slot.pass) {
    case Pass::kForward:
      return slot.paired ? kPairF : kF;
    case Pass::kBackwardInput:
      return kI;
    case Pass::kBackwardWeight:
      return kW;
    default:
      return kB;
  }
}

// True if b needs at least as much memory as a in every term. Then a can never be the fullest,
// because each term adds bytes that are not negative.
bool IsBelow(const Moment& a, const Moment& b) {
  if (a.pass != b.pass || a.chunk != b.chunk || a.paired != b.paired || a.other != b.other) {
    return false;
  }
  for (std::size_t c = 0; c < a.in_flight.size(); ++c) {
    if (a.in_flight[c] > b.in_flight[c] || a.owed[c] > b.owed[c]) return false;
  }
  for (std::size_t c = 0; c < a.open.size(); ++c) {
    if (a.open[c] > b.open[c]) return false;
  }
  return true;
}

// Keeps a set of moments of which none dominates another. Few remain, so comparing all is cheap.
void Keep(const Moment& moment, std::vector<Moment>& moments) {
  for (const Moment& kept : moments) {
    if (IsBelow(moment, kept)) return;
  }
  std::erase_if(moments, [&](const Moment& kept) { return IsBelow(kept, moment); });
  moments.push_back(moment);
}

constexpr double kStep = 0.13976194237515868;  // log(1.15): rounding step of logarithms of times
constexpr double kNothing = 1e-3;              // share of the longest pass that counts as 0

}  // namespace

// Ranks of equal composition hold the same state and blocks. They differ in micro-batches in
// flight, so each keeps the moments that no earlier rank of its composition covers.
PipelineForm::PipelineForm(const ModelSpec& model, const Plan& plan)
    : shape_(PipelineShapeOf(plan)),
      schedule_(plan.schedule),
      overlaps_(plan.StepsOverlap()),
      pairs_(plan.PairsSlots()),
      receives_ahead_(plan.Stages() > 1 && plan.schedule != ScheduleKind::kGpipe &&
                      plan.schedule != ScheduleKind::k1f1b) {
  for (int pp = 0; pp < plan.pp; ++pp) {
    const Stage stage = StageOf(model, plan, pp);
    Rank rank;
    for (const Chunk& chunk : stage.chunks) {
      const ChunkClass of = ClassOf(model, plan, stage, chunk);
      const auto found = std::find(classes_.begin(), classes_.end(), of);
      rank.chunks.push_back(static_cast<int>(found - classes_.begin()));
      if (found == classes_.end()) classes_.push_back(of);
    }
    rank.composition = static_cast<int>(examples_.size());
    for (std::size_t e = 0; e < examples_.size(); ++e) {
      if (ranks_[static_cast<std::size_t>(examples_[e])].chunks == rank.chunks) {
        rank.composition = static_cast<int>(e);
      }
    }
    if (rank.composition == static_cast<int>(examples_.size())) examples_.push_back(pp);
    FillMoments(stage, rank, pp);
    for (const Rank& earlier : ranks_) {
      if (earlier.composition != rank.composition) continue;
      std::erase_if(rank.moments, [&](const Moment& moment) {
        return std::any_of(earlier.moments.begin(), earlier.moments.end(),
                           [&](const Moment& other) { return IsBelow(moment, other); });
      });
    }
    ranks_.push_back(std::move(rank));
  }
}

// Replays the rank's slots with counters only. Four cycles are enough: the counts of the steady
// state repeat, so more micro-batches add no new moment.
void PipelineForm::FillMoments(const Stage& stage, Rank& rank, int pp) const {
  if (overlaps_) return;
  const std::size_t chunks = rank.chunks.size();
  PipelineShape shape = shape_;
  if (schedule_ == ScheduleKind::kGpipe) {
    // GPipe runs all forwards before all backwards: the last forward and the first backward are
    // the fullest.
    rank.moments = {{kF, 0, false, 0, {shape.m - 1}, {0}, {}},
                    {kB, 0, false, 0, {shape.m}, {0}, {}}};
    return;
  }
  shape.m = Enough(schedule_, shape.p, shape.m, 4);
  const std::vector<std::int32_t> none(chunks, 0);
  Moment now{kF, 0, false, 0, none, none, std::vector<std::int32_t>(chunks - 1, 0)};
  std::vector<std::int32_t> made = none;  // by chunk: weight gradients
  const std::vector<Slot> slots = MakeSlots(schedule_, shape, pp);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    const bool second = i > 0 && slots[i - 1].paired;
    const auto chunk = static_cast<std::size_t>(slot.chunk);
    now.pass = PassOf(slot);
    now.chunk = slot.chunk;
    now.paired = slot.paired;
    now.other = slot.paired ? slots[i + 1].chunk : 0;
    const bool makes = slot.pass != Pass::kForward && slot.pass != Pass::kBackwardInput;
    if (makes) ++made[chunk];
    for (std::size_t c = 0; c + 1 < chunks; ++c) {
      // Chunks of opposite directions serve different micro-batches, so neither waits for the
      // other.
      if (stage.chunks[c].direction != stage.chunks[c + 1].direction) continue;
      const int done = made[c] - (makes && chunk == c ? 1 : 0);
      now.open[c] = std::max(0, made[c + 1] - done);
    }
    if (!second) Keep(now, rank.moments);
    if (slot.pass == Pass::kForward) ++now.in_flight[chunk];
    if (slot.pass == Pass::kBackward || slot.pass == Pass::kBackwardInput) --now.in_flight[chunk];
    if (slot.pass == Pass::kBackwardInput) ++now.owed[chunk];
    if (slot.pass == Pass::kBackwardWeight) --now.owed[chunk];
  }
}

// The longest path changes only if times change relative to each other. So the key rounds each time
// to a power of 1.15 of the longest, and plans with similar ratios share a path. A path is a count
// of passes and sends. Its length at the exact times is a lower bound of the makespan, because
// every path is one.
double PipelineForm::Makespan(const std::vector<PassSeconds>& times, double send_s) {
  if (shape_.p == 1 && schedule_ == ScheduleKind::k1f1b) {
    return shape_.m * (times.front()[kF] + times.front()[kB]);
  }
  if (overlaps_) {
    // Steps overlap, so the slowest rank sets the pace (PipeDreamMakespan).
    double slowest_s = 0;
    for (const PassSeconds& chunk : times) slowest_s = std::max(slowest_s, chunk[kF] + chunk[kB]);
    return foretrain::Makespan(schedule_, shape_, {slowest_s, 0, 0, send_s});
  }
  double longest_s = 0;
  for (const PassSeconds& chunk : times) {
    for (const double seconds : chunk) longest_s = std::max(longest_s, seconds);
  }
  if (longest_s <= 0) return 0;
  // Rounds to a power of 1.15 of the longest and adds the exponent to the key.
  StableHash key;
  const auto near = [&](double seconds) {
    const double part = seconds / longest_s;
    if (part < kNothing) {
      key.Add(1);
      return 0.0;
    }
    const double power = std::round(std::log(part) / kStep);
    key.Add(power);
    return std::exp(power * kStep);
  };
  // Schedules without pairs never count halves of pairs, so those times stay out of the key.
  const std::size_t last_pass = pairs_ ? kChunkPassCount : std::size_t{kPairF};
  std::vector<PassSeconds> rounded = times;
  for (PassSeconds& chunk : rounded) {
    for (std::size_t pass = 0; pass < last_pass; ++pass) {
      chunk[pass] = near(chunk[pass]);
    }
  }
  const double rounded_send = near(send_s);
  const auto [found, is_new] = ways_.try_emplace(key.Value());
  if (is_new) found->second = Longest(rounded, rounded_send);
  const Way& way = found->second;
  double sum = way.sends * send_s;
  for (std::size_t c = 0; c < times.size(); ++c) {
    for (std::size_t pass = 0; pass < kChunkPassCount; ++pass) {
      sum += way.passes[c][pass] * times[c][pass];
    }
  }
  return sum;
}

// Plays the pipeline at two lengths that differ by one cycle. In the steady state each further
// cycle adds the same passes, so the rest is extrapolated. Costs O(p) cycles instead of O(m) slots.
PipelineForm::Way PipelineForm::Longest(const std::vector<PassSeconds>& times,
                                        double send_s) const {
  const int few = Enough(schedule_, shape_.p, shape_.m, 3);
  const int cycle = CycleOf(schedule_, shape_.p);
  if (few + cycle >= shape_.m) return Play(shape_.m, times, send_s);
  Way first = Play(few, times, send_s);
  const Way second = Play(few + cycle, times, send_s);
  const double more = static_cast<double>(shape_.m - few) / cycle;
  first.sends += more * (second.sends - first.sends);
  for (std::size_t c = 0; c < first.passes.size(); ++c) {
    for (std::size_t pass = 0; pass < kChunkPassCount; ++pass) {
      first.passes[c][pass] += more * (second.passes[c][pass] - first.passes[c][pass]);
    }
  }
  return first;
}

PipelineForm::Way PipelineForm::Play(int m, const std::vector<PassSeconds>& times,
                                     double send_s) const {
  std::vector<std::vector<int>> classes;
  for (const Rank& rank : ranks_) classes.push_back(rank.chunks);
  PipelineShape shape = shape_;
  shape.m = m;
  const StepPath longest = FindStepPath(schedule_, shape, classes, times, send_s);
  return {longest.passes, longest.sends};
}

// The form reads few fields, and dp and batch sizes only through the number of micro-batches, which
// Find adds. So plans that differ in anything else share a form.
PipelineTable::PipelineTable(const ModelSpec& model, const VaryingFields& varying)
    : model_(model), key_(varying) {
  VaryingFields read;
  for (const PlanField* field : varying) {
    for (const char* name : {"pp", "schedule", "schedule_slots", "vpp", "stage_layers",
                             "recompute_layers", "recompute_every", "sequence"}) {
      if (field->name == name) read.push_back(field);
    }
  }
  key_ = PlanKey(read);
}

PipelineForm& PipelineTable::Find(const Plan& plan) {
  const std::uint64_t key = key_.Of(plan)
                                .Add(plan.MicroBatches())
                                .Add(plan.pp)
                                .Add(plan.recompute != RecomputeKind::kNone)
                                .Value();
  std::unique_ptr<PipelineForm>& found = pipelines_[key];
  if (found == nullptr) found = std::make_unique<PipelineForm>(model_, plan);
  return *found;
}

}  // namespace foretrain
