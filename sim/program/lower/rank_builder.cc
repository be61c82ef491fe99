#include "sim/program/lower/rank_builder.h"

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

int RankBuilder::Make(const TensorName& name, std::int64_t bytes, Category category,
                      NumberFormat format) {
  const int place = tensors_.Find(name);
  if (place < 0) return tensors_.Put(name, NewBuffer(bytes, category, Space::kDevice, format));
  const Buffer& buffer = rank_.buffers[static_cast<std::size_t>(place)];
  FT_CHECK(buffer.holds == Holds::kMicroBatch && buffer.bytes == bytes);
  return place;
}

int RankBuilder::NewState(std::int64_t bytes, Category category, Space space, NumberFormat format) {
  const int buffer = NewBuffer(bytes, category, space, format);
  rank_.buffers.back().persistent = true;
  return buffer;
}

Binding RankBuilder::Whole(int buffer) const {
  return {buffer, 0, rank_.buffers[static_cast<std::size_t>(buffer)].bytes};
}

Binding RankBuilder::Part(int buffer, std::int64_t first_element, std::int64_t elements) const {
  const Buffer& whole = rank_.buffers[static_cast<std::size_t>(buffer)];
  const Binding part{buffer, BytesIn(whole.format, first_element), BytesIn(whole.format, elements)};
  FT_CHECK(part.offset >= 0 && part.offset + part.bytes <= whole.bytes);
  return part;
}

int RankBuilder::FindCollective(const CollectiveSpec& spec) {
  const std::string key = spec.name + "." + std::to_string(static_cast<int>(spec.group)) + "." +
                          std::to_string(spec.shards) + "." + std::to_string(spec.elements) +
                          (spec.accumulate ? "+" : "") + SuffixOf(spec.format);
  return FindBlock(key, [&] { return CollectiveBlock(spec); });
}

void RankBuilder::Add(const InstructionKey& key, int block, const std::vector<Binding>& bindings) {
  FT_CHECK(bindings.size() == SlotsOf(block).size());
  AppendInstruction(rank_, key, block, bindings).ahead = ahead_;
}

}  // namespace foretrain
