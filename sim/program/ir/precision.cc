#include "sim/program/ir/precision.h"

#include "sim/program/ir/program.h"
#include "sim/program/lower/layout/sharding.h"

namespace foretrain {

NumberFormat ActivationFormat(const Plan& plan) {
  if (!plan.HasShortActivations()) return NumberFormat::kFp32;
  return plan.precision == Precision::kFp16 ? NumberFormat::kFp16 : NumberFormat::kBf16;
}

NumberFormat ProductFormat(const Plan& plan) {
  switch (plan.precision) {
    case Precision::kFp8:
      return NumberFormat::kFp8Tensor;
    case Precision::kFp8Block:
      return NumberFormat::kFp8Block;
    case Precision::kFp4:
      return NumberFormat::kFp4;
    default:
      return WideProductFormat(plan);
  }
}

NumberFormat WideProductFormat(const Plan& plan) {
  return plan.precision == Precision::kTf32 ? NumberFormat::kTf32 : ActivationFormat(plan);
}

NumberFormat WeightFormat(const Plan& plan) {
  return plan.weights == WeightStorage::kFp32 ? NumberFormat::kFp32 : ActivationFormat(plan);
}

NumberFormat SumFormat(const Plan& plan) {
  return plan.gradients == GradientFormat::kFp32 ? NumberFormat::kFp32 : ActivationFormat(plan);
}

NumberFormat LogitFormat(const Plan& plan) {
  return plan.logits == GradientFormat::kFp32 ? NumberFormat::kFp32 : ActivationFormat(plan);
}

bool HasMasters(const Plan& plan) {
  return plan.HasShortActivations() && plan.weights == WeightStorage::kMaster;
}

NumberFormat UsedFormat(const Plan& plan, bool gathered) {
  return gathered ? ActivationFormat(plan) : WeightFormat(plan);
}

// Frozen parameters of a run without adapters stay in fp32. Experts that one rank holds alone are
// not gathered, so they are read as they are stored.
NumberFormat UsedFormat(const Plan& plan, const BlockParameter& parameter) {
  if (parameter.quantized) return NumberFormat::kNf4;
  if (parameter.frozen && !plan.HasAdapters()) return NumberFormat::kFp32;
  const bool alone = parameter.experts && plan.ExpertHolders() == 1;
  return UsedFormat(plan, ShardingOf(plan).parameters && !alone);
}

NumberFormat GatheredFormat(const Plan& plan, const Bucket& bucket) {
  const bool whole = bucket.weights == NumberFormat::kByte;
  return whole ? bucket.weights : UsedFormat(plan, /*gathered=*/true);
}

}  // namespace foretrain
