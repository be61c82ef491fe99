// The wire format of protocol buffers: numbered fields of varints, fixed numbers and bytes. We
// write it ourselves, because Chakra's messages need 40 lines of it and no compiler of schemas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// Builds one message.
class WireWriter {
 public:
  WireWriter& Varint(int field, std::uint64_t value);  // as a varint; also bool and enum
  WireWriter& Text(int field, std::string_view text);
  WireWriter& Message(int field, const WireWriter& message) { return Text(field, message.bytes_); }
  // A packed list of varints; nothing if it is empty.
  WireWriter& Varints(int field, const std::vector<std::int64_t>& values);

  const std::string& bytes() const { return bytes_; }
  // Appends the message behind its length.
  void AppendTo(std::string& out) const;

 private:
  std::string bytes_;
};

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  int number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;   // of a varint or fixed number
  std::string_view bytes{};  // of kBytes; into the message
};

// Reads the fields of one message in order.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : left_(message) {}

  // The next field; `nullopt` at the end. Errors: kCorruptInput, a field that is cut off, has
  // number 0 or a type that proto3 does not write.
  Result<std::optional<WireField>> Next();

 private:
  std::string_view left_;
};

// Takes a varint from the front of `bytes`; `nullopt` if it is cut off or longer than 10 bytes.
std::optional<std::uint64_t> TakeVarint(std::string_view& bytes);

}  // namespace foretrain
