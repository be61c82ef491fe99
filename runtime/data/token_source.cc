#include "runtime/data/token_source.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/units.h"

namespace foretrain {
namespace {

// Up to kPieces * kPieceBytes = 1 MiB a file are hashed.
constexpr std::int64_t kPieces = 64, kPieceBytes = 16 * kKiB;

// The pieces lie evenly from the first byte to the last; in a small file they touch.
Result<void> AddFile(const TokenFile& file, StableHash& hash) {
  const std::int64_t bytes = file.tokens * file.width;
  hash.Add(file.width).Add(bytes);
  const std::int64_t pieces = std::min(kPieces, (bytes + kPieceBytes - 1) / kPieceBytes);
  std::string piece(kPieceBytes, '\0');
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t last = std::max<std::int64_t>(0, bytes - kPieceBytes);
    const std::int64_t at =
        bytes <= kPieces * kPieceBytes ? i * kPieceBytes : last * i / (kPieces - 1);
    FT_ASSIGN(const std::int64_t got,
              file.file->ReadAt(file.offset + at, std::as_writable_bytes(std::span(piece))));
    hash.Add(std::string_view(piece).substr(0, static_cast<std::size_t>(got)));
  }
  return {};
}

// The token at a share of `tokens`.
std::int64_t TokenAt(double share, std::int64_t tokens) {
  if (share == 1) return tokens;  // exact for any number
  return static_cast<std::int64_t>(share * static_cast<double>(tokens));
}

}  // namespace

TokenSource::TokenSource(std::vector<TokenFile> files, std::int64_t vocab, TokenShare share)
    : files_(std::move(files)), starts_{0}, vocab_(vocab) {
  for (const TokenFile& file : files_) starts_.push_back(starts_.back() + file.tokens);
  begin_ = TokenAt(share.begin, starts_.back());
  end_ = TokenAt(share.end, starts_.back());
}

Result<TokenSource> TokenSource::Make(std::vector<TokenFile> files, std::int64_t vocab,
                                      TokenShare share) {
  FT_CHECK(!files.empty());
  FT_CHECK(0 <= share.begin && share.begin <= share.end && share.end <= 1);
  for (const TokenFile& file : files) FT_TRY(CheckTokens(file, vocab));
  return TokenSource(std::move(files), vocab, share);
}

Result<void> TokenSource::Read(std::int64_t first, std::span<std::int32_t> out) const {
  FT_CHECK(first >= 0 && first + std::ssize(out) <= tokens());
  first += begin_;
  auto file = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) -
                                       starts_.begin() - 1);
  while (!out.empty()) {
    FT_CHECK(file < files_.size());
    const std::int64_t here = std::min(std::ssize(out), starts_[file + 1] - first);
    const auto count = static_cast<std::size_t>(here);
    FT_TRY(files_[file].Read(first - starts_[file], out.first(count), vocab_));
    out = out.subspan(count);
    first += here;
    ++file;
  }
  return {};
}

bool TokenSource::KnowsDocuments() const {
  return std::all_of(files_.begin(), files_.end(),
                     [](const TokenFile& file) { return file.documents.has_value(); });
}

// Goes from border to border. A file begins a document, and so does the range.
void TokenSource::DocumentStarts(std::int64_t first, std::span<std::int32_t> starts) const {
  FT_CHECK(first >= 0 && first + std::ssize(starts) <= tokens());
  first += begin_;
  auto file = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) -
                                       starts_.begin() - 1);
  for (std::int64_t at = 0; at < std::ssize(starts);) {
    FT_CHECK(file < files_.size());
    const std::vector<std::int64_t>& documents = *files_[file].documents;
    const auto next =
        std::upper_bound(documents.begin(), documents.end(), first + at - starts_[file]);
    const std::int64_t border = next == documents.end()
                                    ? starts_[file + 1]
                                    : std::min(starts_[file] + *next, starts_[file + 1]);
    const std::int64_t end = std::min(border - first, std::ssize(starts));
    std::fill(starts.begin() + at, starts.begin() + end, static_cast<std::int32_t>(at));
    at = end;
    while (file < files_.size() && first + at == starts_[file + 1]) ++file;
  }
}

Result<std::uint64_t> TokenSource::Digest() const {
  StableHash hash;
  hash.Add(begin_).Add(end_).Add(std::ssize(files_));
  for (const TokenFile& file : files_) {
    FT_TRY(AddFile(file, hash));
    if (!file.documents) continue;
    for (const std::int64_t document : *file.documents) hash.Add(document);
  }
  return hash.Value();
}

}  // namespace foretrain
