#include "sim/validate/learn_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "sim/cost/profile/derive_profile.h"

namespace foretrain {
namespace {

// |ln(forecast / measured)| of the rows that have a forecast.
std::vector<double> ErrorsOf(const std::vector<std::size_t>& rows,
                             const std::vector<RunPrediction>& forecasts,
                             std::span<const PublishedRun> runs) {
  std::vector<double> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!forecasts[i].refused.empty()) continue;
    out.push_back(std::abs(std::log(forecasts[i].step_s / runs[rows[i]].step_s)));
  }
  return out;
}

void Append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

std::optional<MeasuredStep> MeasuredStepOf(const PublishedRun& run, const CaseSources& sources) {
  if (run.step_s <= 0) return std::nullopt;
  const Result<RunCase> of = CaseOf(run, sources);
  if (!of.has_value() || of->plans.size() != 1) return std::nullopt;
  return MeasuredStep{of->model, of->cluster, DeriveProfile(of->cluster, of->system),
                      of->plans.front(), run.step_s};
}

Result<Learned> LearnFromRuns(std::span<const PublishedRun> runs, const CaseSources& sources,
                              int threads, const std::function<bool()>& cancelled) {
  std::vector<MeasuredStep> steps;
  for (const PublishedRun& run : runs) {
    if (auto step = MeasuredStepOf(run, sources)) steps.push_back(std::move(*step));
  }
  return LearnFrom(steps, threads, cancelled);
}

std::vector<RunGroup> RunGroupsOf(std::span<const PublishedRun> runs, const CaseSources& sources,
                                  std::size_t learned) {
  using Key = std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::string, int>;
  std::vector<std::pair<Key, std::vector<std::size_t>>> found;
  std::map<Key, std::size_t> place;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const PublishedRun& run = runs[row];
    if (!MeasuredStepOf(run, sources).has_value()) continue;
    const Key key{run.family, run.model, run.layers, run.hidden, run.gpu, run.gpus};
    const auto [at, is_new] = place.try_emplace(key, found.size());
    if (is_new) found.push_back({key, {}});
    found[at->second].second.push_back(row);
  }
  std::vector<RunGroup> out;
  for (auto& [key, rows] : found) {
    if (rows.size() < kSmallestRunGroup || rows.size() <= learned) continue;
    const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(learned);
    out.push_back({std::get<0>(key),
                   std::get<1>(key),
                   std::get<5>(key),
                   {rows.begin(), middle},
                   {middle, rows.end()}});
  }
  return out;
}

Result<GroupForecasts> LearnGroup(const RunGroup& group, std::span<const PublishedRun> runs,
                                  const CaseSources& sources) {
  std::vector<PublishedRun> measured;
  for (const std::size_t row : group.learned) measured.push_back(runs[row]);
  FT_ASSIGN(const Learned learned, LearnFromRuns(measured, sources, 1));
  GroupForecasts out;
  for (const std::size_t row : group.scored) {
    out.before.push_back(PredictRun(runs[row], sources));
    out.after.push_back(PredictRun(runs[row], sources, &learned));
  }
  return out;
}

std::vector<LearnedScore> ScoreLearned(std::span<const RunGroup> groups,
                                       std::span<const GroupForecasts> forecasts,
                                       std::span<const PublishedRun> runs) {
  std::vector<LearnedScore> out;
  std::vector<std::vector<double>> before, after;  // by family
  std::vector<double> medians_before, medians_after;
  LearnedScore all;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<double> errors = ErrorsOf(groups[g].scored, forecasts[g].after, runs);
    if (errors.empty()) continue;
    auto family = std::find_if(out.begin(), out.end(), [&](const LearnedScore& score) {
      return score.family == groups[g].family;
    });
    if (family == out.end()) {
      family = out.insert(out.end(), LearnedScore{groups[g].family, 0, 0, 0, 0});
      before.emplace_back();
      after.emplace_back();
    }
    const auto number = static_cast<std::size_t>(family - out.begin());
    const std::vector<double> earlier = ErrorsOf(groups[g].scored, forecasts[g].before, runs);
    Append(before[number], earlier);
    Append(after[number], errors);
    medians_before.push_back(Median(earlier));
    medians_after.push_back(Median(errors));
    ++family->groups;
    family->rows += static_cast<int>(errors.size());
    ++all.groups;
    all.rows += static_cast<int>(errors.size());
  }
  if (out.empty()) return out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].before = Median(before[i]);
    out[i].after = Median(after[i]);
  }
  all.before = Median(medians_before);
  all.after = Median(medians_after);
  out.push_back(all);
  return out;
}

}  // namespace foretrain
