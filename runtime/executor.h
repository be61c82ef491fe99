// Runs a linked program for all of its ranks as threads of this process, in the program's order and
// no other. Leaves out what a program is (sim/program), kernels (base/device_api.h) and where data
// and weights come from (runtime/data/, runtime/parameters/).
//
//   host thread ── issues ops in order, at most run_ahead ──► queue threads (compute, reduce,
//   ...)
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
#include "runtime/arena.h"
#include "runtime/data/batch_source.h"
#include "runtime/fault_injector.h"
#include "runtime/flight.h"
#include "runtime/ops/kernel_call.h"
#include "runtime/rank_world.h"
#include "runtime/run_clock.h"
#include "runtime/run_sink.h"
#include "runtime/step_agreement.h"
#include "sim/cost/attention_times.h"
#include "sim/cost/gemm_algorithms.h"
#include "sim/program/program.h"

namespace foretrain {

// Which kernels compute attention: of the device's own or its library's, or of both by their times.
enum class AttentionChoice { kAuto, kOwn, kLibrary, kLibraryAnyOrder };

// Bytes a second that the copies of a queue take at most, so that runs on one machine have the
// ratios of another; 0: as fast as they go.
struct CopyCaps {
  double h2d_bytes_per_s = 0;
  double d2h_bytes_per_s = 0;
  double nvme_bytes_per_s = 0;
};

class RoutingScript;

struct ExecutorOptions {
  int device = 0;  // of all ranks, where `local` is empty
  // The program's ranks that this process runs, in the program's order, each on its device; empty:
  // all of them, on `device`.
  std::vector<LocalRank> local;
  WorldMaker world;                    // how ranks communicate; null: as threads
  StepAgreement* agreement = nullptr;  // borrowed; with other processes' ranks; null: all are here
  std::int64_t budget_bytes = 0;       // of each rank's device arena; 0: none
  // Multiprocessors of the device that each rank's queues run on, apart from the other ranks', so
  // that ranks on one device do not take turns; 0: all ranks on all.
  int sm_share = 0;
  // What a block's kernels do again each step is given to the device as graphs, from the second
  // time on (sim/program/graph_stretches.h).
  bool graphs = false;
  // Compute ops of all ranks run one at a time: each is measured alone, the run takes longer.
  bool take_turns = false;
  std::int64_t first_step = 0;  // number of the first step: the data's, AdamW's and the spans'
  OptimizerSettings optimizer;
  std::uint64_t seed = 0;                                 // of dropout
  std::function<float(std::int64_t step)> learning_rate;  // null: 0
  // How long a rank waits for its peers, and a process for a rank in which nothing happens; > 0.
  std::int64_t timeout_ns = 600'000'000'000;
  int run_ahead = kRunAheadOps;  // ops issued beyond the oldest not ended but transfers; >= 1
  bool record_spans = true;
  bool record_memory = true;
  CaptureWindow window;  // of what spans, samples and step windows are kept
  // A device's own recording; null: none. Shared with threads that outlive a failed run.
  std::shared_ptr<OpCapture> capture;
  bool poison = false;  // see ArenaOptions
  NvmeOptions nvme;     // where buffers on a disk lie
  CopyCaps copy_caps;
  // Each rank's threads stay on the cores of its slot (runtime/executor/placement.h).
  bool pin = false;
  GemmAlgorithms gemm_algorithms;  // of products, where the device has such; else it chooses
  AttentionChoice attention = AttentionChoice::kAuto;
  AttentionTimes attention_times;    // by which kAuto chooses; none: the device's own
  FaultInjector* faults = nullptr;   // tests; borrowed
  RoutingScript* routing = nullptr;  // borrowed; null: routers choose, and nobody records it
};

// What became of ExecutorOptions::graphs so far, of all ranks here.
struct GraphUse {
  std::int64_t made = 0;      // graphs
  std::int64_t launches = 0;  // of graphs
  std::int64_t ops = 0;       // in them, each launch counted
  std::int64_t refused = 0;   // stretches that the device makes no graph of: they run op by op
  std::string why_refused;    // of one of them

  void Add(const GraphUse& other) {
    made += other.made;
    launches += other.launches;
    ops += other.ops;
    refused += other.refused;
    if (why_refused.empty()) why_refused = other.why_refused;
  }
};

struct RunSummary {
  std::int64_t steps = 0;  // that all ranks ran
  bool stopped = false;    // by the stop function, before the steps asked for
  double seconds = 0.0;    // of the run's clock
  RecordingCost recording;
  GraphUse graphs;
  std::vector<std::int64_t> peak_bytes;  // measured, of device memory: one a rank that ran here
  std::vector<std::array<std::int64_t, kSpaceCount>> peak_by_space;  // likewise, of every space
  // Of the process, over what it had before the ranks were made; 0: not known (Train fills it in).
  std::int64_t resident_growth_bytes = 0;
};

class Executor {
 public:
  // Allocates memory and makes every op ready; state is zero.
  //
  //   program  linked and verified, with all of its ranks
  //   api, clock  outlive the executor
  //
  // Errors: kUnsupported, an op that the device lacks, by name, or graphs; kInfeasible or
  // kResourceExhausted, memory (CheckMemory); kInvalidArgument, a program that is not what the
  // executor needs, or ranks that it does not have; those of the world's making.
  static Result<std::unique_ptr<Executor>> Make(std::shared_ptr<const Program> program,
                                                const FtDeviceApi& api, RunClock& clock,
                                                ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs `steps` steps after those already run. Between two calls no thread of the run exists.
  //
  //   batches, sink  borrowed
  //   stop           asked before each step, from any thread; when true, the run ends with the last
  //                  step that any rank has begun. May be null.
  //
  // Errors: the first failing rank's, "rank 3, step 7, backward layer 2 mb 1, mlp.up: ..."; after
  // one, the executor runs no more. Returns within the time-out and about a second when a rank
  // stalls; threads that do not return by then are left behind, with the memory that they use.
  Result<RunSummary> Run(std::int64_t steps, BatchSource& batches, RunSink& sink,
                         std::function<bool()> stop = nullptr);

  const Program& program() const;
  int ranks() const;  // that run here
  std::int64_t next_step() const;

  // A rank that runs here, and its memory, to load and read state between runs. By its place among
  // those: where all run here, its place in Program::ranks.
  const RankProgram& Rank(int place) const;
  RankArena& Arena(int place);

  // How each rank ended its last run: nothing if well, else its own error or kAborted.
  const std::vector<std::optional<Error>>& rank_errors() const { return rank_errors_; }
  // The newest ops of each rank, for a report of what went wrong.
  const FlightRecorder& flight() const;
  // "rank 3: 12.345 ms backward layer 3 mb 1, mlp.up (step 7)": a line an op of every rank's ring.
  std::string FlightText() const;

 private:
  struct State;
  explicit Executor(std::shared_ptr<State> state);

  // Shared with the threads of a run, so that one that never returns does not touch freed memory.
  std::shared_ptr<State> state_;
  std::vector<std::optional<Error>> rank_errors_;
};

}  // namespace foretrain
