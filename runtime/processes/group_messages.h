// Message types and numbers between the processes of a run. Records have their own types:
// runtime/processes/records.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/processes/socket.h"

namespace foretrain {

constexpr int kMessagePatienceMs = 10'000;  // wait for the rest of a message

// Message types. A message is its type, the length of its text in 8 bytes, and the text.
enum GroupMessage : char {
  kFailure = 'F',  // rank and code in 4 bytes each, then text
  kStop = 'S',     // a process asks to stop
  kGrant = 'G',    // number of steps that may begin
  kEnd = 'E',      // final number of steps
  kTime = 'T',     // asks for the time
  kTimeIs = 'U',   // the time, in ns
  kSummary = 'D',  // RunSummary
  kOver = 'O',
  kGoodbye = 'B',
};

inline std::string PackNumber(std::int64_t value) {
  return BytesOfNumber(static_cast<std::uint64_t>(value), 8);
}
inline std::int64_t UnpackNumber(std::string_view text) {
  return static_cast<std::int64_t>(NumberOfBytes(text.substr(0, 8)));
}

}  // namespace foretrain
