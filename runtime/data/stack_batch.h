// Deals the tokens of samples to the two stacks of an encoder-decoder.
#pragma once

#include <cstdint>
#include <span>

namespace foretrain {

// Tokens that each stack reads of a sample.
struct StackTokens {
  std::int64_t encoder = 0;
  std::int64_t decoder = 0;
};

// Id that the decoder reads before its first target, the decoder_start_token_id of T5's configs.
inline constexpr std::int32_t kDecoderStart = 0;

// Rearranges a batch, in place, from BatchSource::Fill's order, in which a target is the token
// after its id. The encoder reads the first tokens of a sample. The decoder predicts the next ones,
// and reads the same ones after kDecoderStart; the sample's last token is not used. Afterwards ids
// are [decoder ids of all samples | encoder ids of all samples] and targets [decoder targets | -1
// for each token of the encoder]. Either may be empty; else it holds whole samples. O(tokens).
void DealToStacks(const StackTokens& tokens, std::span<std::int32_t> ids,
                  std::span<std::int32_t> targets);

}  // namespace foretrain
