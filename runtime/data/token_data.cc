#include "runtime/data/token_data.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/units.h"
#include "runtime/data/token_files.h"
#include "sim/program/blocks/layer/context_parallel.h"

namespace foretrain {

TokenData::TokenData(TokenFile file, const Plan& plan)
    : file_(std::move(file)),
      sequence_(plan.sequence),
      cp_(plan.cp),
      micro_batch_(plan.micro_batch),
      micro_batches_(plan.MicroBatches()),
      batch_tokens_(plan.global_batch * plan.sequence) {}

Result<std::unique_ptr<TokenData>> TokenData::Open(FileSystem& files, const std::string& path,
                                                   std::int64_t vocab, const Plan& plan) {
  FT_ASSIGN(TokenFile file, ReadTokenFile(files, path));
  return FromFile(std::move(file), path, vocab, plan);
}

Result<std::unique_ptr<TokenData>> TokenData::FromText(std::string text, std::string_view name,
                                                       std::int64_t vocab, const Plan& plan) {
  FT_ASSIGN(TokenFile file, TokenFileOf(std::move(text), name));
  return FromFile(std::move(file), name, vocab, plan);
}

Result<std::unique_ptr<TokenData>> TokenData::FromFile(TokenFile file, std::string_view name,
                                                       std::int64_t vocab, const Plan& plan) {
  FT_TRY(CheckTokens(file, name, vocab));
  const std::int64_t needed = plan.global_batch * plan.sequence + 2;
  if (file.tokens() < needed) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) + ": " + std::to_string(file.tokens()) + " tokens; a batch of " +
                    std::to_string(plan.global_batch) + " samples of " +
                    std::to_string(plan.sequence) + " needs " + std::to_string(needed) +
                    ". Use a longer text or a smaller --global-batch");
  }
  return std::unique_ptr<TokenData>(new TokenData(std::move(file), plan));
}

// Targets are the ids one token later. Nothing is stored between calls, so a run that continues at
// a step reads the same tokens.
Result<void> TokenData::Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                             std::span<std::int32_t> targets) {
  const std::int64_t sample = (request.dp * micro_batches_ + request.micro_batch) * micro_batch_;
  const std::int64_t start =
      request.step * batch_tokens_ % (tokens() - batch_tokens_) + sample * sequence_;
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
      to[static_cast<std::size_t>(i)] =
          static_cast<std::int32_t>(file_.At(start + position + shift));
    }
  };
  fill(ids, 0);
  fill(targets, 1);
  return {};
}

// Ranks compare it at the start, to train on the same data wherever each has its file.
std::uint64_t TokenData::Digest() const {
  return StableHash().Add(file_.width).Add(HashText(file_.Bytes())).Value();
}

}  // namespace foretrain
