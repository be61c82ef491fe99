#include "runtime/parameters/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/checked.h"
#include "runtime/parameters/model_tensors.h"
#include "sim/program/blocks/parameters.h"

namespace foretrain {
namespace {

constexpr std::string_view kWeight = "weight", kA = "lora_A.weight", kB = "lora_B.weight";

std::string WithEnd(std::string name, std::string_view from, std::string_view to) {
  FT_CHECK(name.ends_with(from));
  name.resize(name.size() - from.size());
  return name.append(to);
}

// All numbers of a tensor.
Result<std::vector<float>> ReadTensor(const TensorSource& source, const ParameterPlace& place) {
  std::vector<float> numbers(static_cast<std::size_t>(place.rows * place.cols));
  for (std::int64_t row = 0; row < place.rows; ++row) {
    FT_TRY(source(place, row, 0,
                  std::span(numbers).subspan(static_cast<std::size_t>(row * place.cols),
                                             static_cast<std::size_t>(place.cols))));
  }
  return numbers;
}

// Adds scale * B A to the part of a weight's row from `col` on.
void AddLowRank(const LowRank& change, std::int64_t cols, std::int64_t row, std::int64_t col,
                std::span<float> out) {
  const float* const b = change.b.data() + row * change.rank;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float* const a = change.a.data() + col + static_cast<std::int64_t>(i);
    double sum = 0;
    for (std::int64_t r = 0; r < change.rank; ++r) sum += double{b[r]} * a[r * cols];
    out[i] = static_cast<float>(out[i] + change.scale * sum);
  }
}

// Remembers the result for the last name. Shared by the copies of a source.
template <class T>
class LastOf {
 public:
  // The value for `name`, made by `make` unless it is the last one.
  template <class Make>
  Result<std::shared_ptr<const T>> Get(const std::string& name, const Make& make) {
    const std::lock_guard lock(mutex_);
    if (value_ == nullptr || name != name_) {
      FT_ASSIGN(T made, make());
      value_ = std::make_shared<const T>(std::move(made));
      name_ = name;
    }
    return value_;
  }

 private:
  std::mutex mutex_;
  std::string name_;                // guarded by mutex_
  std::shared_ptr<const T> value_;  // guarded by mutex_
};

// The factors of weights that share one A, by the name of A or B.
using Factors = std::map<std::string, std::vector<float>>;

// Lays the adapters of `weights` out in one A of the plan's rank. Equal factors are stored once.
Result<Factors> JoinFactors(const AdapterOf& adapters, const std::vector<ParameterPlace>& weights,
                            const ParameterPlace& a_place, const TensorSource& fresh,
                            const Plan& plan) {
  const std::int64_t rank = a_place.rows, cols = a_place.cols;
  Factors factors;
  FT_ASSIGN(std::vector<float> joined, ReadTensor(fresh, a_place));
  std::vector<std::pair<std::vector<float>, std::int64_t>> stored;  // an A and its first row
  std::int64_t needed = 0;
  for (const ParameterPlace& weight : weights) {
    std::vector<float>& b = factors[WithEnd(weight.name, kWeight, kB)];
    b.assign(static_cast<std::size_t>(weight.rows * rank), 0.0F);
    FT_ASSIGN(const std::optional<LowRank> change, adapters(weight));
    if (!change) continue;
    const auto same = std::find_if(stored.begin(), stored.end(),
                                   [&](const auto& one) { return one.first == change->a; });
    const std::int64_t first = same != stored.end() ? same->second : needed;
    if (same == stored.end()) {
      stored.emplace_back(change->a, needed);
      needed += change->rank;
    }
    if (needed > rank) continue;
    std::copy(change->a.begin(), change->a.end(), joined.begin() + first * cols);
    const double factor = change->scale / double{LoraScale(plan)};
    for (std::int64_t row = 0; row < weight.rows; ++row) {
      for (std::int64_t r = 0; r < change->rank; ++r) {
        const auto from = static_cast<std::size_t>(row * change->rank + r);
        b[static_cast<std::size_t>(row * rank + first + r)] =
            static_cast<float>(factor * change->b[from]);
      }
    }
  }
  if (needed > rank) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("lora_rank {}: the files' adapters of {} need {} rows, those of weights "
                    "that share it one after the other; use lora_rank {}, or method full "
                    "to train them merged",
                    rank, a_place.name, needed, needed));
  }
  factors[a_place.name] = std::move(joined);
  return factors;
}

}  // namespace

// "attention.qkv" stands for q, k and v, and "mlp.gate_up" for gate and up.
std::vector<ParameterPlace> WeightsThatShare(const std::string& a,
                                             const std::vector<ParameterPlace>& tensors) {
  const std::string stem = WithEnd(a, kA, "");
  std::vector<std::string> names = {stem + "weight"};
  for (const auto& [joined, parts] :
       {std::pair<std::string_view, std::vector<std::string>>{"attention.qkv.", {"q", "k", "v"}},
        {"mlp.gate_up.", {"gate", "up"}}}) {
    if (!stem.ends_with(joined)) continue;
    names.clear();
    const std::string before = stem.substr(0, stem.size() - joined.size()) +
                               std::string(joined.substr(0, joined.find('.') + 1));
    for (const std::string& part : parts) names.push_back(before + part + ".weight");
  }
  std::vector<ParameterPlace> weights;
  for (const std::string& name : names) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const ParameterPlace& one) { return one.name == name; });
    if (found != tensors.end()) weights.push_back(*found);
  }
  return weights;
}

AdapterOf AdaptersIn(const ModelSpec& model, const TensorSource& source, const Plan& plan) {
  struct Pair {
    ParameterPlace a, b;
  };
  std::map<std::string, Pair> pairs;  // by the weight
  const std::vector<ParameterPlace> tensors = TensorsOf(model, plan);
  std::map<std::string, ParameterPlace> by_name;
  for (const ParameterPlace& place : tensors) by_name[place.name] = place;
  for (const ParameterPlace& place : tensors) {
    if (!place.name.ends_with(kA)) continue;
    for (const ParameterPlace& weight : WeightsThatShare(place.name, tensors)) {
      pairs[weight.name] = {place, by_name.at(WithEnd(weight.name, kWeight, kB))};
    }
  }
  return [pairs = std::move(pairs), source, scale = double{LoraScale(plan)}](
             const ParameterPlace& weight) -> Result<std::optional<LowRank>> {
    const auto found = pairs.find(weight.name);
    if (found == pairs.end()) return std::optional<LowRank>();
    LowRank change;
    change.rank = found->second.a.rows;
    change.scale = scale;
    FT_ASSIGN(change.a, ReadTensor(source, found->second.a));
    FT_ASSIGN(change.b, ReadTensor(source, found->second.b));
    return std::optional(std::move(change));
  };
}

TensorSource MergedWeights(const TensorSource& base, const AdapterOf& adapters) {
  const auto last = std::make_shared<LastOf<std::optional<LowRank>>>();
  return [base, adapters, last](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                                std::span<float> out) -> Result<void> {
    FT_TRY(base(place, row, col, out));
    if (IsAdapter(place.name)) return {};
    FT_ASSIGN(const auto change, last->Get(place.name, [&] { return adapters(place); }));
    if (change->has_value()) AddLowRank(**change, place.cols, row, col, out);
    return {};
  };
}

Result<TensorSource> WeightsWithAdapters(const TensorSource& base, const AdapterOf& adapters,
                                         const ModelSpec& model, const Plan& plan,
                                         std::uint64_t seed) {
  struct Group {
    ParameterPlace a;
    std::vector<ParameterPlace> weights;
  };
  const auto groups = std::make_shared<std::map<std::string, Group>>();  // by the names of A and B
  const std::vector<ParameterPlace> tensors = TensorsOf(model, plan);
  const TensorSource fresh = InitialWeights(model, seed);
  for (const ParameterPlace& place : tensors) {
    if (!place.name.ends_with(kA)) continue;
    Group group{place, WeightsThatShare(place.name, tensors)};
    FT_TRY(JoinFactors(adapters, group.weights, place, fresh, plan));
    for (const ParameterPlace& weight : group.weights) {
      (*groups)[WithEnd(weight.name, kWeight, kB)] = group;
    }
    (*groups)[place.name] = std::move(group);
  }
  const auto last = std::make_shared<LastOf<Factors>>();
  return TensorSource([=](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                          std::span<float> out) -> Result<void> {
    if (!IsAdapter(place.name)) return base(place, row, col, out);
    const Group& group = groups->at(place.name);
    FT_ASSIGN(const auto factors, last->Get(group.a.name, [&] {
      return JoinFactors(adapters, group.weights, group.a, fresh, plan);
    }));
    const std::vector<float>& numbers = factors->at(place.name);
    std::copy_n(numbers.begin() + row * place.cols + col, out.size(), out.begin());
    return {};
  });
}

}  // namespace foretrain
