// Training batches from a file of tokens (token_files.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/data/batch_source.h"
#include "runtime/data/token_files.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// The batches of a file, in order. With n tokens in the file and B in a batch, step s uses the B
// consecutive tokens from (s * B) mod (n - B) on; sample j is the j-th piece. Every plan with the
// same batch thus sees the same samples. Safe from any thread.
class TokenData : public BatchSource {
 public:
  // Errors: those of ReadTokenFile and CheckTokens; kInvalidArgument, fewer tokens than a batch
  // needs.
  static Result<std::unique_ptr<TokenData>> Open(FileSystem& files, const std::string& path,
                                                 std::int64_t vocab, const Plan& plan);
  // As Open for bytes in memory; `name` is for messages.
  static Result<std::unique_ptr<TokenData>> FromText(std::string text, std::string_view name,
                                                     std::int64_t vocab, const Plan& plan);
  static Result<std::unique_ptr<TokenData>> FromFile(TokenFile file, std::string_view name,
                                                     std::int64_t vocab, const Plan& plan);

  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override;

  std::int64_t tokens() const { return file_.tokens(); }

  // Depends on the tokens only, not on the file.
  std::uint64_t Digest() const;

 private:
  TokenData(TokenFile file, const Plan& plan);

  TokenFile file_;
  std::int64_t sequence_;
  int cp_;
  std::int64_t micro_batch_;
  std::int64_t micro_batches_;
  std::int64_t batch_tokens_;
};

}  // namespace foretrain
