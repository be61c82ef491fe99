#include "sim/compare/structure/pair_by_structure.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/compare/structure/align.h"
#include "sim/compare/structure/name_topics.h"
#include "traces/unknown_coordinates.h"

namespace foretrain {
namespace {

constexpr double kSteady = 0.25;

// Ops of one lane are in one order on both sides: all compute, or one class of communication, or
// copies. Ops of the host have no lane.
constexpr int kLanes = kOpClassCount;

std::optional<int> LaneOf(const Span& span) {
  if (span.queue == Queue::kHost || span.op_class == OpClass::kHost) return std::nullopt;
  return IsCompute(span.op_class) ? 0 : static_cast<int>(span.op_class);
}

// One op or call of one rank: all its spans.
struct Work {
  OpId op = kNoOp;
  std::int64_t start_ns = 0;
  std::int64_t busy_ns = 0;
  std::int64_t bytes = 0;
  OpClass op_class = OpClass::kMemoryBound;
};

using Lanes = std::array<std::vector<Work>, kLanes>;

// The work of each rank in one step, each lane by start. An instruction that is known as a whole
// alone is left out.
std::map<int, Lanes> WorkByRank(const Timeline& timeline, int step) {
  std::map<int, Lanes> work_of;
  std::map<int, std::unordered_map<OpId, std::size_t>> places_of;
  for (const Span& span : timeline.spans) {
    const auto lane = LaneOf(span);
    if (span.step != step || !lane || !IsValidId(span.op)) continue;
    if (OpNumber(span.op) == kWholeInstruction) continue;
    auto& works = work_of[span.rank][static_cast<std::size_t>(*lane)];
    const auto [at, is_new] =
        places_of[span.rank * kLanes + *lane].try_emplace(span.op, works.size());
    if (is_new) {
      works.push_back({.op = span.op, .start_ns = span.start_ns, .op_class = span.op_class});
    }
    Work& work = works[at->second];
    work.start_ns = std::min(work.start_ns, span.start_ns);
    work.busy_ns += span.end_ns - span.start_ns;
    work.bytes += span.bytes;
  }
  for (auto& [rank, lanes] : work_of) {
    for (auto& works : lanes) {
      std::stable_sort(works.begin(), works.end(),
                       [](const Work& a, const Work& b) { return a.start_ns < b.start_ns; });
    }
  }
  return work_of;
}

// Topics of names, each name looked at once.
class TopicCache {
 public:
  TopicCache(const Timeline& timeline, std::uint64_t (*topics)(std::string_view))
      : timeline_(timeline), topics_(topics) {}

  std::uint64_t Of(OpId op) {
    const OpId key = NameKey(op);
    const auto [at, is_new] = known_.try_emplace(key, 0);
    const auto name = timeline_.op_names.find(key);
    if (is_new && name != timeline_.op_names.end()) at->second = topics_(name->second);
    return at->second;
  }

 private:
  const Timeline& timeline_;
  std::uint64_t (*topics_)(std::string_view);
  std::unordered_map<OpId, std::uint64_t> known_;
};

// A number for each name and pass: ops of one kind should take equally long.
class KindCache {
 public:
  explicit KindCache(const Timeline& timeline) : timeline_(timeline) {}

  int Of(OpId op) {
    const auto name = timeline_.op_names.find(NameKey(op));
    const std::pair key(UnpackId(op).pass,
                        name == timeline_.op_names.end() ? std::string() : name->second);
    return known_.try_emplace(key, static_cast<int>(known_.size())).first->second;
  }

  // A number for the last part of the name and the pass: "attention.residual" and "mlp.residual"
  // have one. -1: the op has no name.
  int WordOf(OpId op) {
    const auto name = timeline_.op_names.find(NameKey(op));
    if (name == timeline_.op_names.end()) return -1;
    const std::pair key(UnpackId(op).pass, name->second.substr(name->second.rfind('.') + 1));
    return words_.try_emplace(key, static_cast<int>(words_.size())).first->second;
  }

 private:
  const Timeline& timeline_;
  std::map<std::pair<Pass, std::string>, int> known_, words_;
};

// Communication waits for peers, so that bytes, where they are known, tell more than its length.
std::vector<AlignedItem> ItemsOf(const std::vector<Work>& works, TopicCache& topics,
                                 KindCache& kinds) {
  std::vector<AlignedItem> items;
  for (const Work& work : works) {
    const InstructionKey key = UnpackId(work.op);
    AlignedItem item{.op_class = work.op_class, .pass = key.pass};
    if (IsCompute(work.op_class)) {
      const std::uint64_t named = topics.Of(work.op);
      item.topics = named & ~(kFollows | kSaysBackward);
      item.says_backward = (named & kSaysBackward) != 0;
      item.follows = (named & kFollows) != 0;
    } else {
      item.transfer = key.kind;
    }
    if (IsBlockKnown(key) && key.kind == InstructionKind::kBlock) item.block = key.block;
    if (IsMicroBatchKnown(key)) item.micro_batch = key.micro_batch;
    item.length = static_cast<double>(IsCompute(work.op_class) ? work.busy_ns : work.bytes);
    item.kind = kinds.Of(work.op);
    item.word = kinds.WordOf(work.op);
    items.push_back(item);
  }
  return items;
}

// A trace may count the layers of a pipeline stage from 0. Then they are numbered as the
// forecast's.
void NumberLayersAlike(const std::vector<AlignedItem>& ops, std::vector<AlignedItem>& kernels) {
  const auto first_layer = [](const std::vector<AlignedItem>& items) {
    int first = kUnknownBlock;
    for (const AlignedItem& item : items) {
      if (item.block > 0) first = std::min(first, item.block);
    }
    return first;
  };
  const int shift = first_layer(ops) - first_layer(kernels);
  for (AlignedItem& kernel : kernels) {
    if (kernel.block > 0) kernel.block += shift;
  }
}

// Adds the traced time of each op of compute, to see how steady ops of one name are.
using TimesByName = std::map<std::pair<Pass, std::string>, std::map<OpId, std::int64_t>>;

void AddSteadiness(const TimesByName& times, StructuralPairs& pairs) {
  for (const auto& [name, ops] : times) {
    if (ops.size() < 2) continue;
    std::vector<std::int64_t> lengths;
    for (const auto& [op, ns] : ops) lengths.push_back(ns);
    std::sort(lengths.begin(), lengths.end());
    const auto median = static_cast<double>(lengths[lengths.size() / 2]);
    for (const std::int64_t ns : lengths) {
      pairs.repeated_ns += ns;
      if (std::abs(static_cast<double>(ns) - median) <= kSteady * median) pairs.steady_ns += ns;
    }
  }
}

// Pairs one rank. Returns the new id of each paired call.
std::unordered_map<OpId, OpId> PairRank(const Lanes& ops, const Lanes& kernels,
                                        const Timeline& forecast, TopicCache& op_topics,
                                        TopicCache& kernel_topics, StructuralPairs& pairs) {
  KindCache kinds(forecast);
  std::unordered_map<OpId, OpId> renamed;
  TimesByName times;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::vector<AlignedItem> op_items = ItemsOf(ops[lane], op_topics, kinds);
    std::vector<AlignedItem> kernel_items = ItemsOf(kernels[lane], kernel_topics, kinds);
    NumberLayersAlike(op_items, kernel_items);
    const std::vector<int> aligned = AlignItems(op_items, kernel_items);
    std::set<int> paired;
    for (std::size_t k = 0; k < aligned.size(); ++k) {
      const Work& kernel = kernels[lane][k];
      ++pairs.kernels;
      pairs.traced_ns += kernel.busy_ns;
      if (aligned[k] == kUnpaired) continue;
      const Work& op = ops[lane][static_cast<std::size_t>(aligned[k])];
      paired.insert(aligned[k]);
      ++pairs.paired_kernels;
      pairs.paired_ns += kernel.busy_ns;
      renamed[kernel.op] = op.op;
      const auto name = forecast.op_names.find(NameKey(op.op));
      if (!IsCompute(op.op_class) || name == forecast.op_names.end()) continue;
      times[{UnpackId(op.op).pass, name->second}][op.op] += kernel.busy_ns;
    }
    pairs.ops += std::ssize(ops[lane]);
    pairs.paired_ops += std::ssize(paired);
  }
  AddSteadiness(times, pairs);
  return renamed;
}

double Share(std::int64_t part, std::int64_t of) {
  return of > 0 ? static_cast<double>(part) / static_cast<double>(of) : 0;
}

}  // namespace

double StructuralPairs::PairedShare() const { return Share(paired_ns, traced_ns); }

double StructuralPairs::SteadyShare() const { return Share(steady_ns, repeated_ns); }

StructuralPairs& StructuralPairs::operator+=(const StructuralPairs& other) {
  kernels += other.kernels;
  paired_kernels += other.paired_kernels;
  ops += other.ops;
  paired_ops += other.paired_ops;
  traced_ns += other.traced_ns;
  paired_ns += other.paired_ns;
  repeated_ns += other.repeated_ns;
  steady_ns += other.steady_ns;
  return *this;
}

StructuralPairs PairByStructure(const Timeline& forecast, int forecast_step, Timeline& trace,
                                int step) {
  StructuralPairs pairs;
  TopicCache op_topics(forecast, TopicsOfOp), kernel_topics(trace, TopicsOfKernel);
  std::map<int, Lanes> ops = WorkByRank(forecast, forecast_step);
  std::map<int, std::unordered_map<OpId, OpId>> renamed;
  for (const auto& [rank, kernels] : WorkByRank(trace, step)) {
    renamed[rank] = PairRank(ops[rank], kernels, forecast, op_topics, kernel_topics, pairs);
  }
  for (Span& span : trace.spans) {
    if (span.step != step) continue;
    const auto& of_rank = renamed[span.rank];
    const auto op = of_rank.find(span.op);
    if (op == of_rank.end()) continue;
    span.op = op->second;
    const auto name = forecast.op_names.find(NameKey(op->second));
    if (name != forecast.op_names.end()) trace.op_names.insert_or_assign(name->first, name->second);
  }
  return pairs;
}

}  // namespace foretrain
