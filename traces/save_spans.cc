#include "traces/save_spans.h"

namespace foretrain {
namespace {

constexpr int kPart = 4095;  // the last one; programs count theirs from 0

OpId IdOf(InstructionKind kind) { return PackId({.kind = kind, .part = kPart}, 0); }

}  // namespace

OpId SaveCopyOp() { return IdOf(InstructionKind::kCopyOut); }
OpId SaveWriteOp() { return IdOf(InstructionKind::kNvmeWrite); }
bool IsSave(OpId op) { return op == SaveCopyOp() || op == SaveWriteOp(); }

Span SaveSpan(OpId op, int rank, std::int64_t step, std::int64_t start_ns, std::int64_t end_ns,
              std::int64_t bytes) {
  return {.start_ns = start_ns,
          .end_ns = end_ns,
          .op = op,
          .bytes = bytes,
          .ready_ns = start_ns,
          .step = static_cast<std::int32_t>(step),
          .rank = static_cast<std::int16_t>(rank),
          .queue = op == SaveCopyOp() ? Queue::kD2h : Queue::kNvme,
          .op_class = OpClass::kHost};
}

}  // namespace foretrain
