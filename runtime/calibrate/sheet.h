// Programs made to be timed: excerpts of compiled plans and ops on their own, which the executor
// runs as it runs any program. Leaves out running them and what is kept of the times
// (runtime/calibrate/calibrate.h).
//
// An excerpt keeps what sets the time of an op: the ops before it in its block, whose tensors lie
// in the caches; its addresses within buckets; the number of layers between two uses of a weight.
// What it leaves out is the rest of the step and, but for the collectives inside a block, other
// ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/calibrate/samples.h"
#include "sim/program/program.h"

namespace foretrain {

// A program of which some ops are timed.
struct Sheet {
  std::string name;  // what is timed, for people
  std::shared_ptr<const Program> program;
  SeriesByOp series;
  int concurrency = 1;
  std::int64_t tokens = 1;  // ids are below
};

// The ops that sheets have, and how often.
using Coverage = std::map<ProfilePoint, int, PointOrder>;

// Writes a program instruction by instruction.
class SheetWriter {
 public:
  SheetWriter(std::string name, int concurrency, SampleTable& table);

  // Appends a rank with the groups of `like`; its number.
  int AddRank(const RankProgram& like);
  void SetGroups(std::vector<std::vector<int>> groups) { program_.groups = std::move(groups); }

  // Appends an instruction of `source` to the rank, on buffers of its own that alias each other as
  // in the source: equal buffers of one (source, source rank) are equal here.
  //
  //   source  number and program it comes from; borrowed until Take
  //   alone   leaves communication out of its block
  void Append(int rank, int source_number, const Program& source, const RankProgram& from,
              const Instruction& instruction, bool alone);

  // One op on its own.
  struct Tensor {
    std::int32_t buffer = -1;
    Access access = Access::kRead;
    std::int64_t begin = 0;  // floats
    std::int64_t size = 0;
  };
  std::int32_t Buffer(int rank, std::int64_t floats, bool persistent, Space space = Space::kDevice);
  // `timed`: makes a series of it.
  void AppendOp(int rank, Op op, const std::vector<Tensor>& tensors, bool timed);
  // The rank's last instruction waits for the one before it.
  void AfterPrevious(int rank);

  bool empty() const;
  Sheet Take(std::int64_t tokens);

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

// What the ranks of a plan do by themselves: its blocks, batch loads, copies, reads and writes of a
// disk, norms and optimizer steps, each taken until its ops that `coverage` does not have are there
// `repeats` times.
//
//   alone     one rank does the work of one rank of each stage, without communication; else all
//             ranks of the plan do it at once, with the collectives inside blocks
//   coverage  of the concurrency; receives what is taken
//
// Where all is covered, the ranks of the program have no ops.
Sheet ComputeSheet(const Program& plan, bool alone, int repeats, Coverage& coverage,
                   SampleTable& table);

// The communication between blocks: reductions and gathers of buckets, transfers between stages,
// one at a time.
Sheet CommunicationSheet(const Program& plan, int repeats, Coverage& coverage, SampleTable& table);

// Collectives and transfers of all kinds among `ranks` ranks, over a range of sizes up to `most`
// times 16 elements a rank.
inline constexpr std::int64_t kMostOfProcessors = 262144;
Sheet CommunicationGrid(int ranks, std::int64_t most, Coverage& coverage, SampleTable& table);

// Products of `gemm` x `gemm` matrices alone, and beside an all-reduce of `elements` (ranks > 1) or
// a copy of as many off the device: OverlapOf sorts the spans of its runs.
Sheet OverlapSheet(int ranks, std::int64_t gemm, std::int64_t elements, SampleTable& table);
Overlap OverlapOf(const std::vector<Span>& spans);

// Copies between two spaces over a range of sizes, in a rank one after the other: device and pinned
// memory, and with `disk` pinned memory and a disk.
Sheet CopyGrid(int ranks, bool disk, Coverage& coverage, SampleTable& table);

// GEMMs, norms, activations and updates over a range of sizes.
Sheet ComputeGrid(int ranks, Coverage& coverage, SampleTable& table);

// Ops of next to no work, and ops that wait for another queue: what an op costs beside its work.
// The first kTinyOps ops have neither work nor edges.
Sheet OverheadSheet(int ranks, SampleTable& table);
inline constexpr int kTinyOps = 768;

}  // namespace foretrain
