// Microbenchmarks (class Microbenchmark): programs made to be timed, which the executor runs like
// any program. They are excerpts of compiled plans, or single ops over a range of sizes.
// runtime/calibrate/calibrate.h runs them.
//
// An excerpt keeps everything that sets an op's time: the ops before it in its block, whose tensors
// are in the caches; its addresses within buckets; the number of layers between two uses of a
// weight. It drops the rest of the step and, except for collectives inside a block, other ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/calibrate/samples.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// A microbenchmark: a program and the series of its timed ops.
struct Microbenchmark {
  std::string name;  // shown as progress
  std::shared_ptr<const Program> program;
  SeriesByOp series;
  int concurrency = 1;
  std::int64_t tokens = 1;  // token ids are below this
};

// Points that microbenchmarks already measure, with the number of samples a step.
using Coverage = std::map<ProfilePoint, int, PointOrder>;

// Builds a Microbenchmark instruction by instruction.
class BenchmarkWriter {
 public:
  BenchmarkWriter(std::string name, int concurrency, SampleTable& table);

  // Appends a rank with the coordinates and groups of `like`; returns its index.
  int AddRank(const RankProgram& like);
  void SetGroups(std::vector<std::vector<int>> groups) { program_.groups = std::move(groups); }

  // Appends an instruction of `source` to the rank. It gets buffers of this program, and equal
  // buffers of one (source, source rank) stay equal here.
  //
  //   source_number, source  program it comes from, and its number; borrowed until Take
  //   alone                  drops communication from its block
  void Append(int rank, int source_number, const Program& source, const RankProgram& from,
              const Instruction& instruction, bool alone);

  // A tensor of a single op: `size` floats from `begin` on in a buffer. size 0: all of it; buffer
  // -1: absent.
  struct Tensor {
    std::int32_t buffer = -1;
    Access access = Access::kRead;
    std::int64_t begin = 0;  // floats
    std::int64_t size = 0;
  };
  std::int32_t Buffer(int rank, std::int64_t floats, bool persistent, Space space = Space::kDevice);
  // Appends a block of one op. `timed`: its durations become a series.
  void AppendOp(int rank, Op op, const std::vector<Tensor>& tensors, bool timed);
  // Makes the rank's last instruction wait for the one before it.
  void AfterPrevious(int rank);

  bool empty() const;
  Microbenchmark Take(std::int64_t tokens);

 private:
  std::int32_t CopyBlock(int source_number, const Program& source, std::int32_t block, bool alone);
  std::int32_t CopyBuffer(int rank, int source_number, const RankProgram& from,
                          std::int32_t buffer);
  void Finish(int rank, const InstructionKey& key, std::int32_t block, std::int32_t first_binding);
  void AddSeries(int rank, const Op& op, OpId id);
  void FindState(RankProgram& rank) const;

  std::string name_;
  int concurrency_;
  SampleTable& table_;
  Program program_;
  SeriesByOp series_;
  std::map<std::pair<int, std::pair<std::int32_t, bool>>, std::int32_t> blocks_;
  std::map<std::pair<std::pair<int, int>, std::pair<int, std::int32_t>>, std::int32_t> buffers_;
  std::vector<std::vector<bool>> timed_;  // by block, by op
};

// Instructions that a plan's ranks execute alone: blocks, batch loads, copies, disk reads and
// writes, norms and optimizer steps. Each is taken until its ops that `coverage` lacks occur
// `repeats` times.
//
//   alone     one rank does the work of one rank of each stage, without communication; else all
//             ranks of the plan run at once, with the collectives inside blocks
//   coverage  of this concurrency; receives the ops taken
//
// If everything is covered, the program's ranks have no ops.
Microbenchmark ComputeBenchmark(const Program& plan, bool alone, int repeats, Coverage& coverage,
                                SampleTable& table);

// Communication between blocks, one op at a time: reductions and gathers of buckets, transfers
// between stages.
Microbenchmark CommunicationBenchmark(const Program& plan, int repeats, Coverage& coverage,
                                      SampleTable& table);

// Collectives of all kinds and transfers among `ranks` ranks, over sizes up to `max` * 16 elements
// a rank.
inline constexpr std::int64_t kMaxOfProcessors = 262144;
Microbenchmark CommunicationGrid(int ranks, std::int64_t max, Coverage& coverage,
                                 SampleTable& table);

// GEMMs of `gemm` x `gemm` matrices, alone and overlapped with a transfer of `elements`: an
// all-reduce if ranks > 1, else a copy off the device. OverlapOf sorts the spans of its runs.
Microbenchmark OverlapBenchmark(int ranks, std::int64_t gemm, std::int64_t elements,
                                SampleTable& table);
Overlap OverlapOf(const std::vector<Span>& spans);

// Copies over a range of sizes, one after the other on each rank: between device and pinned memory
// or, with `disk`, between pinned memory and a disk.
Microbenchmark CopyGrid(int ranks, bool disk, Coverage& coverage, SampleTable& table);

// GEMMs, norms, activations and updates over a range of sizes.
Microbenchmark ComputeGrid(int ranks, Coverage& coverage, SampleTable& table);

// Ops with next to no work, and ops that wait for another queue: the overheads of an op. The first
// kTinyOps ops have neither work nor edges.
Microbenchmark OverheadBenchmark(int ranks, SampleTable& table);
inline constexpr int kTinyOps = 768;

}  // namespace foretrain
