// Time, bounds and memory of one plan from the same tables of blocks, pipelines and state. Each
// limit ends the evaluation early, so their order is kept in one file.
#include "sim/search/evaluate/evaluator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "sim/memory/device_use.h"
#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/transfers/boundaries.h"
#include "sim/search/space/balance.h"

namespace foretrain {
namespace {

std::size_t At(int index) { return static_cast<std::size_t>(index); }

// True if the peak depends on the order of the whole step. Then a sum over moments could be wrong.
bool WalksMemory(const Plan& plan) {
  return plan.StepsOverlap() || plan.gather_bytes > 0 || plan.unsharded_bytes > 0;
}

// True if whole (unsharded) gradients of a micro-batch may exist during the slot: the pass makes
// some, or another chunk has. Offloaded gradients and gradients made by the head's forward may stay
// until the next ones replace them.
bool HasWholeGradients(const Plan& plan, const Moment& moment) {
  const bool makes = moment.pass == kB || moment.pass == kW || moment.paired;
  const bool kept = GradientsAreOffloaded(plan) || HeadForwardMakesGradients(plan);
  return makes || kept ||
         std::any_of(moment.open.begin(), moment.open.end(), [](int open) { return open > 0; });
}

MemoryParts StatePartsOf(const StateCosts& state) {
  const auto of = [&](Category category) {
    return state.device[static_cast<std::size_t>(category)];
  };
  MemoryParts parts;
  parts.parameters = of(Category::kParameters);
  parts.gradients = of(Category::kGradients);
  parts.optimizer = of(Category::kOptimizerState) + of(Category::kMasterWeights);
  parts.other_state = Total(state.device) - parts.parameters - parts.gradients - parts.optimizer;
  return parts;
}

}  // namespace

Evaluator::Evaluator(const ModelSpec& model, const CostModel& costs, VaryingFields varying)
    : model_(model),
      costs_(costs),
      times_(costs, varying),
      blocks_(model, times_, varying),
      pipelines_(model, varying),
      states_(model, times_, varying),
      chunks_(model, times_, blocks_, varying),
      least_(model, blocks_, states_, chunks_) {}

// Contexts and communicator buffers depend on the parallel sizes alone, so a search computes few of
// them.
std::int64_t Evaluator::OutsideBytes(const Plan& plan) {
  if (costs_.cluster().is_cpu) return 0;
  StableHash key;
  key.Add(plan.dp).Add(plan.tp).Add(plan.pp).Add(plan.cp).Add(plan.ep).Add(plan.expert_tp);
  key.Add(plan.replicas).Add(plan.rank_order).Add(plan.schedule).Add(plan.vpp);
  key.Add(plan.slots.empty() ? 0 : plan.slots.hash());
  const auto [found, is_new] = outside_.try_emplace(key.Value());
  if (is_new) {
    found->second = DeviceOverheadOf(costs_.cluster(), plan, costs_.profile().system).Total();
  }
  return found->second;
}

// Reductions overlap the last micro-batch's backward; the last ones start when its layers end.
// Gathers of updated parameters overlap other updates and the next step's first forward. So exposed
// time is the larger of the last transfer and the excess over the overlapped time.
void Evaluator::AddEnds(const Plan& plan, double last_forward_s, double last_backward_s,
                        const UpdateCosts& costs, StepParts& parts) {
  const auto [sums_s, scalars_s] = states_.SecondsOverStages(plan, costs);
  parts.sums_s = std::max(costs.last_sum_s, costs.sums_s - last_backward_s) + sums_s;
  const double update_s = costs.update_s + scalars_s;
  const double hidden_s = update_s + last_forward_s;
  const double gathers_s = std::max(costs.first_gather_s, costs.updated_gathers_s - hidden_s);
  const double all_s = parts.sums_s + update_s + gathers_s;
  parts.update_s = std::max(all_s, costs.offload_s) - parts.sums_s;
  if (plan.UpdatesEachMicroBatch()) {
    parts.update_s *= static_cast<double>(plan.MicroBatches());
  }
}

// Balances by the mean time of a layer, since stages hold consecutive layers. Embedding and head
// cost time too, so the ends get fewer layers.
std::vector<int> Evaluator::BalancedLayers(const Plan& plan) {
  const bool shared = HasTiedCopy(model_) && plan.pp == 1;
  const auto seconds = [&](BlockKind kind, bool global) {
    const bool layer = IsLayer(kind);
    const BlockCosts& block =
        blocks_.Find(plan, {kind, layer ? plan.recompute : RecomputeKind::kNone, global, shared},
                     blocks_.KeysOf(plan));
    return block.forward.span_s + block.backward.span_s + block.again.span_s;
  };
  const int layers = static_cast<int>(model_.AllLayers()), stages = plan.Stages();
  double sum_s = 0;
  for (int block = 1; block <= layers; ++block) {
    sum_s += seconds(KindOfLayer(model_, block - 1), IsGlobal(model_, plan, block));
  }
  const std::vector<int> balanced =
      BalanceLayers(layers, stages, seconds(BlockKind::kEmbedding, false), sum_s / layers,
                    seconds(BlockKind::kHead, false));
  for (int stage = 0; stage < stages; ++stage) {
    const int even = layers / stages + (stage < layers % stages ? 1 : 0);
    if (balanced[At(stage)] != even) return balanced;
  }
  return {};
}

void Evaluator::Forget(bool states) {
  blocks_.Clear();
  least_.Clear(states);
  if (states) states_.Clear();
}

Evaluation Evaluator::Evaluate(const Plan& plan) {
  Evaluation out;
  Evaluate(plan, {std::numeric_limits<std::int64_t>::max(), {}}, out);
  return out;
}

// Evaluate leaves the classes and states of its plan in the scratch members, which are read here.
std::vector<Evaluator::RankSeconds> Evaluator::SecondsOfRanks(const Plan& plan, Evaluation& out) {
  out = Evaluate(plan);  // fills in the classes of its chunks
  std::vector<RankSeconds> ranks;
  for (const PipelineForm::Rank& rank : pipelines_.Find(plan).ranks()) {
    RankSeconds seconds;
    double forward_s = 0, backward_s = 0;
    for (const int number : rank.chunks) {
      seconds.chunks.push_back(classes_[At(number)].seconds);
      forward_s += seconds.chunks.back()[kF];
      backward_s += seconds.chunks.back()[kB];
    }
    StepParts ends;
    AddEnds(plan, forward_s, backward_s, *updates_[At(rank.composition)], ends);
    seconds.sums_s = ends.sums_s;
    seconds.update_s = ends.update_s;
    ranks.push_back(std::move(seconds));
  }
  return ranks;
}

// From cheap to expensive, so that most plans of a search end early: state, then all memory, then
// the bound, and the pipeline last. OutsideBytes is subtracted from the limit: adding it to bytes
// might overflow when there is no limit.
Evaluator::Reached Evaluator::Evaluate(const Plan& plan, const Limits& limits, Evaluation& out) {
  out = {};
  PipelineForm& pipeline = pipelines_.Find(plan);
  of_composition_.clear();
  const std::uint64_t key = states_.KeyOf(plan);
  for (std::size_t c = 0; c < pipeline.examples().size(); ++c) {
    of_composition_.push_back(&states_.Find(plan, key, pipeline, static_cast<int>(c)));
    out.memory_bytes = std::max(out.memory_bytes, Total(of_composition_.back()->device));
    out.host_bytes = std::max(out.host_bytes, of_composition_.back()->host_bytes);
  }
  const std::int64_t outside = OutsideBytes(plan);
  if (out.memory_bytes > limits.memory_bytes - outside) {
    for (const StateCosts* state : of_composition_) {
      if (Total(state->device) == out.memory_bytes) out.memory = StatePartsOf(*state);
    }
    out.memory.outside = outside;
    out.memory_bytes += outside;
    return Reached::kState;
  }
  out.memory_bytes = 0;
  FindClasses(plan, pipeline);
  FindMemory(plan, pipeline, out);
  out.memory.outside = outside;
  out.memory_bytes += outside;
  if (out.memory_bytes > limits.memory_bytes) return Reached::kMemory;
  FindBound(plan, pipeline, out);
  if (limits.hopeless && limits.hopeless(out)) return Reached::kBound;
  FindTime(plan, pipeline, out);
  return Reached::kEnd;
}

// One rank per composition is enough: all of its ranks have the same chunks and state.
void Evaluator::FindClasses(const Plan& plan, const PipelineForm& pipeline) {
  classes_.assign(pipeline.classes().size(), {});
  known_.assign(classes_.size(), false);
  const BlockKeys keys = blocks_.KeysOf(plan);
  for (const int pp : pipeline.examples()) {
    const PipelineForm::Rank& rank = pipeline.ranks()[At(pp)];
    for (const int number : rank.chunks) {
      if (known_[At(number)]) continue;
      known_[At(number)] = true;
      classes_[At(number)] = chunks_.Of(plan, pipeline.classes()[At(number)],
                                        *of_composition_[At(rank.composition)], keys);
    }
  }
}

// Lower bounds of a family's chunks. Gathers and reductions count if `of_composition_` is filled.
// Without `ends`, only layers count: still a lower bound, since embedding and head only add.
void Evaluator::FindBoundClasses(const Plan& plan, const BoundTable::Blocks& blocks,
                                 const PipelineForm& pipeline, bool ends) {
  static const StateCosts kNone;
  classes_.assign(pipeline.classes().size(), {});
  known_.assign(classes_.size(), false);
  for (const int pp : pipeline.examples()) {
    const PipelineForm::Rank& rank = pipeline.ranks()[At(pp)];
    const StateCosts& state =
        of_composition_.empty() ? kNone : *of_composition_[At(rank.composition)];
    for (const int number : rank.chunks) {
      if (known_[At(number)]) continue;
      known_[At(number)] = true;
      ChunkClass chunk = pipeline.classes()[At(number)];
      chunk.embedding = ends && chunk.embedding;
      chunk.head = ends && chunk.head;
      classes_[At(number)] = least_.ClassOf(plan, blocks, chunk, state);
    }
  }
}

// Each bound is a minimum over the family's blocks and state, and the formulas grow with both. So a
// refused bound refuses every plan. Seconds of blocks come first: they are cheapest and rule out
// most. With multi-token prediction the head has layers of its own and takes longest, so layers are
// tried without it first.
Evaluator::Reached Evaluator::EvaluateBound(const Plan& plan, const PlanFamily& family,
                                            const Limits& limits, Evaluation& out) {
  out = {};
  // The minima do not cover these plans, so their families are never skipped.
  const bool some = plan.recompute_layers > 0 || plan.recompute_every > 1;
  if (some || WalksMemory(plan)) return Reached::kEnd;
  if (plan.GoesBothWays() || plan.schedule == ScheduleKind::kCustom) return Reached::kEnd;
  const BoundTable::Blocks* blocks = least_.BlocksOf(plan, family, BoundTable::Figures::kSeconds);
  if (blocks == nullptr) return Reached::kEnd;
  const PipelineForm& pipeline = pipelines_.Find(plan);
  of_composition_.clear();
  for (const bool ends : {false, true}) {
    if (!ends && model_.predict_ahead == 0) continue;
    out = {};
    FindBoundClasses(plan, *blocks, pipeline, ends);
    FindBound(plan, pipeline, out);
    if (limits.hopeless(out)) return Reached::kBound;
  }
  out = {};
  for (std::size_t c = 0; c < pipeline.examples().size(); ++c) {
    const StateCosts* state = least_.StateOf(plan, family, pipeline, static_cast<int>(c));
    if (state == nullptr) return Reached::kEnd;
    of_composition_.push_back(state);
    out.memory_bytes = std::max(out.memory_bytes, Total(state->device));
  }
  out.memory_bytes += OutsideBytes(plan);
  if (out.memory_bytes > limits.memory_bytes) return Reached::kMemory;
  FindBoundClasses(plan, *blocks, pipeline);
  FindBound(plan, pipeline, out);
  if (limits.hopeless(out)) return Reached::kBound;
  out = {};
  blocks = least_.BlocksOf(plan, family, BoundTable::Figures::kAll);
  if (blocks == nullptr) return Reached::kEnd;
  FindBoundClasses(plan, *blocks, pipeline);
  FindMemory(plan, pipeline, out);
  out.memory.outside = OutsideBytes(plan);
  out.memory_bytes += out.memory.outside;
  if (out.memory_bytes > limits.memory_bytes) return Reached::kMemory;
  FindBound(plan, pipeline, out);
  return limits.hopeless(out) ? Reached::kBound : Reached::kEnd;
}

// Why these are bounds: a rank runs its m micro-batches one after the other, so m * held_s is a
// minimum. A later rank can start only after the forwards of all earlier ranks, and their backwards
// follow its last one. So the fill of earlier ranks is added, less the tails that nobody waits for.
void Evaluator::FindBound(const Plan& plan, const PipelineForm& pipeline, Evaluation& out) const {
  const auto m = static_cast<double>(plan.MicroBatches());
  const double directions = plan.StageCopies();  // each runs its share of the micro-batches
  const bool split = plan.SplitsBackward();
  const bool pairs = plan.PairsSlots();
  double filling_s = 0, filling_span_s = 0;
  for (const PipelineForm::Rank& rank : pipeline.ranks()) {
    double compute_s = 0, held_s = 0, spans_s = 0;
    for (const int number : rank.chunks) {
      const ClassCosts& figures = classes_[At(number)];
      const PassSeconds& t = figures.seconds;
      compute_s += figures.compute_s / directions;
      // One half of a pair computes while the other waits.
      held_s += (pairs ? figures.compute_s : figures.held_s) / directions;
      // A paired half may be shorter than the same pass alone.
      const double alone_s = t[kF] + (split ? t[kI] + t[kW] : t[kB]);
      spans_s += std::min(alone_s, t[kPairF] + t[kPairB]) / directions;
    }
    const ClassCosts& chunk = classes_[At(rank.chunks.front())];
    // The first rank sends no gradient on, so it has no tail.
    const double tail_s = &rank == &pipeline.ranks().front() ? 0 : chunk.backward_tail_s;
    const double whole_s = m * held_s;
    out.bound_s = std::max({out.bound_s, whole_s, whole_s - tail_s + filling_s});
    out.min_s = std::max(out.min_s, m * spans_s + filling_span_s);
    out.parts.compute_s = std::max(out.parts.compute_s, m * compute_s);
    // Later ranks start after this rank's first forward and end before its last backward. With
    // two directions or overlapping steps other work fills that time.
    if (directions > 1 || plan.StepsOverlap()) continue;
    // Split backwards delay their weight halves, which can fill these gaps.
    if (!split) filling_s += chunk.fill_s - chunk.forward_tail_s - tail_s;
    const PassSeconds& first = chunk.seconds;
    filling_span_s += first[kF] + (split ? 0 : first[kB]);
  }
}

// Step time is the pipeline's makespan plus the end that finishes last. Parts are told by the
// busiest rank: its computing, then its exposed communication, then the rest of the makespan as
// bubble.
void Evaluator::FindTime(const Plan& plan, PipelineForm& pipeline, Evaluation& out) {
  seconds_.clear();
  for (const ClassCosts& figures : classes_) seconds_.push_back(figures.seconds);
  updates_.clear();
  const std::uint64_t key = states_.KeyOf(plan);
  for (std::size_t c = 0; c < pipeline.examples().size(); ++c) {
    updates_.push_back(&states_.FindUpdate(plan, key, pipeline, static_cast<int>(c)));
  }
  const auto m = static_cast<double>(plan.MicroBatches());
  const double send_s = times_.blocking_sends() ? 0 : chunks_.SendSeconds(plan);
  const bool split = plan.SplitsBackward();
  const double directions = plan.StageCopies();
  // Maxima over ranks: seconds of all passes, and end of the update. ahead_s: how much earlier than
  // rank 0 this rank finishes its last backward.
  double busy_s = 0, longest_end_s = 0, ahead_s = 0;
  for (std::size_t r = 0; r < pipeline.ranks().size(); ++r) {
    const PipelineForm::Rank& rank = pipeline.ranks()[r];
    double spans_s = 0, forward_s = 0, backward_s = 0;
    for (const int number : rank.chunks) {
      const PassSeconds& t = classes_[At(number)].seconds;
      forward_s += t[kF];
      backward_s += t[kB];
      spans_s += (t[kF] + (split ? t[kI] + t[kW] : t[kB])) / directions;
    }
    busy_s = std::max(busy_s, m * spans_s);
    StepParts ends;
    AddEnds(plan, forward_s, backward_s, *updates_[At(rank.composition)], ends);
    // The last gradient still passes all earlier ranks, while this rank already reduces.
    const double end_s = ends.sums_s + ends.update_s - ahead_s;
    if (r == 0 || end_s > longest_end_s) {
      longest_end_s = end_s;
      out.parts.sums_s = std::min(ends.sums_s, std::max(0.0, end_s));
      out.parts.update_s = std::max(0.0, end_s) - out.parts.sums_s;
    }
    if (rank.chunks.size() == 1) {
      ahead_s += classes_[At(rank.chunks.front())].seconds[split ? kI : kB] + send_s;
    }
  }
  const double pipeline_s = std::max(out.min_s, pipeline.Makespan(seconds_, send_s));
  // In pairs the communication of one half overlaps the other half, so spans overstate the busy
  // time: it is at most the makespan.
  busy_s = std::clamp(busy_s, out.parts.compute_s, std::max(out.parts.compute_s, pipeline_s));
  out.parts.communication_s = busy_s - out.parts.compute_s;
  out.parts.bubble_s = std::max(0.0, pipeline_s - busy_s);
  out.step_s = pipeline_s + std::max(0.0, longest_end_s);
}

// Asks the exact predictor, once per composition of ranks.
void Evaluator::WalkMemory(const Plan& plan, const PipelineForm& pipeline, Evaluation& out) const {
  for (const int pp : pipeline.examples()) {
    const PeakMemory peak = PlannedPeak(model_, plan, {.pp = pp});
    if (peak.total <= out.memory_bytes) continue;
    out.memory_bytes = peak.total;
    out.fullest_pp = pp;
    const auto of = [&](Category category) {
      return peak.bytes[static_cast<std::size_t>(category)];
    };
    out.memory = {of(Category::kParameters),
                  of(Category::kGradients),
                  of(Category::kOptimizerState) + of(Category::kMasterWeights),
                  0,
                  of(Category::kActivations),
                  0};
    const MemoryParts& m = out.memory;
    out.memory.transient = peak.total - m.parameters - m.gradients - m.optimizer - m.activations;
  }
}

// Peak of each rank: resident state, the fullest moment of its slots, gathered parameters (the
// block in use and those prefetched), and early boundary tensors. Ranks of one composition share
// state but not moments, so each rank is visited.
void Evaluator::FindMemory(const Plan& plan, const PipelineForm& pipeline, Evaluation& out) {
  if (WalksMemory(plan)) return WalkMemory(plan, pipeline, out);
  const std::int64_t boundary = BoundaryShape(model_, plan, Pass::kForward).bytes;
  const std::int64_t early = pipeline.receives_ahead() ? 2 * boundary : 0;
  for (std::size_t r = 0; r < pipeline.ranks().size(); ++r) {
    const PipelineForm::Rank& rank = pipeline.ranks()[r];
    const StateCosts& state = *of_composition_[At(rank.composition)];
    std::int64_t fullest = 0, held_then = 0;
    for (const Moment& moment : rank.moments) {
      std::int64_t held = 0;
      for (std::size_t c = 0; c < rank.chunks.size(); ++c) {
        const ClassCosts& figures = classes_[At(rank.chunks[c])];
        held += moment.in_flight[c] * figures.saved + moment.owed[c] * figures.owed;
      }
      std::int64_t open = HasWholeGradients(plan, moment) ? state.whole_gradient_bytes : 0;
      for (std::size_t c = 0; c < state.shared_gradient_bytes.size(); ++c) {
        if (c < moment.open.size()) open += moment.open[c] * state.shared_gradient_bytes[c];
      }
      const ClassCosts& runs = classes_[At(rank.chunks[At(moment.chunk)])];
      std::int64_t peak = runs.peak[moment.pass];
      if (moment.paired) {
        peak += classes_[At(rank.chunks[At(moment.other)])].peak[kPairB];
      }
      if (held + open + peak > fullest) {
        fullest = held + open + peak;
        held_then = held;
      }
    }
    const std::int64_t copies = state.gathered_bytes * (plan.prefetch_depth + 1);
    const std::int64_t total = Total(state.device) + fullest + copies + early;
    if (r > 0 && total <= out.memory_bytes) continue;
    out.memory_bytes = total;
    out.fullest_pp = static_cast<int>(r);
    out.memory = StatePartsOf(state);
    out.memory.activations = held_then;
    out.memory.transient = total - Total(state.device) - held_then;
  }
}

}  // namespace foretrain
