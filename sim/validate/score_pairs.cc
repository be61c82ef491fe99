#include "sim/validate/score_pairs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "base/parallel.h"
#include "sim/search/evaluate/evaluator.h"
#include "sim/validate/learn_runs.h"

namespace foretrain {
namespace {

constexpr std::array kBinEdges = {0.5, 0.6, 0.7, 0.8, 0.85, 0.95, 1.0};
constexpr std::size_t kSmallestSweep = 3;

PairScore EmptyScore(const std::string& family) {
  PairScore score{family, 0, {}};
  for (std::size_t i = 0; i + 1 < kBinEdges.size(); ++i) {
    score.bins.push_back({kBinEdges[i], kBinEdges[i + 1], 0, 0, 0});
  }
  return score;
}

// Sums; Finish turns them into means.
void Add(double probability, bool ordered, PairScore& score) {
  for (PairBin& bin : score.bins) {
    const bool last = &bin == &score.bins.back();
    if (probability < bin.low || (probability >= bin.high && !last)) continue;
    ++score.pairs;
    ++bin.pairs;
    bin.forecast += probability;
    bin.ordered += ordered ? 1 : 0;
    return;
  }
}

void Finish(PairScore& score) {
  for (PairBin& bin : score.bins) {
    if (bin.pairs == 0) continue;
    bin.forecast /= bin.pairs;
    bin.ordered /= bin.pairs;
  }
}

using SweepKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string, int,
                            std::int64_t, std::int64_t>;

}  // namespace

std::vector<std::optional<UncertainStep>> UncertainSteps(std::span<const PublishedRun> runs,
                                                         const CaseSources& sources, int threads,
                                                         const std::function<bool()>& cancelled) {
  std::vector<std::optional<UncertainStep>> out(runs.size());
  ForEachInParallel(runs.size(), threads, [&](std::size_t row) {
    if (cancelled && cancelled()) return;
    const std::optional<MeasuredStep> of = MeasuredStepOf(runs[row], sources);
    if (!of.has_value()) return;
    const auto costs = CostModel::Make(of->cluster, of->profile);
    if (!costs.has_value()) return;
    Evaluator evaluator(of->model, *costs, AllPlanFields());
    out[row] = {evaluator.Evaluate(of->plan).step_s,
                DerivativesOf(of->model, *costs, std::span(&of->plan, 1)).front(), kPlanError};
  });
  return out;
}

std::vector<PairScore> ScorePairs(std::span<const PublishedRun> runs,
                                  std::span<const std::optional<UncertainStep>> steps,
                                  const std::vector<double>& covariance) {
  std::map<std::pair<std::string, SweepKey>, std::vector<std::size_t>> sweeps;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const PublishedRun& run = runs[row];
    if (!steps[row].has_value() || run.global_batch == 0) continue;
    const SweepKey key{run.layers, run.hidden,       run.heads,   run.gpu,
                       run.gpus,   run.global_batch, run.sequence};
    sweeps[{run.family, key}].push_back(row);
  }
  std::map<std::string, PairScore> families;
  PairScore all = EmptyScore("");
  for (const auto& [key, rows] : sweeps) {
    if (rows.size() < kSmallestSweep) continue;
    PairScore& family = families.try_emplace(key.first, EmptyScore(key.first)).first->second;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = i + 1; j < rows.size(); ++j) {
        std::size_t first = rows[i], second = rows[j];
        if (runs[first].step_s == runs[second].step_s) continue;
        if (steps[first]->step_s > steps[second]->step_s) std::swap(first, second);
        const double probability = FirstIsFaster(*steps[first], *steps[second], covariance);
        const bool ordered = runs[first].step_s < runs[second].step_s;
        Add(probability, ordered, family);
        Add(probability, ordered, all);
      }
    }
  }
  std::vector<PairScore> out;
  for (auto& [name, score] : families) out.push_back(std::move(score));
  out.push_back(std::move(all));
  for (PairScore& score : out) Finish(score);
  return out;
}

}  // namespace foretrain
