// Layouts that teams published (tests/data/planner/cases.csv) against the first rows of `plan`.
// It takes minutes: two searches for each case, on up to 16,384 devices.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/arguments.h"
#include "app/forecast/plan_search.h"
#include "app/report/plans/plan_rows.h"
#include "base/io/file_system.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/csv.h"
#include "sim/config/launch/write_launch.h"
#include "sim/search/space/frameworks.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

constexpr int kMinHits = 20;       // docs/search.md has the misses
constexpr std::size_t kFirst = 3;  // rows that count
constexpr double kNear = 0.05;     // of the published layout's step
constexpr std::int64_t kBytes = 1 << 20;

// One row of the table. An empty field of the layout was not published.
struct PlannerCase {
  std::string id, framework;
  std::vector<std::string> question;  // options of `plan`
  std::vector<std::string> layout;    // further options that leave only the published layout
};

std::vector<PlannerCase> ReadCases() {
  PosixFileSystem files;
  const auto text = ReadFile(files, TestDataPath("planner/cases.csv"), kBytes);
  EXPECT_TRUE(text.has_value());
  if (!text) return {};
  const auto table = ParseCsv(*text, "cases.csv");
  EXPECT_TRUE(table.has_value()) << table.error().message;
  if (!table) return {};
  std::vector<PlannerCase> cases;
  for (const CsvRow& row : table->rows) {
    const CsvReader cells(*table, row);
    const auto cell = [&cells](std::string_view name) { return std::string(cells.Text(name)); };
    PlannerCase one{cell("id"), cell("for"), {}, {}};
    for (const char* name : {"for", "model", "cluster", "sequence", "global_batch"}) {
      std::string option = "--" + std::string(name);
      std::replace(option.begin(), option.end(), '_', '-');
      one.question.insert(one.question.end(), {option, cell(name)});
    }
    const std::string options = cell("options");
    for (const std::string_view word : Split(options, ' ')) {
      if (!word.empty()) one.question.emplace_back(word);
    }
    for (const char* name : {"tp", "pp", "cp", "ep", "zero", "micro_batch"}) {
      if (cell(name).empty()) continue;
      std::string option = "--" + std::string(name);
      std::replace(option.begin(), option.end(), '_', '-');
      one.layout.insert(one.layout.end(), {option, cell(name)});
    }
    if (cell("pp") != "1" && !cell("vpp").empty()) {
      const bool interleaved = cell("vpp") != "1";
      one.layout.insert(one.layout.end(), {"--schedule", interleaved ? "interleaved" : "1f1b"});
      if (interleaved) one.layout.insert(one.layout.end(), {"--vpp", cell("vpp")});
    }
    EXPECT_FALSE(cell("source").empty()) << one.id;
    cases.push_back(std::move(one));
  }
  return cases;
}

struct Answer {
  PlanQuestion question;
  SearchResult result;
};

// The answer of `plan`, as the command asks.
Result<Answer> Plans(const std::vector<std::string>& options) {
  PlanSearch search;
  FT_TRY(ReadOptions(
      options, [&search](Arguments& arguments) { search.Declare(arguments, /*writes=*/false); }));
  FT_ASSIGN(PlanQuestion question, search.Ask());
  SearchOptions how;
  how.simulated = 4;
  how.threads = HardwareThreads();
  how.advises = false;
  FT_ASSIGN(SearchResult result, search.Search(how, question));
  return Answer{std::move(question), std::move(result)};
}

// The fastest plan with the published layout. Teams need no margin: without one it may fit too.
Result<RankedPlan> Published(const PlannerCase& one) {
  std::vector<std::string> options = one.question;
  options.insert(options.end(), one.layout.begin(), one.layout.end());
  auto answer = Plans(options);
  if (!answer && answer.error().code == ErrorCode::kInfeasible) {
    options.insert(options.end(), {"--memory-margin", "0"});
    answer = Plans(options);
  }
  if (!answer) return tl::unexpected<Error>(answer.error());
  return answer->result.plans.front();
}

// Why a user of the framework could not submit the plan; empty if they can.
std::string Unrunnable(const Answer& answer, const std::string& name, const RankedPlan& plan) {
  if (plan.device.Needed() > answer.question.memory_bytes) return "exceeds the margin";
  if (!plan.plan.stage_layers.empty()) return "lists layers of stages";
  const auto frameworks = BuiltInFrameworks();
  if (!frameworks) return frameworks.error().message;
  const auto framework = FindFramework(*frameworks, name);
  if (!framework) return framework.error().message;
  for (const auto& [field, values] : framework->values) {
    const bool needs_tp = field->name == "vocab_parallel" || field->name == "sequence_parallel";
    if (needs_tp && plan.plan.tp == 1) continue;
    if (!Has(*framework, field->name, field->get(plan.plan))) {
      return fmt::format("{} {} is none of {}'s", field->name, field->get(plan.plan), name);
    }
  }
  return BrokenLimit(*framework, answer.question.context.model.layers, plan.plan);
}

struct Score {
  std::string verdict;
  bool hit = false;
  bool runnable = true;
};

std::string ShortPlan(const RankedPlan& plan) {
  const Plan& p = plan.plan;
  return fmt::format("tp{} pp{} cp{} ep{} z{} v{} mb{}", p.tp, p.pp, p.cp, p.ep, p.zero_stage,
                     p.vpp, p.micro_batch);
}

// Prints a row of docs/search.md.
Score ScoreOf(const PlannerCase& one) {
  const auto published = Published(one);
  const auto answer = Plans(one.question);
  Score score;
  if (!answer) {
    std::printf("%-22s no plan: %s\n", one.id.c_str(), answer.error().message.c_str());
    return score;
  }
  const std::vector<PlanRow> rows = RowsOf(answer->result.plans);
  std::string firsts;
  for (std::size_t i = 0; i < std::min(kFirst, rows.size()); ++i) {
    const RankedPlan& shown = *rows[i].shown;
    const std::string why = Unrunnable(*answer, one.framework, shown);
    if (!why.empty()) {
      score.runnable = false;
      firsts += " [" + why + "]";
    }
    const double ratio = published ? shown.step_s / published->step_s : 0;
    score.hit = score.hit || (published && std::abs(ratio - 1) <= kNear);
    firsts += fmt::format(" | {} {:.3f}", ShortPlan(shown), ratio);
  }
  const std::string layout = published ? ShortPlan(*published) : published.error().message;
  std::printf("%-22s %-4s %s %s%s\n", one.id.c_str(), score.hit ? "hit" : "miss", layout.c_str(),
              published ? FormatSeconds(published->step_s).c_str() : "", firsts.c_str());
  std::fflush(stdout);
  return score;
}

TEST(PlannerCases, HaveAPublishedLayoutAmongTheFirstRows) {
  const std::vector<PlannerCase> cases = ReadCases();
  ASSERT_EQ(cases.size(), 25U);
  const char* only = std::getenv("FORETRAIN_PLANNER_CASES");  // "id,id": these alone, no bar
  int hits = 0, runnable = 0;
  for (const PlannerCase& one : cases) {
    if (only != nullptr &&
        ("," + std::string(only) + ",").find("," + one.id + ",") == std::string::npos) {
      continue;
    }
    const Score score = ScoreOf(one);
    hits += score.hit ? 1 : 0;
    runnable += score.runnable ? 1 : 0;
  }
  std::printf("%d of %zu hit, %d of %zu runnable\n", hits, cases.size(), runnable, cases.size());
  if (only != nullptr) return;
  EXPECT_GE(hits, kMinHits);
  EXPECT_EQ(runnable, 25);
}

}  // namespace
}  // namespace foretrain
