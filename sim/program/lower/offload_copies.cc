#include "sim/program/lower/offload_copies.h"

#include <string>

#include "base/result.h"
#include "sim/program/blocks/block_builder.h"

namespace foretrain {
namespace {

// Numbers with scales, and codes, are copied as bytes.
struct Counted {
  NumberFormat format;
  std::int64_t elements;
};
Counted CountOf(NumberFormat format, std::int64_t bytes) {
  const bool plain =
      LayoutOf(format).block == 0 && LayoutOf(format).bits >= 8 && LayoutOf(format).once_bytes == 0;
  const NumberFormat as = plain ? format : NumberFormat::kByte;
  return {as, ElementsIn(as, bytes)};
}

}  // namespace

void AddCopies(RankBuilder& rank, const InstructionKey& key, const char* name, bool state,
               std::span<const Move> moves) {
  FT_CHECK(!moves.empty());
  const auto space_of = [&rank](const Binding& binding) {
    return rank.Rank().buffers[static_cast<std::size_t>(binding.buffer)].space;
  };
  CopySpec spec{name, space_of(moves.front().from), space_of(moves.front().to), state, {}, {}};
  std::string text = std::string(name) + (state ? ".state" : "") + "." +
                     std::string(Name(spec.from)) + "." + std::string(Name(spec.to));
  std::vector<Binding> bindings;
  for (const Move& move : moves) {
    FT_CHECK(space_of(move.from) == spec.from && space_of(move.to) == spec.to &&
             move.from.bytes == move.to.bytes);
    const Counted counted = CountOf(rank.FormatOf(move.from), move.from.bytes);
    spec.elements.push_back(counted.elements);
    spec.formats.push_back(counted.format);
    text += "." + std::to_string(counted.elements) + SuffixOf(counted.format);
    bindings.push_back(move.from);
    bindings.push_back(move.to);
  }
  rank.Add(key, rank.FindBlock(text, [&] { return CopyBlock(spec); }), bindings);
}

StepMemory MovedMemory(Space space, Space from, Space to, const CategoryBytes& bytes) {
  StepMemory memory;
  for (std::size_t c = 0; c < bytes.size(); ++c) {
    if (space == to) memory.at_peak[c] = memory.at_end[c] = bytes[c];
    if (space == from) memory.at_end[c] = -bytes[c];
  }
  memory.peak_total = Total(memory.at_peak);
  return memory;
}

}  // namespace foretrain
