#include "sim/program/lower/transfers/transfer_steps.h"

#include <string>
#include <utility>

#include "base/result.h"
#include "sim/program/blocks/block_builder.h"

namespace foretrain {
namespace {

// Elements of a copy. Formats with scales or codes are copied as bytes.
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

// Name, group, sizes and format identify the block.
StepDescription Collective(const CollectiveSpec& spec, std::vector<TensorUse> uses) {
  const std::string key = spec.name + "." + std::to_string(static_cast<int>(spec.group)) + "." +
                          std::to_string(spec.shards) + "." + std::to_string(spec.elements) + "." +
                          std::to_string(spec.tensors) + (spec.accumulate ? "+" : "") +
                          SuffixOf(spec.format);
  return {key, [spec] { return CollectiveBlock(spec); }, std::move(uses)};
}

StepDescription Copies(const char* name, Route route, bool state, std::span<const Move> moves) {
  FT_CHECK(!moves.empty());
  CopySpec spec{name, route.from, route.to, state, {}, {}};
  std::string key = std::string(name) + (state ? ".state" : "") + "." +
                    std::string(Name(route.from)) + "." + std::string(Name(route.to));
  std::vector<TensorUse> uses;
  for (const Move& move : moves) {
    FT_CHECK(move.from.bytes == move.to.bytes);
    const Counted counted = CountOf(move.from.format, move.from.bytes);
    spec.elements.push_back(counted.elements);
    spec.formats.push_back(counted.format);
    key += "." + std::to_string(counted.elements) + SuffixOf(counted.format);
    uses.push_back(move.from);
    uses.push_back(move.to);
  }
  return {std::move(key), [spec = std::move(spec)] { return CopyBlock(spec); }, std::move(uses)};
}

}  // namespace foretrain
