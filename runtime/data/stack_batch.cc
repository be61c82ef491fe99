#include "runtime/data/stack_batch.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace foretrain {

void DealToStacks(const StackTokens& tokens, std::span<std::int32_t> ids,
                  std::span<std::int32_t> targets) {
  const std::int64_t each = tokens.encoder + tokens.decoder;
  const auto samples = [&](std::span<std::int32_t> of) {
    return static_cast<std::int64_t>(of.size()) / each;
  };
  const std::vector<std::int32_t> read(ids.begin(), ids.end());
  auto encoder = ids.begin() + samples(ids) * tokens.decoder;
  for (std::int64_t sample = 0; sample < samples(ids); ++sample) {
    const auto from = read.begin() + sample * each;
    const auto decoder = ids.begin() + sample * tokens.decoder;
    encoder = std::copy_n(from, tokens.encoder, encoder);
    *decoder = kDecoderStart;
    std::copy_n(from + tokens.encoder, tokens.decoder - 1, decoder + 1);
  }
  // Targets come one token later, so the token at `encoder` is the target before it.
  const std::vector<std::int32_t> after(targets.begin(), targets.end());
  auto to = targets.begin();
  for (std::int64_t sample = 0; sample < samples(targets); ++sample) {
    to = std::copy_n(after.begin() + sample * each + tokens.encoder - 1, tokens.decoder, to);
  }
  std::fill(to, targets.end(), -1);
}

}  // namespace foretrain
