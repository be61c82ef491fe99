// The head's place in the stream of an encoder-decoder (stream.h), whose decoder rows come first.
// In other models the head works on the whole tensor of the block before.
#include "sim/program/blocks/ends/head_ops.h"

namespace foretrain {

std::int16_t Head::StackRows(const char* name, std::int16_t stream) {
  return context.model.HasEncoder() ? b.View(name, stream, 0, own_rows * hidden) : stream;
}

// The targets of the rows come first, as the rows do in the stream.
void Head::MakeTargets() {
  const std::int64_t all = context.plan.micro_batch * context.plan.LocalSequence();
  next.targets = b.Slot("targets", all, Category::kStaging, SlotRole::kTargets);
  if (all != rows) next.targets = b.View("targets.decoder", next.targets, 0, rows);
}

// The loss has no gradient by what else the stream holds.
std::int16_t Head::InputGradient() {
  const std::int64_t elements = BoundaryElements(context.model, context.plan);
  const std::int16_t dx = b.Slot("dx", elements, Category::kWorkspace, SlotRole::kInputGradient);
  const std::int64_t of_rows = own_rows * hidden;
  if (elements == of_rows) return dx;
  b.Half(Pass::kBackwardInput);
  Op& zero = b.Add(OpKind::kFill, "head.stream.zero",
                   {Out(b.View("dx.rest", dx, of_rows, elements - of_rows))});
  zero.shape = {.elements = elements - of_rows};
  return StackRows("dx.decoder", dx);
}

}  // namespace foretrain
