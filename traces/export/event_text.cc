#include "traces/export/event_text.h"

#include <cstddef>

#include "base/text.h"

namespace foretrain {

void AppendQuoted(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    const auto byte = static_cast<unsigned char>(c);
    std::size_t length = 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    } else if (length = Utf8Bytes(text); length > 0) {
      out += text.substr(0, length);
    } else {
      out += "\xEF\xBF\xBD";
      length = 1;
    }
    text.remove_prefix(length);
  }
  out += '"';
}

// The magnitude is computed unsigned, because -INT64_MIN does not fit int64_t.
void AppendMicroseconds(std::string& out, std::int64_t ns) {
  if (ns < 0) out += '-';
  const auto magnitude =
      ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  out += std::to_string(magnitude / 1'000);
  const std::string decimals = std::to_string(1'000 + magnitude % 1'000);
  out += '.';
  out.append(decimals, 1, 3);
}

}  // namespace foretrain
