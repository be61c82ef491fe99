#include "app/report/validation_report.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// An empty cell, if no row counts towards the score.
std::string Percent(const Score& score) {
  return score.count > 0 ? FormatPercent(score.value) : "";
}

std::string Number(const Score& score) {
  return score.count > 0 ? fmt::format("{:.3f}", score.value) : "";
}

// null if no row counts towards the score.
void WriteScore(JsonWriter& json, std::string_view name, const Score& score) {
  json.Name(name);
  score.count > 0 ? json.Number(score.value) : json.Null();
}

// Counts first, so that a score can be weighed.
void WriteFamily(JsonWriter& json, const FamilyScore& family) {
  json.Field("rows", family.rows).Field("predicted", family.predicted);
  json.Field("refused", family.refused).Field("searched", family.open);
  json.Field("barred", family.barred);
  WriteScore(json, "time_mape", family.time_mape);
  WriteScore(json, "time_max", family.time_max);
  WriteScore(json, "time_median_abs_log", family.time_median_abs_log);
  WriteScore(json, "time_bias", family.time_bias);
  WriteScore(json, "interval_coverage", family.interval_coverage);
  WriteScore(json, "kendall_tau", family.kendall_tau);
  WriteScore(json, "memory_mape", family.memory_mape);
  WriteScore(json, "memory_median", family.memory_median);
  WriteScore(json, "fits_balanced_accuracy", family.fits_balanced_accuracy);
}

void AddFamily(Table& table, const FamilyScore& family, const std::string& name) {
  table.AddRow({name, std::to_string(family.rows), std::to_string(family.refused),
                std::to_string(family.open), Number(family.time_median_abs_log),
                Percent(family.time_mape), Percent(family.time_max), Number(family.time_bias),
                Percent(family.interval_coverage), Number(family.kendall_tau),
                Percent(family.memory_mape), Percent(family.memory_median),
                Percent(family.fits_balanced_accuracy)});
}

}  // namespace

// The last two columns: standard deviations before and after learning, in units of ln.
std::string LearnedText(const Learned& learned) {
  std::string out = fmt::format(
      "learned from {} runs: root of the mean square of ln(forecast / measured) {:.3f}, before "
      "{:.3f}; error of further plans {:.3f}\n",
      learned.runs, learned.error_after, learned.error_before, learned.error);
  for (std::size_t c = 0; c < kLearnedConstants; ++c) {
    out += fmt::format("  {:<20} {:+.3f}, known to {:.2f}, before {:.2f}\n",
                       LearnedConstants()[c].name, learned.by[c],
                       std::sqrt(learned.covariance[c * kLearnedConstants + c]),
                       LearnedConstants()[c].known_to);
  }
  return out;
}

std::string LearnedScoresText(std::span<const LearnedScore> scores) {
  if (scores.empty()) return {};
  Table table({"learned by group", ">groups", ">rows scored", ">median |ln| before", ">after"});
  for (const LearnedScore& score : scores) {
    if (score.family.empty()) table.AddLine();
    table.AddRow({score.family.empty() ? "all, median over groups" : score.family,
                  std::to_string(score.groups), std::to_string(score.rows),
                  fmt::format("{:.3f}", score.before), fmt::format("{:.3f}", score.after)});
  }
  return table.Text() + "\n";
}

// One line a family and bin; bins without pairs are left out.
std::string PairScoresText(std::span<const PairScore> scores) {
  if (scores.empty()) return {};
  Table table({"pairs of plans", ">probability from", ">to", ">pairs", ">forecast", ">ordered so"});
  for (const PairScore& score : scores) {
    if (score.family.empty()) table.AddLine();
    for (const PairBin& bin : score.bins) {
      if (bin.pairs == 0) continue;
      table.AddRow({score.family.empty() ? "all" : score.family, fmt::format("{:.2f}", bin.low),
                    fmt::format("{:.2f}", bin.high), std::to_string(bin.pairs),
                    FormatPercent(bin.forecast), FormatPercent(bin.ordered)});
    }
  }
  return table.Text() + "\n";
}

// Computes every score once; the tables and JSON only format them.
ValidationReport::ValidationReport(std::span<const PublishedRun> runs,
                                   std::span<const RunPrediction> predictions, std::size_t worst,
                                   std::vector<LearnedScore> learned, std::vector<PairScore> pairs)
    : runs_(runs),
      predictions_(predictions),
      families_(ScoreFamilies(runs, predictions)),
      all_(ScoreAll(families_)),
      choices_(ScorePlanChoice(runs, predictions)),
      fitting_(ScoreFittingChoice(runs, predictions)),
      repeats_(FindRepeats(runs, predictions)),
      worst_(WorstRows(runs, predictions, worst)),
      learned_(std::move(learned)),
      pairs_(std::move(pairs)) {}

// One line a family. The last line weighs families equally, so that a family with many rows does
// not decide it. A family whose plan fields were mostly searched is left out of it.
std::string ValidationReport::FamilyTable() const {
  Table table({"family", ">rows", ">refused", ">searched", ">time median |ln|", ">mean", ">max",
               ">bias ln", ">in interval", ">tau", ">memory mean", ">median", ">fits"});
  for (const FamilyScore& family : families_) {
    AddFamily(table, family, family.family + (family.barred ? "" : " (searched)"));
  }
  table.AddLine();
  AddFamily(table, all_, "all, each family once");
  return table.Text() +
         "\nsearched: rows with a plan field that the source does not state; a family where they "
         "are most is not in the last line.\n";
}

// Shows how often the forecast picks the fastest measured plan, and how much slower its pick is.
std::string ValidationReport::ChoiceTable() const {
  if (choices_.empty()) return {};
  Table table({"choice of plan", ">groups", ">fastest found", ">mean regret", ">worst"});
  for (const PlanChoice& choice : choices_) {
    table.AddRow({choice.family, std::to_string(choice.groups),
                  FormatPercent(static_cast<double>(choice.hits) / choice.groups),
                  FormatPercent(choice.mean_regret), FormatPercent(choice.worst_regret)});
  }
  return "\n" + table.Text();
}

// Shows whether the plans that the forecast calls fastest really fit in memory.
std::string ValidationReport::FittingTable() const {
  if (fitting_.empty()) return {};
  Table table(
      {"fastest that are said to fit", ">plans", ">out of memory", "chosen", ">out of memory"});
  for (const FittingChoice& choice : fitting_) {
    std::vector<std::string> ids;
    for (const std::size_t row : choice.chosen) ids.push_back(runs_[row].id);
    table.AddRow({choice.family + " " + choice.model, std::to_string(choice.plans),
                  std::to_string(choice.out_of_memory), Join(ids, " "),
                  std::to_string(choice.chosen_out_of_memory)});
  }
  return "\n" + table.Text();
}

// Published plans that were measured more than once: their spread is a floor for any forecast's
// error.
std::string ValidationReport::RepeatTable() const {
  if (repeats_.empty()) return {};
  Table table({"plans stated more than once", ">spread", ">error"});
  for (const Repeats& repeats : repeats_) {
    std::vector<std::string> ids;
    for (const std::size_t row : repeats.rows) ids.push_back(runs_[row].id);
    table.AddRow({Join(ids, " "), FormatPercent(repeats.spread), FormatPercent(repeats.error)});
  }
  return "\n" + table.Text();
}

// The rows with the largest errors of the step time, with the forecast's interval.
std::string ValidationReport::WorstTable() const {
  if (worst_.empty()) return {};
  Table table({"largest errors", "plan", ">predicted", ">low", ">high", ">measured", ">error"});
  for (const std::size_t row : worst_) {
    const RunPrediction& prediction = predictions_[row];
    table.AddRow({runs_[row].id, runs_[row].model + " " + foretrain::Describe(prediction.plan),
                  FormatSeconds(prediction.step_s), FormatSeconds(prediction.interval.low_s),
                  FormatSeconds(prediction.interval.high_s), FormatSeconds(runs_[row].step_s),
                  FormatPercent(prediction.step_s / runs_[row].step_s - 1)});
  }
  return "\n" + table.Text();
}

std::string ValidationReport::Refusals() const {
  std::string out;
  for (std::size_t row = 0; row < runs_.size(); ++row) {
    if (predictions_[row].refused.empty()) continue;
    out += fmt::format("refused {}: {}\n", runs_[row].id, predictions_[row].refused);
  }
  return out.empty() ? out : "\n" + out;
}

// Lists the plan fields that a source leaves open and how they were filled, so that no score hides
// a guess.
std::string ValidationReport::OpenFields() const {
  std::string out;
  std::map<std::string, int> filled;
  for (std::size_t row = 0; row < runs_.size(); ++row) {
    const RunPrediction& prediction = predictions_[row];
    for (const std::string& what : prediction.filled) {
      ++filled[runs_[row].family + ": " + what];
    }
    if (prediction.open.empty() || !prediction.refused.empty()) continue;
    out +=
        fmt::format("searched {}: {} chosen among plans that {}: {}\n", runs_[row].id,
                    Join(prediction.open, ", "), prediction.fits ? "fit" : "all need more memory",
                    foretrain::Describe(prediction.plan));
  }
  // Assumptions are counted by family, because they repeat in most of its rows.
  for (const auto& [what, count] : filled) {
    out += fmt::format("filled in {} ({} rows)\n", what, count);
  }
  return out.empty() ? out : "\n" + out;
}

std::string ValidationReport::Text() const {
  return LearnedScoresText(learned_) + PairScoresText(pairs_) + FamilyTable() + ChoiceTable() +
         FittingTable() + RepeatTable() + WorstTable() + OpenFields() + Refusals();
}

// Rows with large errors, and rows that needed guesses.
void ValidationReport::WriteRows(JsonWriter& json) const {
  json.Name("largest_errors").BeginArray();
  for (const std::size_t row : worst_) {
    json.BeginObject().Field("id", runs_[row].id).Field("measured_step_time_s", runs_[row].step_s);
    json.Field("predicted_step_time_s", predictions_[row].step_s);
    json.Field("step_time_low_s", predictions_[row].interval.low_s);
    json.Field("step_time_high_s", predictions_[row].interval.high_s).EndObject();
  }
  json.EndArray().Name("filled").BeginArray();
  for (std::size_t row = 0; row < runs_.size(); ++row) {
    const RunPrediction& prediction = predictions_[row];
    if (prediction.open.empty() && prediction.filled.empty()) continue;
    json.BeginObject().Field("id", runs_[row].id).Field("searched", prediction.open);
    json.Field("assumed", prediction.filled);
    json.Field("plan", foretrain::Describe(prediction.plan)).EndObject();
  }
  json.EndArray();
}

// The same scores as the text. A score without rows is null.
std::string ValidationReport::Json() const {
  JsonWriter json;
  json.BeginObject().Field("schema", 1).Field("rows", all_.rows);
  json.Field("predicted", all_.predicted).Field("refused", all_.refused);
  json.Name("summary").BeginObject();
  WriteFamily(json, all_);
  json.EndObject().Name("families").BeginObject();
  for (const FamilyScore& family : families_) {
    json.Name(family.family).BeginObject();
    WriteFamily(json, family);
    json.EndObject();
  }
  json.EndObject().Name("plan_choice").BeginObject();
  for (const PlanChoice& choice : choices_) {
    json.Name(choice.family).BeginObject().Field("groups", choice.groups);
    json.Field("fastest_found", static_cast<double>(choice.hits) / choice.groups);
    json.Field("mean_regret", choice.mean_regret).Field("worst_regret", choice.worst_regret);
    json.EndObject();
  }
  json.EndObject().Name("fitting_choice").BeginArray();
  for (const FittingChoice& choice : fitting_) {
    json.BeginObject().Field("family", choice.family).Field("model", choice.model);
    json.Field("plans", choice.plans).Field("out_of_memory", choice.out_of_memory);
    json.Name("chosen").BeginArray();
    for (const std::size_t row : choice.chosen) json.String(runs_[row].id);
    json.EndArray().Field("chosen_out_of_memory", choice.chosen_out_of_memory).EndObject();
  }
  json.EndArray().Name("repeats").BeginArray();
  for (const Repeats& repeats : repeats_) {
    json.BeginObject().Name("ids").BeginArray();
    for (const std::size_t row : repeats.rows) json.String(runs_[row].id);
    json.EndArray().Field("spread", repeats.spread).Field("error", repeats.error).EndObject();
  }
  json.EndArray();
  WriteRows(json);
  json.Name("learned").BeginArray();
  for (const LearnedScore& score : learned_) {
    json.BeginObject().Field("family", score.family).Field("groups", score.groups);
    json.Field("rows", score.rows).Field("time_median_abs_log_before", score.before);
    json.Field("time_median_abs_log", score.after).EndObject();
  }
  json.EndArray().Name("pairs").BeginArray();
  for (const PairScore& score : pairs_) {
    for (const PairBin& bin : score.bins) {
      if (bin.pairs == 0) continue;
      json.BeginObject().Field("family", score.family).Field("from", bin.low);
      json.Field("to", bin.high).Field("pairs", bin.pairs).Field("forecast", bin.forecast);
      json.Field("ordered", bin.ordered).EndObject();
    }
  }
  json.EndArray();
  return json.EndObject().Take();
}

// One line a row in the order of `runs`. A refused row has its reason and no numbers.
std::string PredictionsCsv(std::span<const PublishedRun> runs,
                           std::span<const RunPrediction> predictions) {
  std::string out = "id,predicted_time_s,predicted_memory_gib,fits,refused_reason,low_s,high_s\n";
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const RunPrediction& prediction = predictions[row];
    // No numbers for a refused row: 0 would count as a forecast.
    if (!prediction.refused.empty()) {
      out += fmt::format("{},,,,{},,\n", CsvCell(runs[row].id), CsvCell(prediction.refused));
      continue;
    }
    out += fmt::format("{},{:.6g},{:.4f},{},,{:.6g},{:.6g}\n", CsvCell(runs[row].id),
                       prediction.step_s, prediction.peak_gib, prediction.fits ? 1 : 0,
                       prediction.interval.low_s, prediction.interval.high_s);
  }
  return out;
}

}  // namespace foretrain
