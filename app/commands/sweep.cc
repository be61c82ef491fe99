#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "app/cli/goal_options.h"
#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/forecast/plan_search.h"
#include "app/forecast/search_watch.h"
#include "app/report/plans/sweep_report.h"
#include "base/io/file_system.h"
#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxPoints = 200;

// "nodes=16,32,64".
struct Varied {
  std::string name;
  std::vector<std::string> values;
};

Result<Varied> ParseVaried(const std::string& text) {
  const auto equals = text.find('=');
  Varied varied;
  varied.name = text.substr(0, equals);
  if (varied.name.starts_with("--")) varied.name.erase(0, 2);
  if (equals != std::string::npos) {
    for (const std::string_view value : Split(std::string_view(text).substr(equals + 1), ',')) {
      varied.values.emplace_back(Trim(value));
    }
  }
  const bool empty = varied.name.empty() || varied.values.empty() ||
                     std::any_of(varied.values.begin(), varied.values.end(),
                                 [](const std::string& value) { return value.empty(); });
  if (!empty) return varied;
  return Fail(ErrorCode::kInvalidArgument,
              "--vary: \"" + Printable(text) +
                  "\" is no option with its values; write e.g. sequence=4k,8k");
}

// "16x8xh100" of "8xh100", "4x8xh100" or "h100" and 16 nodes.
Result<std::string> WithNodes(const std::string& cluster, const std::string& nodes) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  std::vector<std::string> parts;
  for (const std::string_view part : Split(cluster, 'x')) parts.emplace_back(part);
  std::size_t numbers = 0;
  while (numbers < parts.size() && is_number(parts[numbers])) ++numbers;
  if (cluster == "local" || numbers == parts.size() || numbers > 2) {
    return Fail(ErrorCode::kInvalidArgument, "--vary nodes: --cluster " + Printable(cluster) +
                                                 " has no nodes to vary; give one such as 8xh100");
  }
  if (numbers == 2) parts.erase(parts.begin());
  if (numbers == 0) parts.insert(parts.begin(), "1");
  parts.insert(parts.begin(), nodes);
  return Join(parts, "x");
}

// Searches for the best plan of each combination of options. Ctrl-C shows what was found until
// then.
class SweepCommand final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    search_.Declare(arguments, /*writes=*/false);
    arguments.Section("Sweep");
    arguments.Option("--vary", vary_, "OPTION=V,V",
                     "Search with each of these values; give it again for combinations. OPTION is "
                     "any option above, or nodes");
    arguments.Option("--picture", picture_, "FILE", "Write tokens/s of a device as an SVG");
    arguments.Option("--tokens", tokens_, "N", "Tokens to train on, e.g. 15T: adds days and cost");
    arguments.Option("--price", goal_.price, "X", "Price of one device for one hour");
    DeclareTable(arguments);
    arguments.Footer(
        "  foretrain sweep --model llama3-8b --cluster 8xh100 --vary nodes=1,2,4,8\n"
        "  foretrain sweep --model llama3-8b --cluster 8xh100 --vary nodes=1,4 --vary "
        "sequence=8k,32k --picture sweep.svg");
  }

  Result<Exit> Run() override {
    FT_ASSIGN(const std::vector<Varied> varied, ReadVaried());
    FT_TRY(CheckOutputFile("--picture", picture_));
    if (!tokens_.empty()) {
      FT_ASSIGN(goal_.tokens, ParseTokens("--tokens", tokens_));
    }
    SweepReport report;
    report.goal = goal_;
    std::size_t count = 1;
    for (const Varied& one : varied) {
      report.names.push_back(one.name);
      count *= one.values.size();
    }
    SearchWatch watch(!json_);
    for (std::size_t i = 0; i < count && !watch.Cancelled(); ++i) {
      FT_ASSIGN(auto point, Find(varied, i, count, watch, report));
      if (!watch.Cancelled()) report.points.push_back(std::move(point));
    }
    if (report.points.empty()) return ExitOfSignal(StopSignal());
    if (!picture_.empty()) {
      PosixFileSystem files;
      FT_TRY(WriteFileAtomically(files, picture_, SweepPicture(report)));
    }
    const std::string text = json_  ? SweepJson(report) + "\n"
                             : csv_ ? SweepCsv(report)
                                    : SweepText(report, LineWidth());
    std::fputs(text.c_str(), stdout);
    return watch.Cancelled() ? ExitOfSignal(StopSignal()) : Exit::kDone;
  }

 private:
  Result<std::vector<Varied>> ReadVaried() const {
    std::vector<Varied> varied;
    std::size_t count = 1;
    for (const std::string& text : vary_) {
      FT_ASSIGN(varied.emplace_back(), ParseVaried(text));
      count *= varied.back().values.size();
      if (count > kMaxPoints) {
        return Fail(
            ErrorCode::kInvalidArgument,
            fmt::format("--vary: more than {} combinations; leave some values out", kMaxPoints));
      }
    }
    if (!varied.empty()) return varied;
    return Fail(ErrorCode::kInvalidArgument,
                "sweep varies nothing; give e.g. --vary sequence=4k,8k");
  }

  // The best plan with the values of combination `number`, the last option varying fastest.
  Result<SweepPoint> Find(const std::vector<Varied>& varied, std::size_t number, std::size_t count,
                          SearchWatch& watch, SweepReport& report) const {
    SweepPoint point;
    point.values.resize(varied.size());
    for (std::size_t i = varied.size(), left = number; i-- > 0;) {
      point.values[i] = varied[i].values[left % varied[i].values.size()];
      left /= varied[i].values.size();
    }
    std::vector<std::string> texts = arguments_;
    for (std::size_t i = 0; i < varied.size(); ++i) {
      std::string name = varied[i].name, value = point.values[i];
      if (name == "nodes") {
        FT_ASSIGN(value, WithNodes(search_.cluster().cluster, value));
        name = "cluster";
      }
      texts.insert(texts.end(), {"--" + name, value});
    }
    SweepCommand one;
    FT_TRY(ReadOptions(texts, [&one](Arguments& arguments) { one.Declare(arguments); }));
    FT_ASSIGN(PlanQuestion question, one.search_.Ask());
    const ForecastContext& context = question.context;
    if (number == 0) report.title = context.model.name + " on " + search_.cluster().cluster;
    if (!json_) {
      std::fprintf(stderr, "%zu of %zu: %s\n", number + 1, count, Join(point.values, ", ").c_str());
    }
    point.devices = context.cluster.Devices();
    SearchOptions options;
    options.simulated = 1;
    options.advises = false;
    watch.Watch(options);
    const auto found = one.search_.Search(options, question);
    if (!found) {
      if (found.error().code != ErrorCode::kInfeasible && !watch.Cancelled()) {
        return tl::unexpected<Error>(found.error());
      }
      point.why = "nothing fits";
      return point;
    }
    point.best = RecommendedPlan(*found);
    const Plan& base = question.space.base;
    point.tokens_per_s =
        static_cast<double>(base.global_batch * base.sequence) / point.best->step_s;
    point.rates = DeviceRatesOf(context, point.best->plan, point.best->step_s);
    return point;
  }

  PlanSearch search_;
  std::vector<std::string> vary_;
  std::string picture_, tokens_;
  TrainingGoal goal_;
};

}  // namespace

std::unique_ptr<Command> MakeSweep() { return std::make_unique<SweepCommand>(); }

}  // namespace foretrain
