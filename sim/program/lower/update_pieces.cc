#include "sim/program/lower/update_pieces.h"

#include "sim/program/blocks/block_builder.h"
#include "sim/program/lower/offload_copies.h"
#include "sim/program/lower/sharding.h"
#include "sim/program/precision.h"

namespace foretrain {
namespace {

// Some of the parts.
struct Parts {
  std::vector<StatePart> list;
  explicit Parts(bool moments, bool parameter) {
    if (moments) list = {StatePart::kMoment1, StatePart::kMoment2};
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

Space HomeOf(const LowerContext& context, const OptimizerOffload& offload, StatePart part) {
  if (part != StatePart::kParameter) return offload.moments;
  return offload.master != Space::kDevice ? offload.master : ParameterSpace(context.plan);
}

std::vector<StatePart> PartsOnDisk(const LowerContext& context, const OptimizerOffload& offload) {
  return Parts(offload.moments == Space::kNvme,
               HomeOf(context, offload, StatePart::kParameter) == Space::kNvme)
      .list;
}

std::vector<StatePart> PartsStreamed(const LowerContext& context) {
  return Parts(true, ParameterSpace(context.plan) != Space::kDevice).list;
}

std::vector<StatePart> PartsStreamedIn(const LowerContext& context) {
  std::vector<StatePart> parts = PartsStreamed(context);
  if (GradientsAreAway(context.plan)) parts.push_back(StatePart::kGradient);
  return parts;
}

bool HasDeviceCopy(const OptimizerOffload& offload) { return offload.master != Space::kDevice; }

namespace {

CategoryBytes BytesOf(const LowerContext& context, const InstructionKey& key,
                      const std::vector<StatePart>& parts) {
  const StatePiece piece =
      StatePiecesOf(context, key.part)[static_cast<std::size_t>(key.micro_batch)];
  CategoryBytes bytes{};
  for (const StatePart part : parts) {
    At(bytes, CategoryOf(part)) += BytesIn(FormatOf(context.plan, part), piece.end - piece.begin);
  }
  return bytes;
}

StepMemory Makes(const CategoryBytes& bytes) {
  return MovedMemory(Space::kDevice, Space::kHost, Space::kDevice, bytes);
}

StepMemory Frees(const CategoryBytes& bytes) {
  return MovedMemory(Space::kDevice, Space::kDevice, Space::kHost, bytes);
}

std::vector<StatePart> KeptOnWay(const LowerContext& context, const OptimizerOffload& offload) {
  std::vector<StatePart> parts = PartsOnDisk(context, offload);
  // A master goes nowhere else: what it becomes does.
  const bool copied_next = HasDeviceCopy(offload) && !HasMasters(context.plan);
  if (copied_next) std::erase(parts, StatePart::kParameter);
  return parts;
}

}  // namespace

StepMemory PieceReadMemory(const LowerContext& context, const InstructionKey& key, Space space) {
  if (space != Space::kPinned) return {};
  return Makes(BytesOf(context, key, PartsOnDisk(context, OffloadOf(context, key.part))));
}

StepMemory PieceWriteMemory(const LowerContext& context, const InstructionKey& key, Space space) {
  if (space != Space::kPinned) return {};
  return Frees(BytesOf(context, key, KeptOnWay(context, OffloadOf(context, key.part))));
}

StepMemory PieceStreamInMemory(const LowerContext& context, const InstructionKey& key,
                               Space space) {
  if (space == Space::kDevice) return Makes(BytesOf(context, key, PartsStreamedIn(context)));
  if (space != Space::kPinned) return {};
  return Frees(BytesOf(context, key, PartsOnDisk(context, OffloadOf(context, key.part))));
}

StepMemory PieceStreamOutMemory(const LowerContext& context, const InstructionKey& key,
                                Space space) {
  if (space == Space::kDevice) return Frees(BytesOf(context, key, PartsStreamed(context)));
  if (space != Space::kPinned) return {};
  return Makes(BytesOf(context, key, PartsOnDisk(context, OffloadOf(context, key.part))));
}

StepMemory PieceGradientOutMemory(const LowerContext& context, const InstructionKey& key,
                                  Space space) {
  if (space != Space::kPinned || context.plan.delayed_update) return {};
  return Makes(BytesOf(context, key, {StatePart::kGradient}));
}

StepMemory PieceParameterInMemory(const LowerContext& context, const InstructionKey& key,
                                  Space space) {
  const OptimizerOffload offload = OffloadOf(context, key.part);
  if (space != Space::kPinned) return {};
  if (HasMasters(context.plan)) return Frees(BytesOf(context, key, {StatePart::kWeights}));
  if (offload.master != Space::kNvme) return {};
  return Frees(BytesOf(context, key, {StatePart::kParameter}));
}

StepMemory PieceUpdateMemory(const LowerContext& context, const InstructionKey& key, Space space) {
  const OptimizerOffload offload = OffloadOf(context, key.part);
  const bool lies_away = GradientsAreAway(context.plan);
  // Gradients that were brought to the host, or to the device, for this update alone.
  const bool brought = space == Space::kDevice ? offload.stream && lies_away
                                               : space == Space::kPinned && !offload.stream &&
                                                     !offload.delayed && !lies_away;
  StepMemory memory;
  if (brought) memory = Frees(BytesOf(context, key, {StatePart::kGradient}));
  const bool makes_weights = space == Space::kPinned && !offload.stream && HasMasters(context.plan);
  if (!makes_weights) return memory;
  const CategoryBytes weights = BytesOf(context, key, {StatePart::kWeights});
  for (std::size_t c = 0; c < weights.size(); ++c) {
    memory.at_peak[c] += weights[c];
    memory.at_end[c] += weights[c];
  }
  memory.peak_total += Total(weights);
  return memory;
}

}  // namespace foretrain
