#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "app/cli/command_line.h"
#include "app/cli/flags/document_tokens.h"
#include "app/cli/goal_options.h"
#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/forecast/plan_search.h"
#include "app/forecast/search_watch.h"
#include "app/report/plans/plan_report.h"
#include "base/clock.h"
#include "base/io/file_system.h"
#include "sim/config/plan/plan_json.h"
#include "sim/config/plan/plan_values.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxTop = 1000;

// The plan with the values that all plans of the space have.
Plan CommonOf(const SearchSpace& space) {
  Plan plan = space.base;
  for (const SearchChoice& choice : space.choices) {
    if (choice.values.size() == 1) choice.field->set(plan, choice.values.front());
  }
  return plan;
}

// Searches, then compares other numbers of devices, then varies the machine's rates; the later
// parts are optional. Ctrl-C during a search prints nothing: half a search has no best plan.
class PlanCommand final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    search_.Declare(arguments, /*writes=*/true);
    arguments.Option("--out", out_, "FILE",
                     "Write the best plan, for --plan FILE; with --emit its launch file");
    arguments.Option("--top", top_, "N", "Minimum number of plans to simulate, best first");
    arguments.Flag(
        "--sensitivity", sensitivity_,
        "Show how the best plan's step time depends on FLOP/s, HBM, links, network and PCIe");
    arguments.Option("--devices", devices_, "N,N,...", "Also search with these numbers of devices");
    arguments.Option("--tokens", tokens_, "N", "Tokens to train on, e.g. 15T: adds days and cost");
    arguments.Option("--deadline", deadline_, "TIME",
                     "With --tokens: find the fewest devices that finish in time, e.g. 60d");
    arguments.Option("--price", price_, "X", "Price of one device for one hour");
    document_tokens_.Declare(arguments);
    DeclareTable(arguments);
    arguments.Footer(
        "A choice of the plan may be a value, a list 1,2,4, a range 1..8 (powers of two) or auto.\n"
        "  foretrain plan --model gpt2-124m --cluster local\n"
        "  foretrain plan --model llama3-8b --cluster 1x8xh100 --tp 1..8 --zero 1,3 --sequence "
        "8192\n"
        "  foretrain plan --model llama3-8b --cluster 64x8xh100 --tokens 15T --deadline 60d "
        "--price 2.2");
  }

  // Goal and options first, then the search on all cores. The clock starts after the model and
  // cluster are read, so `seconds` is the search alone.
  Result<Exit> Run() override {
    PlanReport report;
    FT_TRY(ReadGoal(report.goal));
    FT_TRY(CheckOutputFile("--out", out_));
    if (top_ < 1 || top_ > kMaxTop) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--top: " + std::to_string(top_) + " is outside 1 to " + std::to_string(kMaxTop));
    }
    FT_ASSIGN(PlanQuestion question, search_.Ask());
    FT_TRY(document_tokens_.CountIn(CommonOf(question.space), question.context));
    const ForecastContext& context = question.context;
    report.framework = question.framework;
    report.memory_bytes = question.memory_bytes;
    report.defaults = question.defaults;
    SearchOptions options;
    options.simulated = static_cast<int>(top_);
    SystemClock clock;
    const std::int64_t start_ns = clock.MonotonicNs();
    {
      SearchWatch watch(!json_);
      watch.Watch(options);
      auto result = search_.Search(options, question);
      if (!result && watch.Cancelled()) return ExitOfSignal(StopSignal());
      FT_ASSIGN(report.result, std::move(result));
      report.seconds = static_cast<double>(clock.MonotonicNs() - start_ns) * 1e-9;
      // Ctrl-C must end this part too, so it runs under the same watch.
      FT_ASSIGN(const std::vector<int> counts, Counts(context, report.goal));
      auto compared = CompareDeviceCounts(context.model, context.costs, question.space.base, counts,
                                          options.threads, options.cancelled);
      if (!compared && watch.Cancelled()) return ExitOfSignal(StopSignal());
      FT_ASSIGN(report.counts, std::move(compared));
    }
    // Varies the rates for the best plan only.
    if (sensitivity_) {
      FT_ASSIGN(report.sensitivity,
                SensitivityOf(context.model, RecommendedPlan(report.result).plan, context.costs));
    }
    report.context = &context;
    report.space = &question.space;
    // The report ends in the command for its best plan.
    const Plan& best = RecommendedPlan(report.result).plan;
    const DialectFlags& dialect = search_.dialect();
    std::string command =
        CommandOf(search_.model(), search_.cluster(), question.preset, best, context.cluster);
    if (!context.cluster.is_cpu) {
      if (!question.preset) command += dialect.ForText();
      command += document_tokens_.ForText();
    }
    FT_ASSIGN(const DialectFlags::Emitted emitted,
              dialect.Emit(best, context.model, search_.model(), context.cluster));
    std::string text;
    if (json_) {
      text = PlanReportJson(report, command,
                            [&](JsonWriter& json) {
                              dialect.WriteAccount(json);
                              dialect.WriteEmitted(json, emitted);
                            }) +
             "\n";
    } else {
      text = csv_ ? PlanReportCsv(report) : PlanReportText(report, command, LineWidth());
    }
    if (!out_.empty()) {
      PosixFileSystem files;
      FT_TRY(WriteFileAtomically(
          files, out_, dialect.emits() ? emitted.text : ToJson(best, WrittenFields::kAll) + "\n"));
    }
    if (!json_ && !csv_) std::fputs(dialect.AccountText().c_str(), stdout);
    std::fputs(text.c_str(), stdout);
    if (!json_ && !csv_) dialect.PrintEmitted(emitted, !out_.empty());
    return Exit::kDone;
  }

 private:
  // Reads tokens, deadline and price together. A deadline needs tokens: without them no training
  // time follows from a step time.
  Result<void> ReadGoal(TrainingGoal& goal) const {
    if (!tokens_.empty()) {
      FT_ASSIGN(goal.tokens, ParseTokens("--tokens", tokens_));
    }
    if (!deadline_.empty()) {
      FT_ASSIGN(goal.deadline_s, ParseDuration("--deadline", deadline_));
      if (tokens_.empty()) {
        return Fail(ErrorCode::kInvalidArgument,
                    "--deadline " + deadline_ + ": of how many --tokens? give both");
      }
    }
    if (!std::isfinite(price_) || price_ < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--price: {} is no price; give 0 or more", price_));
    }
    goal.price = price_;
    return {};
  }

  // The counts of --devices; with a deadline, an eighth to eight times the cluster.
  Result<std::vector<int>> Counts(const ForecastContext& context, const TrainingGoal& goal) const {
    std::vector<int> counts;
    if (!devices_.empty()) {
      FT_ASSIGN(const std::vector<std::int64_t> list, ParseIntegerList("--devices", devices_, {}));
      for (const std::int64_t count : list) {
        if (count < 1 || count > kMaxRanks) {
          return Fail(ErrorCode::kInvalidArgument,
                      fmt::format("--devices: {} is outside 1 to {}", count, kMaxRanks));
        }
        counts.push_back(static_cast<int>(count));
      }
    } else if (goal.deadline_s > 0) {
      for (int nodes = std::max(1, context.cluster.nodes / 8); nodes <= context.cluster.nodes * 8;
           nodes *= 2) {
        counts.push_back(nodes * context.cluster.devices_per_node);
      }
    }
    return counts;
  }

  PlanSearch search_;
  std::string out_;
  std::int64_t top_ = 4;
  bool sensitivity_ = false;
  std::string devices_, tokens_, deadline_;
  double price_ = 0;
  DocumentTokens document_tokens_;
};

}  // namespace

std::unique_ptr<Command> MakePlan() { return std::make_unique<PlanCommand>(); }

}  // namespace foretrain
