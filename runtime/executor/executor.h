// Runs a linked program for its ranks as threads of this process, exactly in the program's order.
// Programs: sim/program. Kernels: base/device_api.h. Data and weights: runtime/data/,
// runtime/parameters/.
//
//   host thread ── issues ops in order, at most run_ahead ──► queue threads (compute, reduce, ...)
//                                                                │ wait for edges, run, record
//                  HostRead waits ◄──────────────────────────────┘
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "profiler/capture.h"
#include "profiler/span_recorder.h"
#include "runtime/data/batch_source.h"
#include "runtime/device/arena.h"
#include "runtime/ops/kernel_call.h"
#include "runtime/run/fault_injector.h"
#include "runtime/run/rank_world.h"
#include "runtime/run/run_clock.h"
#include "runtime/run/run_sink.h"
#include "runtime/run/step_agreement.h"
#include "sim/cost/kernels/attention_times.h"
#include "sim/cost/kernels/gemm_algorithms.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Kernels for attention: the device's own, its library's, or the faster by stored times.
enum class AttentionChoice { kAuto, kOwn, kLibrary, kLibraryAnyOrder };

// Maximum bandwidth of the copies on a queue, so that runs on one machine show the ratios of
// another; 0: unlimited.
struct CopyCaps {
  double h2d_bytes_per_s = 0;
  double d2h_bytes_per_s = 0;
  double nvme_bytes_per_s = 0;
};

class RoutingScript;
class SpikeGuard;
struct RunCall;

struct ExecutorOptions {
  int device = 0;  // for all ranks, if `local` is empty
  // The ranks that this process runs, in the program's order, each with its device; empty: all
  // ranks, on `device`.
  std::vector<LocalRank> local;
  WorldMaker world;  // how ranks communicate; null: as threads of this process
  // borrowed; agreement with other processes; null: all ranks are here
  StepAgreement* agreement = nullptr;
  std::int64_t budget_bytes = 0;  // limit of each rank's device arena; 0: none
  // Multiprocessors for each rank's queues, disjoint from other ranks', so that ranks on one device
  // run at the same time; 0: all ranks use all.
  int sm_share = 0;
  // Gives kernels that a block repeats each step to the device as graphs, from the second time on
  // (sim/program/graphs/graph_stretches.h).
  bool graphs = false;
  // Runs compute ops of all ranks one at a time: each is measured alone, and the run takes longer.
  bool take_turns = false;
  std::int64_t first_step = 0;  // number of the first step, for data, AdamW and spans
  OptimizerSettings optimizer;
  std::uint64_t seed = 0;                                 // for dropout
  std::function<float(std::int64_t step)> learning_rate;  // null: 0
  // Timeout in which a rank waits for peers, and a process for a rank without progress; > 0.
  std::int64_t timeout_ns = 600'000'000'000;
  // ops issued beyond the oldest unfinished one, transfers excepted; >= 1
  int run_ahead = kRunAheadOps;
  bool record_spans = true;
  bool record_memory = true;
  CaptureWindow window;  // steps and ranks whose spans, samples and windows are kept
  // The device's own recording; null: none. Shared with threads that may outlive a failed run.
  std::shared_ptr<OpCapture> capture;
  bool poison = false;  // see ArenaOptions
  NvmeOptions nvme;     // location of buffers on a disk
  CopyCaps copy_caps;
  // Pins each rank's threads to the cores of its slot (runtime/executor/placement.h).
  bool pin = false;
  GemmAlgorithms gemm_algorithms;  // for products, if the device supports them; else it chooses
  AttentionChoice attention = AttentionChoice::kAuto;
  AttentionTimes attention_times;  // for kAuto; empty: the device's own kernels
  // Kernels for tensor cores. WGMMA must be asked for: no GPU has run them yet.
  FtTensorKernels tensor_kernels = FT_TENSOR_MMA;
  // A loss or gradient that is infinite or NaN ends the run. False for runs that only measure.
  bool ends_if_not_finite = false;
  // Skips steps whose loss is a spike; null: none. The plan passes CheckSkipsSpikes. Shared with
  // threads that may outlive a failed run.
  std::shared_ptr<SpikeGuard> spike_guard;
  FaultInjector* faults = nullptr;   // for tests; borrowed
  RoutingScript* routing = nullptr;  // borrowed; null: routers choose and nothing is recorded
};

// Use of ExecutorOptions::graphs so far, over all ranks here.
struct GraphUse {
  std::int64_t made = 0;      // graphs created
  std::int64_t launches = 0;  // graph launches
  std::int64_t ops = 0;       // ops in launched graphs
  std::int64_t refused = 0;   // stretches of which the device makes no graph: they run op by op
  std::string why_refused;    // reason of one of them

  void Add(const GraphUse& other) {
    made += other.made;
    launches += other.launches;
    ops += other.ops;
    refused += other.refused;
    if (why_refused.empty()) why_refused = other.why_refused;
  }
};

struct RunSummary {
  std::int64_t steps = 0;  // steps that all ranks ran
  bool stopped = false;    // the stop function ended it before the requested steps
  double seconds = 0.0;    // on the run's clock
  RecordingCost recording;
  GraphUse graphs;
  std::vector<std::int64_t> peak_bytes;  // measured peak of device memory, for each rank here
  std::vector<std::array<std::int64_t, kSpaceCount>> peak_by_space;  // the same for every space
  // Growth of the process's resident memory since before the ranks were made; 0: unknown. Train
  // fills it in.
  std::int64_t resident_growth_bytes = 0;
};

class Executor {
 public:
  // Allocates memory and prepares every op; state is zero.
  //
  //   program  linked and verified, with all of its ranks
  //   api, clock  outlive the executor
  //
  // Errors: kUnsupported, an op or graphs that the device lacks, by name; kInfeasible or
  // kResourceExhausted, memory (CheckMemory); kInvalidArgument, a program that the executor cannot
  // run, or ranks that it does not have; errors of creating the communicators.
  static Result<std::unique_ptr<Executor>> Make(std::shared_ptr<const Program> program,
                                                const FtDeviceApi& api, RunClock& clock,
                                                ExecutorOptions options);
  // An executor in the memory of `owner`, which has the same ranks and a program with the same
  // state at the same addresses (CompileEvaluation). The two run in turn; `owner` outlives it.
  // Errors: as above, but for memory.
  static Result<std::unique_ptr<Executor>> MakeIn(Executor& owner,
                                                  std::shared_ptr<const Program> program,
                                                  const FtDeviceApi& api, RunClock& clock,
                                                  ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs `steps` steps after those already run. Between two calls the run has no threads.
  //
  //   batches, sink  borrowed
  //   stop           called before each step, from any thread; if true, the run ends with the last
  //                  step that any rank has begun. May be null.
  //
  // With ends_if_not_finite, a step whose gradient is infinite or NaN ends the run before its
  // update, if the gradient's norm is computed and no loss scale handles it. The step then runs
  // once more, to name the op.
  //
  // Errors: the first failing rank's, "rank 3, step 7, backward layer 2 mb 1, mlp.up: ..."; after
  // it the executor cannot run again. If a rank stalls, Run returns within the timeout plus about a
  // second; threads that have not returned by then are left behind, with their memory.
  Result<RunSummary> Run(std::int64_t steps, BatchSource& batches, RunSink& sink,
                         std::function<bool()> stop = nullptr);

  const Program& program() const;
  int ranks() const;  // number of ranks that run here
  std::int64_t next_step() const;

  // A rank that runs here, and its memory, for loading and reading state between runs. `place`
  // counts the ranks here; if all run here, it is the index in Program::ranks.
  const RankProgram& Rank(int place) const;
  RankArena& Arena(int place);

  // How each rank ended its last run: `nullopt` if well, else its own error or kAborted.
  const std::vector<std::optional<Error>>& rank_errors() const { return rank_errors_; }
  // "rank 3: 12.345 ms backward layer 3 mb 1, mlp.up (step 7)": a line for each op in every rank's
  // ring.
  std::string FlightText() const;

 private:
  struct State;
  static Result<std::unique_ptr<Executor>> MakeWith(Executor* owner,
                                                    std::shared_ptr<const Program> program,
                                                    const FtDeviceApi& api, RunClock& clock,
                                                    ExecutorOptions options);
  explicit Executor(std::shared_ptr<State> state);
  Result<void> RunCalled(const std::shared_ptr<RunCall>& call);
  Error NotFinite(std::int64_t step, BatchSource& batches);

  // Shared with the threads of a run, and with executors that use its memory, so that a thread that
  // never returns touches no freed memory.
  std::shared_ptr<State> state_;
  std::vector<std::optional<Error>> rank_errors_;
};

}  // namespace foretrain
