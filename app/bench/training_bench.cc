#include "app/bench/training_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/training/local_gpu.h"
#include "app/training/training.h"
#include "base/numeric/random.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/device/arena.h"

namespace foretrain {
namespace {

// A row as it is written down: fields of the plan and, of the model, layers, hidden and heads.
struct Written {
  const char* name;
  const char* model;
  const char* fields;
  std::int64_t budget_gib = 0;
};

constexpr std::array kGpuRows = {
    Written{"gpt2-124m-b4-fp32", "gpt2-124m", "sequence=1024 micro_batch=4 precision=fp32"},
    Written{"gpt2-124m-b4-tf32", "gpt2-124m", "sequence=1024 micro_batch=4 precision=tf32"},
    Written{"gpt2-124m-b4-bf16", "gpt2-124m", "sequence=1024 micro_batch=4 precision=bf16"},
    Written{"gpt2-124m-b64-fp32", "gpt2-124m", "sequence=1024 micro_batch=64 precision=fp32"},
    Written{"gpt2-124m-b64-tf32", "gpt2-124m", "sequence=1024 micro_batch=64 precision=tf32"},
    Written{"gpt2-124m-b64-bf16", "gpt2-124m", "sequence=1024 micro_batch=64 precision=bf16"},
    Written{"gpt2-1558m-bf16", "gpt2-1558m", "sequence=1024 micro_batch=16 precision=bf16"},
    Written{"llama3.1-8b-recompute-bf16", "llama3.1-8b",
            "sequence=4096 micro_batch=1 global_batch=4 precision=bf16 recompute=full "
            "moments=bf16 loss_chunks=4"},
    Written{"llama3.1-8b-lora-bf16", "llama3.1-8b",
            "sequence=4096 micro_batch=1 global_batch=4 precision=bf16 method=lora "
            "loss_chunks=4"},
    Written{"llama2-7b-24gib-offload-bf16", "llama2-7b",
            "sequence=2048 micro_batch=1 global_batch=8 precision=bf16 recompute=full "
            "offload_optimizer=host offload_gradients=host loss_chunks=4",
            24},
};
constexpr std::array kCpuRows = {
    Written{"gpt-b8-fp32", "gpt-10m", "layers=2 sequence=128 micro_batch=8 precision=fp32"},
    Written{"gpt-b8-bf16", "gpt-10m", "layers=2 sequence=128 micro_batch=8 precision=bf16"},
    Written{"gpt-b1-fp32", "gpt-10m", "layers=2 sequence=128 micro_batch=1 precision=fp32"},
    Written{"llama-recompute-bf16", "tinyllama-1.1b",
            "layers=2 hidden=256 heads=4 sequence=128 micro_batch=1 global_batch=2 precision=bf16 "
            "recompute=full moments=bf16 loss_chunks=4"},
    Written{"llama-lora-bf16", "tinyllama-1.1b",
            "layers=2 hidden=256 heads=4 sequence=128 micro_batch=1 global_batch=2 precision=bf16 "
            "method=lora loss_chunks=4"},
    Written{"gpt-1gib-offload-bf16", "gpt-10m",
            "layers=2 sequence=128 micro_batch=1 global_batch=2 precision=bf16 recompute=full "
            "offload_optimizer=host offload_gradients=host loss_chunks=4",
            1},
};
// One for each schedule. 12 layers: 3 chunks a rank where stages are interleaved.
constexpr const char* kGpuPipeline =
    "sequence=1024 micro_batch=4 global_batch=32 precision=bf16 pp=4";
constexpr const char* kCpuPipeline =
    "layers=12 hidden=64 heads=2 sequence=64 micro_batch=1 global_batch=8 precision=fp32 pp=4";
constexpr std::array kSchedules = {ScheduleKind::kGpipe,       ScheduleKind::k1f1b,
                                   ScheduleKind::kInterleaved, ScheduleKind::kZbH1,
                                   ScheduleKind::kZbH2,        ScheduleKind::kZbV,
                                   ScheduleKind::kDualPipe,    ScheduleKind::kDualPipeV,
                                   ScheduleKind::kPipeDream,   ScheduleKind::kPipeDream2bw};

constexpr std::size_t kDataBytes = std::size_t{1} << 20;
constexpr std::uint64_t kSeed = 29;

// Model fields go to the model, every other field to the plan's options, so a row reads like a
// command line.
void Lay(std::string_view fields, TableRow& row) {
  for (const std::string_view field : Split(fields, ' ')) {
    const auto equals = field.find('=');
    const std::string_view name = field.substr(0, equals);
    const std::string value(field.substr(equals + 1));
    if (name == "layers") {
      row.model.layers = std::stoll(value);
    } else if (name == "hidden") {
      row.model.hidden = std::stoll(value);
    } else if (name == "heads") {
      row.model.heads = std::stoll(value);
    } else {
      row.plan.Text(name) = value;
    }
  }
  // The default is one micro-batch a step.
  if (!row.plan.Given("global_batch")) row.plan.Text("global_batch") = row.plan.Text("micro_batch");
}

// A row is written as text, so that the table reads like commands.
TableRow RowOf(const Written& written) {
  TableRow row;
  row.name = written.name;
  row.model.model = written.model;
  row.budget_bytes = written.budget_gib * kGiB;
  Lay(written.fields, row);
  return row;
}

// Random bytes, the same in every run.
std::string MadeUpText() {
  const CounterRandom random(kSeed, "bench.text");
  std::string text(kDataBytes, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(random.Below(i, 256));
  }
  return text;
}

int RanksOf(const TableRow& row) { return static_cast<int>(row.plan.GivenRanks()); }

// The context that `train` itself would use, so that the table forecasts what a user sees.
Result<ForecastContext> ContextOf(const TableRow& row, const TableOptions& options) {
  ClusterFlags flags;
  flags.device_profile = options.device_profile;
  flags.ranks = RanksOf(row);
  flags.cluster = options.cluster.empty() ? "local" : options.cluster;
  return options.cuda ? MakeGpuContext(row.model, flags) : MakeContext(row.model, flags);
}

// 0 for a metric that the run does not have.
TableMetrics MetricsOfTable(const Metrics& of, std::optional<double> peak_bytes) {
  TableMetrics metrics;
  if (of.overall.has_value()) {
    metrics.step_time_s = of.overall->time_s;
    metrics.tokens_per_s = of.overall->tokens_per_s.value_or(0);
    metrics.mfu = of.overall->mfu.value_or(0);
  }
  if (peak_bytes) metrics.peak_memory_gib = *peak_bytes / static_cast<double>(kGiB);
  return metrics;
}

// The largest peak of all ranks, in bytes.
double FullestRank(const Forecast& forecast) {
  std::int64_t max_bytes = 0;
  for (const PeakMemory& peak : forecast.memory) max_bytes = std::max(max_bytes, peak.total);
  return static_cast<double>(max_bytes);
}

// Ops of one step of all ranks: what a full recording keeps of it.
std::int64_t SpansOfStep(const Program& program) {
  std::int64_t spans = 0;
  for (const RankProgram& rank : program.ranks) {
    for (const Instruction& instruction : rank.step) {
      spans += static_cast<std::int64_t>(
          program.blocks[static_cast<std::size_t>(instruction.block)].ops.size());
    }
  }
  return spans;
}

// Why the device or the host has too little free memory for the program; "" if it has enough or if
// ranks have no device yet. A plan over its own budget is an error, because no machine can run it.
Result<std::string> WhyItDoesNotFit(const Program& program, const TrainingOptions& training) {
  if (training.ranks.local.empty()) return "";
  const auto fits = CheckMemory(program, *training.device, training.ranks.local,
                                training.job.executor.budget_bytes);
  if (fits.has_value()) return "";
  if (fits.error().code != ErrorCode::kResourceExhausted) {
    return tl::unexpected<Error>(fits.error());
  }
  return fits.error().message;
}

// Forecasts first, from the same rates that the run stores, then trains. One step more than asked
// is run, because the first one warms up. Ops are recorded only if they are few: recording must not
// slow the measured steps.
Result<void> ForecastAndRun(Store& store, const TableRow& row, const TableOptions& options,
                            TableResult& result) {
  FT_ASSIGN(const ForecastContext context, ContextOf(row, options));
  PlanFlags flags = row.plan;
  if (options.cuda) PreferForGpu(context.model, flags);
  FT_ASSIGN(const Plan plan, PlanOf(flags, context.model, RanksOf(row)));
  result.plan = Describe(plan);
  result.rates = context.profile_origin;
  result.shares_device = options.cuda && plan.World() > 1;
  TrainingOptions training;
  training.job.steps = options.steps + 1;
  training.job.executor.budget_bytes = row.budget_bytes;
  training.device = options.device;
  if (options.device != nullptr) {
    FT_ASSIGN(training.ranks,
              PlaceRanks(plan, {options.device, 1, options.device_number}, /*share=*/true));
  }
  {
    FT_ASSIGN(const Forecast forecast, MakeForecast(context.model, plan, context.costs));
    result.predicted = MetricsOfTable(ForecastMetrics(context, forecast), FullestRank(forecast));
    FT_ASSIGN(result.does_not_fit, WhyItDoesNotFit(forecast.program, training));
    if (!result.does_not_fit.empty()) return {};
    const bool few = SpansOfStep(forecast.program) * training.job.steps <= options.max_spans;
    training.capture = few ? CaptureLevel::kFull : CaptureLevel::kOff;
  }
  training.text = MadeUpText();
  training.data_name = "made-up bytes";
  training.pattern_weights = true;
  training.progress = false;
  FT_ASSIGN(const TrainingResult trained, RunTraining(store, context, plan, training));
  // A stopped row has too few steps to count.
  if (trained.summary.stopped) return Fail(ErrorCode::kAborted, "stopped");
  // Peaks are measured only in a full recording.
  std::optional<double> peak_bytes;
  for (const std::int64_t bytes : trained.summary.peak_bytes) {
    if (training.capture != CaptureLevel::kFull) break;
    peak_bytes = std::max(peak_bytes.value_or(0), static_cast<double>(bytes));
  }
  result.measured = MetricsOfTable(trained.metrics, peak_bytes);
  result.last_loss = trained.last_loss;
  result.run = trained.run;
  return {};
}

}  // namespace

// Rows of one device first, then one row for each schedule on four ranks. GPU and CPU rows differ
// in size, not in what they cover.
std::vector<TableRow> TableRows(bool cuda) {
  std::vector<TableRow> rows;
  if (cuda) {
    for (const Written& row : kGpuRows) rows.push_back(RowOf(row));
  } else {
    for (const Written& row : kCpuRows) rows.push_back(RowOf(row));
  }
  for (const ScheduleKind schedule : kSchedules) {
    const std::string name(Name(schedule));
    // PipeDream updates at each micro-batch, which a tied table would chain from stage to stage.
    const bool untied = schedule == ScheduleKind::kPipeDream;
    const char* const model = untied ? "pythia-160m" : cuda ? "gpt2-124m" : "gpt-10m";
    TableRow row = RowOf({"", model, cuda ? kGpuPipeline : kCpuPipeline});
    row.name = "pp4-" + name;
    row.plan.Text("schedule") = name;
    if (schedule == ScheduleKind::kInterleaved) row.plan.Text("vpp") = "3";
    rows.push_back(std::move(row));
  }
  return rows;
}

// In the order of `names`. An unknown name lists all rows.
Result<std::vector<TableRow>> ChooseRows(std::vector<TableRow> rows, std::string_view names) {
  if (names.empty()) return rows;
  std::vector<TableRow> chosen;
  for (const std::string_view name : Split(names, ',')) {
    const auto found = std::find_if(rows.begin(), rows.end(),
                                    [&](const TableRow& row) { return row.name == name; });
    if (found == rows.end()) {
      std::string all;
      for (const TableRow& row : rows) all += (all.empty() ? "" : ", ") + row.name;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--only: no row \"{}\"; there are {}", name, all));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

// A failed row is a result with its message, so that the other rows still run.
TableResult RunRow(Store& store, const TableRow& row, const TableOptions& options) {
  TableResult result;
  result.name = row.name;
  if (const auto ran = ForecastAndRun(store, row, options, result); !ran.has_value()) {
    result.failed = ran.error().message;
  }
  return result;
}

// Describes the row for a peer implementation in PyTorch, or null: only single-rank GPT-2 and Llama
// plans without a budget have one.
Result<void> WritePeer(JsonWriter& json, const TableRow& row) {
  if (RanksOf(row) > 1 || row.budget_bytes > 0) {
    json.Null();
    return {};
  }
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  FT_ASSIGN(const ModelSpec model, row.model.Resolve(catalogue));
  FT_ASSIGN(const Plan plan, PlanOf(row.plan, model, 1));
  const bool gpt2 = model.positions == PositionKind::kLearned && model.mlp == MlpKind::kGelu;
  const bool llama = model.positions == PositionKind::kRope && model.IsGated() &&
                     model.norm == NormKind::kRmsNorm && model.experts == 0;
  if (!gpt2 && !llama) {
    json.Null();
    return {};
  }
  json.BeginObject().Field("family", gpt2 ? "gpt2" : "llama").Field("layers", model.layers);
  json.Field("hidden", model.hidden).Field("heads", model.heads);
  json.Field("kv_heads", model.kv_heads).Field("ffn_hidden", model.ffn_hidden);
  json.Field("vocab", model.vocab).Field("sequence", plan.sequence);
  json.Field("micro_batch", plan.micro_batch).Field("global_batch", plan.global_batch);
  json.Field("precision", Name(plan.precision)).Field("tied", model.tied_embeddings);
  json.Field("recompute", plan.recompute == RecomputeKind::kFull);
  json.Field("lora_rank", plan.HasAdapters() ? plan.lora_rank : 0);
  json.Field("moments", plan.moments == MomentFormat::kBf16 ? "bf16" : "fp32").EndObject();
  return {};
}

}  // namespace foretrain
