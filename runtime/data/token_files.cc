#include "runtime/data/token_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/units.h"
#include "runtime/data/token_formats.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxIndexBytes = 8 * kGiB;  // an index is read into memory
constexpr std::int64_t kCheckedTokens = std::int64_t{1} << 20;
constexpr std::int64_t kByteVocab = 256;

// Copies, because nothing in a file is aligned.
template <class T>
T NumberAt(std::string_view text, std::int64_t at) {
  T value{};
  std::memcpy(&value, text.data() + at, sizeof value);
  return value;
}

tl::unexpected<Error> Corrupt(std::string_view name, const std::string& what) {
  return Fail(ErrorCode::kCorruptInput, std::string(name) + ": " + what);
}

// Bytes of a token of this type in an index; 0 for types that hold no tokens.
int WidthOf(int type) {
  switch (type) {
    case 1:  // u8
      return 1;
    case 3:  // i16
    case 8:  // u16
      return 2;
    case 4:  // i32
      return 4;
    default:
      return 0;
  }
}

// Bytes in memory, read as a file.
class BytesInMemory final : public ReadableFile {
 public:
  explicit BytesInMemory(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<std::int64_t> ReadAt(std::int64_t offset, std::span<std::byte> out) override {
    const std::int64_t got = std::clamp<std::int64_t>(size_bytes() - offset, 0, std::ssize(out));
    if (got > 0) std::memcpy(out.data(), bytes_.data() + offset, static_cast<std::size_t>(got));
    return got;
  }
  std::int64_t size_bytes() const override { return std::ssize(bytes_); }
  Result<void> CheckUnchanged() override { return {}; }

 private:
  const std::string bytes_;
};

// A text or a shard, by its first bytes.
Result<TokenFile> FileOf(std::unique_ptr<ReadableFile> file, std::string name) {
  const std::int64_t size = file->size_bytes();
  if (size == 0) {
    return Fail(ErrorCode::kInvalidArgument, name + ": is empty; give a text to train on");
  }
  TokenFile text{.file = std::move(file), .name = std::move(name), .tokens = size};
  std::string head(kShardHeaderBytes, '\0');
  FT_ASSIGN(const std::int64_t got, text.file->ReadAt(0, std::as_writable_bytes(std::span(head))));
  if (got < kShardHeaderBytes) return text;
  for (const ShardKind& kind : kShardKinds) {
    if (NumberAt<std::int32_t>(head, 0) != kind.magic) continue;
    const auto version = NumberAt<std::int32_t>(head, 4);
    if (version != kind.version) {
      return Corrupt(text.name, fmt::format("token shard of version {}; this foretrain reads "
                                            "version {}",
                                            version, kind.version));
    }
    const std::int64_t count = NumberAt<std::int32_t>(head, 8);
    const std::int64_t bytes = size - kShardHeaderBytes;
    if (count < 0 || count * kind.width != bytes) {
      return Corrupt(text.name,
                     fmt::format("the header says {} tokens of {} bytes and {} bytes follow "
                                 "it; it was cut or is no shard",
                                 count, kind.width, bytes));
    }
    text.offset = kShardHeaderBytes, text.width = kind.width, text.tokens = count;
    break;
  }
  return text;
}

// First token of each document. `starts` has that of each sequence, and the end. The numbers of the
// documents' first sequences lie behind the offsets; the last one is the end of all.
Result<std::vector<std::int64_t>> DocumentsIn(std::string_view name, std::string_view index,
                                              const std::vector<std::int64_t>& starts) {
  const std::int64_t sequences = std::ssize(starts) - 1;
  const auto numbers = NumberAt<std::uint64_t>(index, 26);
  const std::int64_t at = kIndexHeaderBytes + 12 * sequences;
  const auto room = static_cast<std::uint64_t>(std::ssize(index) - at) / 8;
  if (numbers > room) {
    return Corrupt(name, fmt::format("says {} numbers of documents and has room for {}; it was cut",
                                     numbers, room));
  }
  std::vector<std::int64_t> documents;
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(numbers); ++i) {
    const auto sequence = NumberAt<std::int64_t>(index, at + 8 * i);
    if (sequence < before || sequence > sequences) {
      return Corrupt(name,
                     fmt::format("document {} begins with sequence {}, and sequences {} to {} "
                                 "are left for it",
                                 i, sequence, before, sequences));
    }
    documents.push_back(starts[static_cast<std::size_t>(sequence)]);
    before = sequence;
  }
  return documents;
}

// The index is read for the type of tokens and their number, and for documents if they are asked
// for.
Result<TokenFile> OpenPair(FileSystem& files, const std::string& base, bool documents) {
  const std::string name = base + ".idx";
  FT_ASSIGN(const std::string index, ReadFile(files, name, kMaxIndexBytes));
  if (!index.starts_with(kIndexMagic) || std::ssize(index) < kIndexHeaderBytes) {
    return Corrupt(name, "is no index of Megatron's data");
  }
  const auto version = NumberAt<std::uint64_t>(index, 9);
  const int type = NumberAt<std::uint8_t>(index, 17);
  const auto sequences = NumberAt<std::uint64_t>(index, 18);
  const auto left = static_cast<std::uint64_t>(std::ssize(index) - kIndexHeaderBytes);
  if (version != 1) return Corrupt(name, fmt::format("version {}; 1 is known", version));
  if (WidthOf(type) == 0) {
    return Corrupt(name,
                   fmt::format("tokens of type {}; 1, 3, 4 and 8 (1 to 4 bytes) are known", type));
  }
  if (sequences > left / 12) {
    return Corrupt(name, fmt::format("says {} sequences and has room for {}; it was cut", sequences,
                                     left / 12));
  }
  std::int64_t tokens = 0;
  std::vector<std::int64_t> starts;
  for (std::uint64_t i = 0; i < sequences; ++i) {
    const auto length =
        NumberAt<std::int32_t>(index, kIndexHeaderBytes + static_cast<std::int64_t>(i) * 4);
    if (length < 0) return Corrupt(name, fmt::format("sequence {} has {} tokens", i, length));
    if (documents) starts.push_back(tokens);
    tokens += length;
  }
  TokenFile pair{.file = nullptr, .name = base + ".bin", .width = WidthOf(type), .tokens = tokens};
  FT_ASSIGN(pair.file, files.Open(pair.name));
  if (pair.file->size_bytes() != tokens * pair.width) {
    return Corrupt(pair.name,
                   fmt::format("the index says {} tokens of {} bytes, and the file has {} bytes",
                               tokens, pair.width, pair.file->size_bytes()));
  }
  if (documents) {
    starts.push_back(tokens);
    FT_ASSIGN(pair.documents, DocumentsIn(name, index, starts));
  }
  return pair;
}

// Widens the numbers, little-endian as in the file.
template <class T>
void Widen(std::string_view bytes, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] =
        static_cast<std::int32_t>(NumberAt<T>(bytes, static_cast<std::int64_t>(i * sizeof(T))));
  }
}

}  // namespace

// The check comes after the read, so that a file that was changed during it is noticed too.
Result<void> TokenFile::Read(std::int64_t first, std::span<std::int32_t> out,
                             std::int64_t vocab) const {
  FT_CHECK(first >= 0 && first + std::ssize(out) <= tokens);
  std::string bytes(out.size() * static_cast<std::size_t>(width), '\0');
  FT_ASSIGN(const std::int64_t got,
            file->ReadAt(offset + first * width, std::as_writable_bytes(std::span(bytes))));
  FT_TRY(file->CheckUnchanged());
  if (got < std::ssize(bytes)) {
    return Corrupt(name, fmt::format("ends after token {} of {}; it was cut while it was in use",
                                     first + got / width, tokens));
  }
  if (width == 1) Widen<std::uint8_t>(bytes, out);
  if (width == 2) Widen<std::uint16_t>(bytes, out);
  if (width == 4) Widen<std::uint32_t>(bytes, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto token = static_cast<std::uint32_t>(out[i]);
    if (token < vocab) continue;
    return Corrupt(name, fmt::format("token {} is {}, outside the model's vocabulary of {}; use "
                                     "the model that the data was made for, or a larger --vocab",
                                     first + static_cast<std::int64_t>(i), token, vocab));
  }
  return {};
}

Result<TokenFile> OpenTokenFile(FileSystem& files, const std::string& path, bool documents) {
  const bool index = path.ends_with(".idx");
  if (index || path.ends_with(".bin")) {
    const std::string base = path.substr(0, path.size() - 4);
    FT_ASSIGN(const FileInfo other, files.Stat(base + ".idx"));
    if (index || other.kind == FileKind::kRegular) return OpenPair(files, base, documents);
  }
  FT_ASSIGN(auto file, files.Open(path));
  return FileOf(std::move(file), path);
}

Result<TokenFile> TokenFileOf(std::string content, std::string_view name) {
  return FileOf(std::make_unique<BytesInMemory>(std::move(content)), std::string(name));
}

TokenFile TokenFileOf(std::span<const std::int32_t> tokens, std::string_view name) {
  std::string content(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return {.file = std::make_unique<BytesInMemory>(std::move(content)),
          .name = std::string(name),
          .width = 4,
          .tokens = std::ssize(tokens)};
}

Result<void> CheckTokens(const TokenFile& file, std::int64_t vocab) {
  if (file.width == 1) {
    if (vocab >= kByteVocab) return {};
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: bytes need a vocabulary of 256 or more and the model has {}",
                            file.name, vocab));
  }
  std::vector<std::int32_t> piece(static_cast<std::size_t>(std::min(file.tokens, kCheckedTokens)));
  return file.Read(0, piece, vocab);
}

}  // namespace foretrain
