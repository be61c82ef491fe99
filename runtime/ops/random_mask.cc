// The random numbers that an op with dropout draws.
#include "base/hash.h"
#include "runtime/ops/kernel_makers.h"
#include "runtime/ops/qkv_columns.h"
#include "sim/program/ir/program.h"

namespace foretrain {
// The stream depends on seed, block and dropout site, and not on the rank or the pass. A
// recomputation draws the same numbers.
RandomPlace RandomPlaceOf(const Op& op, std::uint64_t seed, const InstructionKey& key,
                          const Plan& plan, int dp) {
  if (op.dropout == 0.0F) return {};
  return {StableHash().Add(seed).Add(key.block).Add(op.dropout_site).Value(),
          plan.FirstSample(dp, key.micro_batch)};
}

FtRandomMask RandomMaskOf(const BoundOp& op) {
  return {.key = op.random.stream,
          .first_sample = op.random.first_sample,
          .first_head = FirstHead(op),
          .probability = op.op.dropout};
}

// The step enters at launch, because the arguments are made before the first step.
FtRandomMask InStep(FtRandomMask mask, const StepValues& values) {
  if (mask.probability > 0.0F) mask.key = StableHash().Add(mask.key).Add(values.step).Value();
  return mask;
}

}  // namespace foretrain
