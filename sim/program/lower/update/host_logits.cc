#include "sim/program/lower/update/host_logits.h"

#include <algorithm>
#include <array>

#include "sim/program/blocks/ends/head_ops.h"
#include "sim/program/compile_generation.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// The copy has the name of an offloaded saved tensor, which it is.
StepDescription CopyLogits(const LowerContext& context, const InstructionKey& key) {
  const NumberFormat format = LogitFormat(context.plan);
  const std::int64_t bytes =
      BytesIn(format, context.Rows() * VocabRows(context.model, context.plan));
  TensorUse from = Uses({TensorKind::kSaved, key.block, key.micro_batch, kLogits});
  from.bytes = bytes;
  from.format = format;
  TensorUse to = Makes({TensorKind::kAway, key.block, key.micro_batch, kLogits},
                       {bytes, Category::kLogits, format, Space::kPinned});
  to.bytes = bytes;
  return Copies("logits.out", {Space::kDevice, Space::kPinned}, /*state=*/false,
                std::array{Move{from, to}});
}

constexpr StepRule kCopyLogits{CopyLogits};

bool IsHostLogits(const Buffer& buffer) {
  return buffer.category == Category::kLogits && buffer.space == Space::kPinned;
}

}  // namespace

// The head's forward saves its logits, although no backward reads them, so that their memory is
// kept until this copy.
void LowerHostLogits(const LowerContext& context, Skeleton& skeleton) {
  const auto head = static_cast<int>(context.model.AllLayers()) + 1;
  skeleton.push_back({{InstructionKind::kCopyOut, Pass::kNone, head, 0, 0}, &kCopyLogits});
}

void KeepHostLogits(RankProgram& rank) {
  rank.buffers[static_cast<std::size_t>(HostLogitsOf(rank))].persistent = true;
}

std::int32_t HostLogitsOf(const RankProgram& rank) {
  const auto found = std::find_if(rank.buffers.begin(), rank.buffers.end(), IsHostLogits);
  FT_CHECK(found != rank.buffers.end());
  return static_cast<std::int32_t>(found - rank.buffers.begin());
}

}  // namespace foretrain
