// Writes a run as PyTorch's profiler (Kineto) would have: a file for each rank, which tools for
// such traces read (HolisticTraceAnalysis, TraceLens). chrome_trace.h writes files that keep our
// own ids.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "traces/metrics/skew.h"
#include "traces/timeline.h"

namespace foretrain {

// A run in the form of Kineto, one file per rank.
//
//   kernel, gpu_memcpy   spans of device queues, a stream for each queue. Names begin with a word
//   by
//                        which tools tell the class: gemm, flash_attn, ncclDevKernel_AllReduce. A
//                        collective spans from the rank's arrival to its end, as NCCL's kernels do
//   cuda_runtime         recorded launches, joined to their kernels by `correlation`
//   cpu_op               other work of the host
//   user_annotation      ProfilerStep#N: a step's window
//   [memory]             live bytes of the device
//
// Collectives name their group as Kineto does (Process Group Description, Name, Ranks; Group size;
// Src and Dst Rank of sends).
class KinetoTraces {
 public:
  // `timeline`, sorted, must outlive the object. `groups` as in skew.h; unknown ones are left out.
  KinetoTraces(const Timeline& timeline, const CommunicationGroups& groups);

  // The ranks with spans or steps, ascending.
  std::vector<int> Ranks() const;

  // The file of a rank. O(spans of the rank).
  std::string TextOf(int rank) const;

 private:
  struct Ends {
    int sender = -1;
    int receiver = -1;
  };

  // The ranks with which the span communicates, ascending, and the name of their group. Sums of
  // scalars and of tied embeddings use no group of their queue: theirs is all ranks that have the
  // op. No ranks: unknown.
  struct Members {
    std::string name{};
    std::vector<int> ranks{};
  };
  Members MembersOf(const Span& span) const;
  // The members of "args" that describe a communication; empty for other spans.
  std::string RecordOf(const Span& span, std::string_view name) const;

  const Timeline& timeline_;
  const CommunicationGroups& groups_;
  // Ranks of each transfer, by op, step and pipeline.
  std::map<std::tuple<OpId, std::int32_t, int>, Ends> transfers_;
  std::map<OpId, std::set<int>> ranks_;  // that have the collective
};

// Writes rank-R.json for each rank into `folder`, which is made if it is missing.
//
// Errors: those of writing.
Result<void> WriteKinetoTraces(const Timeline& timeline, const CommunicationGroups& groups,
                               FileSystem& files, const std::string& folder);

}  // namespace foretrain
