// Training tokens from a file: the bytes of any text, or 16-bit tokens. Leaves out tokenizers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "runtime/data/batch_source.h"
#include "sim/spec/plan.h"

namespace foretrain {

// A shard of 16-bit tokens starts with 256 little-endian int32: this magic, version 1, the number
// of tokens (the layout that llm.c's data scripts write). Any other file is its bytes, one token
// each.
inline constexpr std::int32_t kShardMagic = 20240520;

// The batches of a file, in order: step s trains the consecutive tokens from (s * B) mod (n - B)
// on, where n is the file's tokens and B a batch's; sample j of the step is its j-th piece. So
// every plan of the same batch sees the same samples. Safe from any thread.
class TokenData : public BatchSource {
 public:
  // Errors: kInvalidArgument, a file that cannot be read, is empty or too short for one batch, or a
  // vocabulary below 256 for bytes; kCorruptInput, a shard whose length is not what its header
  // says, or a token outside the vocabulary (the first is named).
  static Result<std::unique_ptr<TokenData>> Open(FileSystem& files, const std::string& path,
                                                 std::int64_t vocab, const Plan& plan);
  // Bytes that are already in memory, one token each; `name` is for messages.
  static Result<std::unique_ptr<TokenData>> FromText(std::string_view text, std::string_view name,
                                                     std::int64_t vocab, const Plan& plan);

  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override;

  std::int64_t tokens() const { return static_cast<std::int64_t>(tokens_.size()); }

  // The same for the same tokens, whatever file they come from.
  std::uint64_t Digest() const;

 private:
  TokenData(std::vector<std::uint16_t> tokens, const Plan& plan);

  std::vector<std::uint16_t> tokens_;
  std::int64_t sequence_;
  int cp_;
  std::int64_t micro_batch_;
  std::int64_t micro_batches_;
  std::int64_t batch_tokens_;
};

}  // namespace foretrain
