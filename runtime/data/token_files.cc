#include "runtime/data/token_files.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/units.h"

namespace foretrain {
namespace {

// The whole file is read into memory, which bounds its size.
constexpr std::int64_t kMaxFileBytes = 8 * kGiB;
constexpr std::int64_t kHeaderWords = 256;
constexpr std::int64_t kHeaderBytes = kHeaderWords * 4;
constexpr std::int64_t kByteVocab = 256;

struct ShardKind {
  std::int32_t magic, version;
  int width;
};
constexpr std::array kShards = {ShardKind{20240520, 1, 2}, ShardKind{20240801, 7, 4}};

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kIndexHeader = 9 + 8 + 1 + 8 + 8;

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

// The index is read for the type of tokens and their number.
Result<TokenFile> ReadPair(FileSystem& files, const std::string& base) {
  const std::string name = base + ".idx";
  FT_ASSIGN(const std::string index, ReadFile(files, name, kMaxFileBytes));
  if (!index.starts_with(kIndexMagic) || std::ssize(index) < kIndexHeader) {
    return Corrupt(name, "is no index of Megatron's data");
  }
  const auto version = NumberAt<std::uint64_t>(index, 9);
  const int type = NumberAt<std::uint8_t>(index, 17);
  const auto sequences = NumberAt<std::uint64_t>(index, 18);
  const auto left = static_cast<std::uint64_t>(std::ssize(index) - kIndexHeader);
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
  for (std::uint64_t i = 0; i < sequences; ++i) {
    tokens += NumberAt<std::int32_t>(index, kIndexHeader + static_cast<std::int64_t>(i) * 4);
  }
  TokenFile file{.width = WidthOf(type)};
  FT_ASSIGN(file.content, ReadFile(files, base + ".bin", kMaxFileBytes));
  if (std::ssize(file.content) != tokens * file.width) {
    return Corrupt(base + ".bin",
                   fmt::format("the index says {} tokens of {} bytes, and the file has {} bytes",
                               tokens, file.width, file.content.size()));
  }
  return file;
}

}  // namespace

Result<TokenFile> ReadTokenFile(FileSystem& files, const std::string& path) {
  const bool index = path.ends_with(".idx");
  if (index || path.ends_with(".bin")) {
    const std::string base = path.substr(0, path.size() - 4);
    FT_ASSIGN(const FileInfo other, files.Stat(base + ".idx"));
    if (index || other.kind == FileKind::kRegular) return ReadPair(files, base);
  }
  FT_ASSIGN(std::string content, ReadFile(files, path, kMaxFileBytes));
  return TokenFileOf(std::move(content), path);
}

Result<TokenFile> TokenFileOf(std::string content, std::string_view name) {
  if (content.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) + ": is empty; give a text to train on");
  }
  if (std::ssize(content) < kHeaderBytes) return TokenFile{.content = std::move(content)};
  for (const ShardKind& kind : kShards) {
    if (NumberAt<std::int32_t>(content, 0) != kind.magic) continue;
    const auto version = NumberAt<std::int32_t>(content, 4);
    if (version != kind.version) {
      return Corrupt(name, fmt::format("token shard of version {}; this foretrain reads version {}",
                                       version, kind.version));
    }
    const std::int64_t count = NumberAt<std::int32_t>(content, 8);
    const std::int64_t bytes = std::ssize(content) - kHeaderBytes;
    if (count < 0 || count * kind.width != bytes) {
      return Corrupt(name, fmt::format("the header says {} tokens of {} bytes and {} bytes follow "
                                       "it; it was cut or is no shard",
                                       count, kind.width, bytes));
    }
    return TokenFile{std::move(content), kHeaderBytes, kind.width};
  }
  return TokenFile{.content = std::move(content)};
}

TokenFile TokenFileOf(std::span<const std::int32_t> tokens) {
  TokenFile file{.width = 4};
  file.content.assign(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return file;
}

// Every token is checked once here: kernels index the embedding by it without a check.
Result<void> CheckTokens(const TokenFile& file, std::string_view name, std::int64_t vocab) {
  if (file.width == 1 && vocab < kByteVocab) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: bytes need a vocabulary of 256 or more and the model has {}", name,
                            vocab));
  }
  for (std::int64_t i = 0; file.width > 1 && i < file.tokens(); ++i) {
    if (file.At(i) < vocab) continue;
    return Corrupt(name, fmt::format("token {} is {}, outside the model's vocabulary of {}; use "
                                     "the model that the data was made for",
                                     i, file.At(i), vocab));
  }
  return {};
}

Result<void> WriteShard(FileSystem& files, const std::string& path,
                        std::span<const std::int32_t> tokens, std::int64_t vocab) {
  if (std::ssize(tokens) > std::numeric_limits<std::int32_t>::max()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: {} tokens; a shard has fewer than 2^31: give fewer files at a time", path,
                    tokens.size()));
  }
  const ShardKind& kind = kShards[vocab <= 65'536 ? 0 : 1];
  std::vector<std::int32_t> header(kHeaderWords, 0);
  header[0] = kind.magic, header[1] = kind.version;
  header[2] = static_cast<std::int32_t>(tokens.size());
  return ReplaceFile(files, path, [&](WritableFile& file) -> Result<void> {
    FT_TRY(file.Append(std::as_bytes(std::span(header))));
    if (kind.width == 4) return file.Append(std::as_bytes(tokens));
    const std::vector<std::uint16_t> narrow(tokens.begin(), tokens.end());
    return file.Append(std::as_bytes(std::span(narrow)));
  });
}

}  // namespace foretrain
