// Pieces of offloaded optimizer state: the space of each part, the parts that move, and the tensors
// of their copies. The steps are in offload_optimizer.cc.
#pragma once

#include <vector>

#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/tensor_table.h"

namespace foretrain {

// kParameter: the tensor that the update changes. kWeights: the copy in lower precision that a
// master becomes, on its way to the device.
enum class StatePart : int { kGradient, kMoment1, kMoment2, kParameter, kWeights };

Category CategoryOf(StatePart part);
NumberFormat FormatOf(const Plan& plan, StatePart part);

// Key of the instruction on piece `piece` of a bucket.
InstructionKey PieceKey(InstructionKind kind, int bucket, int piece);
// Name of the copy of a part that is on its way.
TensorName NameOf(StatePart part, const InstructionKey& key);

// Space of a part between updates.
Space SpaceOfState(const LowerContext& context, const OptimizerOffload& offload, StatePart part);

// Parts of a piece that are read from and written to NVMe, and parts that pass through the device.
std::vector<StatePart> PartsOnDisk(const LowerContext& context, const OptimizerOffload& offload);
std::vector<StatePart> PartsStreamed(const LowerContext& context);
// PartsStreamed, and offloaded gradients, which come to the device with the state and do not
// return.
std::vector<StatePart> PartsStreamedIn(const LowerContext& context);
// True if the host updates parameters of which the device has a copy.
bool HasDeviceCopy(const OptimizerOffload& offload);

}  // namespace foretrain
