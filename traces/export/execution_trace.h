// Writes execution traces of Chakra (mlcommons): for each rank a graph of compute, collectives,
// sends and receives with their dependencies, which simulators such as ASTRA-sim play. An app makes
// the graph from a program or a timeline.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "traces/chakra/schema.h"
#include "traces/kinds.h"
#include "traces/timeline.h"

namespace foretrain {

struct ExecutionNode {
  std::string name{};
  chakra::NodeType type = chakra::NodeType::kCompute;
  bool on_host = false;
  OpClass op_class = OpClass::kMemoryBound;
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t bytes = 0;  // that the rank puts into a communication, or that a copy moves
  chakra::Collective collective = chakra::Collective::kAllReduce;
  std::int64_t group = -1;                           // of a collective; -1: all ranks
  int peer = -1;                                     // of a send or receive
  std::int64_t tag = 0;                              // equal for a send and its receive
  std::vector<std::int64_t> data_dependencies{};     // indices of nodes before this one
  std::vector<std::int64_t> control_dependencies{};  // the node before it on its queue
};

// The graph of one rank. A node's index is its id.
struct ExecutionTrace {
  int rank = 0;
  std::map<std::int64_t, std::vector<int>> groups{};  // members by number, of this rank's groups
  std::vector<ExecutionNode> nodes{};
};

// The messages of one file. The process groups are an attribute of the first one, not a node of
// metadata as in PyTorch's execution traces, because ASTRA-sim's statistics refuse such nodes. A
// group's name is its number plus one, because simulators take 0 for
// all ranks. Durations are whole microseconds, rounded up; attributes start_ns and duration_ns have
// them exactly. Nodes are written in order, and so a node comes after those that it depends on.
std::string EncodeExecutionTrace(const ExecutionTrace& trace);

// Makes the graph of one rank from its spans in `step` alone, for runs without a program: a node
// follows the one before on its queue and, of another queue, the one that ended last before it
// began, if that is later.
ExecutionTrace ExecutionTraceOf(const Timeline& timeline, int rank, int step);

// Writes rank.R.et for each trace into `folder`, which is made if it is missing, and
// comm_groups.json, the members of each group as ASTRA-sim reads them. One trace is in memory at a
// time.
class ExecutionTraceFolder {
 public:
  ExecutionTraceFolder(FileSystem& files, std::string folder);
  // Errors: those of writing.
  Result<void> Add(const ExecutionTrace& trace);
  Result<void> Finish();

 private:
  FileSystem& files_;
  std::string folder_;
  std::map<std::int64_t, std::vector<int>> groups_;
};

// The collective that a name such as "reduce_scatter" or "tp.all_reduce" speaks of; an all-reduce
// if it speaks of none.
chakra::Collective CollectiveNamed(std::string_view name);

}  // namespace foretrain
