#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/forecast/asked_plan.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/schedule/check_schedule.h"
#include "sim/config/schedule/schedule_csv.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

constexpr std::string_view kUses =
    "use `schedule check FILE`, `schedule import FILE` or `schedule export` with options of a plan";

std::string_view InWords(StageShape shape) {
  switch (shape) {
    case StageShape::kLine:
      return "rank r runs stage r";
    case StageShape::kRounds:
      return "rank r of p runs stages r, r + p, ...";
    case StageShape::kV:
      return "rank r of p runs stages r and 2p - 1 - r";
    case StageShape::kBothWays:
      return "rank r of p runs stages r and p - 1 - r, and half of the micro-batches go up";
  }
  return "";
}

std::string Counted(std::int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : one.ends_with("ch") ? "es" : "s");
}

// A schedule of passes as a file: whether it works, one of a plan, one of another program's form.
class ScheduleCommand final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positional("check|export|import", verb_,
                         "check FILE: whether it works, its activations and its bubble; export: "
                         "the schedule of a plan as CSV; import FILE: a file of PyTorch's "
                         "pipelining, also with its communication, as --schedule-file takes it",
                         /*required=*/true);
    arguments.Positional("FILE", file_, "CSV with a line for each rank; cells such as 0F0 or 1B3");
    arguments.Option("--out", out_, "FILE",
                     "With export and import: write here, not to the screen");
    DeclareJson(arguments);
    model_.Declare(arguments);
    cluster_.Declare(arguments);
    plan_.Declare(arguments);
    arguments.Footer(
        "  foretrain schedule export --pp 4 --schedule zb-h1 --global-batch 8 --out zb.csv\n"
        "  foretrain schedule check zb.csv\n"
        "  foretrain predict --model gpt2-124m --schedule-file zb.csv");
  }

  Result<Exit> Run() override {
    if (verb_ == "export") return Export();
    if (verb_ != "check" && verb_ != "import") {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("schedule {}: {}", Printable(verb_), kUses));
    }
    if (file_.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("schedule {}: names no file; {}", verb_, kUses));
    }
    PosixFileSystem files;
    FT_ASSIGN(const std::string text, ReadFile(files, file_, kMaxScheduleBytes));
    FT_ASSIGN(const ScheduleDraft draft, ParseSchedule(text, file_));
    return verb_ == "check" ? Check(draft) : Import(draft);
  }

 private:
  Result<Exit> Check(const ScheduleDraft& draft) const {
    const ScheduleReport report = CheckSchedule(draft);
    json_ ? PrintJson(draft, report) : Print(draft, report);
    return report.Works() ? Exit::kDone : Exit::kNo;
  }

  Result<Exit> Import(const ScheduleDraft& draft) const {
    FT_TRY(SlotOrder::Make(draft, file_));
    if (draft.skipped > 0) {
      std::fprintf(stderr,
                   "left out %s of communication, which foretrain derives from the passes\n",
                   Counted(draft.skipped, "action").c_str());
    }
    return Write(draft);
  }

  Result<Exit> Export() const {
    if (!file_.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("schedule export {}: takes no file to read; give --out FILE to write "
                              "one",
                              Printable(file_)));
    }
    DialectFlags dialect;
    FT_ASSIGN(const AskedMachine machine, AskMachine(model_, cluster_, plan_, dialect));
    FT_ASSIGN(const AskedPlan asked, AskPlan(machine, plan_, dialect));
    FT_ASSIGN(const ScheduleDraft draft, DraftOf(asked.plan));
    return Write(draft);
  }

  Result<Exit> Write(const ScheduleDraft& draft) const {
    if (out_.empty()) {
      std::fputs(ToCsv(draft).c_str(), stdout);
      return Exit::kDone;
    }
    FT_TRY(CheckOutputFile("--out", out_));
    PosixFileSystem files;
    FT_TRY(WriteFileAtomically(files, out_, ToCsv(draft)));
    if (!json_) {
      std::printf("wrote %s\n", out_.c_str());
    } else {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("out", out_);
      std::puts(json.EndObject().Take().c_str());
    }
    return Exit::kDone;
  }

  void Print(const ScheduleDraft& draft, const ScheduleReport& report) const {
    std::printf("%s: %s, %s, %s\n", file_.c_str(),
                Counted(static_cast<std::int64_t>(draft.ranks.size()), "rank").c_str(),
                Counted(report.micro_batches, "micro-batch").c_str(),
                Counted(static_cast<std::int64_t>(draft.ActionCount()), "action").c_str());
    if (draft.skipped > 0) {
      std::printf("%s left out: foretrain derives communication from the passes\n",
                  Counted(draft.skipped, "action").c_str());
    }
    for (const ScheduleFinding& finding : report.findings) {
      std::printf("%s: %s\n", std::string(Name(finding.fault)).c_str(), finding.text.c_str());
    }
    if (report.finding_count > report.findings.size()) {
      std::printf("and %zu more\n", report.finding_count - report.findings.size());
    }
    if (report.stages > 0) {
      std::printf("%s, %s\n", Counted(report.stages, "stage").c_str(),
                  std::string(InWords(report.shape)).c_str());
    }
    for (std::size_t r = 0; r < report.peak_live.size(); ++r) {
      std::printf("rank %zu: at most %s live\n", r,
                  Counted(report.peak_live[r], "activation").c_str());
    }
    if (!report.Works()) return;
    std::printf(
        "works: %g units of time, %s of them a bubble, if F, I and W take 1 each, B takes 2 and "
        "transfers none\n",
        report.makespan, FormatPercent(report.bubble).c_str());
  }

  void PrintJson(const ScheduleDraft& draft, const ScheduleReport& report) const {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("works", report.Works());
    json.Field("ranks", static_cast<std::int64_t>(draft.ranks.size()));
    json.Field("actions", static_cast<std::int64_t>(draft.ActionCount()));
    json.Field("micro_batches", report.micro_batches).Field("stages", report.stages);
    json.Field("chunks", report.chunks).Field("left_out", draft.skipped);
    json.Field("finding_count", static_cast<std::int64_t>(report.finding_count));
    json.Name("findings").BeginArray();
    for (const ScheduleFinding& finding : report.findings) {
      json.BeginObject().Field("fault", Name(finding.fault)).Field("text", finding.text);
      json.Name("actions").BeginArray();
      for (const ActionPlace& place : finding.places) {
        const auto& rank = draft.ranks[static_cast<std::size_t>(place.rank)];
        const ScheduleAction& action = rank[static_cast<std::size_t>(place.action)];
        json.BeginObject().Field("rank", place.rank).Field("cell", action.cell);
        json.Field("action", NameOf(action)).EndObject();
      }
      json.EndArray().EndObject();
    }
    json.EndArray().Name("peak_live").BeginArray();
    for (const int live : report.peak_live) json.Integer(live);
    json.EndArray();
    json.Field("makespan", report.makespan).Field("bubble", report.bubble);
    std::puts(json.EndObject().Take().c_str());
  }

  std::string verb_, file_, out_;
  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
};

}  // namespace

std::unique_ptr<Command> MakeSchedule() { return std::make_unique<ScheduleCommand>(); }

}  // namespace foretrain
