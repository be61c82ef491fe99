#include "sim/validate/score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace foretrain {
namespace {

constexpr std::size_t kSmallestGroup = 3;  // runs; with fewer a choice says little
constexpr std::size_t kChosen = 3;         // plans that a user would try

using Rows = std::vector<std::size_t>;

// Runs and their forecasts, by row.
struct Pairing {
  std::span<const PublishedRun> runs;
  std::span<const RunPrediction> predictions;

  // Whether the row has a measured and a forecast time.
  bool Timed(std::size_t row) const {
    return runs[row].step_s > 0 && predictions[row].refused.empty();
  }
  double Ratio(std::size_t row) const { return predictions[row].step_s / runs[row].step_s; }
};

// Row numbers of each family, in the order of first appearance.
std::vector<std::pair<std::string, Rows>> ByFamily(std::span<const PublishedRun> runs) {
  std::vector<std::pair<std::string, Rows>> out;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const auto found = std::find_if(out.begin(), out.end(), [&](const auto& family) {
      return family.first == runs[row].family;
    });
    if (found == out.end()) {
      out.push_back({runs[row].family, {row}});
    } else {
      found->second.push_back(row);
    }
  }
  return out;
}

// Mean of at least one value.
double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Score of `values` by `figure`; no score without values.
template <class F>
Score ScoreOf(const std::vector<double>& values, F&& figure) {
  if (values.empty()) return {};
  return {figure(values), static_cast<int>(values.size())};
}

double Largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

// Relative errors weigh forecasts that are too long more than those too short; logarithms weigh
// both alike. So both are kept, and the median uses |ln|.
void ScoreTime(const Pairing& of, const Rows& rows, FamilyScore& out) {
  std::vector<double> held, relative, logs, absolute_logs;
  for (const std::size_t row : rows) {
    if (!of.Timed(row)) continue;
    relative.push_back(std::abs(of.Ratio(row) - 1));
    held.push_back(of.predictions[row].interval.Holds(of.runs[row].step_s) ? 1 : 0);
    logs.push_back(std::log(of.Ratio(row)));
    absolute_logs.push_back(std::abs(logs.back()));
  }
  out.time_mape = ScoreOf(relative, Mean);
  out.time_max = ScoreOf(relative, Largest);
  out.time_median_abs_log = ScoreOf(absolute_logs, Median);
  out.time_bias = ScoreOf(logs, Mean);
  out.interval_coverage = ScoreOf(held, Mean);
}

// Rows count if their source states a peak and they were forecast.
void ScoreMemory(const Pairing& of, const Rows& rows, FamilyScore& out) {
  std::vector<double> relative;
  for (const std::size_t row : rows) {
    if (of.runs[row].peak_gib <= 0 || !of.predictions[row].refused.empty()) continue;
    relative.push_back(std::abs(of.predictions[row].peak_gib / of.runs[row].peak_gib - 1));
  }
  out.memory_mape = ScoreOf(relative, Mean);
  out.memory_median = ScoreOf(relative, Median);
}

// Balanced accuracy: the shares of right answers among runs that ran and among runs that failed
// count equally, however few of one kind there are.
void ScoreFits(const Pairing& of, const Rows& rows, FamilyScore& out) {
  int ran = 0, ran_right = 0, failed = 0, failed_right = 0;
  for (const std::size_t row : rows) {
    if (!of.predictions[row].refused.empty()) continue;
    const bool fits = of.predictions[row].fits;
    if (of.runs[row].out_of_memory) {
      ++failed;
      failed_right += fits ? 0 : 1;
    } else if (of.runs[row].step_s > 0) {
      ++ran;
      ran_right += fits ? 1 : 0;
    }
  }
  double sum = 0;
  int kinds = 0;
  if (ran > 0) sum += static_cast<double>(ran_right) / ran, ++kinds;
  if (failed > 0) sum += static_cast<double>(failed_right) / failed, ++kinds;
  if (kinds > 0) out.fits_balanced_accuracy = {sum / kinds, ran + failed};
}

// Fields that are equal for all rows of a sweep.
using SweepKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                            std::int64_t, std::string, std::string, int>;
SweepKey SweepOf(const PublishedRun& run) {
  return {run.layers,   run.hidden, run.heads, run.ffn_hidden, run.vocab,
          run.sequence, run.dtype,  run.gpu,   run.gpus};
}

// Kendall's tau over pairs of rows in one sweep, in seconds per token. Pairs with equal
// measurements do not count.
void ScoreOrder(const Pairing& of, const Rows& rows, FamilyScore& out) {
  std::map<SweepKey, Rows> sweeps;
  for (const std::size_t row : rows) {
    const PublishedRun& run = of.runs[row];
    if (of.Timed(row) && run.global_batch > 0) sweeps[SweepOf(run)].push_back(row);
  }
  int pairs = 0, balance = 0;
  const auto sign = [](double value) { return (value > 0) - (value < 0); };
  for (const auto& [key, sweep] : sweeps) {
    for (std::size_t i = 0; i < sweep.size(); ++i) {
      for (std::size_t j = i + 1; j < sweep.size(); ++j) {
        const PublishedRun& a = of.runs[sweep[i]];
        const PublishedRun& b = of.runs[sweep[j]];
        const int measured = sign(a.step_s / a.TokensPerStep() - b.step_s / b.TokensPerStep());
        const int forecast = sign(of.predictions[sweep[i]].step_s / a.TokensPerStep() -
                                  of.predictions[sweep[j]].step_s / b.TokensPerStep());
        if (measured == 0) continue;
        ++pairs;
        balance += measured * forecast;
      }
    }
  }
  if (pairs > 0) out.kendall_tau = {static_cast<double>(balance) / pairs, pairs};
}

// All plan fields that a row states, as one key.
std::string PlanText(const PublishedRun& run) {
  std::string text = run.model + '|' + run.gpu + '|' + run.dtype + '|' + run.recompute + '|' +
                     run.offload + '|' + run.attention;
  for (const std::int64_t count :
       {run.layers, run.hidden, run.heads, run.kv_heads, run.ffn_hidden, run.vocab, run.sequence,
        run.experts, std::int64_t{run.gpus}, std::int64_t{run.dp}, std::int64_t{run.tp},
        std::int64_t{run.pp}, std::int64_t{run.cp}, std::int64_t{run.ep},
        std::int64_t{run.vpp.value_or(0)}, std::int64_t{run.zero_stage.value_or(-1)},
        std::int64_t{run.sequence_parallel}, run.micro_batch, run.global_batch}) {
    text += '|' + std::to_string(count);
  }
  return text;
}

}  // namespace

// The mean of the middle two for an even count.
double Median(std::vector<double> values) {
  FT_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<FamilyScore> ScoreFamilies(std::span<const PublishedRun> runs,
                                       std::span<const RunPrediction> predictions) {
  const Pairing of{runs, predictions};
  std::vector<FamilyScore> out;
  for (const auto& [family, rows] : ByFamily(runs)) {
    FamilyScore& score = out.emplace_back();
    score.family = family;
    score.rows = static_cast<int>(rows.size());
    for (const std::size_t row : rows) {
      if (!predictions[row].refused.empty()) {
        ++score.refused;
        continue;
      }
      ++score.predicted;
      if (!predictions[row].open.empty()) ++score.open;
    }
    score.barred = 2 * score.open <= score.predicted;
    ScoreTime(of, rows, score);
    ScoreOrder(of, rows, score);
    ScoreMemory(of, rows, score);
    ScoreFits(of, rows, score);
  }
  return out;
}

// Rows are grouped by model, devices, batch and sequence. The regret of a group is the measured
// time of the plan with the fastest forecast over that of the fastest plan, minus 1.
std::vector<PlanChoice> ScorePlanChoice(std::span<const PublishedRun> runs,
                                        std::span<const RunPrediction> predictions) {
  const Pairing of{runs, predictions};
  std::vector<PlanChoice> out;
  for (const auto& [family, rows] : ByFamily(runs)) {
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, int, std::int64_t, std::int64_t>,
             Rows>
        groups;
    for (const std::size_t row : rows) {
      const PublishedRun& run = runs[row];
      if (!of.Timed(row) || run.global_batch == 0) continue;
      groups[{run.layers, run.hidden, run.heads, run.gpus, run.global_batch, run.sequence}]
          .push_back(row);
    }
    PlanChoice choice;
    choice.family = family;
    double regrets = 0;
    for (const auto& [key, group] : groups) {
      if (group.size() < kSmallestGroup) continue;
      const auto chosen = *std::min_element(group.begin(), group.end(), [&](auto a, auto b) {
        return predictions[a].step_s < predictions[b].step_s;
      });
      const auto fastest = *std::min_element(group.begin(), group.end(), [&](auto a, auto b) {
        return runs[a].step_s < runs[b].step_s;
      });
      const double regret = runs[chosen].step_s / runs[fastest].step_s - 1;
      ++choice.groups;
      choice.hits += regret <= 0 ? 1 : 0;
      regrets += regret;
      choice.worst_regret = std::max(choice.worst_regret, regret);
    }
    if (choice.groups == 0) continue;
    choice.mean_regret = regrets / choice.groups;
    out.push_back(choice);
  }
  return out;
}

// Plans of a sweep are ordered by forecast seconds per token; the first ones said to fit are
// chosen.
std::vector<FittingChoice> ScoreFittingChoice(std::span<const PublishedRun> runs,
                                              std::span<const RunPrediction> predictions) {
  std::vector<FittingChoice> out;
  for (const auto& [family, rows] : ByFamily(runs)) {
    std::map<SweepKey, Rows> sweeps;
    for (const std::size_t row : rows) {
      const bool known = runs[row].step_s > 0 || runs[row].out_of_memory;
      if (known && runs[row].global_batch > 0 && predictions[row].refused.empty()) {
        sweeps[SweepOf(runs[row])].push_back(row);
      }
    }
    const auto failed = [&](std::size_t row) { return runs[row].out_of_memory; };
    const auto token_s = [&](std::size_t row) {
      return predictions[row].step_s / runs[row].TokensPerStep();
    };
    for (auto& [key, sweep] : sweeps) {
      const auto count = std::count_if(sweep.begin(), sweep.end(), failed);
      if (count == 0 || sweep.size() < kSmallestGroup) continue;
      FittingChoice choice{family,
                           runs[sweep.front()].model,
                           static_cast<int>(sweep.size()),
                           static_cast<int>(count),
                           {},
                           0};
      std::stable_sort(sweep.begin(), sweep.end(),
                       [&](auto a, auto b) { return token_s(a) < token_s(b); });
      for (const std::size_t row : sweep) {
        if (choice.chosen.size() == kChosen || !predictions[row].fits) continue;
        choice.chosen.push_back(row);
        choice.chosen_out_of_memory += failed(row) ? 1 : 0;
      }
      out.push_back(std::move(choice));
    }
  }
  return out;
}

// Rows of one family with equal plan fields measure the same run more than once.
std::vector<Repeats> FindRepeats(std::span<const PublishedRun> runs,
                                 std::span<const RunPrediction> predictions) {
  const Pairing of{runs, predictions};
  std::map<std::string, Rows> same;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    if (of.Timed(row)) same[runs[row].family + '|' + PlanText(runs[row])].push_back(row);
  }
  std::vector<Repeats> out;
  for (const auto& [plan, rows] : same) {
    if (rows.size() < 2) continue;
    Repeats repeats{rows, 0, 0};
    double low = runs[rows.front()].step_s, high = low;
    for (const std::size_t row : rows) {
      low = std::min(low, runs[row].step_s);
      high = std::max(high, runs[row].step_s);
      repeats.error += std::abs(of.Ratio(row) - 1) / static_cast<double>(rows.size());
    }
    repeats.spread = high / low - 1;
    out.push_back(std::move(repeats));
  }
  return out;
}

// Each family counts once, so that large tables do not dominate.
FamilyScore ScoreAll(std::span<const FamilyScore> families) {
  FamilyScore all;
  for (const FamilyScore& family : families) {
    all.rows += family.rows;
    all.predicted += family.predicted;
    all.refused += family.refused;
    all.open += family.open;
  }
  const auto over = [&](Score FamilyScore::*figure, auto&& combine) {
    std::vector<double> values;
    for (const FamilyScore& family : families) {
      if (family.barred && (family.*figure).count > 0) values.push_back((family.*figure).value);
    }
    all.*figure = ScoreOf(values, combine);
  };
  over(&FamilyScore::time_mape, Mean);
  over(&FamilyScore::time_max, Largest);
  over(&FamilyScore::time_median_abs_log, Median);
  over(&FamilyScore::time_bias, Mean);
  over(&FamilyScore::interval_coverage, Mean);
  over(&FamilyScore::kendall_tau, Mean);
  over(&FamilyScore::memory_mape, Mean);
  over(&FamilyScore::memory_median, Median);
  over(&FamilyScore::fits_balanced_accuracy, Mean);
  return all;
}

// By |log(forecast / measured)|, so that half and double count alike.
std::vector<std::size_t> WorstRows(std::span<const PublishedRun> runs,
                                   std::span<const RunPrediction> predictions, std::size_t count) {
  const Pairing of{runs, predictions};
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    if (of.Timed(row)) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(std::log(of.Ratio(a))) > std::abs(std::log(of.Ratio(b)));
  });
  if (rows.size() > count) rows.resize(count);
  return rows;
}

}  // namespace foretrain
