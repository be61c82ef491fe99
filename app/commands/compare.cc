#include <cstdio>

#include "app/commands/commands.h"
#include "app/compared_runs.h"
#include "app/report.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

class Compare final : public Command {
 public:
  std::string_view Name() const override { return "compare"; }
  std::string_view Summary() const override { return "Hold a run against its forecast, op by op"; }

  void Declare(Arguments& arguments) override {
    arguments.Option("--store", store_, "FILE", "Store with the runs");
    arguments.Option("--run", run_, "N", "Run to explain; 0: the newest measured one");
    arguments.Option("--against", against_, "N", "Run to hold it against; 0: its forecast");
    arguments.Option("--fail-above", fail_above_, "SHARE",
                     "End with 1 when the step time is off by more, e.g. 3%");
    DeclareJson(arguments);
  }

  Result<Exit> Run() override {
    double limit = 0;
    if (!fail_above_.empty()) {
      const bool percent = fail_above_.back() == '%';
      FT_ASSIGN(limit,
                ParseNumber("--fail-above",
                            percent ? fail_above_.substr(0, fail_above_.size() - 1) : fail_above_,
                            0, percent ? 1e6 : 1e4));
      if (percent) limit /= 100;
      if (!percent && limit > 1) {
        return Fail(ErrorCode::kInvalidArgument, "--fail-above: \"" + fail_above_ +
                                                     "\" is no share; write " + fail_above_ +
                                                     "% or a number up to 1");
      }
    }
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    FT_ASSIGN(const ComparedRuns runs, CompareRuns(reader, run_, against_));
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("run", runs.measured.info.id);
      json.Field("against", runs.predicted.info.id);
      WriteComparison(json, runs.view);
      std::puts(json.EndObject().Take().c_str());
    } else {
      std::fputs(ComparisonText(runs.view).c_str(), stdout);
      std::fputs(ComparisonDetails(runs.view, runs.measured.timeline.op_names).c_str(), stdout);
    }
    return fail_above_.empty() || std::abs(runs.StepError()) <= limit ? Exit::kDone : Exit::kNo;
  }

 private:
  std::string store_ = kDefaultStore;
  std::string fail_above_;
  std::int64_t run_ = 0;
  std::int64_t against_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeCompare() { return std::make_unique<Compare>(); }

}  // namespace foretrain
