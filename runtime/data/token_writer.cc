#include "runtime/data/token_writer.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "base/units.h"
#include "runtime/data/token_formats.h"

namespace foretrain {
namespace {

constexpr std::int64_t kFlushBytes = 4 * kMiB;
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

// Little-endian, as the machine.
template <class T>
void Put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

// The header is written once more at the end, when the number of tokens is known.
Result<void> TokenWriter::Begin() {
  if (format_ == TokenFormat::kMegatron) return {};
  return file_.Append(BytesOf(std::string(kShardHeaderBytes, '\0')));
}

Result<void> TokenWriter::AddDocument(std::span<const std::int32_t> tokens) {
  const std::int64_t count = std::ssize(tokens);
  if (count > kMaxCount) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: a document of {} tokens; a document has fewer than 2^31", path_, count));
  }
  if (format_ == TokenFormat::kShard && tokens_ + count > kMaxCount) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} tokens; a shard has fewer than 2^31: use --format megatron, or "
                            "give fewer files at a time",
                            path_, tokens_ + count));
  }
  tokens_ += count;
  lengths_.push_back(static_cast<std::int32_t>(count));
  for (const std::int32_t token : tokens) {
    if (width_ == 2) {
      Put(buffer_, static_cast<std::uint16_t>(token));
    } else {
      Put(buffer_, token);
    }
  }
  return std::ssize(buffer_) >= kFlushBytes ? Flush() : Result<void>();
}

Result<void> TokenWriter::Flush() {
  FT_TRY(file_.Append(BytesOf(buffer_)));
  buffer_.clear();
  return {};
}

Result<void> TokenWriter::End() {
  FT_TRY(Flush());
  if (format_ == TokenFormat::kMegatron) return {};
  const ShardKind& kind = kShardKinds[width_ == 2 ? 0 : 1];
  std::string header;
  Put(header, kind.magic), Put(header, kind.version);
  Put(header, static_cast<std::int32_t>(tokens_));
  return file_.WriteAt(0, BytesOf(header));
}

// Each document is one sequence.
std::string TokenWriter::Index() const {
  std::string index(kIndexMagic);
  Put(index, kIndexVersion);
  Put(index, width_ == 2 ? kIndexU16 : kIndexI32);
  Put(index, static_cast<std::uint64_t>(lengths_.size()));
  Put(index, static_cast<std::uint64_t>(lengths_.size() + 1));
  for (const std::int32_t length : lengths_) Put(index, length);
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths_) {
    Put(index, offset);
    offset += std::int64_t{length} * width_;
  }
  for (std::int64_t i = 0; i <= documents(); ++i) Put(index, i);
  return index;
}

// The index comes last: with the old one a reader notices that the lengths differ.
Result<void> WriteTokens(FileSystem& files, const std::string& path, TokenFormat format,
                         std::int64_t vocab,
                         const std::function<Result<void>(TokenWriter&)>& write) {
  constexpr std::string_view kEnding = ".bin";
  if (format == TokenFormat::kMegatron && !path.ends_with(kEnding)) {
    return Fail(ErrorCode::kInvalidArgument,
                path + ": the name of Megatron's file of tokens ends in .bin");
  }
  std::string index;
  FT_TRY(ReplaceFile(files, path, [&](WritableFile& file) -> Result<void> {
    TokenWriter writer(file, path, format, vocab <= 65'536 ? 2 : 4);
    FT_TRY(writer.Begin());
    FT_TRY(write(writer));
    FT_TRY(writer.End());
    if (format == TokenFormat::kMegatron) index = writer.Index();
    return {};
  }));
  if (format == TokenFormat::kShard) return {};
  return WriteFileAtomically(files, path.substr(0, path.size() - kEnding.size()) + ".idx", index);
}

}  // namespace foretrain
