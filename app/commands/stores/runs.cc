#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>

#include "app/commands/commands.h"
#include "app/runs/stored_runs.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxLineBytes = 500;

// Lists the runs of a store. At most one change is made first, so that the list shows the store as
// it is after the change.
class Runs final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Option("--store", store_, "FILE", "Store with the runs");
    arguments.Option("--delete", delete_, "N", "Delete run N, unless it is pinned");
    arguments.Option("--pin", pin_, "N", "Protect run N from deletion");
    arguments.Option("--unpin", unpin_, "N", "Allow the deletion of run N again");
    arguments.Option("--rename", rename_, "N", "Give run N the label of --label");
    arguments.Option("--label", label_, "TEXT", "With --rename: the new label");
    arguments.Option(
        "--last-ops", last_ops_, "N",
        "Print the newest ops of each rank of run N, which failed, instead of the list");
    DeclareJson(arguments);
  }

  // The change first, then the list. A refused change prints no list.
  Result<Exit> Run() override {
    FT_TRY(CheckOptions());
    if (delete_ != 0) FT_TRY(DeleteRun(store_, delete_));
    if (pin_ != 0) FT_TRY(SetPinned(store_, pin_, true));
    if (unpin_ != 0) FT_TRY(SetPinned(store_, unpin_, false));
    if (rename_ != 0) FT_TRY(RenameRun(store_, rename_, label_));
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    if (last_ops_ != 0) return PrintLastOps(reader);
    FT_ASSIGN(const std::vector<RunInfo> runs, reader.ListRuns());
    json_ ? PrintJson(reader, runs) : PrintTable(reader, runs);
    return Exit::kDone;
  }

 private:
  // Refuses two changes in one command: a refusal of the second would leave the first already made.
  Result<void> CheckOptions() const {
    std::string given;
    for (const auto& [option, run] :
         {std::pair{"--delete", delete_}, std::pair{"--pin", pin_}, std::pair{"--unpin", unpin_},
          std::pair{"--rename", rename_}, std::pair{"--last-ops", last_ops_}}) {
      if (run == 0) continue;
      if (run < 0) {
        return Fail(ErrorCode::kInvalidArgument, std::string(option) + ": " + std::to_string(run) +
                                                     " is no run; give a number of the list");
      }
      if (!given.empty()) {
        return Fail(ErrorCode::kInvalidArgument,
                    given + " and " + option + ": nothing was changed; give one of them");
      }
      given = option;
    }
    // --rename and --label need each other.
    if ((rename_ != 0) == label_.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  rename_ != 0 ? "--rename " + std::to_string(rename_) + ": give its new --label"
                               : "--label: of which run? Give --rename N with it");
    }
    return {};
  }

  // Local time, or "" if the system cannot convert it.
  static std::string Time(std::int64_t unix_ns) {
    const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
    std::tm parts{};
    char text[32] = "";
    if (localtime_r(&seconds, &parts) != nullptr)
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    return text;
  }

  // "12 records dropped, 3 invalid; "; empty if none were.
  static std::string LostText(const RunInfo& run) {
    std::string text;
    if (run.totals.dropped > 0) text = std::to_string(run.totals.dropped) + " records dropped";
    if (run.totals.invalid > 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(run.totals.invalid) + " invalid";
    }
    return text.empty() || run.message.empty() ? text : text + "; ";
  }

  // Only failed runs may have them, so no other run is asked.
  static bool HasLastOps(const StoreReader& reader, const RunInfo& run) {
    return run.status == RunStatus::kFailed &&
           reader.Attachment(run.id, kLastOpsAttachment).has_value();
  }

  // Line by line, since the file may come from elsewhere: no byte of it reaches the terminal as a
  // command.
  Result<Exit> PrintLastOps(const StoreReader& reader) const {
    FT_ASSIGN(const RunInfo run, reader.FindRun(last_ops_));
    const auto ops = reader.Attachment(run.id, kLastOpsAttachment);
    if (!ops.has_value() && ops.error().code == ErrorCode::kInvalidArgument) {
      return Fail(ErrorCode::kInvalidArgument,
                  store_ + ": run " + std::to_string(run.id) +
                      " has no last ops: only a run whose ranks failed has them");
    }
    if (!ops.has_value()) return tl::unexpected<Error>(ops.error());
    for (std::string_view left = *ops; !left.empty();) {
      const std::size_t end = std::min(left.find('\n'), left.size());
      std::puts(Printable(left.substr(0, end), kMaxLineBytes).c_str());
      left.remove_prefix(std::min(end + 1, left.size()));
    }
    return Exit::kDone;
  }

  // "-" if no step time is known. The last column has the pin, lost records and why a run failed.
  void PrintTable(const StoreReader& reader, const std::vector<RunInfo>& runs) const {
    Table table(
        {">run", "kind", "status", "label", "created", ">step time", ">spans", ">forecast", ""});
    table.LimitWidth("label", 40);
    table.LimitWidth("", 40);
    for (const RunInfo& run : runs) {
      const double step = run.Metric("step_time_s").value_or(0);
      table.AddRow({std::to_string(run.id), std::string(foretrain::Name(run.kind)),
                    std::string(foretrain::Name(run.status)), run.label, Time(run.created_unix_ns),
                    step > 0 ? FormatSeconds(step) : "-", std::to_string(run.spans),
                    run.forecast ? std::to_string(*run.forecast) : "",
                    (run.pinned ? "pinned " : "") + LostText(run) + run.message});
    }
    std::fputs(table.Text().c_str(), stdout);
    for (const RunInfo& run : runs) {
      if (!HasLastOps(reader, run)) continue;
      std::printf(
          "run %lld failed: `foretrain runs --last-ops %lld%s` prints the newest ops of its "
          "ranks\n",
          static_cast<long long>(run.id), static_cast<long long>(run.id),
          store_ == kDefaultStore ? "" : (" --store " + Printable(store_, kMaxLineBytes)).c_str());
    }
  }

  // `forecast` is null if the run has none.
  static void PrintJson(const StoreReader& reader, const std::vector<RunInfo>& runs) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Name("runs").BeginArray();
    for (const RunInfo& run : runs) {
      json.BeginObject().Field("run", run.id).Field("kind", foretrain::Name(run.kind));
      json.Field("status", foretrain::Name(run.status))
          .Field("message", run.message)
          .Field("label", run.label)
          .Field("world", run.world);
      json.Field("created_unix_ns", run.created_unix_ns).Name("forecast");
      run.forecast ? json.Integer(*run.forecast) : json.Null();
      json.Field("spans", run.spans).Field("dropped", run.totals.dropped);
      json.Field("invalid", run.totals.invalid).Field("pinned", run.pinned);
      json.Field("last_ops", HasLastOps(reader, run));
      json.Name("metrics").BeginObject();
      for (const MetricValue& metric : run.metrics) json.Field(metric.name, metric.value);
      json.EndObject().EndObject();
    }
    std::puts(json.EndArray().EndObject().Take().c_str());
  }

  std::string store_ = kDefaultStore;
  std::string label_;
  std::int64_t delete_ = 0, pin_ = 0, unpin_ = 0, rename_ = 0, last_ops_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeRuns() { return std::make_unique<Runs>(); }

}  // namespace foretrain
