#include "traces/chakra/wire.h"

#include <algorithm>

namespace foretrain {
namespace {

constexpr int kMaxVarintBytes = 10;

void AppendVarint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7F) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void AppendKey(std::string& out, int field, WireType type) {
  AppendVarint(out, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type));
}

std::uint64_t Fixed(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

}  // namespace

WireWriter& WireWriter::Varint(int field, std::uint64_t value) {
  AppendKey(bytes_, field, WireType::kVarint);
  AppendVarint(bytes_, value);
  return *this;
}

WireWriter& WireWriter::Text(int field, std::string_view text) {
  AppendKey(bytes_, field, WireType::kBytes);
  AppendVarint(bytes_, text.size());
  bytes_ += text;
  return *this;
}

WireWriter& WireWriter::Varints(int field, const std::vector<std::int64_t>& values) {
  if (values.empty()) return *this;
  std::string packed;
  for (const std::int64_t value : values) AppendVarint(packed, static_cast<std::uint64_t>(value));
  return Text(field, packed);
}

void WireWriter::AppendTo(std::string& out) const {
  AppendVarint(out, bytes_.size());
  out += bytes_;
}

std::optional<std::uint64_t> TakeVarint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < kMaxVarintBytes && i < std::ssize(bytes); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
    value |= std::uint64_t{byte & 0x7FU} << (7 * i);
    if ((byte & 0x80) != 0) continue;
    bytes.remove_prefix(static_cast<std::size_t>(i) + 1);
    return value;
  }
  return std::nullopt;
}

Result<std::optional<WireField>> WireReader::Next() {
  if (left_.empty()) return std::optional<WireField>();
  const std::optional<std::uint64_t> key = TakeVarint(left_);
  if (!key || *key >> 3 == 0 || *key >> 3 > 0x1FFFFFFF) {
    return Fail(ErrorCode::kCorruptInput, "a field without a number");
  }
  WireField field{.number = static_cast<int>(*key >> 3)};
  std::uint64_t size = 0;
  switch (*key & 7) {
    case 0: {
      const std::optional<std::uint64_t> value = TakeVarint(left_);
      if (!value) return Fail(ErrorCode::kCorruptInput, "a number that is cut off");
      field.value = *value;
      return std::optional(field);
    }
    case 1:
      size = 8;
      break;
    case 2: {
      const std::optional<std::uint64_t> length = TakeVarint(left_);
      if (!length) return Fail(ErrorCode::kCorruptInput, "a length that is cut off");
      size = *length;
      break;
    }
    case 5:
      size = 4;
      break;
    default:
      return Fail(ErrorCode::kCorruptInput, "field " + std::to_string(field.number) +
                                                " of the unknown wire type " +
                                                std::to_string(*key & 7));
  }
  if (size > left_.size()) {
    return Fail(ErrorCode::kCorruptInput, "field " + std::to_string(field.number) + " of " +
                                              std::to_string(size) + " bytes, of which " +
                                              std::to_string(left_.size()) + " are there");
  }
  field.type = static_cast<WireType>(*key & 7);
  const std::string_view bytes = left_.substr(0, static_cast<std::size_t>(size));
  if (field.type == WireType::kBytes) {
    field.bytes = bytes;
  } else {
    field.value = Fixed(bytes);
  }
  left_.remove_prefix(bytes.size());
  return std::optional(field);
}

}  // namespace foretrain
