#include "sim/program/lower/rank/rank_builder.h"

#include "base/result.h"
#include "sim/program/blocks/block_builder.h"

namespace foretrain {

int RankBuilder::NewBuffer(std::int64_t bytes, Category category, Space space,
                           NumberFormat format) {
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.category = category;
  buffer.space = space;
  buffer.format = format;
  rank_.buffers.push_back(buffer);
  return static_cast<int>(rank_.buffers.size()) - 1;
}

// Rings have a place for every micro-batch from the beginning, so nothing new is made for them.
int RankBuilder::Make(const TensorName& name, const TensorShape& shape) {
  const int place = tensors_.Find(name);
  if (place < 0) {
    return tensors_.Put(name, NewBuffer(shape.bytes, shape.category, shape.space, shape.format));
  }
  const Buffer& buffer = rank_.buffers[static_cast<std::size_t>(place)];
  FT_CHECK(buffer.holds == Holds::kMicroBatch && buffer.bytes == shape.bytes);
  return place;
}

int RankBuilder::NewState(std::int64_t bytes, Category category, Space space, NumberFormat format) {
  const int buffer = NewBuffer(bytes, category, space, format);
  rank_.buffers.back().persistent = true;
  return buffer;
}

// Binds uses to slots in order. A view lies inside the binding of its base, at an offset that may
// depend on the tensor-parallel rank.
void RankBuilder::Add(const InstructionKey& key, const StepDescription& step) {
  const int number = blocks_.Find(step.block, step.make);
  const Block& block = blocks_[number];
  std::size_t used = 0;
  std::vector<Binding> bindings;
  bindings.reserve(block.slots.size());
  for (std::size_t i = 0; i < block.slots.size(); ++i) {
    const TensorSlot& slot = block.slots[i];
    if (slot.base == kNoSlot) {
      FT_CHECK(step.use_of || used < step.uses.size());
      bindings.push_back(Bind(step.use_of ? step.use_of(slot) : step.uses[used++]));
      continue;
    }
    const Binding& base = bindings[static_cast<std::size_t>(slot.base)];
    const std::int64_t offset = slot.offset + rank_.tp * slot.rank_offset;
    FT_CHECK(offset >= 0 && offset + slot.bytes <= base.bytes);
    bindings.push_back({base.buffer, base.offset + offset, slot.bytes});
  }
  FT_CHECK(step.use_of || used == step.uses.size());
  AppendInstruction(rank_, key, number, bindings).for_next_step = ahead_;
}

// The checks catch a description whose ranges leave their buffer, before any op could write there.
Binding RankBuilder::Bind(const TensorUse& use) {
  const int buffer = BufferOf(use);
  const std::int64_t whole = rank_.buffers[static_cast<std::size_t>(buffer)].bytes;
  const Binding part{buffer, use.offset, use.bytes < 0 ? whole - use.offset : use.bytes};
  FT_CHECK(part.offset >= 0 && part.bytes >= 0 && part.offset + part.bytes <= whole);
  return part;
}

// Life decides whether a buffer is made, looked up or dropped. A description repeats the bytes of a
// tensor that it frees, because memory is computed without buffers. The check keeps both equal.
int RankBuilder::BufferOf(const TensorUse& use) {
  const TensorShape shape{use.whole, use.category, use.format, use.space};
  if (use.state != nullptr) {
    const bool older = use.name.kind == TensorKind::kOlderParameters && !ahead_;
    const int found = older ? tensors_.Find(use.name) : -1;
    return found >= 0 ? found : rank_.buckets[static_cast<std::size_t>(use.bucket)].*use.state;
  }
  switch (use.life) {
    case Life::kBorrowed:
      return NewBuffer(shape.bytes, shape.category, shape.space, shape.format);
    case Life::kMade:
      return Make(use.name, shape);
    case Life::kShared: {
      const int found = tensors_.Find(use.name);
      return found >= 0 ? found : Make(use.name, shape);
    }
    case Life::kStays:
      return tensors_.At(use.name);
    case Life::kFreed:
      break;
  }
  const int buffer = tensors_.At(use.name);
  const Buffer& freed = rank_.buffers[static_cast<std::size_t>(buffer)];
  FT_CHECK(freed.bytes == use.whole && freed.space == use.space);
  if (!freed.persistent) tensors_.Drop(use.name);
  return buffer;
}

}  // namespace foretrain
