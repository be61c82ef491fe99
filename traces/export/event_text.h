// Texts of a Chrome JSON trace: strings and times of its events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foretrain {

// Appends a JSON string. Malformed UTF-8 becomes U+FFFD, so that any name gives a valid file.
void AppendQuoted(std::string& out, std::string_view text);

// Appends nanoseconds as microseconds with three decimals, which is exact.
void AppendMicroseconds(std::string& out, std::int64_t ns);

}  // namespace foretrain
