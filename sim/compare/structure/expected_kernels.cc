#include "sim/compare/structure/expected_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace foretrain {
namespace {

// Share of a kind's own ratio in what is expected of it; the rest is its class's.
constexpr double kOwnShare = 0.75;

using Items = std::span<const AlignedItem>;

// A first guess of traced length per forecast length, by class: the geometric mean of the ratios of
// the class and of all. The class alone would count kernels of attention that are bound by memory.
// `heavy`: of products and attention alone.
std::array<double, kOpClassCount> FirstScales(Items ops, Items kernels, bool heavy) {
  std::array<double, kOpClassCount> forecast{}, traced{};
  const auto sum = [heavy](Items items, std::array<double, kOpClassCount>& of) {
    double all = 0;
    for (const AlignedItem& item : items) {
      if (heavy && !IsHeavy(item)) continue;
      of[static_cast<std::size_t>(item.op_class)] += item.length;
      all += item.length;
    }
    return all;
  };
  const double all_forecast = sum(ops, forecast), all_traced = sum(kernels, traced);
  const double overall = all_forecast > 0 ? all_traced / all_forecast : 0;
  std::array<double, kOpClassCount> scales{};
  for (std::size_t c = 0; c < scales.size(); ++c) {
    const bool both = forecast[c] > 0 && traced[c] > 0;
    scales[c] = both ? std::sqrt(overall * traced[c] / forecast[c]) : overall;
  }
  return scales;
}

// `if_empty` if there are none.
double Median(std::vector<double>& values, double if_empty) {
  if (values.empty()) return if_empty;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

// At first the scales are those of the classes. Later that of a kind is a weighted geometric mean
// of the medians over its ops and over its class, so that one wrong alignment does not hold itself
// up. `pairs` is empty at first.
ExpectedByKind ExpectedOf(Items ops, Items kernels, const std::vector<int>& pairs, bool heavy) {
  struct Traced {
    double length = 0, kernels = 0;
  };
  std::vector<Traced> traced(ops.size());
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    if (pairs[k] == kUnpaired || (heavy && !IsHeavy(kernels[k]))) continue;
    Traced& of_op = traced[static_cast<std::size_t>(pairs[k])];
    of_op.length += kernels[k].length;
    ++of_op.kernels;
  }
  int names = 0;
  for (const AlignedItem& kernel : kernels) names = std::max(names, kernel.name + 1);
  struct Seen {
    OpClass op_class = OpClass::kGemm;
    int word = -1;
    double ops = 0;
    std::vector<float> names{};
    std::vector<int> last_op{};  // that has each name
    std::vector<double> ratios, numbers;
  };
  std::vector<Seen> kinds;
  std::array<std::vector<double>, kOpClassCount> ratios;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto kind = static_cast<std::size_t>(ops[i].kind);
    if (kinds.size() <= kind) kinds.resize(kind + 1);
    kinds[kind].op_class = ops[i].op_class;
    kinds[kind].word = ops[i].word;
    ++kinds[kind].ops;
    if (traced[i].kernels == 0) continue;
    kinds[kind].numbers.push_back(traced[i].kernels);
    if (ops[i].length <= 0 || traced[i].length <= 0) continue;
    kinds[kind].ratios.push_back(traced[i].length / ops[i].length);
    ratios[static_cast<std::size_t>(ops[i].op_class)].push_back(kinds[kind].ratios.back());
  }
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    if (pairs[k] == kUnpaired || kernels[k].name < 0) continue;
    Seen& seen = kinds[static_cast<std::size_t>(ops[static_cast<std::size_t>(pairs[k])].kind)];
    seen.names.resize(static_cast<std::size_t>(names));
    seen.last_op.resize(static_cast<std::size_t>(names), -1);
    const auto name = static_cast<std::size_t>(kernels[k].name);
    if (seen.last_op[name] == pairs[k]) continue;
    seen.last_op[name] = pairs[k];
    ++seen.names[name];
  }
  const auto first = FirstScales(ops, kernels, heavy);
  ExpectedByKind expected(kinds.size());
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    Seen& seen = kinds[kind];
    expected[kind].kernels = Median(seen.numbers, 0);
    const auto paired_ops = static_cast<float>(seen.numbers.size());
    for (float& share : seen.names) share /= std::max(paired_ops, 1.F);
    expected[kind].names = std::move(seen.names);
    const auto c = static_cast<std::size_t>(seen.op_class);
    const double of_class = Median(ratios[c], first[c]);
    expected[kind].scale = of_class * std::pow(Median(seen.ratios, of_class) / of_class, kOwnShare);
    if (pairs.empty() || seen.word < 0) continue;
    double siblings = 0, paired = 0;
    for (const Seen& other : kinds) {
      if (&other == &seen || other.word != seen.word || other.op_class != seen.op_class) continue;
      siblings += other.ops;
      paired += static_cast<double>(other.numbers.size());
    }
    if (siblings > 0) expected[kind].siblings_paired = paired / siblings;
  }
  return expected;
}

}  // namespace foretrain
