#include "sim/validate/run_table.h"

#include <set>

#include "base/text.h"
#include "sim/config/csv.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Limits keep counts within their types and reject files that are no tables.
constexpr std::int64_t kMaxCount = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMaxRunRanks = std::int64_t{1} << 20;
constexpr CsvLimits kLimits{.text_bytes = std::size_t{64} << 20};

// Columns without which no row can be forecast. All others may be missing and then have defaults.
constexpr std::string_view kNeededColumns =
    "id layers hidden ffn_hidden vocab seq_len gpu n_gpus dtype tp pp dp micro_batch global_batch "
    "recompute zero_stage target_time_s peak_mem_gib heads measured_quantity";

// Checked once per table, so that a missing column is one error and not one per row.
Result<void> CheckColumns(const CsvTable& table) {
  for (const std::string_view column : Split(kNeededColumns, ' ')) {
    if (table.Column(column) < 0) {
      return Refuse("{}: has no column \"{}\"; docs/validation.md lists the columns", table.file,
                    column);
    }
  }
  return {};
}

// Reads the cells of one row and keeps the first error, so that callers check once (Finish).
class RowReader {
 public:
  RowReader(const CsvTable& table, const CsvRow& row) : cells_(table, row) {}

  std::string Text(std::string_view column) { return std::string(cells_.Text(column)); }
  // `otherwise` replaces an empty cell.
  std::int64_t Count(std::string_view column, std::int64_t low, std::int64_t otherwise,
                     std::int64_t high = kMaxCount) {
    if (cells_.Text(column).empty()) return otherwise;
    return Keep(cells_.Count(column, low, high), otherwise);
  }
  int Degree(std::string_view column) {
    return static_cast<int>(Count(column, 1, 1, kMaxRunRanks));
  }
  std::optional<int> Optional(std::string_view column, std::int64_t low, std::int64_t high) {
    if (cells_.Text(column).empty()) return std::nullopt;
    return static_cast<int>(Count(column, low, low, high));
  }
  double Number(std::string_view column) { return Keep(cells_.Number(column, 0.0), 0.0); }
  bool Flag(std::string_view column) { return Keep(cells_.Flag(column, false), false); }
  std::string Place(std::string_view column) const { return cells_.Place(column); }
  Result<void> Finish() {
    if (error_.has_value()) return tl::unexpected<Error>(*error_);
    return {};
  }

 private:
  template <class T>
  T Keep(Result<T> value, T otherwise) {
    if (value.has_value()) return *value;
    if (!error_.has_value()) error_ = value.error();
    return otherwise;
  }

  CsvReader cells_;
  std::optional<Error> error_;
};

// An empty cell becomes 0, which means unknown. run_case.cc fills in heads and head_dim; other
// missing sizes make the row invalid.
void ReadModel(RowReader& row, PublishedRun& run) {
  run.model = row.Text("model");
  run.parameters = row.Number("params_b") * 1e9;
  run.layers = row.Count("layers", 1, 0);
  run.hidden = row.Count("hidden", 1, 0);
  run.heads = row.Count("heads", 1, 0);
  run.kv_heads = row.Count("kv_heads", 1, run.heads);
  run.head_dim = row.Count("head_dim", 1, 0);
  run.ffn_hidden = row.Count("ffn_hidden", 1, 0);
  run.vocab = row.Count("vocab", 1, 0);
  run.sequence = row.Count("seq_len", 1, 0);
  run.experts = row.Count("moe_experts", 0, 0);
  run.experts_per_token = row.Count("moe_topk", 0, 0);
  run.gated_mlp = row.Flag("gated_mlp");
}

// Bandwidths are in GB/s in the table, bytes per second here.
void ReadMachine(RowReader& row, PublishedRun& run) {
  run.gpu = row.Text("gpu");
  run.gpus = row.Degree("n_gpus");
  run.gpus_per_node = row.Degree("gpus_per_node");
  run.link_bytes_per_s = row.Number("intra_bw") * 1e9;
  run.network_bytes_per_s = row.Number("inter_bw") * 1e9;
  run.all_reduce_bytes_per_s = row.Number("job_allreduce_GBps") * 1e9;
  run.all_gather_bytes_per_s = row.Number("job_allgather_GBps") * 1e9;
  run.reduce_scatter_bytes_per_s = row.Number("job_reducescatter_GBps") * 1e9;
}

// Degrees that are not stated are 1. vpp and zero_stage stay absent, because absent means unknown
// there.
void ReadPlan(RowReader& row, PublishedRun& run) {
  run.preset = row.Text("preset");
  run.method = row.Text("method");
  run.rank_order = row.Text("rank_order");
  run.dtype = row.Text("dtype");
  run.dp = row.Degree("dp");
  run.tp = row.Degree("tp");
  run.pp = row.Degree("pp");
  run.cp = row.Degree("cp");
  run.ep = row.Degree("ep");
  run.vpp = row.Optional("vpp", 1, 1024);
  run.zero_stage = row.Optional("zero_stage", 0, 3);
  run.sequence_parallel = row.Flag("seq_parallel");
  run.recompute = row.Text("recompute");
  run.offload = row.Text("offload");
  run.attention = row.Text("attention");
  run.micro_batch = row.Count("micro_batch", 1, 0);
  run.global_batch = row.Count("global_batch", 1, 0);
  run.assumptions = row.Text("assumptions");
}

// A row holds target_time_s and peak_mem_gib if they were measured. A measured_quantity that starts
// with "oom" marks a run that did not fit.
Result<PublishedRun> ReadRun(const CsvTable& table, const CsvRow& cells) {
  RowReader row(table, cells);
  PublishedRun run;
  run.id = row.Text("id");
  if (run.id.empty()) return Refuse("{}: is empty; each run has an id", row.Place("id"));
  run.family = run.id.substr(0, run.id.rfind('-'));
  ReadModel(row, run);
  ReadMachine(row, run);
  ReadPlan(row, run);
  run.step_s = row.Number("target_time_s");
  run.peak_gib = row.Number("peak_mem_gib");
  run.reserved_gib = row.Number("mem_reserved_gib");
  run.out_of_memory = row.Text("measured_quantity").starts_with("oom");
  FT_TRY(row.Finish());
  return run;
}

}  // namespace

// Rows are read in order. A repeated id is an error, because reports name rows by id.
Result<std::vector<PublishedRun>> ParsePublishedRuns(std::string_view text, std::string_view file) {
  FT_ASSIGN(const CsvTable table, ParseCsv(text, file, kLimits));
  FT_TRY(CheckColumns(table));
  std::vector<PublishedRun> runs;
  std::set<std::string> seen;
  for (const CsvRow& row : table.rows) {
    FT_ASSIGN(PublishedRun run, ReadRun(table, row));
    if (!seen.insert(run.id).second) {
      return Refuse("{} line {}, column id: \"{}\" stands in an earlier row; ids are unique",
                    table.file, row.line, Printable(run.id));
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace foretrain
