#include "sim/memory/copied_bytes.h"

namespace foretrain {

// Only kCopy ops count. A copy between host and NVMe adds to the disk alone.
CopiedBytes CopiedBytesOf(const Program& program, const RankProgram& rank) {
  CopiedBytes sum;
  for (const OpRef ref : OpRefs(program, rank)) {
    const Op& op = OpAt(program, rank, ref);
    if (op.kind != OpKind::kCopy) continue;
    const std::int64_t bytes = OperandBinding(program, rank, ref, 0).bytes;
    if (op.to == Space::kDevice) sum.to_device += bytes;
    if (op.from == Space::kDevice) sum.from_device += bytes;
    if (op.from == Space::kNvme) sum.read += bytes;
    if (op.to == Space::kNvme) sum.written += bytes;
  }
  return sum;
}

}  // namespace foretrain
