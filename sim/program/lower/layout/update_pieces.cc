#include "sim/program/lower/layout/update_pieces.h"

#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/sharding.h"

namespace foretrain {
namespace {

// A list of parts, from two conditions.
struct Parts {
  std::vector<StatePart> list;
  explicit Parts(const Plan& plan, bool moments, bool parameter) {
    if (moments && MomentsOf(plan.optimizer) > 0) list.push_back(StatePart::kMoment1);
    if (moments && MomentsOf(plan.optimizer) > 1) list.push_back(StatePart::kMoment2);
    if (parameter) list.push_back(StatePart::kParameter);
  }
};

}  // namespace

Category CategoryOf(StatePart part) {
  if (part == StatePart::kGradient) return Category::kGradients;
  if (part == StatePart::kWeights) return Category::kParameters;
  return part == StatePart::kParameter ? Category::kMasterWeights : Category::kOptimizerState;
}

NumberFormat FormatOf(const Plan& plan, StatePart part) {
  switch (part) {
    case StatePart::kGradient:
      return SumFormat(plan);
    case StatePart::kWeights:
      return WeightFormat(plan);
    case StatePart::kParameter:
      return HasMasters(plan) ? NumberFormat::kFp32 : WeightFormat(plan);
    default:
      return NumberFormat::kFp32;
  }
}

InstructionKey PieceKey(InstructionKind kind, int bucket, int piece) {
  return {kind, Pass::kUpdate, 0, piece, bucket};
}

TensorName NameOf(StatePart part, const InstructionKey& key) {
  return {TensorKind::kStatePiece, static_cast<int>(part), key.micro_batch, key.part};
}

// Without a master on the host, the updated parameters are those in use.
Space SpaceOfState(const LowerContext& context, const OptimizerOffload& offload, StatePart part) {
  if (part != StatePart::kParameter) return offload.moments;
  return offload.master != Space::kDevice ? offload.master : ParameterSpace(context.plan);
}

std::vector<StatePart> PartsOnDisk(const LowerContext& context, const OptimizerOffload& offload) {
  return Parts(context.plan, offload.moments == Space::kNvme,
               SpaceOfState(context, offload, StatePart::kParameter) == Space::kNvme)
      .list;
}

// Parameters pass through the device only if they are offloaded; else the device has them.
std::vector<StatePart> PartsStreamed(const LowerContext& context) {
  return Parts(context.plan, true, ParameterSpace(context.plan) != Space::kDevice).list;
}

std::vector<StatePart> PartsStreamedIn(const LowerContext& context) {
  std::vector<StatePart> parts = PartsStreamed(context);
  if (GradientsAreOffloaded(context.plan)) parts.push_back(StatePart::kGradient);
  return parts;
}

bool HasDeviceCopy(const OptimizerOffload& offload) { return offload.master != Space::kDevice; }

}  // namespace foretrain
