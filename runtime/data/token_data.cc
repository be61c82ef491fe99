#include "runtime/data/token_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/data/data_sources.h"
#include "runtime/tokenizer/tokenizer.h"
#include "sim/program/blocks/layer/context_parallel.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxTextBytes = 8 * kGiB;  // a text for a tokenizer is read into memory

Result<TokenFile> OpenEncoded(FileSystem& files, const std::string& path,
                              const Tokenizer& tokenizer) {
  FT_ASSIGN(const TokenFile file, OpenTokenFile(files, path));
  if (file.width != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "--tokenizer: " + path + " has tokens already; leave --tokenizer out");
  }
  FT_ASSIGN(const std::string text, ReadFile(files, path, kMaxTextBytes));
  return TokenFileOf(tokenizer.Encode(text, /*adds_special=*/false), path);
}

std::string NameOf(const DataSource& source, const TokenShare& share) {
  std::string name = source.files.front();
  if (source.files.size() > 1) name += fmt::format(" and {} more files", source.files.size() - 1);
  if (share.IsWhole()) return name;
  return fmt::format("{:.4g} to {:.4g} % of {}", 100 * share.begin, 100 * share.end, name);
}

}  // namespace

TokenData::TokenData(std::vector<Source> sources, SampleOrder order, const DataOptions& options,
                     const Plan& plan)
    : sources_(std::move(sources)),
      order_(std::move(order)),
      shuffle_(options.shuffle),
      seed_(options.seed),
      document_end_(plan.documents ? options.document_end : -1),
      by_index_(plan.documents && document_end_ < 0),
      sequence_(plan.sequence),
      cp_(plan.cp),
      micro_batch_(plan.micro_batch),
      micro_batches_(plan.MicroBatches()),
      global_batch_(plan.global_batch) {}

// A token that was asked for ends documents in every file. Otherwise every file must know them.
Result<void> TokenData::CheckDocuments(const std::vector<Source>& sources,
                                       const DataOptions& options, std::int64_t vocab,
                                       const Plan& plan) {
  if (!plan.documents) return {};
  if (options.document_end >= vocab) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--document-end {}: the vocabulary has the tokens 0 to {}",
                            options.document_end, vocab - 1));
  }
  if (options.document_end >= 0) return {};
  for (const Source& source : sources) {
    if (source.tokens.KnowsDocuments()) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--documents: the token that ends a document is not known, and {} has "
                            "no index of them; give --document-end ID",
                            source.name));
  }
  return {};
}

Result<std::unique_ptr<TokenData>> TokenData::Open(FileSystem& files, const DataOptions& options,
                                                   std::int64_t vocab, const Plan& plan) {
  FT_ASSIGN(const std::vector<DataSource> asked, ParseDataSources(files, options.sources));
  std::unique_ptr<Tokenizer> tokenizer;
  DataOptions known = options;
  if (!options.tokenizer.empty()) {
    FT_ASSIGN(tokenizer, Tokenizer::Open(files, options.tokenizer));
    if (known.document_end < 0) known.document_end = tokenizer->EndOfText();
  }
  const bool by_index = plan.documents && known.document_end < 0;
  std::vector<Source> sources;
  for (const DataSource& source : asked) {
    std::vector<TokenFile> opened;
    for (const std::string& path : source.files) {
      FT_ASSIGN(TokenFile file, tokenizer != nullptr ? OpenEncoded(files, path, *tokenizer)
                                                     : OpenTokenFile(files, path, by_index));
      opened.push_back(std::move(file));
    }
    FT_ASSIGN(TokenSource tokens, TokenSource::Make(std::move(opened), vocab, options.share));
    sources.push_back({std::move(tokens), NameOf(source, options.share), source.weight});
  }
  FT_TRY(CheckDocuments(sources, known, vocab, plan));
  return Make(std::move(sources), known, plan);
}

Result<std::unique_ptr<TokenData>> TokenData::FromText(std::string text, std::string_view name,
                                                       std::int64_t vocab, const Plan& plan,
                                                       std::int32_t document_end) {
  DataOptions options;
  options.document_end = document_end;
  FT_ASSIGN(TokenFile file, TokenFileOf(std::move(text), name));
  std::vector<TokenFile> files;
  files.push_back(std::move(file));
  FT_ASSIGN(TokenSource tokens, TokenSource::Make(std::move(files), vocab));
  std::vector<Source> sources;
  sources.push_back({std::move(tokens), std::string(name)});
  FT_TRY(CheckDocuments(sources, options, vocab, plan));
  return Make(std::move(sources), options, plan);
}

Result<std::unique_ptr<TokenData>> TokenData::Make(std::vector<Source> sources,
                                                   const DataOptions& options, const Plan& plan) {
  std::int64_t samples = 0;
  std::vector<OrderedSource> ordered;
  for (const Source& source : sources) {
    const std::int64_t here = source.tokens.Samples(plan.sequence);
    if (here == 0) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: {} tokens; a sample of {} needs {}. Use a longer text or a "
                      "smaller --sequence",
                      source.name, source.tokens.tokens(), plan.sequence, plan.sequence + 1));
    }
    samples += here;
    ordered.push_back({here, source.weight});
  }
  if (samples < plan.global_batch) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} samples of {} tokens; a batch has {}. Use a longer text or a "
                            "smaller --global-batch",
                            sources.front().name, samples, plan.sequence, plan.global_batch));
  }
  SampleOrder order(std::move(ordered), options.shuffle, options.seed);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (order.PerPeriod(static_cast<int>(i)) > 0) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--data: {}: weight {} is below 1 / {} of all weights together; raise "
                            "it or leave the path out",
                            sources[i].name, NumberText(sources[i].weight), SampleOrder::kPeriod));
  }
  std::unique_ptr<TokenData> data(
      new TokenData(std::move(sources), std::move(order), options, plan));
  FT_TRY(data->SetDigest());
  return data;
}

Result<void> TokenData::SetDigest() {
  StableHash hash;
  hash.Add(sequence_).Add(shuffle_).Add(shuffle_ ? seed_ : 0);
  if (document_end_ >= 0) hash.Add(document_end_);
  if (by_index_) hash.Add("documents by the index");
  for (const Source& source : sources_) {
    FT_ASSIGN(const std::uint64_t of_tokens, source.tokens.Digest());
    hash.Add(of_tokens).Add(sources_.size() > 1 ? source.weight : 1.0);
  }
  digest_ = hash.Value();
  return {};
}

Result<void> TokenData::ReadSample(std::int64_t index, std::span<std::int32_t> tokens) const {
  const SamplePlace place = order_.At(index);
  return sources_[static_cast<std::size_t>(place.source)].tokens.Read(place.sample * sequence_,
                                                                      tokens);
}

std::int64_t TokenData::FirstSampleOf(const BatchRequest& request) const {
  return request.step * global_batch_ +
         (request.dp * micro_batches_ + request.micro_batch) * micro_batch_;
}

// Under context parallelism a rank holds two chunks of each sample.
std::vector<TokenData::Chunk> TokenData::ChunksOf(int cp) const {
  if (cp_ == 1) return {{0, sequence_}};
  std::vector<Chunk> chunks;
  for (const std::int64_t position : ChunkPositions(sequence_, cp_, cp)) {
    chunks.push_back({position, sequence_ / (2 * std::int64_t{cp_})});
  }
  return chunks;
}

// The token that ends a document belongs to it.
Result<void> TokenData::StartsOfSample(std::int64_t index, std::span<std::int32_t> starts) const {
  if (by_index_) {
    const SamplePlace place = order_.At(index);
    sources_[static_cast<std::size_t>(place.source)].tokens.DocumentStarts(place.sample * sequence_,
                                                                           starts);
    return {};
  }
  std::vector<std::int32_t> tokens(starts.size());
  FT_TRY(ReadSample(index, tokens));
  std::int32_t start = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    starts[i] = start;
    if (tokens[i] == document_end_) start = static_cast<std::int32_t>(i) + 1;
  }
  return {};
}

Result<void> TokenData::FillDocumentStarts(const BatchRequest& request,
                                           std::span<std::int32_t> starts) {
  if (!by_index_ && document_end_ < 0) return BatchSource::FillDocumentStarts(request, starts);
  const std::int64_t first = FirstSampleOf(request);
  const std::vector<Chunk> chunks = ChunksOf(request.cp);
  std::vector<std::int32_t> sample(static_cast<std::size_t>(sequence_));
  auto to = starts.begin();
  for (std::int64_t row = 0; row < micro_batch_; ++row) {
    FT_TRY(StartsOfSample(first + row, sample));
    for (const Chunk& chunk : chunks) {
      to = std::copy_n(sample.begin() + chunk.position, chunk.tokens, to);
    }
  }
  return {};
}

Result<double> TokenData::MeanDocumentTokens() const {
  const auto length = static_cast<double>(sequence_);
  if (!by_index_ && document_end_ < 0) return length;
  const std::int64_t counted = std::min<std::int64_t>(samples(), 64);
  std::vector<std::int32_t> starts(static_cast<std::size_t>(sequence_));
  double pairs = 0;
  for (std::int64_t i = 0; i < counted; ++i) {
    FT_TRY(StartsOfSample(i * (samples() / counted), starts));
    for (std::size_t token = 0; token < starts.size(); ++token) {
      pairs += static_cast<double>(token + 1) - starts[token];
    }
  }
  // c S / n documents of n tokens have c S (n + 1) / 2 pairs.
  return 2 * pairs / (static_cast<double>(counted) * length) - 1;
}

// Nothing is stored between calls, so a run that continues at a step reads the same tokens.
Result<void> TokenData::Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                             std::span<std::int32_t> targets) {
  const std::int64_t first = FirstSampleOf(request);
  const std::vector<Chunk> chunks = ChunksOf(request.cp);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence_) + 1);
  std::int64_t to = 0;
  for (std::int64_t row = 0; row < micro_batch_; ++row) {
    FT_TRY(ReadSample(first + row, tokens));
    for (const Chunk& chunk : chunks) {
      const auto from = tokens.begin() + chunk.position;
      if (!ids.empty()) std::copy_n(from, chunk.tokens, ids.begin() + to);
      if (!targets.empty()) std::copy_n(from + 1, chunk.tokens, targets.begin() + to);
      to += chunk.tokens;
    }
  }
  return {};
}

std::int64_t TokenData::tokens() const {
  std::int64_t sum = 0;
  for (const Source& source : sources_) sum += source.tokens.tokens();
  return sum;
}

std::int64_t TokenData::samples() const {
  std::int64_t sum = 0;
  for (const Source& source : sources_) sum += source.tokens.Samples(sequence_);
  return sum;
}

std::string TokenData::Describe() const {
  double weights = 0;
  for (const Source& source : sources_) weights += source.weight;
  std::string text;
  for (const Source& source : sources_) {
    text += (text.empty() ? "" : ", ") + source.name;
    if (sources_.size() > 1) text += fmt::format(" ({:.3g} %)", 100 * source.weight / weights);
  }
  return text +
         fmt::format("; {} tokens, {} samples, {}", FormatSi(static_cast<double>(tokens()), ""),
                     samples(),
                     shuffle_ ? fmt::format("shuffled with seed {}", seed_) : "in order") +
         (document_end_ >= 0 ? fmt::format(", documents end with token {}", document_end_) : "") +
         (by_index_ ? ", documents by the index" : "");
}

}  // namespace foretrain
