#include "sim/compare/join.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/units.h"
#include "sim/compare/pairing.h"

namespace foretrain {
namespace {

// Length of each step: the longest window of any rank, in ns.
std::map<int, std::int64_t> StepLengths(const Timeline& timeline) {
  std::map<int, std::int64_t> longest;
  for (const StepWindow& window : timeline.steps) {
    auto& length = longest[window.step];
    length = std::max(length, window.end_ns - window.start_ns);
  }
  return longest;
}

// Op totals of a step without spans of whole instructions, which have no op class.
std::vector<OpTotal> OpsOfStep(const Timeline& timeline, int step) {
  std::vector<OpTotal> totals = OpTotalsOfStep(timeline, step);
  std::erase_if(totals,
                [](const OpTotal& total) { return OpNumber(total.op) == kWholeInstruction; });
  return totals;
}

double StepSeconds(const Timeline& timeline, int step) {
  const auto lengths = StepLengths(timeline);
  const auto found = lengths.find(step);
  return found == lengths.end() ? 0.0 : SecondsFromNs(found->second);
}

// Sums the pairs by class, and the error over compute ops. Waiting for peers distorts times of
// communication ops, so these are not in the error.
void AddClasses(RunJoin& join) {
  std::array<ClassPair, kOpClassCount> classes{};
  double error = 0, weight = 0;
  for (const OpPair& pair : join.pairs) {
    ClassPair& sum = classes[static_cast<std::size_t>(pair.op_class)];
    sum.op_class = pair.op_class;
    ++sum.ops;
    sum.predicted_s += SecondsFromNs(pair.predicted_ns);
    sum.measured_s += SecondsFromNs(pair.measured_ns);
    if (!IsCompute(pair.op_class)) continue;
    error += SecondsFromNs(std::abs(pair.measured_ns - pair.predicted_ns));
    weight += SecondsFromNs(pair.predicted_ns);
  }
  for (const ClassPair& sum : classes) {
    if (sum.ops > 0) join.classes.push_back(sum);
  }
  if (weight > 0) join.op_error = error / weight;
}

}  // namespace

// A step that really ran, unlike a mean over steps: its spans can be shown. For an even count it is
// the shorter of the middle two.
std::optional<int> MedianStep(const Timeline& timeline, int first) {
  std::vector<std::pair<std::int64_t, int>> lengths;
  for (const auto& [step, length] : StepLengths(timeline)) {
    if (step >= first) lengths.emplace_back(length, step);
  }
  if (lengths.empty()) return std::nullopt;
  std::sort(lengths.begin(), lengths.end());
  return lengths[(lengths.size() - 1) / 2].second;
}

// Ops without a counterpart are counted but do not enter the sums, so both sums cover the same ops.
RunJoin JoinRuns(const Timeline& predicted, int predicted_step, const Timeline& measured,
                 int measured_step) {
  RunJoin join;
  join.predicted_step = predicted_step;
  join.measured_step = measured_step;
  join.predicted_step_s = StepSeconds(predicted, predicted_step);
  join.measured_step_s = StepSeconds(measured, measured_step);
  const std::vector<OpTotal> of_predicted = OpsOfStep(predicted, predicted_step);
  const std::vector<OpTotal> of_measured = OpsOfStep(measured, measured_step);
  for (const PairedOp& pair : PairOps(of_predicted, of_measured, {})) {
    if (!pair.IsPair()) {
      const bool predicted_alone = pair.predicted.has_value();
      (predicted_alone ? join.only_predicted : join.only_measured)
          .push_back({pair.op, (predicted_alone ? pair.predicted : pair.measured)->busy_ns});
      continue;
    }
    const OpTotal& p = *pair.predicted;
    const OpTotal& m = *pair.measured;
    join.pairs.push_back({p.op, p.busy_ns, m.busy_ns, m.bytes, p.rank, p.queue, p.op_class});
  }
  AddClasses(join);
  return join;
}

// Sums each side alone: ops of different programs have no common ids.
std::vector<ClassPair> ClassesOfAll(const Timeline& predicted, int predicted_step,
                                    const Timeline& measured, int measured_step) {
  std::array<ClassPair, kOpClassCount> sums{};
  std::array<bool, kOpClassCount> found{};
  const auto at = [&](const OpTotal& total) -> ClassPair& {
    const auto place = static_cast<std::size_t>(total.op_class);
    found[place] = true;
    sums[place].op_class = total.op_class;
    return sums[place];
  };
  for (const OpTotal& total : OpsOfStep(predicted, predicted_step)) {
    at(total).predicted_s += SecondsFromNs(total.busy_ns);
  }
  for (const OpTotal& total : OpsOfStep(measured, measured_step)) {
    ClassPair& sum = at(total);
    ++sum.ops;
    sum.measured_s += SecondsFromNs(total.busy_ns);
  }
  std::vector<ClassPair> classes;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (found[i]) classes.push_back(sums[i]);
  }
  return classes;
}

}  // namespace foretrain
