#include "sim/compare/structure/pair_by_structure.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/compare/structure/align.h"
#include "sim/compare/structure/rank_items.h"
#include "traces/unknown_coordinates.h"

namespace foretrain {
namespace {

constexpr double kSteady = 0.25;

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
                                        const Timeline& forecast, NameCache& op_names,
                                        NameCache& kernel_names, StructuralPairs& pairs) {
  std::unordered_map<OpId, OpId> renamed;
  TimesByName times;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::vector<AlignedItem> op_items = ItemsOf(ops[lane], op_names);
    TracedItems traced = TracedItemsOf(kernels[lane], kernel_names);
    NumberLayersAlike(op_items, traced.items);
    const std::vector<int> op_of_item = AlignItems(op_items, traced.items);
    std::set<int> paired;
    for (std::size_t k = 0; k < kernels[lane].size(); ++k) {
      const int aligned = op_of_item[traced.item_of[k]];
      const Work& kernel = kernels[lane][k];
      ++pairs.kernels;
      pairs.traced_ns += kernel.busy_ns;
      if (aligned == kUnpaired) continue;
      const Work& op = ops[lane][static_cast<std::size_t>(aligned)];
      paired.insert(aligned);
      ++pairs.paired_kernels;
      pairs.paired_ns += kernel.busy_ns;
      renamed[kernel.op] = op.op;
      const auto name = forecast.op_names.find(NameKey(op.op));
      if (!IsCompute(op.op_class) || name == forecast.op_names.end()) continue;
      times[{UnpackId(op.op).pass, name->second}][op.op] += kernel.busy_ns;
    }
    for (std::size_t i = 0; lane == 0 && i < ops[lane].size(); ++i) {
      pairs.forecast_ns += ops[lane][i].busy_ns;
      if (paired.contains(static_cast<int>(i))) pairs.forecast_paired_ns += ops[lane][i].busy_ns;
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

double StructuralPairs::ForecastShare() const { return Share(forecast_paired_ns, forecast_ns); }

double StructuralPairs::SteadyShare() const { return Share(steady_ns, repeated_ns); }

StructuralPairs& StructuralPairs::operator+=(const StructuralPairs& other) {
  kernels += other.kernels;
  paired_kernels += other.paired_kernels;
  ops += other.ops;
  paired_ops += other.paired_ops;
  traced_ns += other.traced_ns;
  paired_ns += other.paired_ns;
  forecast_ns += other.forecast_ns;
  forecast_paired_ns += other.forecast_paired_ns;
  repeated_ns += other.repeated_ns;
  steady_ns += other.steady_ns;
  return *this;
}

StructuralPairs PairByStructure(const Timeline& forecast, int forecast_step, Timeline& trace,
                                int step) {
  StructuralPairs pairs;
  NameCache op_names(forecast, FactsOfOp), kernel_names(trace, FactsOfKernel);
  std::map<int, Lanes> ops = WorkByRank(forecast, forecast_step);
  std::map<int, std::unordered_map<OpId, OpId>> renamed;
  for (const auto& [rank, kernels] : WorkByRank(trace, step)) {
    renamed[rank] = PairRank(ops[rank], kernels, forecast, op_names, kernel_names, pairs);
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
