#include "traces/store/query/exposed_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "traces/metrics/classes.h"
#include "traces/store/query/row_table.h"

namespace foretrain::store_internal {
namespace {

enum Column : int { kRunId, kRank, kStep, kClass, kBusyNs, kExposedNs };

struct Row {
  RunId run = 0;
  int rank = 0;
  std::int32_t step = 0;
  OpClass op_class{};
  std::int64_t busy_ns = 0;
  std::int64_t exposed_ns = 0;
};

// Runs up to this size are read whole, larger ones rank by rank.
constexpr std::int64_t kMaxSpansAtOnce = 2'000'000;

// The rows of the ranks of `timeline`; a class without spans has none.
void AddRows(const RunInfo& info, const Timeline& timeline, std::vector<Row>& rows) {
  std::optional<RankClasses> classes;
  int rank = -1;
  for (const StepWindow& window : timeline.steps) {
    if (!classes.has_value() || window.rank != rank) {
      rank = window.rank;
      classes.emplace(SpansOfRank(timeline, rank));
    }
    const auto busy = classes->BusyIn(window.start_ns, window.end_ns);
    const auto exposed = classes->ExclusiveIn(window.start_ns, window.end_ns);
    for (std::size_t c = 0; c < busy.size(); ++c) {
      if (busy[c] == 0) continue;
      rows.push_back({info.id, rank, window.step, static_cast<OpClass>(c), busy[c], exposed[c]});
    }
  }
}

// A scan over the asked runs and ranks; holds the rows of one rank.
class Scan final : public RowScan {
 public:
  explicit Scan(ExposedSource& source) : source_(source) {}

  // The keys are run and rank.
  Result<void> Begin(const std::vector<std::optional<std::int64_t>>& asked) override {
    const std::optional<std::int64_t> run = asked[0];
    runs_.clear();
    rows_.clear();
    at_ = 0;
    next_run_ = 0;
    next_rank_ = 0;
    rank_ = asked[1];
    FT_ASSIGN(const std::vector<RunInfo> all, source_.reader->ListRuns());
    for (const RunInfo& info : all) {
      if (!run.has_value() || info.id == *run) runs_.push_back(info);
    }
    return Fill();
  }

  Result<void> Next() override {
    if (++at_ < rows_.size()) return {};
    return Fill();
  }

  bool AtEnd() const override { return at_ >= rows_.size(); }

  RowValue At(int column) const override {
    const Row& row = rows_[at_];
    if (column == kClass) return std::string(Name(row.op_class));
    const std::array<std::int64_t, 6> numbers{row.run, row.rank,    row.step,
                                              0,       row.busy_ns, row.exposed_ns};
    return numbers[static_cast<std::size_t>(column)];
  }

 private:
  // Reads runs or ranks until one has rows.
  Result<void> Fill() {
    rows_.clear();
    at_ = 0;
    while (rows_.empty() && next_run_ < runs_.size()) {
      const RunInfo& info = runs_[next_run_];
      const bool whole = !rank_.has_value() && info.spans <= kMaxSpansAtOnce;
      const std::int64_t rank = rank_.value_or(next_rank_);
      const bool is_rank = rank >= 0 && rank < std::min(info.world, kMaxRanks);
      LoadOptions options = source_.load;
      options.counters = options.kernels = false;
      if (!whole) options.ranks = {static_cast<int>(rank)};
      if (options.cancelled && options.cancelled()) return Fail(ErrorCode::kAborted, "stopped");
      if (is_rank && info.spans > 0) {
        FT_ASSIGN(const StoredRun run, source_.reader->LoadRun(info.id, options));
        AddRows(info, run.timeline, rows_);
      }
      ++next_rank_;
      if (!whole && !rank_.has_value() && next_rank_ < std::min(info.world, kMaxRanks)) continue;
      ++next_run_;
      next_rank_ = 0;
    }
    return {};
  }

  static constexpr int kMaxRanks = 1 << 15;  // spans of higher ranks are not stored

  ExposedSource& source_;
  std::vector<RunInfo> runs_;
  std::optional<std::int64_t> rank_;
  std::size_t next_run_ = 0;
  int next_rank_ = 0;
  std::vector<Row> rows_;
  std::size_t at_ = 0;
};

}  // namespace

Result<void> MakeExposedTable(const Database& database, ExposedSource& source) {
  return MakeRowTable(
      database,
      {.module = "ft_exposed",
       .columns = "CREATE TABLE x(run_id INT, rank INT, step INT, class TEXT, busy_ns INT, "
                  "exposed_ns INT, PRIMARY KEY(run_id, rank, step, class)) WITHOUT ROWID",
       .create = "CREATE VIRTUAL TABLE temp.v_exposed USING ft_exposed",
       .keys = {kRunId, kRank},
       .scan = [&source] { return std::make_unique<Scan>(source); },
       .error = &source.error});
}

}  // namespace foretrain::store_internal
