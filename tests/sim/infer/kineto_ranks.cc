#include "tests/sim/infer/kineto_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "sim/program/ir/groups.h"

namespace foretrain {
namespace {

// Names of Megatron-Core's parallel_state.
const char* DescriptionOf(GroupKind kind) {
  switch (kind) {
    case GroupKind::kTp:
    case GroupKind::kKvCopies:
      return "TENSOR_MODEL_PARALLEL_GROUP";
    case GroupKind::kCp:
      return "CONTEXT_PARALLEL_GROUP";
    case GroupKind::kDp:
      return "DATA_PARALLEL_GROUP_WITH_CP";
    case GroupKind::kShard:
      return "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP";
    case GroupKind::kReplica:
      return "INTER_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP";
    case GroupKind::kEp:
      return "EXPERT_MODEL_PARALLEL_GROUP";
    case GroupKind::kExpertDp:
      return "EXPERT_DATA_PARALLEL_GROUP";
    case GroupKind::kNext:
    case GroupKind::kPrev:
      return "PIPELINE_MODEL_PARALLEL_GROUP";
    case GroupKind::kEnds:
      return "EMBEDDING_GROUP";
    default:
      return "default_pg";
  }
}

const char* RangeOf(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kBackward:
      return "backward";
    case Pass::kBackwardInput:
      return "stage(B)";
    case Pass::kBackwardWeight:
      return "stage(W)";
    case Pass::kRecompute:
      return "recompute";
    case Pass::kUpdate:
      return "Optimizer.step#AdamW.step";
    case Pass::kNone:
      break;
  }
  return "other";
}

bool Speaks(const std::string& name, std::string_view of) {
  return name.find(of) != std::string::npos;
}

std::string KernelOf(const Op& op, Pass pass) {
  const bool back = Speaks(op.name, "grad");  // a backward also holds ops that it recomputes
  switch (op.op_class) {
    case OpClass::kGemm:
      return "nvjet_tst_128x256_64x4_1x2_h_bz_TNT";
    case OpClass::kAttention:
      return back ? "flash_bwd_dq_dk_dv_loop_kernel" : "flash_fwd_kernel";
    case OpClass::kCopy:
      return op.to == Space::kDevice ? "Memcpy HtoD (Pinned -> Device)"
                                     : "Memcpy DtoH (Device -> Pinned)";
    default:
      break;
  }
  if (IsCommunication(op.op_class)) return "ncclDevKernel_Generic";
  if (pass == Pass::kUpdate) return "multi_tensor_apply_kernel";
  if (Speaks(op.name, "norm")) return back ? "ln_bwd_kernel" : "ln_fwd_kernel";
  if (Speaks(op.name, "embed")) return back ? "embedding_backward_kernel" : "indexSelectLargeIndex";
  if (Speaks(op.name, "loss")) return back ? "cunn_SoftMaxBackward" : "cunn_SoftMaxForward";
  if (Speaks(op.name, "gelu") || Speaks(op.name, "swiglu")) {
    return back ? "activation_backward_kernel" : "activation_forward_kernel";
  }
  return "vectorized_elementwise_kernel";
}

std::string ListOf(const std::vector<int>& ranks) {
  return fmt::format("[{}]", fmt::join(ranks, ", "));
}

// NCCL's record of a communication. A transfer's group is the whole pipeline.
std::string RecordOf(const Program& program, const RankProgram& rank, const Op& op,
                     std::int64_t bytes) {
  const std::vector<int>& pair =
      program.groups[static_cast<std::size_t>(rank.groups[static_cast<std::size_t>(op.group)])];
  std::vector<int> members = pair;
  std::string ends;
  if (IsTransfer(op.kind)) {
    members.clear();
    for (int stage = 0; stage < program.plan.pp; ++stage) {
      members.push_back(RankOf(program.plan, {stage, rank.dp, rank.cp, rank.tp}));
    }
    const int peer = pair[0] == rank.rank ? pair[1] : pair[0];
    const bool sends = op.kind == OpKind::kSend;
    ends = fmt::format(R"(,"Src Rank":{},"Dst Rank":{})", sends ? rank.rank : peer,
                       sends ? peer : rank.rank);
  }
  return fmt::format(
      R"("Collective name":"{}","Process Group Name":"{}","Process Group Ranks":"{}",)"
      R"("Process Group Description":"{}","Group size":{},"In msg nelems":{},"dtype":"Byte"{},)",
      Name(op.kind), static_cast<int>(op.group), ListOf(members), DescriptionOf(op.group),
      members.size(), bytes, ends);
}

class Writer {
 public:
  Writer(const Program& program, const RankProgram& rank) : program_(program), rank_(rank) {
    for (const OpRef ref : OpRefs(program, rank)) ops_[IdOf(rank, ref)] = &OpAt(program, rank, ref);
  }

  // The n-th launch is at n us.
  void Add(const Span& span) {
    const auto found = ops_.find(span.op);
    if (found == ops_.end()) return;
    const Op& op = *found->second;
    const Pass pass = UnpackId(span.op).pass;
    const bool copy = op.op_class == OpClass::kCopy;
    const std::string record =
        IsCommunication(op.op_class) ? RecordOf(program_, rank_, op, span.bytes) : "";
    Event(RangeOf(pass), "user_annotation", "\"1\"", "1", static_cast<double>(launches_), 0.9, "");
    Event("cudaLaunchKernel", "cuda_runtime", "\"1\"", "1", static_cast<double>(launches_) + 0.1,
          0.5, fmt::format("\"correlation\":{}", launches_));
    Event(KernelOf(op, pass), copy ? "gpu_memcpy" : "kernel", "0",
          std::to_string(7 + static_cast<int>(span.queue)),
          static_cast<double>(span.start_ns) / 1000.0,
          static_cast<double>(span.end_ns - span.start_ns) / 1000.0,
          fmt::format("{}\"correlation\":{}", record, launches_));
    ++launches_;
    last_us_ = std::max(last_us_, static_cast<double>(span.end_ns) / 1000.0);
  }

  std::string Take() {
    const double end = std::max(last_us_, static_cast<double>(launches_));
    Event("ProfilerStep#0", "user_annotation", "\"1\"", "1", 0, end, "");
    events_.pop_back();
    return fmt::format(R"({{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"GPU"}}],)"
                       R"("distributedInfo":{{"backend":"nccl","rank":{},"world_size":{}}},)"
                       R"("baseTimeNanoseconds":1000000,"traceEvents":[{}]}})",
                       rank_.rank, program_.plan.World(), events_);
  }

 private:
  void Event(std::string_view name, std::string_view category, std::string_view process,
             std::string_view thread, double start_us, double length_us,
             std::string_view arguments) {
    events_ += fmt::format(
        R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}},)",
        category, name, process, thread, start_us, length_us, arguments);
  }

  const Program& program_;
  const RankProgram& rank_;
  std::map<OpId, const Op*> ops_;
  std::string events_;
  std::int64_t launches_ = 0;
  double last_us_ = 0;
};

}  // namespace

// Launches follow the order of kernels in time, over all queues.
std::vector<std::string> KinetoRanks(const Program& program, const Timeline& timeline, int step) {
  std::vector<std::string> texts;
  for (const RankProgram& rank : program.ranks) {
    std::vector<Span> spans;
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
    for (const Span& span : timeline.spans) {
      if (span.step != step) continue;
      first_ns = std::min(first_ns, span.start_ns);
      if (span.rank == rank.rank && span.queue != Queue::kHost) spans.push_back(span);
    }
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
    Writer writer(program, rank);
    for (Span span : spans) {
      span.start_ns -= first_ns;
      span.end_ns -= first_ns;
      writer.Add(span);
    }
    texts.push_back(writer.Take());
  }
  return texts;
}

}  // namespace foretrain
