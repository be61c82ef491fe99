// Pieces of offloaded optimizer state as they are moved and updated: which parts of one lie and go
// where, and what the steps that move them take. Leaves out the steps: offload_optimizer.cc.
#pragma once

#include <vector>

#include "sim/program/lower/offload_state.h"
#include "sim/program/lower/tensor_table.h"

namespace foretrain {

// kParameter: what is updated; kWeights: what a master becomes, on its way to the device.
enum class StatePart : int { kGradient, kMoment1, kMoment2, kParameter, kWeights };

Category CategoryOf(StatePart part);
NumberFormat FormatOf(const Plan& plan, StatePart part);

// The instruction on piece `piece` of a bucket.
InstructionKey PieceKey(InstructionKind kind, int bucket, int piece);
// Of a copy of a part of the piece that is on its way.
TensorName NameOf(StatePart part, const InstructionKey& key);

// Where a part lies between updates.
Space HomeOf(const LowerContext& context, const OptimizerOffload& offload, StatePart part);

// Which parts of a piece are read from a disk and written to it, and which pass through the device.
std::vector<StatePart> PartsOnDisk(const LowerContext& context, const OptimizerOffload& offload);
std::vector<StatePart> PartsStreamed(const LowerContext& context);
// Gradients that lie away come to the device with the state, and are not needed afterwards.
std::vector<StatePart> PartsStreamedIn(const LowerContext& context);
// Whether the device has a copy of the parameters that the host updates.
bool HasDeviceCopy(const OptimizerOffload& offload);

// What the steps on a piece add to and take from a space.
StepMemory PieceReadMemory(const LowerContext& context, const InstructionKey& key, Space space);
StepMemory PieceWriteMemory(const LowerContext& context, const InstructionKey& key, Space space);
StepMemory PieceStreamInMemory(const LowerContext& context, const InstructionKey& key, Space space);
StepMemory PieceStreamOutMemory(const LowerContext& context, const InstructionKey& key,
                                Space space);
StepMemory PieceGradientOutMemory(const LowerContext& context, const InstructionKey& key,
                                  Space space);
StepMemory PieceParameterInMemory(const LowerContext& context, const InstructionKey& key,
                                  Space space);
StepMemory PieceUpdateMemory(const LowerContext& context, const InstructionKey& key, Space space);

}  // namespace foretrain
