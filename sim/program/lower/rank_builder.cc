#include "sim/program/lower/rank_builder.h"

#include "base/result.h"
#include "sim/program/blocks/block_builder.h"

namespace foretrain {

int RankBuilder::NewBuffer(std::int64_t bytes, Category category, Space space) {
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.category = category;
  buffer.space = space;
  rank_.buffers.push_back(buffer);
  return static_cast<int>(rank_.buffers.size()) - 1;
}

int RankBuilder::NewState(std::int64_t bytes, Category category, Space space) {
  const int buffer = NewBuffer(bytes, category, space);
  rank_.buffers.back().persistent = true;
  return buffer;
}

Binding RankBuilder::Whole(int buffer) const {
  return {buffer, 0, rank_.buffers[static_cast<std::size_t>(buffer)].bytes};
}

Binding RankBuilder::Part(int buffer, std::int64_t first_element, std::int64_t elements) const {
  const Binding part{buffer, first_element * kFloatBytes, elements * kFloatBytes};
  FT_CHECK(part.offset >= 0 &&
           part.offset + part.bytes <= rank_.buffers[static_cast<std::size_t>(buffer)].bytes);
  return part;
}

int RankBuilder::FindCollective(const CollectiveSpec& spec) {
  const std::string key = spec.name + "." + std::to_string(static_cast<int>(spec.group)) + "." +
                          std::to_string(spec.shards) + "." + std::to_string(spec.elements) +
                          (spec.accumulate ? "+" : "");
  return FindBlock(key, [&] { return CollectiveBlock(spec); });
}

void RankBuilder::Add(const InstructionKey& key, int block, const std::vector<Binding>& bindings) {
  FT_CHECK(bindings.size() == SlotsOf(block).size());
  AppendInstruction(rank_, key, block, bindings);
}

}  // namespace foretrain
