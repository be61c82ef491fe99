#include "traces/store/query/kernel_rows.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/import/op_table.h"
#include "traces/kernels/kernel_table.h"
#include "traces/store/query/row_table.h"

namespace foretrain::store_internal {
namespace {

enum Column : int {
  kRunId,
  kName,
  kClass,
  kOp,
  kCalls,
  kTotalNs,
  kMeanNs,
  kLaunch,
  kOccupancy,
  kFlopPerS,
  kBytesPerS,
  kFormat,
  kFullName
};

struct Row {
  RunId run = 0;
  KernelRow kernel{};
  std::string op{};  // the names of the ops that run it; empty: unknown
  OpClass op_class = OpClass::kMemoryBound;
  int capability = 0;
};

// The names of the ops of each row, in the order of their ids.
std::vector<std::string> OpsOf(const StoredRun& run) {
  std::vector<std::string> ops(run.kernels.rows.size());
  std::vector<std::string_view> last(ops.size());
  for (const auto& [op, rows] : run.kernels.ops) {
    const auto name = run.timeline.op_names.find(op);
    if (name == run.timeline.op_names.end()) continue;
    for (const std::uint32_t row : rows) {
      if (row >= ops.size() || last[row] == name->second) continue;
      const bool is_known =
          (", " + ops[row] + ", ").find(", " + name->second + ", ") != std::string::npos;
      last[row] = name->second;
      if (!is_known) ops[row] += (ops[row].empty() ? "" : ", ") + name->second;
    }
  }
  return ops;
}

void AddRows(const StoredRun& run, const trace_import::OpTable& classes, std::vector<Row>& rows) {
  const std::vector<std::string> ops = OpsOf(run);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const KernelRow& kernel = run.kernels.rows[i];
    const auto meaning = classes.Find(trace_import::NamePlace::kKernel, kernel.name);
    rows.push_back({.run = run.info.id,
                    .kernel = kernel,
                    .op = ops[i],
                    .op_class = meaning ? meaning->op_class : OpClass::kMemoryBound,
                    .capability = run.kernels.capability});
  }
}

// NULL if `text` is empty.
RowValue TextOrNull(std::string text) {
  return text.empty() ? RowValue() : RowValue(std::move(text));
}

// The kernels of the asked runs.
class Scan final : public RowScan {
 public:
  explicit Scan(KernelSource& source) : source_(source) {}

  // The key is the run.
  Result<void> Begin(const std::vector<std::optional<std::int64_t>>& asked) override {
    rows_.clear();
    at_ = 0;
    FT_ASSIGN(const std::vector<RunInfo> runs, source_.reader->ListRuns());
    LoadOptions options = source_.load;
    options.spans = options.counters = false;
    const trace_import::OpTable classes;
    for (const RunInfo& info : runs) {
      if (asked[0].has_value() && info.id != *asked[0]) continue;
      if (options.cancelled && options.cancelled()) return Fail(ErrorCode::kAborted, "stopped");
      FT_ASSIGN(const StoredRun run, source_.reader->LoadRun(info.id, options));
      AddRows(run, classes, rows_);
    }
    return {};
  }

  Result<void> Next() override {
    ++at_;
    return {};
  }

  bool AtEnd() const override { return at_ >= rows_.size(); }

  RowValue At(int column) const override {
    const Row& row = rows_[at_];
    const KernelRow& kernel = row.kernel;
    switch (column) {
      case kRunId:
        return row.run;
      case kName:
        return TextOrNull(std::string(ShortKernelName(kernel.name)));
      case kClass:
        return std::string(Name(row.op_class));
      case kOp:
        return TextOrNull(row.op);
      case kCalls:
        return kernel.calls;
      case kTotalNs:
        return kernel.total_ns;
      case kMeanNs:
        if (kernel.calls == 0) return {};
        return static_cast<double>(kernel.total_ns) / static_cast<double>(kernel.calls);
      case kLaunch:
        return TextOrNull(Describe(kernel.launch));
      case kOccupancy: {
        const auto occupancy = TheoreticalOccupancy(kernel.launch, row.capability);
        return occupancy ? RowValue(occupancy->share) : RowValue();
      }
      case kFlopPerS:
        return kernel.work.flops > 0 ? RowValue(kernel.work.FlopPerSecond()) : RowValue();
      case kBytesPerS:
        return kernel.work.bytes > 0 ? RowValue(kernel.work.BytesPerSecond()) : RowValue();
      case kFormat:
        return TextOrNull(kernel.work.format);
      default:
        return TextOrNull(kernel.name);
    }
  }

 private:
  KernelSource& source_;
  std::vector<Row> rows_;
  std::size_t at_ = 0;
};

}  // namespace

Result<void> MakeKernelTable(const Database& database, KernelSource& source) {
  return MakeRowTable(
      database, {.module = "ft_kernel",
                 .columns = "CREATE TABLE x(run_id INT, name TEXT, class TEXT, op TEXT, calls INT, "
                            "total_ns INT, mean_ns REAL, launch TEXT, occupancy REAL, "
                            "flop_per_s REAL, bytes_per_s REAL, format TEXT, full_name TEXT)",
                 .create = "CREATE VIRTUAL TABLE temp.v_kernel USING ft_kernel",
                 .keys = {kRunId},
                 .scan = [&source] { return std::make_unique<Scan>(source); },
                 .error = &source.error});
}

}  // namespace foretrain::store_internal
