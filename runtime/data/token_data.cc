#include "runtime/data/token_data.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/hash.h"
#include "base/units.h"
#include "sim/program/blocks/layer/context_parallel.h"

namespace foretrain {
namespace {

// The whole file is read into memory, which bounds its size.
constexpr std::int64_t kMaxFileBytes = 8 * kGiB;
constexpr std::int64_t kHeaderWords = 256;
constexpr std::int64_t kHeaderBytes = kHeaderWords * 4;
constexpr std::int64_t kByteVocab = 256;

// Word of the header. The copy needs no alignment of `text`.
std::int32_t WordAt(std::string_view text, std::int64_t word) {
  std::int32_t value = 0;
  std::memcpy(&value, text.data() + word * 4, sizeof value);
  return value;
}

// Every token is checked once here: kernels index the embedding by it without a check.
Result<std::vector<std::uint16_t>> ShardTokens(std::string_view text, std::string_view name,
                                               std::int64_t vocab) {
  const std::int32_t version = WordAt(text, 1);
  if (version != 1) {
    return Fail(ErrorCode::kCorruptInput, std::string(name) + ": token shard of version " +
                                              std::to_string(version) +
                                              "; this foretrain reads version 1");
  }
  const std::int64_t count = WordAt(text, 2);
  const std::int64_t bytes = static_cast<std::int64_t>(text.size()) - kHeaderBytes;
  if (count < 0 || count * 2 != bytes) {
    return Fail(ErrorCode::kCorruptInput, std::string(name) + ": the header says " +
                                              std::to_string(count) + " tokens of 2 bytes and " +
                                              std::to_string(bytes) +
                                              " bytes follow it; it was cut or is no shard");
  }
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(count));
  std::memcpy(tokens.data(), text.data() + kHeaderBytes, static_cast<std::size_t>(count) * 2);
  const auto outside =
      std::find_if(tokens.begin(), tokens.end(), [&](std::uint16_t t) { return t >= vocab; });
  if (outside != tokens.end()) {
    return Fail(ErrorCode::kCorruptInput,
                std::string(name) + ": token " + std::to_string(outside - tokens.begin()) + " is " +
                    std::to_string(*outside) + ", outside the model's vocabulary of " +
                    std::to_string(vocab) + "; use the model that the data was made for");
  }
  return tokens;
}

// Every byte value is a token, so the vocabulary must have at least 256.
Result<std::vector<std::uint16_t>> ByteTokens(std::string_view text, std::string_view name,
                                              std::int64_t vocab) {
  if (vocab < kByteVocab) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) + ": bytes need a vocabulary of 256 or more and the model has " +
                    std::to_string(vocab));
  }
  std::vector<std::uint16_t> tokens(text.size());
  std::transform(text.begin(), text.end(), tokens.begin(),
                 [](char c) { return static_cast<std::uint16_t>(static_cast<unsigned char>(c)); });
  return tokens;
}

}  // namespace

TokenData::TokenData(std::vector<std::uint16_t> tokens, const Plan& plan)
    : tokens_(std::move(tokens)),
      sequence_(plan.sequence),
      cp_(plan.cp),
      micro_batch_(plan.micro_batch),
      micro_batches_(plan.MicroBatches()),
      batch_tokens_(plan.global_batch * plan.sequence) {}

Result<std::unique_ptr<TokenData>> TokenData::Open(FileSystem& files, const std::string& path,
                                                   std::int64_t vocab, const Plan& plan) {
  FT_ASSIGN(const std::string text, ReadFile(files, path, kMaxFileBytes));
  return FromText(text, path, vocab, plan);
}

Result<std::unique_ptr<TokenData>> TokenData::FromText(std::string_view text, std::string_view name,
                                                       std::int64_t vocab, const Plan& plan) {
  if (text.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) + ": is empty; give a text to train on");
  }
  const bool shard =
      static_cast<std::int64_t>(text.size()) >= kHeaderBytes && WordAt(text, 0) == kShardMagic;
  FT_ASSIGN(std::vector<std::uint16_t> tokens,
            shard ? ShardTokens(text, name, vocab) : ByteTokens(text, name, vocab));
  const std::int64_t needed = plan.global_batch * plan.sequence + 2;
  if (static_cast<std::int64_t>(tokens.size()) < needed) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) + ": " + std::to_string(tokens.size()) + " tokens; a batch of " +
                    std::to_string(plan.global_batch) + " samples of " +
                    std::to_string(plan.sequence) + " needs " + std::to_string(needed) +
                    ". Use a longer text or a smaller --global-batch");
  }
  return std::unique_ptr<TokenData>(new TokenData(std::move(tokens), plan));
}

// Targets are the ids one token later. Nothing is stored between calls, so a run that continues at
// a step reads the same tokens.
Result<void> TokenData::Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                             std::span<std::int32_t> targets) {
  const std::int64_t sample = (request.dp * micro_batches_ + request.micro_batch) * micro_batch_;
  const std::int64_t start =
      request.step * batch_tokens_ % (tokens() - batch_tokens_) + sample * sequence_;
  const auto from = tokens_.begin() + start;
  // The request's samples are contiguous; a rank's chunk of a sample has `chunk` tokens. Under
  // context parallelism a rank holds two chunks of each sample.
  const auto fill = [&](std::span<std::int32_t> to, std::int64_t shift) {
    const std::int64_t chunk = cp_ > 1 ? sequence_ / (2 * cp_) : sequence_;
    const auto positions = ChunkPositions(sequence_, cp_, request.cp);
    const std::int64_t chunks = cp_ > 1 ? 2 : 1;
    for (std::int64_t i = 0; i < std::ssize(to); ++i) {
      const std::int64_t piece = i / chunk;
      const std::int64_t position = piece / chunks * sequence_ +
                                    positions[static_cast<std::size_t>(piece % chunks)] + i % chunk;
      to[static_cast<std::size_t>(i)] = from[position + shift];
    }
  };
  fill(ids, 0);
  fill(targets, 1);
  return {};
}

// Ranks compare it at the start, to train on the same data wherever each has its file.
std::uint64_t TokenData::Digest() const {
  return HashText({reinterpret_cast<const char*>(tokens_.data()), tokens_.size() * 2});
}

}  // namespace foretrain
