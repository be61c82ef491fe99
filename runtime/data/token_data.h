// Training tokens from a file: the bytes of any text, or 16-bit tokens. There is no tokenizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/data/batch_source.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// First of the 256 little-endian int32 in the header of a shard of 16-bit tokens; then follow
// version 1 and the number of tokens (the layout of llm.c's data scripts). Any other file gives its
// bytes, one token each.
inline constexpr std::int32_t kShardMagic = 20240520;

// The batches of a file, in order. With n tokens in the file and B in a batch, step s uses the B
// consecutive tokens from (s * B) mod (n - B) on; sample j is the j-th piece. Every plan with the
// same batch thus sees the same samples. Safe from any thread.
class TokenData : public BatchSource {
 public:
  // Errors: kInvalidArgument, the file cannot be read, is empty or shorter than one batch, or the
  // vocabulary is below 256 for bytes; kCorruptInput, a shard whose length contradicts its header,
  // or a token outside the vocabulary (the first is named).
  static Result<std::unique_ptr<TokenData>> Open(FileSystem& files, const std::string& path,
                                                 std::int64_t vocab, const Plan& plan);
  // As Open for bytes in memory; `name` is for messages.
  static Result<std::unique_ptr<TokenData>> FromText(std::string_view text, std::string_view name,
                                                     std::int64_t vocab, const Plan& plan);

  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override;

  std::int64_t tokens() const { return static_cast<std::int64_t>(tokens_.size()); }

  // Depends on the tokens only, not on the file.
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
