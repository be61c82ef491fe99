// Training batches from files of tokens (token_files.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/data/batch_source.h"
#include "runtime/data/sample_order.h"
#include "runtime/data/token_source.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

struct DataOptions {
  std::string sources{};    // files, folders and patterns with weights (data_sources.h)
  std::string tokenizer{};  // of texts: tokenizer.json or its folder; empty: a token a byte
  bool shuffle = false;     // another order of the samples in each epoch
  std::uint64_t seed = 0;
  TokenShare share{};  // of the tokens of each source; samples lie within it
  // Token that ends a document, for plans with documents; -1: the index of Megatron's files says
  // where documents begin, else it is the tokenizer's own.
  std::int32_t document_end = -1;
};

// Sample i of a run is S + 1 tokens of a source, S the sequence length: the ids, and the targets
// one token later. A source, or its share, is cut into samples from its first token on; which
// sample is number i is a function of i alone (sample_order.h). Step s of a run with G samples in a
// batch reads samples s * G to (s + 1) * G - 1, so every plan with the same batch sees the same
// samples. A document begins at a sample's first token, and after each token that ends one or where
// an index says so. Safe from any thread.
class TokenData : public BatchSource {
 public:
  // Errors: those of ParseDataSources, OpenTokenFile, CheckTokens and the tokenizer;
  // kInvalidArgument, fewer samples than a batch has, a weight too small for any sample, or a plan
  // with documents, no token that ends one and a file without an index.
  static Result<std::unique_ptr<TokenData>> Open(FileSystem& files, const DataOptions& options,
                                                 std::int64_t vocab, const Plan& plan);
  // As Open for bytes in memory, in order; `name` is for messages.
  static Result<std::unique_ptr<TokenData>> FromText(std::string text, std::string_view name,
                                                     std::int64_t vocab, const Plan& plan,
                                                     std::int32_t document_end = -1);

  // Errors: those of TokenSource::Read.
  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override;
  Result<void> FillDocumentStarts(const BatchRequest& request,
                                  std::span<std::int32_t> starts) override;

  // Length of documents of equal length with as many pairs of tokens that attention visits as the
  // documents of up to 64 samples have, spread over the data: n tokens have n (n + 1) / 2. The
  // sequence length without documents. Errors: those of TokenSource::Read.
  Result<double> MeanDocumentTokens() const;

  // Sums over all sources.
  std::int64_t tokens() const;
  std::int64_t samples() const;

  // One line for people: sources with their weights, tokens, and the order.
  std::string Describe() const;
  // Hashes everything that decides which tokens sample i has: tokens, share, weights, sequence
  // length and order, but not the files' names. Runs with equal digests read equal samples.
  std::uint64_t Digest() const { return digest_; }

 private:
  struct Source {
    TokenSource tokens;
    std::string name;
    double weight = 1;
  };
  TokenData(std::vector<Source> sources, SampleOrder order, const DataOptions& options,
            const Plan& plan);
  static Result<void> CheckDocuments(const std::vector<Source>& sources, const DataOptions& options,
                                     std::int64_t vocab, const Plan& plan);
  // Consecutive tokens of a sample.
  struct Chunk {
    std::int64_t position = 0, tokens = 0;
  };
  // Those of rank `cp`, in their order.
  std::vector<Chunk> ChunksOf(int cp) const;
  // Number of a request's first sample.
  std::int64_t FirstSampleOf(const BatchRequest& request) const;
  static Result<std::unique_ptr<TokenData>> Make(std::vector<Source> sources,
                                                 const DataOptions& options, const Plan& plan);
  Result<void> SetDigest();
  // Place in the sample at which the document of each of its tokens begins.
  Result<void> StartsOfSample(std::int64_t index, std::span<std::int32_t> starts) const;
  Result<void> ReadSample(std::int64_t index, std::span<std::int32_t> tokens) const;

  std::vector<Source> sources_;
  SampleOrder order_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int32_t document_end_;  // -1: no token ends a document
  bool by_index_;              // the files say where documents begin
  std::int64_t sequence_;
  int cp_;
  std::int64_t micro_batch_;
  std::int64_t micro_batches_;
  std::int64_t global_batch_;
  std::uint64_t digest_ = 0;
};

}  // namespace foretrain
