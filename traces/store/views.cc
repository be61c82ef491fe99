#include "traces/store/views.h"

#include <span>
#include <string_view>
#include <vector>

namespace foretrain {
namespace {

constexpr QueryColumn kRunColumns[] = {
    {"run_id", "number of the run"},
    {"kind", "`predicted measured resimulated imported`"},
    {"status", "`running finished interrupted failed`; `running` also if its process died since"},
    {"label", "name given by the user"},
    {"pinned", "1 if the run is protected from deletion"},
    {"world", "ranks"},
    {"created_unix_ns", "ns since 1970"},
    {"finished_unix_ns", "ns since 1970; NULL until the run ends"},
    {"forecast_run_id", "run that predicted this one; NULL if none"},
    {"last_step", "newest step with stored rows"},
    {"dropped", "spans that were lost"},
    {"invalid", "spans without a usable time"},
    {"overhead_ns", "time spent on recording, ns"},
    {"clock_error_ns", "ns"},
    {"message", "why a run failed or was interrupted"},
    {"model", "model as JSON"},
    {"hardware", "cluster as JSON"},
    {"plan", "plan as JSON: `json_extract(plan, '$.tp')`"},
    {"program_hash", "equal for equal programs; NULL for traces"},
    {"details", "command line, host, files of a trace as JSON"},
    {"spans", "stored spans; NULL if none"},
    {"step_time_s", "median step, s"},
    {"tokens_per_s", "tokens per second of the whole job"},
};
constexpr QueryColumn kStepColumns[] = {
    {"run_id", "number of the run"},
    {"rank", "rank"},
    {"step", "step"},
    {"start_ns", "ns since the run's origin"},
    {"end_ns", "ns since the run's origin"},
    {"duration_ns", "ns"},
    {"loss", "loss of the step; NULL if it was not recorded"},
};
constexpr QueryColumn kSpanColumns[] = {
    {"run_id", "number of the run"},
    {"rank", "rank"},
    {"queue", "`host compute tp cp ep gather reduce send+1 send-1 recv+1 recv-1 h2d d2h nvme cpu`"},
    {"start_ns", "ns since the run's origin"},
    {"end_ns", "ns since the run's origin"},
    {"duration_ns", "ns"},
    {"ready_ns", "when inputs were ready; of communication, when the rank arrived; ns"},
    {"op", "joins a forecast with its measurement; -1 if unknown"},
    {"name", "name of the op; NULL if it has none"},
    {"step", "step that the span serves; -1: none"},
    {"class", "`gemm attention memory_bound tp_comm cp_comm ep_comm dp_comm pp_comm copy host`"},
    {"bytes", "bytes moved: this rank's input; 0 for compute"},
    {"kind", "kind of instruction: `block all_reduce send ...`"},
    {"pass", "`none forward backward backward_input backward_weight recompute update`"},
    {"block", "0 embedding, 1 to L layers, L + 1 head"},
    {"micro_batch", "micro-batch, from 0"},
    {"part", "bucket, peer or piece"},
    {"op_number", "number in the instruction; 4095: all of it"},
};
constexpr QueryColumn kOpColumns[] = {
    {"run_id", "number of the run"},
    {"rank", "rank"},
    {"step", "step"},
    {"op", "as in `v_span`"},
    {"name", "name of the op; NULL if it has none"},
    {"class", "as in `v_span`"},
    {"kind", "as in `v_span`"},
    {"pass", "as in `v_span`"},
    {"block", "as in `v_span`"},
    {"micro_batch", "as in `v_span`"},
    {"part", "as in `v_span`"},
    {"op_number", "as in `v_span`"},
    {"spans", "number of spans"},
    {"duration_ns", "sum of its spans, ns"},
    {"start_ns", "first start, ns"},
    {"end_ns", "last end, ns"},
    {"bytes", "sum over its spans, bytes"},
};
constexpr QueryColumn kExposedColumns[] = {
    {"run_id", "number of the run"},
    {"rank", "rank"},
    {"step", "step"},
    {"class", "as in `v_span`"},
    {"busy_ns", "time of the step's window in which a span of the class runs, ns"},
    {"exposed_ns",
     "the part in which no span of a class before it runs, ns; classes in the order of `class` in "
     "`v_span`"},
};
constexpr QueryColumn kKernelColumns[] = {
    {"run_id", "number of the run"},
    {"name", "short name, without namespaces, template arguments and parameters"},
    {"class", "as in `v_span`, told by the kernel's name"},
    {"op", "names of the ops that run it; NULL if unknown"},
    {"calls", "calls that were launched alike, of all recorded steps and ranks"},
    {"total_ns", "sum of the calls, ns"},
    {"mean_ns", "mean call, ns"},
    {"launch", "grid, block, registers and shared memory; NULL if unknown"},
    {"occupancy", "theoretical occupancy, 0 to 1; NULL if unknown"},
    {"flop_per_s",
     "FLOP/s of the calls whose op has known shapes, a multiply-add as 2; NULL if unknown or no "
     "product"},
    {"bytes_per_s",
     "bytes/s of these calls at least: of inputs, and of the results of products; NULL if "
     "unknown"},
    {"format", "number format of their first inputs; NULL if unknown"},
    {"full_name", "name as the profiler wrote it"},
};
constexpr QueryColumn kMemoryColumns[] = {
    {"run_id", "number of the run"},
    {"rank", "rank"},
    {"time_ns", "ns since the run's origin"},
    {"space", "`device pinned host nvme`"},
    {"category",
     "`parameters gradients master_weights optimizer_state activations recompute communication "
     "workspace logits staging`"},
    {"bytes", "live bytes of the category from this time on"},
};
constexpr QueryColumn kMetricColumns[] = {
    {"run_id", "number of the run"},
    {"name", "name, with the unit at its end"},
    {"rank", "rank; -1: all"},
    {"step", "step; -1: the whole run"},
    {"value", "value; NULL: not a number"},
};
constexpr QueryColumn kCounterColumns[] = {
    {"run_id", "number of the run"},          {"name", "name of the series"},
    {"rank", "rank; -1: the whole job"},      {"step", "step; -1: none"},
    {"time_ns", "ns since the run's origin"}, {"value", "value; NULL: not a number"},
};
constexpr QueryColumn kNoteColumns[] = {
    {"run_id", "number of the run"},
    {"unix_ns", "ns since 1970"},
    {"text", "warning, restart or assumption"},
};

}  // namespace

std::vector<QueryView> QueryViews() {
  const auto list = [](std::span<const QueryColumn> columns) {
    return std::vector<QueryColumn>(columns.begin(), columns.end());
  };
  return {
      {"v_run", "run", list(kRunColumns)},
      {"v_step", "rank and step", list(kStepColumns)},
      {"v_span", "op or instruction on one queue", list(kSpanColumns)},
      {"v_op", "op of a rank and step", list(kOpColumns)},
      {"v_exposed", "class of spans, rank and step with a window", list(kExposedColumns)},
      {"v_kernel", "kernel and launch", list(kKernelColumns)},
      {"v_memory", "change of live bytes", list(kMemoryColumns)},
      {"v_metric", "metric", list(kMetricColumns)},
      {"v_counter", "point of a series", list(kCounterColumns)},
      {"v_note", "note about a run", list(kNoteColumns)},
  };
}

namespace store_internal {
namespace {

// Views that files lack.
constexpr const char* kMoreViews = R"sql(
CREATE VIEW v_note AS SELECT run_id, unix_ns, text FROM note;
)sql";

}  // namespace

// The shifts match PackId (traces/kinds.cc). Ids below 0 are ops without an id, so their fields are
// null. Names of ops are stored without the micro-batch.
const char* const kFileViews = R"sql(
CREATE VIEW v_run AS
SELECT r.run_id, k.name AS kind, s.name AS status, r.label, r.pinned, r.world, r.created_unix_ns,
  r.finished_unix_ns, r.forecast_run_id, r.last_step, r.dropped, r.invalid, r.overhead_ns,
  r.clock_error_ns, r.message, model.json AS model, hardware.json AS hardware, plan.json AS plan,
  program.hash AS program_hash, r.details_json AS details,
  (SELECT sum(spans) FROM batch b WHERE b.run_id = r.run_id) AS spans,
  (SELECT value FROM metric m JOIN series USING(series_id) WHERE m.run_id = r.run_id
    AND m.rank = -1 AND m.step = -1 AND series.name = 'step_time_s') AS step_time_s,
  (SELECT value FROM metric m JOIN series USING(series_id) WHERE m.run_id = r.run_id
    AND m.rank = -1 AND m.step = -1 AND series.name = 'tokens_per_s') AS tokens_per_s
FROM run r JOIN enum_name k ON k.domain = 'run_kind' AND k.id = r.kind
  JOIN enum_name s ON s.domain = 'run_status' AND s.id = r.status
  JOIN model USING(model_id) JOIN hardware USING(hardware_id) JOIN plan USING(plan_id)
  LEFT JOIN program USING(program_id);
CREATE VIEW v_span AS
SELECT t.run_id, t.rank, q.name AS queue, s.start_ns, s.start_ns + s.duration_ns AS end_ns,
  s.duration_ns, s.start_ns - s.wait_ns AS ready_ns, s.op, n.name, s.step, c.name AS class,
  s.bytes, k.name AS kind, p.name AS pass,
  CASE WHEN s.op >= 0 THEN (s.op >> 42) & 8191 END AS block,
  CASE WHEN s.op >= 0 THEN (s.op >> 24) & 262143 END AS micro_batch,
  CASE WHEN s.op >= 0 THEN (s.op >> 12) & 4095 END AS part,
  CASE WHEN s.op >= 0 THEN s.op & 4095 END AS op_number
FROM span s JOIN track t USING(track_id)
  JOIN enum_name q ON q.domain = 'queue' AND q.id = t.queue
  JOIN enum_name c ON c.domain = 'class' AND c.id = s.class
  LEFT JOIN enum_name k ON k.domain = 'kind' AND s.op >= 0 AND k.id = s.op >> 58
  LEFT JOIN enum_name p ON p.domain = 'pass' AND s.op >= 0 AND p.id = (s.op >> 55) & 7
  LEFT JOIN op_name n ON n.run_id = t.run_id AND n.op = s.op & ~(262143 << 24);
CREATE VIEW v_op AS
SELECT run_id, rank, step, op, name, class, kind, pass, block, micro_batch, part, op_number,
  count(*) AS spans, sum(duration_ns) AS duration_ns, min(start_ns) AS start_ns,
  max(end_ns) AS end_ns, sum(bytes) AS bytes
FROM v_span WHERE op >= 0 GROUP BY run_id, rank, step, op, class;
CREATE VIEW v_step AS
SELECT s.run_id, s.rank, s.step, s.start_ns, s.end_ns, s.end_ns - s.start_ns AS duration_ns,
  (SELECT c.value FROM counter c JOIN series USING(series_id) WHERE c.run_id = s.run_id
    AND c.step = s.step AND series.name = 'loss' ORDER BY c.rank, c.time_ns DESC LIMIT 1) AS loss
FROM step s;
CREATE VIEW v_memory AS
SELECT m.run_id, m.rank, m.time_ns, sp.name AS space, c.name AS category, m.bytes
FROM memory m JOIN enum_name c ON c.domain = 'category' AND c.id = m.category
  JOIN enum_name sp ON sp.domain = 'space' AND sp.id = m.space
ORDER BY m.run_id, m.rank, m.time_ns, m.batch, m.seq;
CREATE VIEW v_counter AS
SELECT run_id, series.name, rank, step, time_ns, value FROM counter JOIN series USING(series_id);
CREATE VIEW v_metric AS
SELECT run_id, series.name, rank, step, value FROM metric JOIN series USING(series_id);
)sql";

std::string TempViewsSql() {
  constexpr std::string_view kCreate = "CREATE VIEW";
  std::string sql = std::string(kFileViews) + kMoreViews;
  for (std::size_t at = 0; (at = sql.find(kCreate, at)) != std::string::npos;) {
    sql.replace(at, kCreate.size(), "CREATE TEMP VIEW");
  }
  return sql;
}

}  // namespace store_internal
}  // namespace foretrain
